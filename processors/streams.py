"""Coverage of one stream (cluster, resource, scope) in one partition: sessions, floor, relists and gaps.

Pure: `enter` accounts for a record's place in its session, `mark` for what a marker says. Both take and return
StreamState. They do not know of UIDs: a complete list yields a Sweep, which `processors.partition` carries out.

The floor is the version up to which coverage is proven, or named as a gap. It only rises within an epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from kubecdc.construct import constructor
from kubecdc.records import (
    Cause,
    EventType,
    Gap,
    RawEvent,
    Relist,
    RelistState,
    SessionState,
    StreamState,
)
from kubecdc.versions import newer, not_newer

make_stream, make_session = constructor(StreamState), constructor(SessionState)
WATCHED = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED})
SESSIONS_MAX = 8  # of one stream; the longest silent is forgotten, and would read as holed if it came back


@dataclass(frozen=True, slots=True)
class Covered:
    """PROGRESS: the log holds everything in `(after_rv, upto_rv]` of `epoch`."""

    epoch: int
    after_rv: str | None
    upto_rv: str
    count: int


@dataclass(frozen=True, slots=True)
class Missing:
    """A GAP record of the stream."""

    epoch: int
    after_rv: str | None
    upto_rv: str | None
    gap: Gap


@dataclass(frozen=True, slots=True)
class Sweep:
    """A list is complete: what lives, is not newer than it and was not in it, is deleted."""

    relist: str
    epoch: int
    list_rv: str
    cause: Cause


StreamOutput = Covered | Missing | Sweep


def opened(event: RawEvent) -> StreamState:
    """The state of a stream that nothing is known of."""
    return StreamState(
        cluster=event.cluster,
        group=event.group,
        resource=event.resource,
        scope=event.scope,
        version=event.version,
        epoch=event.epoch,
        floor=None,
        complete=False,
        lost=False,
        count=0,
        before_epoch=None,
        sessions=(),
        relists=(),
    )


def running(streams: Iterable[StreamState]) -> frozenset[str]:
    """Ids of the lists that are under way."""
    return frozenset(relist.id for stream in streams for relist in stream.relists)


def floor_beside(others: Iterable[StreamState], event: RawEvent) -> str | None:
    """The greatest floor of other scopes that hold the event's namespace and know all that lives in it."""
    found: str | None = None
    for other in others:
        holds = other.scope in ("", event.namespace) and other.complete and other.epoch == event.epoch
        if holds and other.floor is not None and newer(other.floor, found):
            found = other.floor
    return found


def session_of(stream: StreamState, event: RawEvent) -> SessionState | None:
    """The event's session, if it is known."""
    for session in stream.sessions:
        if session.id == event.session:
            return session
    return None


def enter(stream: StreamState, event: RawEvent) -> tuple[SessionState, int]:
    """Account for `event.seq`. Returns the session after it, and the records missing before it, -1 for a repeat.

    Producers are idempotent and number every record of a session and partition from 0, so a hole is loss in transport
    or compaction, and a lower number is a delivery that was accounted for already.
    """
    session = session_of(stream, event)
    missing = event.seq - (0 if session is None else session.next_seq)
    if missing < 0 and session is not None:
        return session, -1
    start, holed = (None, False) if session is None else (session.start_rv, session.holed)
    if missing:
        start, holed = None, True
    if holed and start is None:
        start = _above_missing(stream, event)
    return make_session(event.session, event.seq + 1, start, holed), missing


def _above_missing(stream: StreamState, event: RawEvent) -> str | None:
    """A version that what is missing cannot exceed: that of an event of the watch, which comes in their order."""
    ordered = event.type in WATCHED and event.relist is None and event.epoch == stream.epoch
    return event.rv if ordered else None


def doubted(stream: StreamState, session: SessionState, event: RawEvent) -> SessionState:
    """The session after an event that came too late: another had told of a newer version before.

    As a rule it is a copy of what the other has told. If the other lacks records up to there, or has only listed what
    it has told, nobody has told this version, and what this session covers next holds a gap.
    """
    if event.epoch < stream.epoch:
        return session
    first_list = event.type is EventType.LISTED and stream.floor is None and not stream.complete
    late = event.type in WATCHED and event.relist is None and newer(event.rv or "", stream.floor)
    if first_list or (late and any(s.id != session.id and _may_lack(s, stream) for s in stream.sessions)):
        return make_session(session.id, session.next_seq, None if first_list else event.rv, True)
    return session


