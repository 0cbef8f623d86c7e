"""The judge of a chaos run: everything that must hold of what is left behind, one verdict each.

Pure: values in, verdicts out. The guarantees are judged by `local.checkers`, each epoch against its own history; here
is what they do not ask: the writer's own memory, the folding of the same events again, the last state, the offsets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from kubecdc.errors import Undecodable
from kubecdc.records import Change, Op, RawEvent
from kubecdc.versions import newer
from local import checkers
from local.history import Committed
from local.logs import Kept
from local.verdicts import OBJECT_OPS, Entry, Evidence, Notes, Status, Verdict, judge
from processors.partition import Partition
from tests.chaos import histories
from tests.chaos.epochs import Part, Resource, parts
from tests.chaos.schedule import Fault
from tests.checkers.history import Record
from tests.checkers.history import judge as judge_history

Check = Callable[[Evidence], Notes]
BADNESS = (Status.HOLDS, Status.UNKNOWN, Status.FAILS)
NOTHING = ("there was nothing to judge",)  # a resource without a delete proves nothing, and is no fault


class Acked(NamedTuple):
    """A version that the API server confirmed to the writer, in an epoch."""

    epoch: int
    uid: str
    rv: str


@dataclass(frozen=True, slots=True)
class Case:
    """All that a run leaves behind. `events` are raw records as followed from the first on.

    `comparable` bounds, by partition, the source offsets that a second folding can speak of: events before it were all
    there when they were processed, what follows may have been compacted away first. `listed` is what the server shows
    at the end: uid to version. `verify` is how `kubecdc verify` ended, and what it said. `late` is what the log had not
    come to when the time for it was up.
    """

    truths: Sequence[Sequence[Committed]]
    records: Sequence[Record]
    events: Sequence[Kept]
    partitions: int
    expected: Sequence[Resource]
    acked: Sequence[Acked]
    comparable: Mapping[int, int]
    listed: Mapping[str, str]
    positions: Mapping[int, int]
    ends: Mapping[int, int]
    open_transactions: Sequence[str]
    struck: Mapping[Fault, int]
    verify: tuple[int, str]
    late: Sequence[str]

    @property
    def log(self) -> list[Entry]:
        """The records without tombstones."""
        return [Entry(each.partition, each.offset, each.change) for each in self.records if each.change is not None]


def verdicts(case: Case) -> dict[str, Verdict]:
    """Judge everything; no fault of one check keeps another from being asked."""
    found: dict[str, Verdict] = {}
    for name, check in checkers.CHECKERS.items():
        if name != "G3":
            found[name] = _over_epochs(name, check, case)
    everything = Evidence(None, case.log, case.partitions)
    found["G3"] = judge("G3", checkers.CHECKERS["G3"], everything)
    whole = histories.history(
        case.records, case.events, case.truths, case.expected, struck=case.struck, lost=case.comparable
    )
    for name, check_history in histories.CHECKERS.items():
        found[name] = judge_history(name, check_history, whole)
    for name, check_case in CHECKS.items():
        found[name] = judge(name, lambda _, check_case=check_case: check_case(case), everything)  # type: ignore[misc]  # bound now
    return found


def _over_epochs(name: str, check: Check, case: Case) -> Verdict:
    """One verdict of all resources and epochs: the worst, with everything that was found."""
    try:
        told = parts(case.log, case.truths, case.expected)
    except ValueError as error:
        return Verdict(name, Status.FAILS, 0, (str(error),))
    judged = [(part.name, judge(name, check, _evidence(part, case))) for part in told]
    of_something = [verdict for _, verdict in judged if verdict.findings != NOTHING]
    worst = max((verdict.status for verdict in of_something), key=BADNESS.index, default=Status.UNKNOWN)
    findings = tuple(f"{part}: {text}" for part, verdict in judged for text in verdict.findings if (text,) != NOTHING)
    return Verdict(name, worst, sum(verdict.judged for _, verdict in judged), findings)


def _evidence(part: Part, case: Case) -> Evidence:
    return Evidence(part.truth, part.log, case.partitions, case.expected if part.last else ())


def acknowledged(case: Case) -> Notes:
    """What the server confirmed to the writer is in etcd's history: else the truth itself is not to be trusted."""
    notes = Notes()
    known = [{(commit.uid, commit.rv) for commit in truth} for truth in case.truths]
    for acked in case.acked:
        notes.judged += 1
        if (acked.uid, acked.rv) not in known[acked.epoch - 1]:
            notes.wrong.append(f"{acked} was confirmed to the writer, and etcd's history lacks it")
    return notes


def exactly_once(case: Case) -> Notes:
    """No version of an object is in the log twice; a delete may repeat the version before it."""
    notes = Notes()
    seen: Counter[tuple[int, str, str, str, bool]] = Counter()
    for entry in case.log:
        change = entry.change
        if change.op in OBJECT_OPS:
            notes.judged += 1
            key = (change.epoch, change.resource, change.uid or "", change.rv or "", change.op is Op.DELETED)
            seen[key] += 1
    notes.wrong += [f"{key} is in the log {times} times" for key, times in seen.items() if times > 1]
    return notes


def in_source_order(case: Case) -> Notes:
    """Records come in the order of the events they were made of: nothing was processed twice, or late."""
    notes = Notes()
    reached: dict[int, int] = {}
    for entry in case.log:
        notes.judged += 1
        source = entry.change.source
        if source.partition != entry.partition:
            notes.wrong.append(f"{entry.partition}:{entry.offset} was made of an event of partition {source.partition}")
        if source.offset < reached.get(entry.partition, -1):
            notes.wrong.append(
                f"{entry.partition}:{entry.offset} was made of event {source.offset}, after {reached[entry.partition]}"
            )
        reached[entry.partition] = max(source.offset, reached.get(entry.partition, -1))
    return notes


