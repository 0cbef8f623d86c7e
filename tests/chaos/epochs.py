"""A log that spans a restore, told apart by resource and epoch, so that each part is judged against its own history.

Pure. Checkers know one epoch, whose first record of a stream is its first list. So the EPOCH_CHANGE gap, which says
"after this version of the old epoch nothing is known, and the new one begins with this list", becomes what it means
for each side: an open gap for the old epoch, and for the new one the claim of its first list.

Each resource has epochs of its own: one of which nothing was seen beyond what the snapshot held goes on in its epoch,
since for it the restored history is the only one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from kubecdc.records import Cause, Gap, Op
from kubecdc.versions import newer
from local.history import Committed
from local.verdicts import EPOCH, Entry, object_id

Resource = tuple[str, str]


class Part(NamedTuple):
    """One epoch of one resource: its records as if the epoch were the first, and what was committed in it."""

    name: str
    log: Sequence[Entry]
    truth: Sequence[Committed]
    last: bool


def parts(log: Iterable[Entry], truths: Sequence[Sequence[Committed]], expected: Iterable[Resource]) -> list[Part]:
    """Tell a log apart. `truths` are the histories by restore; `ValueError` when a resource has more epochs."""
    by_resource: dict[Resource, list[Entry]] = {resource: [] for resource in expected}
    for entry in log:
        mine = by_resource.get((entry.change.group, entry.change.resource))
        if mine is not None:
            mine.append(entry)
    return [part for resource, mine in by_resource.items() for part in _of_resource(resource, mine, truths)]


def _of_resource(resource: Resource, log: Sequence[Entry], truths: Sequence[Sequence[Committed]]) -> Iterator[Part]:
    last = max((entry.change.epoch for entry in log), default=1)
    if last > len(truths):
        raise ValueError(f"{resource} has epoch {last}, but there were {len(truths) - 1} restores")
    mine = [[commit for commit in truth if (commit.group, commit.resource) == resource] for truth in truths]
    for epoch in range(1, last + 1):
        truth = mine[-1] if epoch == last else mine[epoch - 1]
        told = list(_told(log, epoch))
        if epoch > 1:
            told = _without_rolled_back(told, mine[epoch - 2], truth)
        yield Part(f"{resource[1]}, epoch {epoch}", told, truth, epoch == last)


def _told(log: Iterable[Entry], epoch: int) -> Iterator[Entry]:
    """The records of one epoch. A first list that lost items leaves a gap of the new epoch before the EPOCH_CHANGE."""
    upto: dict[tuple[int, str], str] = {}
    for entry in log:
        name = (entry.partition, entry.change.scope)
        change = entry.change
        begins = change.op is Op.GAP and change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE
        if begins and change.epoch == epoch + 1:
            lost = replace(change, epoch=EPOCH, upto_rv=None, gap=Gap(Cause.COVERAGE_LOST))
            yield Entry(entry.partition, entry.offset, lost)
        elif begins and change.epoch == epoch:
            listed = replace(change, epoch=EPOCH, op=Op.PROGRESS, after_rv=None, gap=None)
            window = replace(change, epoch=EPOCH, after_rv=upto.get(name))
            yield Entry(entry.partition, entry.offset, window if name in upto else listed)
        elif change.epoch == epoch:
            yield Entry(entry.partition, entry.offset, replace(change, epoch=EPOCH))
        reached = change.upto_rv if change.epoch == epoch and change.uid is None else None
        if reached is not None and newer(reached, upto.get(name)):
            upto[name] = reached


def _without_rolled_back(log: Sequence[Entry], before: Sequence[Committed], now: Sequence[Committed]) -> list[Entry]:
    """Leave out inferred deletes of what the restore took away: objects that this epoch never had.

    No commit of this epoch deleted them, so no checker of deletes can know them; whether all of them came is what
    comparing the final state with the server's finds out.
    """
    gone = {object_id(commit) for commit in before} - {object_id(commit) for commit in now}
    return [
        entry
        for entry in log
        if not (entry.change.op is Op.DELETED and entry.change.inferred and object_id(entry.change) in gone)
    ]
