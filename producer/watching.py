"""An open watch, and the streamed list that one may begin with.

Pure. Every frame either moves the session on or ends it; none is skipped. What a version proves is the business of
`state.Versions`; this module decides when a stream is still to be believed, and what follows when it is not.
"""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import EventType, Relist
from kubecdc.versions import newer
from producer import frames
from producer.answers import Answer, classify
from producer.auditing import judge_audit
from producer.listing import complete
from producer.signals import (
    Alarm,
    Cancel,
    Count,
    DeadlinePassed,
    Lane,
    Mark,
    Publish,
    StreamEnded,
    StreamOpened,
    Unreachable,
)
from producer.state import (
    Next,
    Phase,
    Session,
    Stepped,
    abort,
    ask_list,
    ask_watch,
    chain,
    lose,
    owed,
    relist,
    tell,
    wait,
)

INSTANT_S = 1.0  # an empty stream that ends within it is a 410 in disguise when it happens again and again
INSTANT_MAX = 3
TOO_LARGE_MAX = 2
CUTS_MAX = 2
STREAMING_ITEMS = 500  # fewer within the deadline may as well be the changes of a busy cluster

# --- a watch ----------------------------------------------------------------------------------------------------


def opened(session: Session, _: StreamOpened) -> Stepped:
    """The watch is accepted, so coverage goes on from the safe version."""
    session = replace(session, phase=Phase.LIVE, lost=False, too_large=0)
    return owed(session)


def read_object(session: Session, frame: frames.Object) -> Stepped:
    """An event. A version may repeat (expired leases delete many objects at one), but never go back."""
    seen = session.versions.seen
    if seen is not None and newer(seen, frame.rv):
        return relist(session, "version-went-back", at_once=True)
    if frame.type is EventType.DELETED:
        session.published.deleted(frame.uid, frame.rv)
    else:
        session.published.note(frame.uid, frame.rv)
    session = replace(
        session,
        versions=session.versions.read(frame.type, frame.rv),
        frames=session.frames + 1,
        failures=0,
        instant=0,
        silent=0,
    )
    published: Stepped = (session, [Publish(frame.type, session.epoch, frame)])
    return chain(published, judge_audit) if session.audit is not None else published


def read_bookmark(session: Session, frame: frames.Bookmark) -> Stepped:
    """A bookmark: everything up to its version was sent."""
    seen = session.versions.seen
    if seen is not None and newer(seen, frame.rv):
        return relist(session, "version-went-back", at_once=True)
    session = replace(
        session,
        versions=session.versions.bookmarked(frame.rv),
        frames=session.frames + 1,
        failures=0,
        instant=0,
        silent=0,
        bookmarked=True,
    )
    return chain(tell(session), judge_audit)


def read_broken(session: Session, frame: frames.Broken) -> Stepped:
    """A frame that cannot be read: what it said is unknown, so only a list can tell."""
    return relist(session, f"broken-frame: {frame.why}", at_once=True)


def refused(session: Session, error: frames.ServerError) -> Stepped:
    """The server refused the watch, before it was open or inside it."""
    answer = classify(error)
    if answer is Answer.EXPIRED:
        return relist(session, "expired", at_once=True)
    if answer is Answer.TOO_LARGE:
        if session.too_large + 1 >= TOO_LARGE_MAX:
            return relist(session, answer.value, at_once=False)
        session = replace(session, too_large=session.too_large + 1)
        return wait(session, Next.WATCH, error.retry_after)
    if answer is Answer.OTHER or (answer is Answer.UNAVAILABLE and session.phase is Phase.LIVE):
        return relist(session, f"refused: {error.label()}", at_once=False)
    if answer is Answer.FORBIDDEN:
        session, outputs = chain(
            lose(session, f"forbidden to watch: {error.label()}"), lambda s: wait(s, Next.WATCH, error.retry_after)
        )
    else:
        session, outputs = wait(session, Next.WATCH, error.retry_after)
    return session, [Count("refusals", answer.value), *outputs]


def failed(session: Session, _: Unreachable) -> Stepped:
    """No answer to the watch: nothing is lost by asking again."""
    session, outputs = wait(session, Next.WATCH)
    return session, [Count("refusals", "unreachable"), *outputs]