def _may_lack(session: SessionState, stream: StreamState) -> bool:
    """Something of the session is missing that may lie above the floor."""
    return session.holed and (session.start_rv is None or newer(session.start_rv, stream.floor))


def advance(stream: StreamState, session: SessionState, *, written: int = 0, listed: str | None = None) -> StreamState:
    """The stream after a record: its session, `written` changes more, and one item of the relist `listed` seen.

    The one function that runs for each event, hence spelled out: `dataclasses.replace` costs ten times as much.
    """
    sessions = stream.sessions
    if len(sessions) == 1 and sessions[0].id == session.id:
        sessions = (session,)
    else:
        sessions = (*[s for s in sessions if s.id != session.id], session)[-SESSIONS_MAX:]
    relists = stream.relists
    if listed is not None and relists:
        relists = tuple(replace(r, seen=r.seen + 1) if r.id == listed else r for r in relists)
    return make_stream(
        stream.cluster,
        stream.group,
        stream.resource,
        stream.scope,
        stream.version,
        stream.epoch,
        stream.floor,
        stream.complete,
        stream.lost,
        stream.count + written,
        stream.before_epoch,
        sessions,
        relists,
    )


def counted(stream: StreamState, written: int) -> StreamState:
    """The stream with `written` changes more since its last PROGRESS."""
    return replace(stream, count=stream.count + written)


def new_epoch(stream: StreamState, event: RawEvent) -> StreamState:
    """Begin the event's epoch like a first start, if it is a later one.

    No session covers anything of it yet: what each had covered are versions of the epoch before.
    """
    if event.epoch <= stream.epoch:
        return stream
    return replace(
        stream,
        epoch=event.epoch,
        floor=None,
        complete=False,
        before_epoch=stream.floor or stream.before_epoch,
        sessions=tuple(SessionState(s.id, s.next_seq, None, holed=False) for s in stream.sessions),
        relists=(),
        count=0,
    )


