"""What a watch session knows, and the steps that all of its phases share.

Pure: no clock, socket or thread. `Versions` holds the rule of the safe version (design.md, producer rule 5), the
helpers below it what every phase does when it waits, loses coverage, or gives up a list. Which input leads where is
decided in `session` and the handlers it lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from kubecdc.records import EventType, Relist
from kubecdc.versions import newer
from producer.published import AuditRun, Published
from producer.settings import WatchSettings
from producer.signals import (
    Alarm,
    Cancel,
    Checkpoint,
    Count,
    DeadlinePassed,
    Lane,
    Mark,
    Output,
    Recalled,
    Request,
    RetryDue,
    Verb,
)

RETRY_AFTER_MAX_S = 600.0  # a server that asks for more is asked again all the same


class Phase(StrEnum):
    """Where a session stands."""

    NEW = "new"
    LISTING = "listing"  # pages of a list are under way
    INITIAL = "initial"  # a streamed list is under way, or asked for
    OPENING = "opening"  # a watch is asked for
    LIVE = "live"  # a watch is open
    WAITING = "waiting"  # for a time before `next`
    PARKED = "parked"  # discovery says that the kind is gone
    STOPPED = "stopped"


class Next(StrEnum):
    """What to do when a wait is over."""

    LIST = "list"
    STREAMED_LIST = "streamed-list"
    WATCH = "watch"


@dataclass(frozen=True, slots=True)
class Versions:
    """The versions of one epoch.

    `safe` is where a watch may begin without losing anything, `seen` the last version of the open stream, `known` the
    greatest ever read, `deleted` the version of a DELETED that more deletes may share, `told` the last one published
    as PROGRESS or list.
    """

    safe: str | None = None
    seen: str | None = None
    known: str | None = None
    deleted: str | None = None
    told: str | None = None

    @classmethod
    def at(cls, rv: str) -> Versions:
        """Everything up to `rv` is read and published: after a list, or from a stored position."""
        return cls(rv, rv, rv, None, rv)

    def read(self, kind: EventType, rv: str) -> Versions:
        """After an event: an upsert is safe at once, a DELETED only when a greater version has come."""
        if kind is EventType.DELETED:
            safe = self.deleted if self.deleted is not None and newer(rv, self.deleted) else self.safe
            return Versions(safe, rv, _greatest(rv, self.known), rv, self.told)
        safe = self.safe if rv == self.deleted else rv
        return Versions(safe, rv, _greatest(rv, self.known), self.deleted if rv == self.deleted else None, self.told)

    def bookmarked(self, rv: str) -> Versions:
        """After a bookmark: everything up to it was sent."""
        return Versions(rv, rv, _greatest(rv, self.known), None, self.told)

    @property
    def untold(self) -> bool:
        """The safe version has risen since it was last published."""
        return self.safe is not None and newer(self.safe, self.told)


def _greatest(one: str, other: str | None) -> str:
    return one if other is None or newer(one, other) else other


@dataclass(frozen=True, slots=True)
class Session:
    """A watch session of one resource and scope. All fields but `published` are never changed in place.

    `resumed` tells that a RESUMED record is still owed, `lost` that an open COVERAGE_LOST stands, `started` that the
    running relist was announced, `recalled` that what the log holds need not be asked for, `bookmarked` that this
    server sends bookmarks, `asked` is the greatest version known when the audit's list was asked for. `failures`
    drives the back-off, `older` counts lists that contradict what was read, `proof` is the greatest version of those,
    `instant` and `silent` empty streams, `too_large` refusals of a version not reached yet, `cuts` streamed lists
    that broke off.
    """

    id: str
    rules: WatchSettings
    published: Published
    phase: Phase = Phase.NEW
    epoch: int = 1
    versions: Versions = Versions()
    next: Next = Next.LIST
    streamed: bool = False
    resumed: bool = False
    lost: bool = False
    relist: Relist | None = None
    relists: int = 0
    reason: str = "first"
    started: bool = False
    audit: AuditRun | None = None
    auditing: bool = False
    asked: str | None = None
    frames: int = 0
    failures: int = 0
    older: int = 0
    proof: str | None = None
    instant: int = 0
    silent: int = 0
    bookmarked: bool = False
    recalled: bool = True
    too_large: int = 0
    cuts: int = 0

    @property
    def mute(self) -> bool:
        """The watch says nothing although this server sends bookmarks: it is not quiet, it is broken."""
        return self.silent > 0 and self.bookmarked


Stepped = tuple[Session, list[Output]]
Step = Callable[[Session], Stepped]


def contradicted(session: Session, list_rv: str) -> Session:
    """A list has contradicted what was read: the server lags, or it was restored."""
    proof = _greatest(list_rv, session.proof) if session.older else list_rv
    return replace(session, older=session.older + 1, proof=proof)


def restored(session: Session) -> bool:
    """So many lists have contradicted what was read that the server does not lag: it was restored."""
    return session.older >= session.rules.restore_confirmations


def ask_list(session: Session, reason: str) -> Stepped:
    """Begin a paged list; it is announced when its first page has been judged."""
    number = session.relists + 1
    relist = Relist(f"{session.id}.{number}", reason, session.versions.safe)
    session = replace(
        session, phase=Phase.LISTING, relist=relist, relists=number, reason=reason, started=False, auditing=False,
        audit=None,
    )  # fmt: skip
    return session, [Cancel(Lane.MAIN), Cancel(Lane.AUDIT), Request(Lane.MAIN, first_question(session))]


def first_question(session: Session) -> Verb:
    """A session that resumed knows no object, so it asks what the log holds before its first list."""
    return Verb.LIST if session.recalled or session.published.since is None else Verb.RECALL


def remember(session: Session, answer: Recalled) -> Stepped:
    """Take over what the log holds. What could not be read now is asked for again before the next list."""
    if answer.epoch == session.epoch:
        session.published.recall(answer.versions, answer.deleted)
    result = "failed" if answer.why else "complete"
    return replace(session, recalled=not answer.why), [Count("recalls", result)]


def ask_streamed_list(session: Session) -> Stepped:
    """Begin a streamed list (WatchList); only a first start does."""
    number = session.relists + 1
    relist = Relist(f"{session.id}.{number}", "first")
    session = replace(session, phase=Phase.INITIAL, relist=relist, relists=number, started=False, frames=0)
    deadline = Alarm(DeadlinePassed(), session.rules.watchlist_deadline_s, exact=True)
    return session, [Cancel(Lane.MAIN), Request(Lane.MAIN, Verb.WATCHLIST), deadline]


def ask_watch(session: Session) -> Stepped:
    """Watch from the safe version; what lies between it and the last version read will be shown again."""
    rv = session.versions.safe or ""
    versions = replace(session.versions, seen=rv, deleted=None)
    session = replace(session, phase=Phase.OPENING, versions=versions, frames=0, relist=None)
    return session, [Cancel(Lane.MAIN), Request(Lane.MAIN, Verb.WATCH, rv=rv)]


def ask_next(session: Session) -> Stepped:
    """Do what the session waited for."""
    if session.next is Next.WATCH:
        return ask_watch(session)
    if session.next is Next.STREAMED_LIST and session.streamed:
        return ask_streamed_list(session)
    return ask_list(session, session.reason)


def wait(session: Session, then: Next, at_least: float | None = None) -> Stepped:
    """Back off before `then`; a Retry-After is honoured, since the server asked for it."""
    rules = session.rules
    backoff = min(rules.backoff_max_s, rules.backoff_min_s * 2 ** min(session.failures, 30))
    seconds = backoff if at_least is None else min(max(at_least, rules.backoff_min_s), RETRY_AFTER_MAX_S)
    session = replace(session, phase=Phase.WAITING, next=then, failures=session.failures + 1)
    return session, [Cancel(Lane.MAIN), Alarm(RetryDue(), seconds, exact=at_least is not None)]


def relist(session: Session, reason: str, *, at_once: bool) -> Stepped:
    """Give up the stream and list again; at once only when nothing failed just before."""
    counted: list[Output] = [Count("relists", reason)]
    session = replace(session, reason=reason, instant=0, too_large=0)
    if at_once and session.failures == 0:
        session, outputs = ask_list(replace(session, failures=1), reason)
    else:
        session, outputs = wait(session, Next.LIST)
    return session, counted + outputs


def abort(session: Session, why: str) -> Stepped:
    """Give up a list; what it has published stays true, but nothing may be concluded from it."""
    outputs: list[Output] = [Cancel(Lane.MAIN)]
    if session.started and session.relist is not None:
        session.published.abort_list()
        outputs += [
            Mark(EventType.RELIST_ABORTED, session.epoch, session.relist.list_rv, session.relist, why),
            Count("relist_aborted"),
        ]
    return replace(session, relist=None, started=False), outputs


def owed(session: Session) -> Stepped:
    """Tell where the session resumes, if that has not been told yet: it must be its first record."""
    if not session.resumed:
        return session, []
    return replace(session, resumed=False), [Mark(EventType.RESUMED, session.epoch, session.versions.safe)]


def tell(session: Session) -> Stepped:
    """Publish PROGRESS if the safe version has risen; it may be stored once it is acknowledged."""
    safe = session.versions.safe
    if safe is None or not session.versions.untold:
        return session, []
    session = replace(session, versions=replace(session.versions, told=safe))
    return session, [Mark(EventType.PROGRESS, session.epoch, safe), Checkpoint(session.epoch, safe)]


def lose(session: Session, why: str) -> Stepped:
    """Tell once that coverage is lost; everything up to the safe version is still covered."""
    session, outputs = chain(owed(session), tell)
    if session.lost:
        return session, outputs
    mark = Mark(EventType.COVERAGE_LOST, session.epoch, session.versions.safe, detail=why)
    return replace(session, lost=True), [*outputs, mark, Count("coverage_lost")]


def chain(first: Stepped, *steps: Step) -> Stepped:
    """Run further steps, each `Session -> Stepped`, and gather what all of them put out."""
    session, outputs = first
    for step in steps:
        session, more = step(session)
        outputs = outputs + more
    return session, outputs