def ended(session: Session, end: StreamEnded) -> Stepped:
    """The stream is over; servers end them all the time. An empty one that ends at once says more."""
    if session.frames == 0 and end.lasted_s < INSTANT_S:
        instant = session.instant + end.clean
        if instant >= INSTANT_MAX:
            return relist(session, "instant-closes", at_once=False)
        return wait(replace(session, instant=instant), Next.WATCH)
    if end.lasted_s < INSTANT_S:
        return wait(replace(session, failures=0, instant=0), Next.WATCH)
    if session.frames == 0 and not end.clean and end.lasted_s >= session.rules.inactivity_s:
        session, outputs = ask_watch(replace(session, failures=0, instant=0, silent=session.silent + 1))
        return session, [Count("silent_watches"), *outputs]
    return ask_watch(replace(session, failures=0, instant=0))


# --- a streamed list --------------------------------------------------------------------------------------------


def list_opened(session: Session, _: StreamOpened) -> Stepped:
    """The server accepted to stream a list; its version comes with its end."""
    session.published.begin_list()
    session = replace(session, started=True)
    return session, [Mark(EventType.RELIST_START, session.epoch, None, session.relist)]


def list_object(session: Session, frame: frames.Object) -> Stepped:
    """Before the end mark ADDED is an item, in any order of versions; MODIFIED and DELETED are events."""
    if frame.type is EventType.ADDED:
        session.published.listed(frame.uid, frame.rv)
        return session, [Publish(EventType.LISTED, session.epoch, frame, session.relist)]
    if frame.type is EventType.DELETED:
        session.published.deleted(frame.uid, frame.rv)
    else:
        session.published.listed(frame.uid, frame.rv)
    return session, [Publish(frame.type, session.epoch, frame)]


def list_bookmark(session: Session, frame: frames.Bookmark) -> Stepped:
    """Only the annotated bookmark ends the list; the connection goes on as a watch."""
    if not frame.initial_events_end:
        return session, []
    done = replace(session.relist or Relist("", "first"), list_rv=frame.rv)
    session = replace(session, relist=done, phase=Phase.LIVE, frames=1, failures=0)
    return complete(session)


def list_refused(session: Session, error: frames.ServerError) -> Stepped:
    """Servers without streamed lists refuse in many ways; only what may pass is worth asking again."""
    answer = classify(error)
    session, outputs = abort(session, f"the streamed list was refused: {error.label()}")
    if answer is Answer.FORBIDDEN:
        return chain((session, outputs), _paged_once)  # it takes another verb than a list, which tells by itself
    if answer in (Answer.NOT_FOUND, Answer.UNAVAILABLE):
        session = replace(session, cuts=session.cuts + 1, streamed=session.cuts + 1 < CUTS_MAX)
    if answer in (Answer.THROTTLED, Answer.UNAUTHORIZED, Answer.NOT_FOUND, Answer.UNAVAILABLE):
        session, more = wait(session, Next.STREAMED_LIST, error.retry_after)
        return session, [*outputs, Count("refusals", answer.value), *more]
    return chain((session, outputs), _paged)


def list_broken(session: Session, frame: frames.Broken) -> Stepped:
    """A frame that cannot be read spoils the whole list."""
    return chain(abort(session, f"broken frame: {frame.why}"), _wait_streamed_or_paged)


def list_ended(session: Session, end: StreamEnded) -> Stepped:
    """Half a list is neither a list nor a position."""
    return chain(abort(session, f"the streamed list broke off: {end.why}"), _wait_streamed_or_paged)


def list_failed(session: Session, answer: Unreachable) -> Stepped:
    """Nobody answered; ask again in the same way."""
    session, outputs = chain(abort(session, f"no streamed list: {answer.why}"), _wait_streamed)
    return session, [*outputs, Count("refusals", "unreachable")]


def list_late(session: Session, _: DeadlinePassed) -> Stepped:
    """Some servers and proxies accept a streamed list and never end it; one that still brings many items goes on."""
    items = len(session.published)
    if session.started and items - session.frames >= STREAMING_ITEMS:
        again = Alarm(DeadlinePassed(), session.rules.watchlist_deadline_s, exact=True)
        return replace(session, frames=items), [again]
    return chain(abort(session, "the end mark did not come in time"), _paged)


def _paged(session: Session) -> Stepped:
    return _paged_once(replace(session, streamed=False))


def _paged_once(session: Session) -> Stepped:
    session, outputs = ask_list(session, "first")
    return session, [Cancel(Lane.MAIN), Count("watchlist_fallbacks"), *outputs]


def _wait_streamed(session: Session) -> Stepped:
    return wait(session, Next.STREAMED_LIST)


def _wait_streamed_or_paged(session: Session) -> Stepped:
    cuts = session.cuts + 1
    return wait(replace(session, cuts=cuts, streamed=cuts < CUTS_MAX), Next.STREAMED_LIST)
