"""Which inputs of a session mean that its server is heard: events, bookmarks, pages, watches that stay open."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kubecdc.unheard import Answered, Asked, Heard, Left, Paused, Refused, Serving
from producer import listening
from producer.frames import Bookmark, Broken
from producer.listening import Outstanding, sense, sense_kafka
from producer.signals import (
    AuditAnswer,
    Gone,
    Lane,
    Moved,
    ProgressDue,
    Request,
    Stop,
    StreamEnded,
    StreamOpened,
    Unreachable,
    Verb,
)
from tests.producer.scripted import ADDED, Run, error, frame, held, live, page


def heard(run: Run, signal: Any) -> Any:
    before = run.session
    run.give(signal)
    return sense(before, run.session, signal, 7.0)


def test_events_and_bookmarks_are_heard() -> None:
    run = live()
    assert heard(run, frame(ADDED, "a", "11")) == Heard(7.0)
    assert heard(run, Bookmark("12", False)) == Heard(7.0)


def test_pages_and_opened_watches_are_believed_when_they_last() -> None:
    run = Run()
    assert heard(run, page("10")) == Serving(7.0)
    assert heard(run, StreamOpened()) == Serving(7.0)


def test_items_of_a_streamed_list_are_like_pages() -> None:
    run = Run(streamed=True)
    assert heard(run, StreamOpened()) == Serving(7.0)
    assert heard(run, frame(ADDED, "a", "3")) == Serving(7.0)
    broken_off = heard(run, StreamEnded(60.0, True))
    assert isinstance(broken_off, Refused)
    assert broken_off.reason == "broken-off"


@pytest.mark.parametrize("clean", [True, False])
def test_a_watch_that_ends_at_once_without_an_event_is_not_heard(*, clean: bool) -> None:
    closed = heard(live(), StreamEnded(0.1, clean))
    assert isinstance(closed, Refused)
    assert (closed.reason, closed.since) == ("closed", None)


def test_a_watch_that_brought_something_may_end() -> None:
    assert heard(live().give(frame(ADDED, "a", "11")), StreamEnded(0.1, False)) is None


def test_a_quiet_watch_may_end_after_its_time() -> None:
    assert heard(live(), StreamEnded(300.0, True)) is None


def test_a_silent_watch_of_a_server_without_bookmarks_is_quiet() -> None:
    run = live()
    assert heard(run, StreamEnded(150.0, False)) is None
    assert heard(run, StreamOpened()) == Serving(7.0)


def test_a_watch_that_is_silent_where_bookmarks_came_is_mute_since_it_was_opened() -> None:
    run = live().give(Bookmark("11", False), StreamEnded(300.0, True), StreamOpened())
    mute = heard(run, StreamEnded(150.0, False))
    assert isinstance(mute, Refused)
    assert (mute.reason, mute.since) == ("mute", 7.0 - 150.0)
    assert heard(run, StreamOpened()) == Answered(7.0), "to open it proves nothing"
    assert heard(run, Bookmark("12", False)) == Heard(7.0)


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (429, "TooManyRequests", "storage is (re)initializing", "throttled"),
        (503, "", "", "unavailable"),
        (500, "InternalError", "conversion webhook for x failed", "unavailable"),
        (401, "Unauthorized", "", "unauthorized"),
        (403, "Forbidden", "", "forbidden"),
        (404, "NotFound", "", "not-found"),
        (400, "BadRequest", "", "refused"),
    ],
)
def test_each_refusal_has_its_reason(code: int, reason: str, message: str, expected: str) -> None:
    refused = heard(live().give(StreamEnded(300.0, True)), error(code, reason, message))
    assert isinstance(refused, Refused)
    assert refused.reason == expected
    assert str(code) in refused.detail


def test_of_messages_only_known_words_are_shown() -> None:
    """They may quote objects."""
    secret = "storage is (re)initializing, value: hunter2"
    refused = listening.refused(error(429, "TooManyRequests", secret), 1.0)
    assert isinstance(refused, Refused)
    assert "storage is (re)initializing: check the conversion webhook" in refused.detail
    assert "hunter2" not in refused.detail


def test_a_410_is_an_answer() -> None:
    assert heard(live(), error(410, "Expired")) == Answered(7.0)


@pytest.mark.parametrize(
    ("why", "reason"),
    [
        ("SSLError: [SSL: WRONG_VERSION_NUMBER]", "tls"),
        ("NameResolutionError: x", "dns"),
        ("ReadTimeoutError: x", "timeout"),
        ("ConnectTimeoutError: x", "timeout"),
        ("NewConnectionError: x", "connection"),
        ("ProtocolError: RemoteDisconnected", "broken-off"),
        ("token file t cannot be read", "unreachable"),
    ],
)
def test_each_failure_has_its_reason_and_says_what_to_do(why: str, reason: str) -> None:
    refused = heard(live().give(StreamEnded(300.0, True)), Unreachable(why))
    assert isinstance(refused, Refused)
    assert refused.reason == reason
    assert refused.detail.startswith(f"{why}: check ")


def test_what_cannot_be_read_is_not_heard() -> None:
    refused = heard(live(), Broken("not JSON"))
    assert isinstance(refused, Refused)
    assert refused.reason == "broken"


def test_who_is_gone_or_stops_need_not_be_heard() -> None:
    assert heard(live(), Gone()) == Left(7.0)
    assert heard(live(), Stop()) == Left(7.0)


@pytest.mark.parametrize("signal", [ProgressDue(), Moved(), AuditAnswer(error(503)), AuditAnswer(page("10"))])
def test_nothing_else_says_anything(signal: Any) -> None:
    """An audit's list comes once an hour: neither its page nor its refusal says whether the watch is heard."""
    assert heard(live(), signal) is None


def test_the_log_is_asked_as_well_and_then_the_server_is_not_waited_for() -> None:
    assert listening.asked(Request(Lane.MAIN, Verb.RECALL), 3.0) == Paused(3.0)
    assert listening.asked(Request(Lane.MAIN, Verb.WATCH, rv="1"), 3.0) == Asked(3.0)
    run = Run(recalls=True, start="5").give(error(410, "Expired"))
    assert run.requests() == [(Verb.RECALL, "")]
    assert heard(run, held()) == Answered(7.0)


def test_kafka_is_heard_when_it_acknowledges() -> None:
    waiting = Outstanding(5, 10)
    assert sense_kafka(waiting, Outstanding(5, 12), 7.0) == Heard(7.0)
    assert sense_kafka(waiting, Outstanding(4, 10), 7.0) == Heard(7.0), "a position was acknowledged"
    assert sense_kafka(waiting, waiting, 7.0) == Asked(7.0)
    assert sense_kafka(waiting, replace(waiting, waiting=9), 7.0) == Asked(7.0)
    assert sense_kafka(Outstanding(), Outstanding(), 7.0) == Answered(7.0), "nobody waits"
