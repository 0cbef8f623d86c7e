"""How canonical records and UID states look: built from a raw record, what was known, and an outcome.

Pure construction, no decision: which record to write is decided in `processors.rules` and `processors.streams`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubecdc.construct import constructor
from kubecdc.records import Cause, Change, EventType, Gap, Op, RawEvent, Source, UidState
from processors.rules import Outcome

make_change, make_state, make_source = constructor(Change), constructor(UidState), constructor(Source)


@dataclass(frozen=True, slots=True)
class At:
    """The record being applied: where it stands, what it says, and the time it is processed (epoch ms)."""

    partition: int
    offset: int
    event: RawEvent
    now_ms: int

    def source(self) -> Source:
        """The reference that canonical records carry."""
        return make_source(self.partition, self.offset, self.event.session, self.event.seq)


make_at = constructor(At)


def of_object(at: At, known: UidState | None, outcome: Outcome, op: Op, seq: int | None) -> Change:
    """The record of an object's event; `seq` None only for a GAP that names the UID."""
    event, inferred = at.event, outcome.inferred
    return make_change(
        event.cluster,
        event.epoch,
        event.group,
        event.version,
        event.resource,
        event.scope,
        event.namespace or (known.namespace if known else ""),
        event.name or (known.name if known else ""),
        event.uid,
        op,
        event.rv,
        known.emitted_rv if known else None,
        seq,
        inferred,
        known.rv if inferred and known else None,
        event.rv if inferred else None,
        outcome.gap,
        outcome.noise,
        outcome.changed,
        outcome.changed_by,
        event.object,
        event.object_omitted,
        event.digest,
        None,
        event.observed_at,
        at.now_ms,
        at.source(),
    )


def inferred_delete(at: At, state: UidState, epoch: int, bound: str, gap: Gap) -> Change:
    """A delete that nobody showed: somewhere in `(last version, bound]`."""
    return Change(
        cluster=state.cluster,
        epoch=epoch,
        group=state.group,
        version=state.version,
        resource=state.resource,
        scope=at.event.scope,
        namespace=state.namespace,
        name=state.name,
        uid=state.uid,
        op=Op.DELETED,
        rv=bound,
        prev_rv=state.emitted_rv,
        seq=state.seq + 1,
        inferred=True,
        after_rv=state.rv,
        upto_rv=bound,
        gap=gap,
        noise=False,
        changed=(),
        changed_by=(),
        object=None,
        object_omitted=None,
        digest=state.digest,
        count=None,
        observed_at=at.event.observed_at,
        emitted_at=at.now_ms,
        source=at.source(),
    )


def of_stream(at: At, epoch: int, bounds: tuple[str | None, str | None], said: Gap | int) -> Change:
    """A stream's GAP, or its PROGRESS with a count, over `(after_rv, upto_rv]`."""
    event = at.event
    gap = said if isinstance(said, Gap) else None
    return Change(
        cluster=event.cluster,
        epoch=epoch,
        group=event.group,
        version=event.version,
        resource=event.resource,
        scope=event.scope,
        namespace="",
        name="",
        uid=None,
        op=Op.PROGRESS if gap is None else Op.GAP,
        rv=None,
        prev_rv=None,
        seq=None,
        inferred=False,
        after_rv=bounds[0],
        upto_rv=bounds[1],
        gap=gap,
        noise=False,
        changed=(),
        changed_by=(),
        object=None,
        object_omitted=None,
        digest="",
        count=None if isinstance(said, Gap) else said,
        observed_at=event.observed_at,
        emitted_at=at.now_ms,
        source=at.source(),
    )


def undecodable(partition: int, offset: int, why: str, now_ms: int) -> Change:
    """A raw record that nobody can read: it belongs to no stream, and is recorded with its offset."""
    nothing = RawEvent(
        *("", 0, "", "", "", "", EventType.PROGRESS, None, "", "", None, "", -1, None, None, None),
        *((), None, None, "", "", "", now_ms),
    )
    detail = f"events partition {partition} offset {offset}: {why}"
    at = At(partition, offset, nothing, now_ms)
    return of_stream(at, 0, (None, None), Gap(Cause.UNDECODABLE, None, detail))


def next_state(
    running: frozenset[str], known: UidState | None, event: RawEvent, seq: int, *, deleted: bool
) -> UidState:
    """What is known of the UID once its event is in the log."""
    rv = event.rv or ""
    return make_state(
        event.cluster,
        event.epoch,
        event.group,
        event.version,
        event.resource,
        event.scope,
        event.namespace or (known.namespace if known else ""),
        event.name or (known.name if known else ""),
        event.uid or "",
        rv,
        rv,
        seq,
        deleted,
        event.generation,
        event.digest,
        event.paths,
        event.managers,
        () if deleted or not running else listed_in(running, known, event),
        "",
    )


def listed_in(running: frozenset[str], known: UidState | None, event: RawEvent) -> tuple[str, ...]:
    """The running relists, of whatever scope, that have shown this UID, the event's own among them."""
    marks = set(known.listed) if known else set()
    if event.type is EventType.LISTED and event.relist is not None:
        marks.add(event.relist.id)
    return tuple(sorted(marks & running))


def dead_state(at: At, state: UidState, epoch: int, bound: str) -> UidState:
    """What is known of a UID whose delete was inferred."""
    return replace(
        state,
        epoch=epoch,
        scope=at.event.scope,
        rv=bound,
        emitted_rv=bound,
        seq=state.seq + 1,
        deleted=True,
        listed=(),
    )
