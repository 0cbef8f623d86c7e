"""What one object event means, given what is known of its UID and of its stream: the heart of exactness.

Pure: `decide` compares a RawEvent with the UID's state and the stream's floor and returns a verdict, never touching
memory, Kafka or a clock. It does not know of sessions, batches or other UIDs. The rules are design.md, "Rules of the
processor", and cases/README.md section 6.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import orjson

from kubecdc.construct import constructor
from kubecdc.records import Cause, EventType, Gap, Manager, Name, Op, RawEvent, StreamState, UidState
from kubecdc.versions import not_newer

AUDIT = "audit"


class Verdict(Name):
    """What became of a raw record; each is counted, and each record gets exactly one."""

    EMITTED = "emitted"
    DUPLICATE = "duplicate"
    STALE = "stale"
    CONFLICT = "conflict"
    NOISE_DROPPED = "noise_dropped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """A verdict, and what to write when it is EMITTED. `fresh` begins a life at seq 1."""

    verdict: Verdict
    op: Op | None = None
    gap: Gap | None = None
    noise: bool = False
    changed: tuple[str, ...] = ()
    changed_by: tuple[Manager, ...] = ()
    inferred: bool = False


make_outcome = constructor(Outcome)
DUPLICATE = Outcome(Verdict.DUPLICATE)
STALE = Outcome(Verdict.STALE)
CONFLICT = Outcome(Verdict.CONFLICT)


EMITTED = {op: Outcome(Verdict.EMITTED, op) for op in Op}


def _emit(op: Op, cause: Cause | None = None, missed: int | None = None) -> Outcome:
    return Outcome(Verdict.EMITTED, op, Gap(cause, missed)) if cause else EMITTED[op]


def decide(known: UidState | None, event: RawEvent, stream: StreamState, beside: str | None = None) -> Outcome:
    """Return what `event` does to the log. `event.rv` is well formed; `stream` is of the event's scope.

    `beside` is the greatest floor of complete streams of other scopes that hold the object's namespace as well.
    """
    if event.epoch < stream.epoch:
        return STALE
    if known is None:
        return _unknown(event, stream, beside)
    if known.epoch < event.epoch:
        return _described(known, event, _over_epochs(known, event, stream))
    if known.deleted:
        return _deleted(known, event)
    return _described(known, event, _live(known, event))


def _rv(event: RawEvent) -> str:
    return event.rv or ""


def _is_audit(event: RawEvent) -> bool:
    return event.relist is not None and event.relist.reason == AUDIT


def _evidence(event: RawEvent, than: str | None) -> bool:
    """A list proves something about `than` when it is not older.

    One that is still streamed has not told its version: another producer may have shown the delete already.
    """
    list_rv = event.relist.list_rv if event.relist else None
    return list_rv is not None and (than is None or not_newer(than, list_rv))


def _unknown(event: RawEvent, stream: StreamState, beside: str | None) -> Outcome:
    below = not_newer(_rv(event), stream.floor)
    if event.type is EventType.LISTED:
        if _is_audit(event):
            return _emit(Op.CREATED, Cause.AUDIT_DRIFT)
        if not_newer(_rv(event), beside):
            return _emit(Op.CREATED, Cause.RESURRECTED) if _evidence(event, beside) else STALE
        if not stream.complete:
            return _emit(Op.SNAPSHOT, Cause.RESURRECTED if _forgotten_before(event, stream) else None)
        if not below:
            return _emit(Op.CREATED, Cause.RELIST_WINDOW)
        return _emit(Op.CREATED, Cause.RESURRECTED) if _evidence(event, stream.floor) else STALE
    if below or not_newer(_rv(event), beside) or _is_audit(event):
        return STALE
    if event.type is EventType.ADDED:
        return replace(_emit(Op.CREATED), changed_by=event.managers)
    return _emit(_op_of(event), Cause.MISSED_CREATE)


def _forgotten_before(event: RawEvent, stream: StreamState) -> bool:
    """Below the floor of the epoch before, an unknown UID was a deleted one.

    Unless versions count again from below it: a list that is older than that floor tells nothing.
    """
    before = stream.before_epoch
    return before is not None and not_newer(_rv(event), before) and _evidence(event, before)


def _op_of(event: RawEvent) -> Op:
    return Op.DELETED if event.type is EventType.DELETED else Op.UPDATED


def _over_epochs(known: UidState, event: RawEvent, stream: StreamState) -> Outcome:
    """A version of a newer epoch is newer, whatever its number (an etcd restore: kubernetes.md 3.12)."""
    back = Cause.RESURRECTED if known.deleted else None
    if event.type is EventType.LISTED:
        if not stream.complete:
            return _emit(Op.SNAPSHOT, back)
        seen = Cause.AUDIT_DRIFT if _is_audit(event) else Cause.RELIST_WINDOW
        return _emit(Op.CREATED if known.deleted else Op.UPDATED, back or seen)
    if event.type is EventType.DELETED:
        return DUPLICATE if known.deleted else _emit(Op.DELETED)
    return _emit(Op.CREATED if known.deleted else Op.UPDATED, back)


def _live(known: UidState, event: RawEvent) -> Outcome:
    rv = _rv(event)
    if rv == known.rv:
        return _same_version(known, event)
    if not_newer(rv, known.rv):
        return STALE
    if event.type is EventType.DELETED:
        if _is_audit(event):
            return replace(_emit(Op.DELETED, Cause.AUDIT_DRIFT), inferred=True)
        return _emit(Op.DELETED)
    if event.type is EventType.LISTED:
        return _emit(Op.UPDATED, Cause.AUDIT_DRIFT if _is_audit(event) else Cause.RELIST_WINDOW)
    if known.generation and event.generation and event.generation > known.generation + 1:
        return _emit(Op.UPDATED, Cause.GENERATION_JUMP, event.generation - known.generation - 1)
    return _emit(Op.UPDATED)


def _same_version(known: UidState, event: RawEvent) -> Outcome:
    """Old servers put the last version on a delete (k8s#63356); else a version names one content."""
    if event.type is EventType.DELETED:
        return _emit(Op.DELETED)
    if (
        event.version != known.version
        or not _same_key(event.digest, known.digest)
        or event.digest in (known.digest, known.conflict)
    ):
        return DUPLICATE
    return CONFLICT


def _same_key(one: str, other: str) -> bool:
    """Digests of redacted content end in `@<key>`: under another redaction key equal contents look different."""
    return bool(one) and bool(other) and one.partition("@")[2] == other.partition("@")[2]


def _deleted(known: UidState, event: RawEvent) -> Outcome:
    """The UID is dead, and its state is kept until the floor has passed its delete."""
    if event.type is EventType.DELETED:
        return DUPLICATE
    rv = _rv(event)
    if event.type is EventType.LISTED:
        if not not_newer(rv, known.rv) or _outlived(known, event):
            return _emit(Op.CREATED, Cause.AUDIT_DRIFT if _is_audit(event) else Cause.RESURRECTED)
        return STALE
    if rv == known.rv:
        return DUPLICATE
    return STALE if not_newer(rv, known.rv) else _emit(Op.CREATED, Cause.RESURRECTED)


def _outlived(known: UidState, event: RawEvent) -> bool:
    """The list is not older than the delete; if its version is that of the object too, it may still be.

    Old servers show a delete at the last version of the object (k8s#63356), which a list before it has as well.
    """
    list_rv = event.relist.list_rv if event.relist else None
    return _evidence(event, known.rv) and not list_rv == known.rv == event.rv


def _described(known: UidState, event: RawEvent, outcome: Outcome) -> Outcome:
    """Add what changed and who changed it, where there is something to compare with."""
    if outcome.verdict is not Verdict.EMITTED or outcome.op is Op.DELETED or known.deleted:
        return outcome
    managers = () if event.managers == known.managers else tuple(m for m in event.managers if m not in known.managers)
    if event.digest and event.digest == known.digest:
        return Outcome(outcome.verdict, outcome.op, outcome.gap, noise=True, changed_by=managers)
    changed = changed_paths(known.paths, event.paths)
    return make_outcome(outcome.verdict, outcome.op, outcome.gap, changed=changed, changed_by=managers)


def changed_paths(before: str, after: str) -> tuple[str, ...]:
    """JSON pointers whose digests differ, without those that lie under another one of them."""
    if before == after:
        return ()
    old, new = orjson.loads(before or "{}"), orjson.loads(after or "{}")
    different = {path for path, digest in new.items() if old.get(path) != digest}
    if not old.keys() <= new.keys():
        different |= old.keys() - new.keys()
    if len(different) == 1:
        return tuple(different)
    return tuple(sorted(path for path in different if not _lies_under(path, different)))


def _lies_under(path: str, others: set[str]) -> bool:
    """One of `others` is an ancestor of the pointer `path`."""
    end = path.rfind("/")
    while end > 0:
        if path[:end] in others:
            return True
        end = path.rfind("/", 0, end)
    return False
