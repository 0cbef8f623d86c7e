"""What a chaos run left behind, as the checkers of `tests.checkers` take it. Pure.

Some of what they can judge in a simulation nobody can see from outside of real processes: which records one transaction
wrote, and what each worker counted. Their checks of those are not asked.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kubecdc.errors import Undecodable
from kubecdc.records import RawEvent
from local.history import Committed
from local.logs import Kept
from local.verdicts import Notes
from tests.chaos.epochs import Resource
from tests.chaos.schedule import Fault
from tests.checkers import consumer, gaps, labels, lists, offsets
from tests.checkers.history import Applied, History, Raw, Record, StreamEpoch

CHECKERS: Mapping[str, Callable[[History], Notes]] = {
    "G1 gaps": gaps.check,
    "G4 labels": labels.check,
    "G5 lists": lists.check,
    "offsets": offsets.check,
    "consumer": consumer.check,
}
# The simulation's names of what can make a gap true, by the fault that brings it here. A kube-apiserver that has just
# started answers discovery without most groups for a moment, so its restarts can end a kind as well.
SUFFERED: Mapping[Fault, frozenset[str]] = {
    Fault.RESTORE_ETCD: frozenset({"restored", "stale_list", "kind_gone"}),
    Fault.RESTART_API: frozenset({"kind_gone"}),
    Fault.KILL_API: frozenset({"kind_gone"}),
    Fault.COMPACT_ETCD: frozenset({"kind_gone"}),
    Fault.REVOKE_ALL: frozenset({"forbidden"}),
    Fault.REVOKE_ONE: frozenset({"forbidden"}),
    Fault.CHURN_CRD: frozenset({"kind_gone", "forbidden"}),
}


def history(
    records: Sequence[Record],
    events: Sequence[Kept],
    truths: Sequence[Sequence[Committed]],
    expected: Sequence[Resource],
    *,
    struck: Mapping[Fault, int],
    lost: Collection[int],
) -> History:
    """Put it together. `lost` are the partitions of which events may have been compacted away unread."""
    partitions = 1 + max((record.partition for record in records), default=0)
    raw = [Raw(kept.partition, kept.offset, _event(kept)) for kept in events]
    return History(
        partitions=partitions,
        truth=_truth(records, truths, expected),
        expected=[(resource, "") for resource in expected],
        raw=raw,
        log=records,
        batches=[
            Applied(number, tuple(each.offset for each in raw if each.partition == number), {}, None)
            for number in range(partitions)
        ],
        lost=frozenset(lost),
        suffered=frozenset().union(*(names for fault, names in SUFFERED.items() if struck.get(fault))),
    )


def _event(kept: Kept) -> RawEvent | Undecodable:
    return kept.record if isinstance(kept.record, RawEvent) else Undecodable(f"it holds {kept.record}")


def _truth(
    records: Sequence[Record], truths: Sequence[Sequence[Committed]], expected: Sequence[Resource]
) -> dict[StreamEpoch, Sequence[Committed]]:
    """By resource and epoch: the last epoch of a resource speaks of the last history, as in `epochs`."""
    last: dict[Resource, int] = dict.fromkeys(expected, 1)
    for record in records:
        if record.change is not None:
            resource = (record.change.group, record.change.resource)
            last[resource] = max(record.change.epoch, last.get(resource, 1))
    return {
        (resource, "", epoch): [
            commit
            for commit in truths[-1 if epoch == upto else epoch - 1]
            if (commit.group, commit.resource) == resource
        ]
        for resource, upto in last.items()
        if resource in expected
        for epoch in range(1, upto + 1)
    }
