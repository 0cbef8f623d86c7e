"""One stream in one epoch as a log of its own, so that the product's checkers of a single epoch can judge it.

A restored etcd counts its versions anew, so each epoch has a ground truth of its own. Across the border stands one
EPOCH_CHANGE, whose lower bound is of the epoch before: here it begins its epoch like a first list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer
from local.verdicts import EPOCH, Entry, Evidence, Notes, ObjectId, object_id
from tests.checkers.history import History, StreamEpoch


def streams(history: History) -> dict[StreamEpoch, list[Entry]]:
    """What the log says of each stream and epoch; records that belong to no stream are left out.

    So are deletes of what lived in an earlier epoch only: no version of theirs is of this one (G5 judges them).
    """
    found: dict[StreamEpoch, list[Entry]] = {}
    epochs: dict[ObjectId, int] = {}
    for record in history.committed():
        change = record.change
        if change is None or not change.cluster:
            continue
        if change.uid is not None:
            before = epochs.get(object_id(change), change.epoch)
            epochs[object_id(change)] = change.epoch
            if change.inferred and before < change.epoch:
                continue
        key = stream_epoch(change)
        found.setdefault(key, []).append(Entry(record.partition, record.offset, change))
    return found


def stream_epoch(change: Change) -> StreamEpoch:
    """The stream and epoch that a record is of."""
    return (change.group, change.resource), change.scope, change.epoch


def unknowable(history: History, change: Change) -> bool:
    """The record is of an epoch that mixes two lives of the store, of which nobody could know."""
    return history.truth.get(stream_epoch(change), ()) is None


def given_up(history: History, change: Change) -> bool:
    """A list that was given up showed the object alive in a store that went back: the next epoch tells its fate."""
    returned = change.gap is not None and change.gap.cause is Cause.RESURRECTED
    return returned and stream_epoch(change) in history.loose


def untold(history: History, change: Change) -> bool:
    """Nobody could know, or knew yet, that the store went back: versions may be older than those before."""
    return unknowable(history, change) or given_up(history, change)


def last_epochs(history: History) -> dict[tuple[tuple[str, str], str], int]:
    """The epoch that each stream has come to."""
    last: dict[tuple[tuple[str, str], str], int] = {}
    for resource, scope, epoch in (*streams(history), *history.truth):
        last[resource, scope] = max(epoch, last.get((resource, scope), 0))
    return last


def ended_later(history: History) -> frozenset[ObjectId]:
    """Objects whose delete came with the list that began a later epoch."""
    found = set()
    epochs: dict[ObjectId, int] = {}
    for record in history.committed():
        change = record.change
        if change is not None and change.uid is not None:
            name = object_id(change)
            if change.inferred and epochs.get(name, change.epoch) < change.epoch:
                found.add(name)
            epochs[name] = change.epoch
    return frozenset(found)


def check_each(
    history: History, check: Callable[[Evidence], Notes], without: frozenset[ObjectId] = frozenset()
) -> Notes:
    """Run a checker of a single epoch on each stream and epoch; objects in `without` are judged in the last only."""
    notes = Notes()
    last = last_epochs(history)
    found = streams(history)
    said = {(resource, scope) for resource, scope, _ in found}
    for resource, scope in history.expected:
        if (resource, scope) not in said:
            notes.wrong.append(f"{resource} in {scope!r}: the log says nothing of it")
    for key, everything in found.items():
        resource, scope, epoch = key
        final = epoch == last[resource, scope]
        entries = [e for e in everything if final or object_id(e.change) not in without] if without else everything
        truth = history.truth.get(key, ())
        if truth is None:
            notes.unclear.append(f"{resource} in {scope!r}, epoch {epoch}: a restore of which nothing could be known")
            continue
        loose = history.loose.get(key, ())
        evidence = Evidence(
            [*truth, *loose],
            list(_as_first(entries)) if epoch != EPOCH else entries,
            history.partitions,
            [resource] if final and (resource, scope) in history.expected else (),
            excused(history, resource) | {(object_id(commit), commit.rv) for commit in loose},
        )
        _gather(notes, check(evidence), f"epoch {epoch}")
    return notes


def excused(history: History, resource: tuple[str, str]) -> frozenset[tuple[ObjectId, str]]:
    """Versions that the server itself left out of a stream."""
    return frozenset((ObjectId(*resource, uid), rv) for name, uid, rv in history.withheld if name == resource[1])


def _as_first(entries: list[Entry]) -> Iterator[Entry]:
    upto: dict[int, str | None] = {}
    for entry in entries:
        change = replace(entry.change, epoch=EPOCH)
        if _is_border(change):
            change = replace(change, after_rv=upto.get(entry.partition))
        if change.op in (Op.GAP, Op.PROGRESS) and change.uid is None and change.upto_rv is not None:
            before = upto.get(entry.partition)
            upto[entry.partition] = change.upto_rv if newer(change.upto_rv, before) else before
        yield Entry(entry.partition, entry.offset, change)


def _is_border(change: Change) -> bool:
    return change.uid is None and change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE


def _gather(notes: Notes, found: Notes, where: str) -> None:
    notes.judged += found.judged
    notes.wrong += [f"{where}, {finding}" for finding in found.wrong]
    notes.unclear += [f"{where}, {finding}" for finding in found.unclear]
