"""The checker of G2: every delete arrives, observed, or inferred with bounds that contain it; and none is invented.

Pure. It judges deletes up to the version that a partition has resolved, of objects the log has shown or should have:
one that was made and removed inside a gap leaves nothing to infer a delete from, and is coverage's matter (G1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kubecdc import wire
from kubecdc.records import Op
from kubecdc.versions import newer, not_newer
from local.check_coverage import resolved_by_partition
from local.history import Committed
from local.verdicts import EPOCH, Entry, Evidence, Notes, ObjectId, by_object, object_id, other_epochs


def check(evidence: Evidence) -> Notes:
    """Judge each committed delete, then each delete in the log."""
    notes = Notes()
    if evidence.truth is None:
        notes.unclear.append("nobody recorded what was committed")
        return notes
    other_epochs(notes, evidence.log)
    shown = by_object(entry for entry in evidence.log if entry.change.epoch == EPOCH)
    deletes = {object_id(commit): commit for commit in evidence.truth if commit.kind == "DELETE"}
    last_puts = _last_puts(evidence.truth)
    resolved = resolved_by_partition(evidence.log)
    for name, commit in deletes.items():
        entries = shown.get(name, [])
        partition = wire.partition_of(commit.uid, evidence.partitions)
        upto = resolved.get((commit.group, commit.resource, partition))
        if not entries or (not _is_deleted(entries) and newer(commit.rv, upto)):
            continue
        notes.judged += 1
        notes.wrong += _delete_faults(commit, entries, last_puts.get(name))
    notes.wrong += _invented(shown, deletes)
    return notes


def _is_deleted(entries: Sequence[Entry]) -> bool:
    return entries[-1].change.op is Op.DELETED


def _last_puts(truth: Iterable[Committed]) -> Mapping[ObjectId, str]:
    return {object_id(commit): commit.rv for commit in truth if commit.kind == "PUT"}


def _delete_faults(commit: Committed, entries: Sequence[Entry], last_put: str | None) -> list[str]:
    label = f"{commit.resource} {commit.namespace}/{commit.name} {commit.uid} was deleted at {commit.rv}"
    change = entries[-1].change
    if change.op is not Op.DELETED:
        return [f"{label}, the log ends with {change.op} at {change.rv}"]
    if not change.inferred:
        # Old servers show a delete at the object's last version.
        return [] if change.rv in (commit.rv, last_put) else [f"{label}, the log says at {change.rv}"]
    if change.after_rv is None or change.upto_rv is None:
        return [f"{label}, the inferred delete lacks a bound"]
    if newer(commit.rv, change.after_rv) and not_newer(commit.rv, change.upto_rv):
        return []
    return [f"{label}, outside the inferred bounds ({change.after_rv}, {change.upto_rv}]"]


def _invented(shown: Mapping[ObjectId, Sequence[Entry]], deletes: Mapping[ObjectId, Committed]) -> list[str]:
    faults = []
    for name, entries in shown.items():
        removed = [entry for entry in entries if entry.change.op is Op.DELETED]
        faults += [
            f"{name.resource} {entry.change.namespace}/{entry.change.name} {name.uid}: DELETED at "
            f"{entry.change.rv}, but it was not deleted"
            for entry in removed[: len(removed) if name not in deletes else -1]
        ]
    return faults
