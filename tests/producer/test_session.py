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
from producer.frames import Bookmark, Broken, Page
from producer.session import ImpossibleInput
from producer.signals import (
    Alarm,
    AuditAnswer,
    AuditDue,
    Back,
    Cancel,
    Checkpoint,
    DeadlinePassed,
    Gone,
    Lane,
    Mark,
    Moved,
    Overtaken,
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
from producer.state import Phase
from tests.producer.scripted import ADDED, DELETED, MODIFIED, RULES, Run, error, frame, live, page

# --- orders ---


def test_a_kind_that_is_gone_is_parked_and_watched_again_from_where_it_was() -> None:
    run = live().give(Gone())
    assert (run.phase, run.marks()) == (Phase.PARKED, [("COVERAGE_LOST", "10")])
    assert run.give(Gone(), RetryDue(), AuditDue()).last == []
    assert run.give(Back()).requests() == [(Verb.WATCH, "10")]


def test_a_kind_that_moved_is_watched_in_its_new_version() -> None:
    run = live().give(Moved())
    assert (run.marks(), run.requests()) == ([], [(Verb.WATCH, "10")])


def overtaken(run: Run) -> Run:
    return run.give(Overtaken("7", 2))


def test_an_epoch_that_another_producer_has_begun_is_taken_over_from_its_position() -> None:
    """Else all that this one says would be stale from then on, and nothing would tell (G1)."""
    run = overtaken(live().give(frame(ADDED, "a", "12")))
    assert (run.phase, run.session.epoch, run.requests()) == (Phase.OPENING, 2, [(Verb.WATCH, "7")])
    assert run.marks() == [], "nothing of the epoch before may be told as progress of this one"
    run.give(StreamOpened(), frame(ADDED, "a", "8"), ProgressDue())
    assert run.marks() == [("RESUMED", "7"), ("PROGRESS", "8")]
    assert {out.epoch for out in run.last if isinstance(out, Mark | Publish | Checkpoint)} == {2}


def test_an_epoch_in_which_nobody_has_come_anywhere_is_taken_over_with_a_list() -> None:
    run = live().give(frame(ADDED, "a", "12"), Overtaken(None, 2))
    assert (run.phase, run.requests(), run.marks()) == (Phase.LISTING, [(Verb.LIST, "")], [])
    run.give(page("7", ("a", "3")))
    assert run.marks() == [("RELIST_START", None), ("RELIST_END", "7")]
    assert {out.epoch for out in run.last if isinstance(out, Mark | Publish | Checkpoint)} == {2}


def test_a_list_under_way_is_given_up_for_a_later_epoch() -> None:
    run = overtaken(Run().give(page("10", ("a", "3"), token="t")))
    assert [(out.type, out.epoch) for out in run.last if isinstance(out, Mark)] == [(EventType.RELIST_ABORTED, 1)]
    assert run.requests() == [(Verb.WATCH, "7")]


def test_a_later_epoch_is_waited_for_where_the_kind_is_gone() -> None:
    run = overtaken(live().give(Gone()))
    assert (run.phase, run.requests()) == (Phase.PARKED, [])
    run.give(Back(), StreamOpened())
    assert (run.session.epoch, run.marks(), run.requests()) == (2, [("RESUMED", "7")], [(Verb.WATCH, "7")])


@pytest.mark.parametrize("epoch", [1, 2])
def test_an_epoch_that_is_not_later_is_nothing_new(epoch: int) -> None:
    run = overtaken(live())
    before = run.session
    assert (run.give(Overtaken("5", epoch)).last, run.session) == ([], before)


def test_stop_tells_what_was_not_told_yet() -> None:
    run = live().give(frame(ADDED, "a", "12"), Stop())
    assert (run.phase, run.marks()) == (Phase.STOPPED, [("PROGRESS", "12")])
    assert Run().give(page("10", ("a", "3"), token="t"), Stop()).marks()[-1] == ("RELIST_ABORTED", "10")


# --- the table ---


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


# --- a server that does what it likes ---


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
        self.waiting, self.epoch = False, 1
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
        assert mark.epoch == self.epoch
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
            assert mark.type in (EventType.PROGRESS, EventType.COVERAGE_LOST, EventType.RESUMED)
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

    @precondition(lambda self: self.server.version > 0)
    @rule()
    def overtake(self) -> None:
        """Another producer has begun an epoch and read everything up to now."""
        self.give(Overtaken(str(self.server.version), self.epoch + 1))  # a list given up is of the epoch before
        self.epoch, self.base, self.told = self.epoch + 1, self.server.version, self.server.version

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
