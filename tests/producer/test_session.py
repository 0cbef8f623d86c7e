"""Guarantees: every (phase, input) pair does what the error table of kubernetes.md says (G1, G5).

Whatever a server does, a session never claims to have covered what it has not published, nor ends a list that is not
whole.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kubecdc.records import EventType
from producer import session
from producer.frames import Bookmark, Broken, Item, Object, Page, ServerError
from producer.session import ImpossibleInput
from producer.settings import WatchSettings
from producer.signals import (
    Alarm,
    AuditAnswer,
    AuditDue,
    Back,
    Cancel,
    Checkpoint,
    Count,
    DeadlinePassed,
    Gone,
    Lane,
    Mark,
    Moved,
    ProgressDue,
    Publish,
    PublishAbsent,
    Request,
    RetryDue,
    Start,
    Stop,
    StreamEnded,
    StreamOpened,
    Unreachable,
    Verb,
)
from producer.state import Phase, Session

RULES = WatchSettings(backoff_min_s=1.0, backoff_max_s=8.0)
ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def obj(uid: str, rv: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": uid, "namespace": "default", "resourceVersion": rv}}


def frame(kind: EventType, uid: str, rv: str) -> Object:
    return Object(kind, uid, rv, obj(uid, rv))


def page(rv: str, *items: tuple[str, str], token: str = "") -> Page:
    return Page(rv, token, None, tuple(Item(uid, item_rv, obj(uid, item_rv)) for uid, item_rv in items))


def error(code: int, reason: str = "", message: str = "", retry_after: float | None = None) -> ServerError:
    return ServerError(code, reason, message, (), retry_after)


class Run:
    """A session and everything it has put out."""

    def __init__(self, *, streamed: bool = False, start: str | None = None, rules: WatchSettings = RULES) -> None:
        self.session: Session = session.new("s", rules, streamed=streamed)
        self.last: list[Any] = []
        self.give(Start(start, 1))

    def give(self, *signals: Any) -> Run:
        self.last = []
        for signal in signals:
            self.session, outputs = session.step(self.session, signal)
            self.last += outputs
        return self

    @property
    def phase(self) -> Phase:
        return self.session.phase

    def of(self, kind: type[Any]) -> list[Any]:
        return [out for out in self.last if isinstance(out, kind)]

    def marks(self) -> list[tuple[str, str | None]]:
        return [(mark.type.value, mark.rv) for mark in self.of(Mark)]

    def requests(self) -> list[tuple[Verb, str]]:
        return [(request.verb, request.rv or request.token) for request in self.of(Request)]

    def alarm(self) -> float:
        return next(alarm.seconds for alarm in self.of(Alarm) if isinstance(alarm.rings, RetryDue))


def live(rv: str = "10", *items: tuple[str, str]) -> Run:
    """A session that listed at `rv` and has an open watch."""
    return Run().give(page(rv, *items), StreamOpened())


# --- start and lists ------------------------------------------------------------------------------------------------


def test_a_first_start_lists_and_watches_from_the_version_of_the_list() -> None:
    run = Run()
    assert run.requests() == [(Verb.LIST, "")]
    run.give(page("10", ("a", "3"), token="t"))
    assert run.marks() == [("RELIST_START", None)]
    assert run.requests() == [(Verb.LIST, "t")]
    run.give(page("10", ("b", "9")))
    assert run.marks() == [("RELIST_END", "10")]
    assert run.of(Checkpoint) == [Checkpoint(1, "10")]
    assert run.requests() == [(Verb.WATCH, "10")]


def test_a_stored_position_is_watched_from_and_told_when_the_watch_is_accepted() -> None:
    run = Run(start="22")
    assert run.requests() == [(Verb.WATCH, "22")]
    assert run.marks() == []
    assert run.give(StreamOpened()).marks() == [("RESUMED", "22")]
    assert run.give(StreamEnded(9.0, clean=True), StreamOpened()).marks() == []


def test_a_refused_resume_is_told_before_the_list_that_follows() -> None:
    run = Run(start="22").give(error(410, "Expired"))
    assert run.requests() == [(Verb.LIST, "")]
    assert run.give(page("30")).marks() == [("RESUMED", "22"), ("RELIST_START", "22"), ("RELIST_END", "30")]


def test_an_unreachable_list_leaves_nothing_and_is_asked_for_again() -> None:
    run = Run().give(Unreachable("refused"))
    assert (run.phase, run.marks(), run.alarm()) == (Phase.WAITING, [], 1.0)
    run.give(RetryDue(), Unreachable("refused"))
    assert run.alarm() == 2.0
    for _ in range(5):
        run.give(RetryDue(), Unreachable("refused"))
    assert run.alarm() == 8.0


@pytest.mark.parametrize(
    "fault",
    [
        error(500, "InternalError"),
        error(410, "Expired"),
        Unreachable("torn"),
        Broken("not JSON"),
        page("11", ("b", "9")),
    ],
)
def test_a_fault_within_a_list_aborts_it_and_starts_over_without_the_token(fault: Any) -> None:
    run = Run().give(page("10", ("a", "3"), token="t"))
    run.give(fault)
    assert "RELIST_ABORTED" in [kind for kind, _ in run.marks()]
    assert "RELIST_END" not in [kind for kind, _ in run.marks()]
    assert run.give(RetryDue()).requests() == [(Verb.LIST, "")]


def test_an_older_list_is_refused_and_a_restore_needs_confirmation() -> None:
    run = Run(start="22").give(error(410, "Expired"))
    run.give(page("15", ("a", "3")))
    assert (run.phase, run.marks(), run.of(Publish)) == (Phase.WAITING, [], [])
    run.give(RetryDue(), page("30", ("a", "3")))
    assert run.session.epoch == 1
    assert run.session.older == 0


def test_lists_that_stay_older_begin_a_new_epoch() -> None:
    run = Run(start="22").give(error(410, "Expired"))
    for _ in range(2):
        run.give(page("15"))
        run.give(RetryDue())
    run.give(page("15", ("a", "3")))
    start = run.of(Mark)[1]
    assert (start.type, start.epoch, start.relist.reason) == (EventType.RELIST_START, 2, "epoch")
    assert start.relist.previous_rv == "22"
    assert run.of(Checkpoint) == [Checkpoint(2, "15")]
    assert run.requests() == [(Verb.WATCH, "15")]


def test_an_item_older_than_known_proves_a_restore_too() -> None:
    run = live("10").give(frame(ADDED, "a", "20"), error(410, "Expired"))
    for _ in range(2):
        run.give(page("99", ("a", "5")))
        assert run.phase is Phase.WAITING
        run.give(RetryDue())
    run.give(page("99", ("a", "5")))
    assert run.session.epoch == 2


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["Expired", "Gone"])
@pytest.mark.parametrize("opened", [True, False])
def test_410_lists_again_at_once(reason: str, opened: bool) -> None:
    run = live() if opened else Run().give(page("10"))
    run.give(error(410, reason))
    assert run.requests() == [(Verb.LIST, "")]


def test_410_again_and_again_backs_off() -> None:
    run = live().give(error(410, "Expired"), page("11"), error(410, "Expired"))
    assert run.phase is Phase.WAITING


@pytest.mark.parametrize("opened", [True, False])
def test_429_waits_as_long_as_it_is_told_and_never_lists(opened: bool) -> None:
    run = live() if opened else Run().give(page("10"))
    run.give(error(429, "TooManyRequests", retry_after=7.0))
    assert run.of(Alarm) == [Alarm(RetryDue(), 7.0, exact=True)]
    assert run.give(RetryDue()).requests() == [(Verb.WATCH, "10")]


def test_an_endless_retry_after_is_not_obeyed_for_ever() -> None:
    assert Run().give(error(429, retry_after=10.0**9)).alarm() == 600.0


@pytest.mark.parametrize(
    "refusal",
    [
        ServerError(504, "Timeout", "", ("ResourceVersionTooLarge",), 1.0),
        error(504, "Timeout", "Too large resource version: 9, current: 8"),
    ],
)
def test_a_version_that_the_server_lacks_ends_in_a_list(refusal: ServerError) -> None:
    run = live().give(StreamEnded(9.0, clean=True), refusal).give(RetryDue())
    assert run.requests() == [(Verb.WATCH, "10")]
    run.give(refusal, RetryDue())
    assert run.requests() == [(Verb.LIST, "")]


@pytest.mark.parametrize("code", [401, 404, 500, 502, 503, 504])
def test_a_refused_watch_is_tried_again_from_the_same_version(code: int) -> None:
    run = Run().give(page("10"), error(code))
    assert run.marks() == [("RELIST_START", None), ("RELIST_END", "10")]
    assert run.give(RetryDue()).requests() == [(Verb.WATCH, "10")]


@pytest.mark.parametrize("inner", [error(500, "InternalError"), error(500, "StoreReadError"), error(0), error(422)])
def test_an_error_inside_the_stream_lists_again_after_a_wait(inner: ServerError) -> None:
    run = live().give(inner)
    assert run.phase is Phase.WAITING
    assert run.give(RetryDue()).requests() == [(Verb.LIST, "")]


def test_403_is_told_once_and_tried_for_ever() -> None:
    run = live().give(frame(ADDED, "a", "12"), StreamEnded(9.0, clean=True))
    run.give(error(403, "Forbidden"))
    assert run.marks() == [("PROGRESS", "12"), ("COVERAGE_LOST", "12")]
    run.give(RetryDue(), error(403, "Forbidden"))
    assert run.marks() == []
    run.give(RetryDue(), StreamOpened(), Bookmark("13", initial_events_end=False))
    assert run.marks() == [("PROGRESS", "13")]
    run.give(StreamEnded(9.0, clean=True), error(403, "Forbidden"))
    assert run.marks() == [("COVERAGE_LOST", "13")]


def test_403_at_the_start_is_loss_from_nothing() -> None:
    run = Run().give(error(403, "Forbidden"))
    assert run.marks() == [("COVERAGE_LOST", None)]
    assert run.give(RetryDue(), page("10")).marks() == [("RELIST_START", None), ("RELIST_END", "10")]


# --- frames ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [frame(MODIFIED, "a", "19"), Bookmark("19", initial_events_end=False), Broken("x")])
def test_a_frame_that_goes_back_or_cannot_be_read_is_not_used(bad: Any) -> None:
    run = live().give(frame(ADDED, "a", "20"))
    run.give(bad)
    assert run.of(Publish) == []
    assert run.requests() == [(Verb.LIST, "")]
    assert run.session.versions.safe == "20"


def test_after_a_delete_the_safe_version_stays_below_until_something_greater_comes() -> None:
    run = live("10").give(frame(ADDED, "a", "12"), frame(DELETED, "b", "20"), frame(DELETED, "c", "20"))
    assert run.session.versions.safe == "12"
    run.give(StreamEnded(9.0, clean=True))
    assert run.requests() == [(Verb.WATCH, "12")]
    run.give(StreamOpened(), *(frame(DELETED, uid, "20") for uid in "bcd"), frame(DELETED, "e", "25"))
    assert run.session.versions.safe == "20"
    assert run.give(frame(MODIFIED, "a", "25")).session.versions.safe == "20"
    assert run.give(Bookmark("25", initial_events_end=False)).session.versions.safe == "25"


def test_progress_is_told_by_bookmarks_and_by_the_timer_only_when_it_rose() -> None:
    run = live("10")
    assert run.give(ProgressDue()).last == []
    assert run.give(frame(ADDED, "a", "12")).marks() == []
    assert run.give(ProgressDue()).last == [Mark(EventType.PROGRESS, 1, "12"), Checkpoint(1, "12")]
    assert run.give(ProgressDue()).last == []
    assert run.give(Bookmark("15", initial_events_end=False)).marks() == [("PROGRESS", "15")]


# --- ends of streams ------------------------------------------------------------------------------------------------


def test_a_regular_end_is_followed_by_a_watch_at_once() -> None:
    assert live().give(StreamEnded(300.0, clean=True)).requests() == [(Verb.WATCH, "10")]


def test_empty_streams_that_end_at_once_are_a_410_in_disguise() -> None:
    run = live()
    for _ in range(2):
        run.give(StreamEnded(0.01, clean=True), RetryDue())
        assert run.requests() == [(Verb.WATCH, "10")]
        run.give(StreamOpened())
    run.give(StreamEnded(0.01, clean=True), RetryDue())
    assert run.requests() == [(Verb.LIST, "")]


def test_torn_connections_are_no_410() -> None:
    run = live()
    for _ in range(9):
        run.give(StreamEnded(0.01, clean=False), RetryDue())
        assert run.requests() == [(Verb.WATCH, "10")]
        run.give(StreamOpened())


# --- streamed lists -------------------------------------------------------------------------------------------------


def test_a_streamed_list_ends_with_the_annotated_bookmark_and_goes_on_as_a_watch() -> None:
    run = Run(streamed=True)
    assert run.requests() == [(Verb.WATCHLIST, "")]
    run.give(StreamOpened(), frame(ADDED, "b", "9"), frame(ADDED, "a", "3"), frame(MODIFIED, "a", "12"))
    assert [out.type for out in run.of(Publish)] == [EventType.LISTED, EventType.LISTED, MODIFIED]
    assert run.give(Bookmark("12", initial_events_end=False)).last == []
    run.give(Bookmark("13", initial_events_end=True))
    assert run.marks() == [("RELIST_END", "13")]
    assert (run.phase, run.session.versions.safe) == (Phase.LIVE, "13")
    assert run.give(frame(ADDED, "c", "14")).of(Publish)[0].type is ADDED


@pytest.mark.parametrize("refusal", [error(422, "Invalid"), error(400), error(406)])
def test_a_server_without_streamed_lists_is_listed_in_pages(refusal: ServerError) -> None:
    assert Run(streamed=True).give(refusal).requests() == [(Verb.LIST, "")]


def test_a_streamed_list_without_end_is_given_up_and_never_tried_again() -> None:
    run = Run(streamed=True).give(StreamOpened(), frame(ADDED, "a", "3"))
    run.give(DeadlinePassed())
    assert run.marks() == [("RELIST_ABORTED", None)]
    assert run.requests() == [(Verb.LIST, "")]
    assert run.give(Unreachable("x"), RetryDue()).requests() == [(Verb.LIST, "")]


def test_a_streamed_list_that_breaks_off_is_no_list() -> None:
    run = Run(streamed=True).give(StreamOpened(), frame(ADDED, "a", "3"), StreamEnded(0.2, clean=False))
    assert run.marks() == [("RELIST_START", None), ("RELIST_ABORTED", None)]
    assert run.give(RetryDue()).requests() == [(Verb.WATCHLIST, "")]
    run.give(StreamOpened(), StreamEnded(0.2, clean=False), RetryDue())
    assert run.requests() == [(Verb.LIST, "")]


# --- orders ---------------------------------------------------------------------------------------------------------


def test_a_kind_that_is_gone_is_parked_and_watched_again_from_where_it_was() -> None:
    run = live().give(Gone())
    assert (run.phase, run.marks()) == (Phase.PARKED, [("COVERAGE_LOST", "10")])
    assert run.give(Gone(), RetryDue(), AuditDue()).last == []
    assert run.give(Back()).requests() == [(Verb.WATCH, "10")]


def test_a_kind_that_moved_is_watched_in_its_new_version() -> None:
    run = live().give(Moved())
    assert (run.marks(), run.requests()) == ([], [(Verb.WATCH, "10")])


def test_stop_tells_what_was_not_told_yet() -> None:
    run = live().give(frame(ADDED, "a", "12"), Stop())
    assert (run.phase, run.marks()) == (Phase.STOPPED, [("PROGRESS", "12")])
    assert Run().give(page("10", ("a", "3"), token="t"), Stop()).marks()[-1] == ("RELIST_ABORTED", "10")


# --- audits ---------------------------------------------------------------------------------------------------------


def test_an_audit_speaks_only_about_versions_that_the_stream_has_passed() -> None:
    run = live("10", ("x", "5"), ("y", "7")).give(AuditDue())
    assert run.of(Request) == [Request(Lane.AUDIT, Verb.LIST)]
    run.give(AuditAnswer(page("25", ("y", "24"), ("z", "22"))))
    assert run.of(PublishAbsent) == []
    run.give(frame(MODIFIED, "y", "24"))
    assert run.of(PublishAbsent) == []
    run.give(Bookmark("30", initial_events_end=False))
    assert [(out.uid, out.rv) for out in run.of(PublishAbsent)] == [("x", "25")]
    assert [out.item.uid for out in run.of(Publish)] == ["z"]
    assert run.of(Publish)[0].relist.reason == "audit"


def test_what_happens_while_an_audit_is_under_way_is_no_drift() -> None:
    run = live("10", ("x", "5"), ("y", "7")).give(AuditDue(), AuditAnswer(page("25", ("y", "7"))))
    run.give(frame(DELETED, "x", "20"), Bookmark("30", initial_events_end=False))
    assert run.of(PublishAbsent) == []
    assert Count("audits", "complete") in run.last


def test_a_list_replaces_an_audit() -> None:
    run = live("10", ("x", "5")).give(AuditDue(), error(410, "Expired"))
    assert Cancel(Lane.AUDIT) in run.last
    assert not run.session.auditing


def test_audits_that_stay_older_begin_a_new_epoch_with_the_list_in_hand() -> None:
    run = live("1200", ("t", "1100"))
    for _ in range(2):
        run.give(AuditDue(), AuditAnswer(page("1005", ("n", "1002"))))
        assert run.phase is Phase.LIVE
    run.give(AuditDue(), AuditAnswer(page("1005", ("n", "1002"))))
    assert [(mark.type, mark.epoch) for mark in run.of(Mark)] == [
        (EventType.RELIST_START, 2),
        (EventType.RELIST_END, 2),
    ]
    assert run.requests()[-1] == (Verb.WATCH, "1005")


# --- the table ------------------------------------------------------------------------------------------------------


def test_what_is_not_in_the_table_raises() -> None:
    with pytest.raises(ImpossibleInput):
        session.step(session.new("s", RULES, streamed=False), StreamOpened())
    with pytest.raises(ImpossibleInput):
        live().give(page("11"))


def test_a_handler_that_leads_elsewhere_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    row = session.TABLE[(Phase.LIVE, Stop)]
    monkeypatch.setitem(session.TABLE, (Phase.LIVE, Stop), replace(row, leads_to=(Phase.LIVE,)))
    with pytest.raises(ImpossibleInput):
        live().give(Stop())


def test_the_diagram_in_the_docs_is_that_of_the_table() -> None:
    text = (Path(__file__).parents[2] / "docs" / "session.md").read_text()
    assert f"```mermaid\n{session.diagram()}```" in text


# --- a server that does what it likes -------------------------------------------------------------------------------


@dataclass
class Server:
    """An API server's history of one resource; shared deletes happen at one version."""

    version: int = 1
    compacted: int = 0
    history: list[tuple[int, EventType, str]] = field(default_factory=list)
    objects: dict[str, int] = field(default_factory=dict)

    def upsert(self, uid: str) -> None:
        self.version += 1
        kind = MODIFIED if uid in self.objects else ADDED
        self.objects[uid] = self.version
        self.history.append((self.version, kind, uid))

    def delete(self, uids: list[str]) -> None:
        self.version += 1
        for uid in uids:
            del self.objects[uid]
            self.history.append((self.version, DELETED, uid))

    def state_at(self, version: int) -> dict[str, int]:
        state: dict[str, int] = {}
        for rv, kind, uid in self.history:
            if rv <= version:
                if kind is DELETED:
                    state.pop(uid, None)
                else:
                    state[uid] = rv
        return state


