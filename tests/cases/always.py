"""What must hold of every log and of every request, whatever the case (cases/README.md 5, "checked in every case").

Pure: each function takes what came out and returns sentences about what is wrong with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubecdc import wire
from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer, not_newer, order
from tests.cases.script import Seen


@dataclass(frozen=True, slots=True)
class Logged:
    """A record of the changes topic; `change` None is a tombstone."""

    partition: int
    key: bytes
    change: Change | None


def of_objects(log: Iterable[Logged]) -> dict[str, list[Change]]:
    """The records that name a UID, in the order of the log."""
    found: dict[str, list[Change]] = defaultdict(list)
    for logged in log:
        if logged.change is not None and logged.change.uid is not None:
            found[logged.change.uid].append(logged.change)
    return dict(found)


def sequence(uid: str, records: Iterable[Change]) -> list[str]:
    """`seq` is 1, 2, 3… within a life, GAP records have none; (epoch, rv) rises, but for a DELETED that repeats it."""
    wrong = []
    before: Change | None = None
    for change in records:
        at = f"{uid} {change.op}@{change.rv}"
        if change.op is Op.GAP:
            if change.seq is not None:
                wrong.append(f"{at}: a GAP record has seq {change.seq}")
            continue
        allowed = {1} if before is None or before.op is Op.DELETED else set()
        if before is not None and before.seq is not None:
            allowed.add(before.seq + 1)
        if change.seq not in allowed:
            wrong.append(f"{at}: seq is {change.seq}, not {sorted(allowed)}")
        if change.rv is None:
            wrong.append(f"{at}: no version")
            continue
        if before is not None and before.rv is not None:
            now, then = (change.epoch, order(change.rv)), (before.epoch, order(before.rv))
            if now < then or (now == then and (change.op is not Op.DELETED or before.op is Op.DELETED)):
                wrong.append(f"{at}: comes after {before.epoch}/{before.rv}")
        before = change
    return wrong


def coverage(log: Iterable[Logged]) -> list[str]:
    """The intervals of PROGRESS and GAP records leave no hole, for each resource, scope, epoch and partition."""
    wrong = []
    reached: dict[tuple[str, str, str, int, int], str] = {}
    for logged in log:
        change = logged.change
        if change is None or change.uid is not None:
            continue
        key = (change.group, change.resource, change.scope, change.epoch, logged.partition)
        at = f"{key}: {change.gap.cause if change.gap else change.op} ({change.after_rv}, {change.upto_rv}]"
        reach, after = reached.get(key), change.after_rv
        begins_epoch = reach is None and change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE
        if after is not None and not begins_epoch and (reach is None or newer(after, reach)):
            wrong.append(f"{at}: leaves a hole after {reach}")
        upto = change.upto_rv
        if upto is None:
            if change.op is Op.PROGRESS:
                wrong.append(f"{at}: PROGRESS without an end")
            continue
        if after is not None and not begins_epoch and not_newer(upto, after):
            wrong.append(f"{at}: is empty")
        if newer(upto, reach):
            reached[key] = upto
    return wrong


def placement(log: Iterable[Logged], partitions: int) -> list[str]:
    """Objects are in their UID's partition and under it; a DELETED, and nothing else, is followed by a tombstone."""
    wrong = []
    last: dict[bytes, Change | None] = {}
    for logged in log:
        change = logged.change
        last_here = last.get(logged.key)
        if change is None:
            if last_here is None or last_here.op is not Op.DELETED:
                wrong.append(f"a tombstone of {logged.key!r} without a DELETED before it")
        elif change.uid is not None and change.op is not Op.GAP:
            if logged.key != change.uid.encode():
                wrong.append(f"{change.uid} {change.op}@{change.rv} has the key {logged.key!r}")
            if logged.partition != wire.partition_of(change.uid, partitions):
                wrong.append(f"{change.uid} {change.op}@{change.rv} is in partition {logged.partition}")
            if last_here is not None and last_here.op is Op.DELETED:
                wrong.append(f"{change.uid}: no tombstone after the DELETED@{last_here.rv}")
        elif wire.is_object_key(logged.key):
            wrong.append(f"a {change.op} has the key {logged.key!r}, as if it were an object")
        last[logged.key] = change
    wrong += [
        f"{key!r}: no tombstone after its DELETED" for key, change in last.items() if change and change.op is Op.DELETED
    ]
    return wrong


@dataclass(frozen=True, slots=True)
class StreamGap:
    """A GAP record of a stream, its copies counted once."""

    cause: str
    after_rv: str | None
    upto_rv: str | None
    group: str
    resource: str


def stream_gaps(log: Iterable[Logged], partitions: int) -> tuple[list[StreamGap], list[str]]:
    """The GAP records of streams, and which of them are not in every partition exactly once."""
    copies: dict[tuple[StreamGap, str, int], list[int]] = defaultdict(list)
    for logged in log:
        change = logged.change
        if change is not None and change.op is Op.GAP and change.uid is None:
            cause = change.gap.cause if change.gap else "no cause"
            gap = StreamGap(str(cause), change.after_rv, change.upto_rv, change.group, change.resource)
            copies[gap, change.scope, change.epoch].append(logged.partition)
    wrong = [
        f"{gap} is in the partitions {found}, not once in each of {partitions}"
        for (gap, _, _), found in copies.items()
        if sorted(found) != list(range(partitions))
    ]
    return [gap for gap, _, _ in copies], wrong


def requests(seen: Sequence[Seen]) -> list[str]:
    """No request combines what the API server answers from its cache, or refuses."""
    wrong = []
    for one in seen:
        rv, params = one.params.get("resourceVersion"), one.params
        at = f"{one.lane}: {one.kind} {dict(params)}"
        if params.get("limit") and rv:
            wrong.append(f"{at}: limit with a resourceVersion")
        if params.get("continue") and (rv or params.get("resourceVersionMatch")):
            wrong.append(f"{at}: continue with a version")
        if rv == "0":
            wrong.append(f"{at}: resourceVersion=0")
        if one.kind != "list":
            if not rv and params.get("sendInitialEvents") != "true":
                wrong.append(f"{at}: a watch from nowhere")
            if params.get("allowWatchBookmarks") not in ("true", "1"):
                wrong.append(f"{at}: no bookmarks are asked for")
        if one.kind == "watchlist" and params.get("resourceVersionMatch") != "NotOlderThan":
            wrong.append(f"{at}: resourceVersionMatch is not NotOlderThan")
    return wrong