def mark(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    """Apply a marker that `enter` has accounted for. `hole` names the cause of a hole met now."""
    return _MARKERS[event.type](stream, event, hole)


def _raise(stream: StreamState, event: RawEvent, rv: str | None, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    """The session says it has sent everything up to `rv`: raise the floor, over a gap where it was holed."""
    session = session_of(stream, event)
    if rv is None or session is None or (session.start_rv is None and not session.holed):
        return stream, []
    outputs: list[StreamOutput] = []
    floor, count = stream.floor, stream.count
    if session.holed:
        if newer(rv, floor):
            cause = hole if floor is not None else Cause.COMPACTED
            outputs.append(Missing(stream.epoch, floor, rv, Gap(cause, None, "records of a session are missing")))
        session = _mended(session, event, rv)
    else:
        start = session.start_rv
        if start is not None and newer(start, floor):
            outputs.append(Missing(stream.epoch, floor, start, Gap(hole, None, "a session began above the floor")))
            floor, count = start, 0
        if newer(rv, floor):
            outputs.append(Covered(stream.epoch, floor, rv, count))
    stream = advance(stream, session)
    if newer(rv, stream.floor):
        stream = replace(stream, floor=rv, lost=False, count=0)
    return stream, outputs


def _mended(session: SessionState, event: RawEvent, rv: str) -> SessionState:
    """A holed session after it has told that it is at `rv`: whole again once nothing that is missing can lie above.

    A delete is sent before it counts as safe, so it may lie above the first PROGRESS after it, never above the second.
    """
    if event.type is not EventType.PROGRESS:
        return session
    whole = session.start_rv is not None and not_newer(session.start_rv, rv)
    return SessionState(session.id, session.next_seq, rv, holed=not whole)


def _progress(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    if event.epoch < stream.epoch:
        return stream, []
    return _raise(stream, event, event.rv, hole)


def _resumed(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    session = session_of(stream, event)
    if session is None or event.rv is None or event.epoch < stream.epoch:
        return stream, []
    stream = advance(stream, SessionState(session.id, session.next_seq, event.rv, holed=False))
    if stream.floor is None and not stream.complete:
        gap = Gap(Cause.COMPACTED, None, "the log begins inside a session")
        return replace(stream, floor=event.rv, complete=True, lost=False, count=0), [
            Missing(stream.epoch, None, event.rv, gap)
        ]
    if newer(event.rv, stream.floor):
        gap = Gap(hole, None, "a session began above the floor")
        return replace(stream, floor=event.rv, lost=False, count=0), [
            Missing(stream.epoch, stream.floor, event.rv, gap)
        ]
    return stream, []


def _coverage_lost(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    if event.epoch < stream.epoch:
        return stream, []
    stream, outputs = _raise(stream, event, event.rv, hole)
    if not stream.lost:
        gap = Gap(Cause.COVERAGE_LOST, None, event.detail)
        outputs.append(Missing(stream.epoch, stream.floor, None, gap))
    return replace(stream, lost=True), outputs


def _relist_start(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    relist = _relist(event)
    if event.epoch < stream.epoch:
        return stream, []
    session = session_of(stream, event)
    outputs: list[StreamOutput] = []
    if session is not None and session.start_rv is not None:  # else `previous_rv` may be of an epoch before this one
        stream, outputs = _raise(stream, event, relist.previous_rv, hole)
    stream = new_epoch(stream, event)
    started = RelistState(relist.id, event.session, relist.reason, event.epoch, relist.list_rv, 0)
    others = tuple(r for r in stream.relists if r.session != event.session)
    alive = {s.id for s in stream.sessions}
    kept = tuple(r for r in others if r.session in alive)
    return replace(stream, relists=(*kept, started)), outputs


def _relist(event: RawEvent) -> Relist:
    return event.relist or Relist(id="", reason="")


def _relist_aborted(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    del hole
    gone = _relist(event).id
    return replace(stream, relists=tuple(r for r in stream.relists if r.id != gone)), []


def _relist_end(stream: StreamState, event: RawEvent, hole: Cause) -> tuple[StreamState, list[StreamOutput]]:
    relist = _relist(event)
    running = next((r for r in stream.relists if r.id == relist.id), None)
    stream, _ = _relist_aborted(stream, event, hole)
    list_rv = relist.list_rv
    if event.epoch < stream.epoch or list_rv is None:
        return stream, []
    whole = running is not None and running.seen == relist.expected
    outputs: list[StreamOutput] = []
    if whole:
        cause = Cause.RELIST_WINDOW if stream.before_epoch is None else Cause.EPOCH_CHANGE
        outputs.append(Sweep(relist.id, event.epoch, list_rv, cause))
    session = session_of(stream, event)
    late = session is not None and session.holed
    outputs += _window(stream, relist, running, whole=whole, late=late)
    if session is not None:
        stream = advance(stream, SessionState(session.id, session.next_seq, list_rv, holed=False))
    raised = newer(list_rv, stream.floor)
    stream = replace(
        stream,
        version=event.version,
        floor=list_rv if raised else stream.floor,
        lost=stream.lost and not raised,
        count=0 if outputs[-1:] and not isinstance(outputs[-1], Sweep) else stream.count,
        complete=stream.complete or whole,
        before_epoch=None if whole else stream.before_epoch,
    )
    return stream, outputs


def _window(
    stream: StreamState, relist: Relist, running: RelistState | None, *, whole: bool, late: bool
) -> list[StreamOutput]:
    """The stream record that a list leaves: one for each completed list, none for an empty window.

    `late`: the log may hold newer versions of its items instead of those that it shows.
    """
    list_rv = relist.list_rv or ""
    if not whole:
        seen = running.seen if running else 0
        gap = Gap(Cause.RELIST_INCOMPLETE, None, f"{seen} of {relist.expected} items of list {relist.id} arrived")
        if not_newer(list_rv, stream.floor):
            return [Missing(stream.epoch, list_rv, stream.floor, gap)]
        return [Missing(stream.epoch, stream.floor, list_rv, gap)]
    if not stream.complete and stream.before_epoch is not None:
        gap = Gap(Cause.EPOCH_CHANGE, None, relist.reason)
        return [Missing(stream.epoch, stream.before_epoch, list_rv, gap)]
    if not newer(list_rv, stream.floor):
        return []
    if not stream.complete and stream.floor is None:
        gap = Gap(Cause.RELIST_WINDOW, None, "another list has shown later versions before")
        return [
            Missing(stream.epoch, None, list_rv, gap) if late else Covered(stream.epoch, None, list_rv, stream.count)
        ]
    return [Missing(stream.epoch, stream.floor, list_rv, Gap(Cause.RELIST_WINDOW, None, relist.reason))]


_Marker = Callable[[StreamState, RawEvent, Cause], tuple[StreamState, list[StreamOutput]]]
_MARKERS: dict[EventType, _Marker] = {
    EventType.RESUMED: _resumed,
    EventType.PROGRESS: _progress,
    EventType.COVERAGE_LOST: _coverage_lost,
    EventType.RELIST_START: _relist_start,
    EventType.RELIST_END: _relist_end,
    EventType.RELIST_ABORTED: _relist_aborted,
}
