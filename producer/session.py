"""The watch session of one resource and scope: which input is possible in which phase, and where it leads.

Pure: `step(session, input) -> (session, outputs)`, no clock, socket, thread or environment. `ROWS` is the machine; a
pair that is not in it cannot happen, and raises. The handlers are in `listing`, `watching` and `auditing`. The one
thing changed in place is `session.published`, whose size is that of the cluster.

The driver promises: at most one request a lane, no input of a cancelled request, alarms that ring at least once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from producer import auditing, frames, listing, watching
from producer.published import Published
from producer.settings import WatchSettings
from producer.signals import (
    AuditAnswer,
    AuditDue,
    Back,
    Cancel,
    Count,
    DeadlinePassed,
    Gone,
    Input,
    Lane,
    Moved,
    Overtaken,
    ProgressDue,
    Recalled,
    RetryDue,
    Start,
    Stop,
    StreamEnded,
    StreamOpened,
    Unreachable,
)
from producer.state import (
    Next,
    Phase,
    Session,
    Stepped,
    Versions,
    abort,
    ask_list,
    ask_next,
    ask_watch,
    chain,
    lose,
    tell,
)


class ImpossibleInput(Exception):  # noqa: N818 - named by what happened
    """A fault of ours: an input in a phase that cannot have it, or a handler that leads where it must not."""


def new(session_id: str, rules: WatchSettings, *, streamed: bool, recalls: bool = False) -> Session:
    """Return a session that waits for Start.

    `streamed` lets a first start use WatchList; with `recalls` it asks what the log holds when it has resumed.
    """
    return Session(session_id, rules, Published(None), streamed=streamed, recalled=not recalls)


def step(session: Session, signal: Input) -> Stepped:
    """Take one input. Raises ImpossibleInput for a pair that is not in the table."""
    row = TABLE.get((session.phase, type(signal)))
    if row is None:
        raise ImpossibleInput(f"{type(signal).__name__} while {session.phase}")
    after, outputs = row.handler(session, signal)
    if after.phase not in row.leads_to:
        raise ImpossibleInput(f"{type(signal).__name__} led from {session.phase} to {after.phase}")
    return after, outputs


# --- orders of the service --------------------------------------------------------------------------------------


def _start(session: Session, start: Start) -> Stepped:
    session = replace(session, epoch=start.epoch, published=Published(start.rv))
    if start.rv is not None:
        return ask_watch(replace(session, versions=Versions.at(start.rv), resumed=True))
    return ask_next(replace(session, next=Next.STREAMED_LIST))


def _retry(session: Session, _: RetryDue) -> Stepped:
    return ask_next(session)


def _progress(session: Session, _: ProgressDue) -> Stepped:
    return tell(session) if not session.resumed else (session, [])


def _gone(session: Session, _: Gone) -> Stepped:
    session, outputs = chain(abort(session, "the kind is gone"), lambda s: lose(s, "the kind is not served any more"))
    session = replace(session, phase=Phase.PARKED, audit=None, auditing=False, failures=0)
    return session, [*outputs, Cancel(Lane.MAIN), Cancel(Lane.AUDIT)]


def _back(session: Session, _: Back) -> Stepped:
    if session.versions.safe is not None:
        return ask_watch(session)
    return ask_list(session, "first")


def _moved_list(session: Session, _: Moved) -> Stepped:
    return chain(abort(session, "the kind moved to another API version"), ask_next_list)


def ask_next_list(session: Session) -> Stepped:
    """Start the list over, for the reason that it had."""
    return ask_list(session, session.reason)


def _moved_watch(session: Session, _: Moved) -> Stepped:
    return ask_watch(session)


def _overtaken(session: Session, other: Overtaken) -> Stepped:
    """Go on in the epoch that another producer has begun: of the one before, nothing counts any more.

    Its stored position is in the log for all (design.md, "The topics"), so this is a start after it, or with a list
    where it has none yet. Without this a producer that did not notice the restore would say nothing but stale things
    for ever.
    """
    if other.epoch <= session.epoch:
        return session, []
    parked = session.phase is Phase.PARKED
    session, outputs = abort(session, f"another producer has begun epoch {other.epoch}")
    session = replace(
        session, epoch=other.epoch, versions=Versions.at(other.rv) if other.rv else Versions(),
        published=Published(other.rv), resumed=other.rv is not None, older=0, audit=None, auditing=False,
    )  # fmt: skip
    outputs = [*outputs, Cancel(Lane.AUDIT), Count("overtaken")]
    if parked:
        return session, outputs
    return chain((session, outputs), ask_watch if other.rv else lambda s: ask_list(s, "epoch"))


def _stop(session: Session, _: Stop) -> Stepped:
    session, outputs = chain(abort(session, "the producer stops"), tell)
    session = replace(session, phase=Phase.STOPPED, audit=None, auditing=False)
    return session, [*outputs, Cancel(Lane.MAIN), Cancel(Lane.AUDIT)]


def _ignore(session: Session, _: object) -> Stepped:
    return session, []


# --- the table --------------------------------------------------------------------------------------------------

Handler = Callable[[Session, Any], Stepped]


@dataclass(frozen=True, slots=True)
class Row:
    """In `phase`, `signal` is handled by `handler`, and may lead to `leads_to`."""

    phase: Phase
    signal: type[Any]
    handler: Handler
    leads_to: tuple[Phase, ...]


_NEW, _LISTING, _INITIAL, _OPENING = Phase.NEW, Phase.LISTING, Phase.INITIAL, Phase.OPENING
_LIVE, _WAITING, _PARKED, _STOPPED = Phase.LIVE, Phase.WAITING, Phase.PARKED, Phase.STOPPED

ROWS: tuple[Row, ...] = (
    Row(_NEW, Start, _start, (_OPENING, _INITIAL, _LISTING)),
    Row(_LISTING, Recalled, listing.recalled, (_LISTING,)),
    Row(_LISTING, frames.Page, listing.page, (_LISTING, _OPENING, _WAITING)),
    Row(_LISTING, frames.Broken, listing.broken, (_WAITING,)),
    Row(_LISTING, frames.ServerError, listing.refused, (_WAITING,)),
    Row(_LISTING, Unreachable, listing.failed, (_WAITING,)),
    Row(_LISTING, Moved, _moved_list, (_LISTING,)),
    Row(_INITIAL, StreamOpened, watching.list_opened, (_INITIAL,)),
    Row(_INITIAL, frames.Object, watching.list_object, (_INITIAL,)),
    Row(_INITIAL, frames.Bookmark, watching.list_bookmark, (_INITIAL, _LIVE)),
    Row(_INITIAL, frames.Broken, watching.list_broken, (_WAITING,)),
    Row(_INITIAL, frames.ServerError, watching.list_refused, (_WAITING, _LISTING)),
    Row(_INITIAL, Unreachable, watching.list_failed, (_WAITING,)),
    Row(_INITIAL, StreamEnded, watching.list_ended, (_WAITING,)),
    Row(_INITIAL, DeadlinePassed, watching.list_late, (_INITIAL, _LISTING)),
    Row(_INITIAL, Moved, _moved_list, (_LISTING,)),
    Row(_OPENING, StreamOpened, watching.opened, (_LIVE,)),
    Row(_OPENING, frames.ServerError, watching.refused, (_WAITING, _LISTING)),
    Row(_OPENING, Unreachable, watching.failed, (_WAITING,)),
    Row(_OPENING, Moved, _moved_watch, (_OPENING,)),
    Row(_LIVE, frames.Object, watching.read_object, (_LIVE, _LISTING, _WAITING)),
    Row(_LIVE, frames.Bookmark, watching.read_bookmark, (_LIVE, _LISTING, _WAITING)),
    Row(_LIVE, frames.Broken, watching.read_broken, (_LISTING, _WAITING)),
    Row(_LIVE, frames.ServerError, watching.refused, (_LISTING, _WAITING)),
    Row(_LIVE, StreamEnded, watching.ended, (_OPENING, _WAITING)),
    Row(_LIVE, Moved, _moved_watch, (_OPENING,)),
    Row(_WAITING, RetryDue, _retry, (_LISTING, _INITIAL, _OPENING)),
    Row(_WAITING, Moved, _ignore, (_WAITING,)),
    Row(_PARKED, Back, _back, (_OPENING, _LISTING)),
    *(Row(phase, ProgressDue, _progress, (phase,)) for phase in (_LISTING, _OPENING, _LIVE, _WAITING)),
    *(Row(phase, AuditDue, auditing.begin, (phase,)) for phase in (_OPENING, _LIVE, _WAITING)),
    *(
        Row(phase, AuditAnswer, auditing.answered, (phase, _LISTING, _OPENING, _WAITING))
        for phase in (_OPENING, _LIVE, _WAITING)
    ),
    *(Row(phase, Gone, _gone, (_PARKED,)) for phase in (_LISTING, _INITIAL, _OPENING, _LIVE, _WAITING)),
    *(
        Row(phase, Overtaken, _overtaken, (phase, _OPENING, _LISTING))
        for phase in (_LISTING, _INITIAL, _OPENING, _LIVE, _WAITING)
    ),
    Row(_PARKED, Overtaken, _overtaken, (_PARKED,)),
    *(Row(phase, Stop, _stop, (_STOPPED,)) for phase in Phase),
)

# Alarms are not taken back, and the service may repeat itself, so these may come when they mean nothing any more.
_LATE: tuple[Row, ...] = tuple(
    Row(phase, signal, _ignore, (phase,))
    for phase in Phase
    for signal in (RetryDue, ProgressDue, DeadlinePassed, AuditDue, Gone, Back, Moved, Overtaken)
)

TABLE: dict[tuple[Phase, type[Any]], Row] = {(row.phase, row.signal): row for row in (*_LATE, *ROWS)}


def diagram() -> str:
    """The table as a mermaid state diagram; `docs/session.md` holds it, and a test keeps it true."""
    edges: dict[tuple[Phase, Phase], list[str]] = {}
    for row in ROWS:
        for target in row.leads_to:
            if target is not row.phase and row.signal is not Stop:
                edges.setdefault((row.phase, target), []).append(row.signal.__name__)
    lines = ["stateDiagram-v2", f"    [*] --> {_NEW}"]
    lines += [f"    {start} --> {end}: {', '.join(names)}" for (start, end), names in edges.items()]
    lines.append(f"    note right of {_STOPPED}: Stop leads here from everywhere")
    return "\n".join(lines) + "\n"