REFUSALS = [error(500), error(410, "Expired"), error(403), error(429), error(404), Unreachable("torn")]
ENDS = [
    StreamEnded(9.0, clean=True),
    StreamEnded(0.1, clean=True),
    StreamEnded(0.1, clean=False),
    error(410, "Gone"),
    error(500, "InternalError"),
    error(429, "TooManyRequests"),
    Broken("x"),
]


class AnyServer(RuleBasedStateMachine):
    """Drives one session with a server that writes, refuses, cuts, compacts and lags at will."""

    def __init__(self) -> None:
        super().__init__()
        self.server = Server()
        self.session = session.new("s", RULES, streamed=False)
        self.asked: dict[Lane, Request | None] = {Lane.MAIN: None, Lane.AUDIT: None}
        self.pages: dict[Lane, list[Page]] = {Lane.MAIN: [], Lane.AUDIT: []}
        self.queue: list[tuple[int, EventType, str]] | None = None
        self.published: set[tuple[str, str, EventType]] = set()
        self.items: dict[str, dict[str, str]] = {}
        self.open: str | None = None
        self.base = 0
        self.told = 0
        self.waiting = False
        self.give(Start(None, 1))

    def give(self, signal: Any) -> None:
        self.session, outputs = session.step(self.session, signal)
        for out in outputs:
            self.take(out)

    def take(self, out: Any) -> None:
        match out:
            case Cancel():
                self.asked[out.lane] = None
                self.pages[out.lane] = []
                if out.lane is Lane.MAIN:
                    self.queue = None
            case Request():
                assert self.asked[out.lane] is None
                self.asked[out.lane] = out
            case Alarm(rings=RetryDue()):
                self.waiting = True
            case Publish():
                self.published.add((out.item.uid, out.item.rv, out.type))
                if out.type is EventType.LISTED and out.relist.reason != "audit":
                    assert out.relist.id == self.open
                    self.items[out.relist.id][out.item.uid] = out.item.rv
            case PublishAbsent():
                raise AssertionError("this server loses nothing, so an audit must find nothing")
            case Mark():
                self.marked(out)
            case Checkpoint():
                assert int(out.rv) <= self.told

    def marked(self, mark: Mark) -> None:
        assert mark.epoch == 1
        if mark.type is EventType.RELIST_START:
            assert self.open is None
            self.open = mark.relist.id
            self.items[self.open] = {}
        elif mark.type is EventType.RELIST_ABORTED:
            assert mark.relist.id == self.open
            self.open = None
        elif mark.type is EventType.RELIST_END:
            truth = {uid: str(rv) for uid, rv in self.server.state_at(int(mark.rv)).items()}
            assert self.items[mark.relist.id] == truth
            assert self.base <= int(mark.rv)
            self.open, self.base, self.told = None, int(mark.rv), int(mark.rv)
        elif mark.rv is not None:
            assert mark.type in (EventType.PROGRESS, EventType.COVERAGE_LOST)
            self.covered(int(mark.rv))
            self.told = int(mark.rv)

    def covered(self, upto: int) -> None:
        for rv, kind, uid in self.server.history:
            if self.base < rv <= upto:
                assert (uid, str(rv), kind) in self.published, f"{kind} of {uid} at {rv} is claimed and was not sent"

    # --- the server ---

    @rule(uid=st.sampled_from("abcde"))
    def write(self, uid: str) -> None:
        self.server.upsert(uid)
        self.stream()

    @rule(count=st.integers(1, 3))
    def remove(self, count: int) -> None:
        if uids := sorted(self.server.objects)[:count]:
            self.server.delete(uids)
            self.stream()

    def stream(self) -> None:
        if self.queue is not None:
            self.queue += [entry for entry in self.server.history if entry[0] == self.server.version]

    @rule()
    def compact(self) -> None:
        self.server.compacted = self.server.version

    # --- its answers ---

    def wants(self, verb: Verb) -> bool:
        request = self.asked[Lane.MAIN]
        return request is not None and request.verb is verb

    def next_page(self, lane: Lane) -> Page:
        request = self.asked[lane]
        assert request is not None
        if not request.token:
            state = sorted(self.server.state_at(self.server.version).items())
            chunks = [state[i : i + 2] for i in range(0, len(state), 2)] or [[]]
            rv = str(self.server.version)
            last = len(chunks) - 1
            self.pages[lane] = [
                page(rv, *((uid, str(at)) for uid, at in chunk), token="" if number == last else f"t{number}")
                for number, chunk in enumerate(chunks)
            ]
        self.asked[lane] = None
        return self.pages[lane].pop(0)

    @rule()
    def proceed(self) -> None:
        """What a healthy server and a clock would do next."""
        if self.wants(Verb.LIST):
            self.give(self.next_page(Lane.MAIN))
        elif self.wants(Verb.WATCH):
            self.open_watch()
        elif self.queue is None and self.waiting:
            self.waiting = False
            self.give(RetryDue())

    def open_watch(self) -> None:
        start = int(self.asked[Lane.MAIN].rv)
        self.asked[Lane.MAIN] = None
        if start < self.server.compacted:
            self.give(error(410, "Expired"))
            return
        self.queue = [entry for entry in self.server.history if entry[0] > start]
        self.give(StreamOpened())

    @rule()
    def proceed_until_open(self) -> None:
        for _ in range(20):
            if self.queue is None:
                self.proceed()

    @precondition(lambda self: bool(self.queue))
    @rule(count=st.integers(1, 4))
    def send_frames(self, count: int) -> None:
        for _ in range(count):
            if not self.queue:
                return
            rv, kind, uid = self.queue.pop(0)
            self.give(frame(kind, uid, str(rv)))
            self.the_safe_version_is_covered()

    @precondition(lambda self: self.queue == [])
    @rule()
    def send_bookmark(self) -> None:
        self.give(Bookmark(str(self.server.version), initial_events_end=False))

    @rule(fault=st.sampled_from([*REFUSALS, *ENDS, "older", "gone"]))
    def disturb(self, fault: Any) -> None:
        if fault == "gone":
            self.give(Gone())
            self.server.upsert("e")
            self.give(Back())
        elif fault == "older":
            self.send_older_list()
        elif self.queue is not None and fault in ENDS:
            self.queue = None
            self.give(fault)
        elif self.asked[Lane.MAIN] is not None and fault in REFUSALS:
            self.asked[Lane.MAIN] = None
            self.give(fault)

    def send_older_list(self) -> None:
        """A lagging server, once: it answers with the state before the last version that the session knows."""
        known, request = self.session.versions.known, self.asked[Lane.MAIN]
        if known is None or known == "1" or not self.wants(Verb.LIST) or request.token or self.session.older:
            return
        rv = int(known) - 1
        self.asked[Lane.MAIN] = None
        self.give(page(str(rv), *((uid, str(at)) for uid, at in self.server.state_at(rv).items())))

    # --- alarms, audits, orders ---

    @rule(alarm=st.sampled_from([ProgressDue(), AuditDue(), Moved(), DeadlinePassed()]))
    def ring(self, alarm: Any) -> None:
        self.give(alarm)

    @precondition(lambda self: self.asked[Lane.AUDIT] is not None)
    @rule()
    def answer_audit(self) -> None:
        self.give(AuditAnswer(self.next_page(Lane.AUDIT)))

    @invariant()
    def something_is_under_way(self) -> None:
        assert self.asked[Lane.MAIN] is not None or self.queue is not None or self.waiting

    @invariant()
    def the_safe_version_is_covered(self) -> None:
        if self.session.versions.safe is not None:
            self.covered(int(self.session.versions.safe))


AnyServer.TestCase.settings = settings(
    max_examples=150, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)
TestAnyServer = AnyServer.TestCase
