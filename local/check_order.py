"""The checker of G3: per UID, versions strictly increase, each at most once, and `seq` is 1, 2, 3… within a life.

Needs no ground truth: the log alone shows it. Pure. It reads a log from its beginning, since a first record with
another `seq` than 1 is a hole.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubecdc import wire
from kubecdc.records import Cause, Change, Op
from kubecdc.versions import compare
from local.verdicts import Entry, Evidence, Notes, by_object

# A UID that comes back after its delete says so; an audit's find names itself instead.
_RETURNS = frozenset({Cause.RESURRECTED, Cause.AUDIT_DRIFT})


def check(evidence: Evidence) -> Notes:
    """Judge each object's records in the order of the log."""
    notes = Notes()
    for name, entries in by_object(evidence.log).items():
        label = f"{name.resource} {entries[0].change.namespace}/{entries[0].change.name} {name.uid}"
        notes.judged += len(entries)
        notes.wrong += _partition_faults(label, entries, evidence.partitions)
        notes.wrong += _chain_faults(label, entries)
    return notes


def _partition_faults(label: str, entries: Sequence[Entry], partitions: int) -> list[str]:
    right = wire.partition_of(entries[0].change.uid or "", partitions)
    wrong = sorted({entry.partition for entry in entries} - {right})
    return [f"{label}: in partition {number}, its UID belongs to {right}" for number in wrong]


def _chain_faults(label: str, entries: Sequence[Entry]) -> list[str]:
    faults = []
    before: Change | None = None
    for entry in entries:
        change = entry.change
        where = f"{label} at {entry.partition}:{entry.offset}"
        faults += [f"{where}: {fault}" for fault in _step_faults(before, change)]
        before = change
    return faults


def _step_faults(before: Change | None, change: Change) -> list[str]:
    faults = []
    if before is None:
        if change.seq != 1:
            faults.append(f"seq {change.seq} is its first, not 1")
        return faults
    begins = before.op is Op.DELETED
    # A new epoch begins like a first start: what was forgotten before it begins a new life.
    anew = change.epoch > before.epoch and change.seq == 1
    if begins and not anew and not (change.gap and change.gap.cause in _RETURNS):
        faults.append(f"{change.op} after its delete without RESURRECTED")
    allowed = {(before.seq or 0) + 1} | ({1} if begins else set())
    if change.seq not in allowed:
        faults.append(f"seq {change.seq} follows {before.seq}")
    elif change.seq != 1 and change.prev_rv != before.rv:
        faults.append(f"prev_rv {change.prev_rv} where the record before has {before.rv}")
    faults += _version_faults(before, change)
    return faults


def _version_faults(before: Change, change: Change) -> list[str]:
    if change.rv is None or before.rv is None:
        return ["a record of an object without a version"]
    if change.epoch != before.epoch:
        return [] if change.epoch > before.epoch else [f"epoch {change.epoch} follows {before.epoch}"]
    order = compare(change.rv, before.rv)
    if order > 0 or (order == 0 and change.op is Op.DELETED and before.op is not Op.DELETED):
        return []
    return [f"{change.op} at version {change.rv} follows {before.op} at {before.rv}"]