def same_as_undisturbed(case: Case) -> Notes:
    """One fold of the same events, without a single fault, writes the same log, record by record."""
    notes = Notes()
    wanted = folded(case.events)
    for partition in range(case.partitions):
        upto = case.comparable.get(partition)
        mine = [essence(e.change) for e in case.log if e.partition == partition and _before(e.change, upto)]
        theirs = [essence(change) for change in wanted.get(partition, ()) if _before(change, upto)]
        notes.judged += len(theirs)
        if mine != theirs:
            at = next((n for n, pair in enumerate(zip(mine, theirs, strict=False)) if pair[0] != pair[1]), None)
            if at is None:
                notes.wrong.append(f"partition {partition}: {len(mine)} records, undisturbed {len(theirs)}")
            else:
                notes.wrong.append(f"partition {partition}, record {at}: {mine[at]}, undisturbed {theirs[at]}")
    return notes


def _before(change: Change, upto: int | None) -> bool:
    return upto is None or change.source.offset < upto


def folded(events: Iterable[Kept]) -> dict[int, list[Change]]:
    """The canonical records of an events topic, by partition."""
    partitions: dict[int, Partition] = {}
    for kept in events:
        record = kept.record
        event = record if isinstance(record, (RawEvent, Undecodable)) else Undecodable(f"it holds {record}")
        partition = partitions.setdefault(kept.partition, Partition(kept.partition))
        # Its own time is "now": what is judged old must not depend on when it is counted again.
        partition.apply(kept.offset, event, kept.timestamp_ms, kept.timestamp_ms)
    return {
        number: [change for _, change in partition.drain().changes if change is not None]
        for number, partition in partitions.items()
    }


def essence(change: Change) -> Change:
    """A record without the time at which a worker happened to write it."""
    return replace(change, emitted_at=0)


def every_event_followed(case: Case) -> Notes:
    """The judge's own memory of the events topic has no hole: producers write without transactions."""
    notes = Notes()
    for partition in range(case.partitions):
        offsets = [kept.offset for kept in case.events if kept.partition == partition]
        notes.judged += len(offsets)
        if offsets != sorted(set(offsets)):
            notes.wrong.append(f"partition {partition}: events were followed out of order")
    return notes


def converged(case: Case) -> Notes:
    """The last state in the log is what the server lists: the same objects at the same versions (G8)."""
    notes = Notes()
    state = latest(case.log)
    for uid in case.listed.keys() | state.keys():
        notes.judged += 1
        if case.listed.get(uid) != state.get(uid):
            notes.wrong.append(f"{uid}: the server has {case.listed.get(uid)}, the log {state.get(uid)}")
    return notes


def verified(case: Case) -> Notes:
    """`kubecdc verify` finds no difference, content included: the log's state at a version, and the list at it."""
    status, said = case.verify
    lines = [line for line in said.splitlines() if line.strip()]
    return Notes(1, wrong=lines if status == 1 else [], unclear=lines if status not in (0, 1) else [])


def latest(log: Iterable[Entry]) -> dict[str, str]:
    """The living objects of a log: uid to version."""
    state: dict[str, str] = {}
    for entry in log:
        change = entry.change
        if change.op in OBJECT_OPS and change.uid is not None:
            if change.op is Op.DELETED:
                state.pop(change.uid, None)
            else:
                state[change.uid] = change.rv or ""
    return state


def caught_up(case: Case) -> Notes:
    """No event waits: what is committed reaches to the end of the events topic."""
    notes = Notes()
    for partition, end in case.ends.items():
        notes.judged += 1
        if case.positions.get(partition, -1) + 1 < end:
            notes.wrong.append(f"partition {partition}: done up to {case.positions.get(partition)}, it ends at {end}")
    return notes


def in_time(case: Case) -> Notes:
    """Nobody hung, or failed again and again: the log came to the last commit without help."""
    return Notes(judged=len(case.expected) * case.partitions, wrong=list(case.late))


def nothing_open(case: Case) -> Notes:
    """No transaction is left open: a reader of committed records sees everything."""
    return Notes(judged=2 * case.partitions, wrong=list(case.open_transactions))


CHECKS = {
    "acknowledged": acknowledged,
    "exactly once": exactly_once,
    "source order": in_source_order,
    "undisturbed": same_as_undisturbed,
    "followed": every_event_followed,
    "G8 converged": converged,
    "G8 verify": verified,
    "in time": in_time,
    "lag 0": caught_up,
    "no open transaction": nothing_open,
}


def losses(found: Mapping[str, Verdict]) -> int:
    """How many commits are in no record and no gap, as far as G1 tells them one by one."""
    return sum("in no record and no gap" in text for text in found["G1"].findings)


def order_violations(log: Iterable[Entry]) -> int:
    """How often a version of an object follows a newer one, or itself, in its epoch; a delete may repeat one."""
    last: dict[str, Change] = {}
    wrong = 0
    for entry in log:
        change = entry.change
        if change.op not in OBJECT_OPS or change.uid is None:
            continue
        before, last[change.uid] = last.get(change.uid), change
        if before is None or change.epoch > before.epoch:
            continue
        same = change.rv == before.rv and change.op is Op.DELETED is not before.op
        wrong += change.epoch < before.epoch or not (newer(change.rv or "", before.rv) or same)
    return wrong
