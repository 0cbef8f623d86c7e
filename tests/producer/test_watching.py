"""Guarantees: each row of kubernetes.md's error table for watches and streamed lists has the answer it must have."""

from __future__ import annotations

from typing import Any

import pytest

from kubecdc.records import EventType
from producer.frames import Bookmark, Broken, ServerError
from producer.signals import (
    Alarm,
    Count,
    DeadlinePassed,
    Publish,
    RetryDue,
    StreamEnded,
    StreamOpened,
    Unreachable,
    Verb,
)
from producer.state import Phase
from tests.producer.scripted import ADDED, MODIFIED, Run, error, frame, live, page


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


@pytest.mark.parametrize("bad", [frame(MODIFIED, "a", "19"), Bookmark("19", initial_events_end=False), Broken("x")])
def test_a_frame_that_goes_back_or_cannot_be_read_is_not_used(bad: Any) -> None:
    run = live().give(frame(ADDED, "a", "20"))
    run.give(bad)
    assert run.of(Publish) == []
    assert run.requests() == [(Verb.LIST, "")]
    assert run.session.versions.safe == "20"


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


def test_a_streamed_list_that_is_only_long_may_go_on() -> None:
    run = Run(streamed=True).give(StreamOpened(), *(frame(ADDED, f"u{number}", "3") for number in range(600)))
    run.give(DeadlinePassed())
    assert run.of(Alarm) == [Alarm(DeadlinePassed(), 30.0, exact=True)]
    assert run.give(DeadlinePassed()).requests() == [(Verb.LIST, "")]


def test_a_streamed_list_that_breaks_off_is_no_list() -> None:
    run = Run(streamed=True).give(StreamOpened(), frame(ADDED, "a", "3"), StreamEnded(0.2, clean=False))
    assert run.marks() == [("RELIST_START", None), ("RELIST_ABORTED", None)]
    assert run.give(RetryDue()).requests() == [(Verb.WATCHLIST, "")]
    run.give(StreamOpened(), StreamEnded(0.2, clean=False), RetryDue())
    assert run.requests() == [(Verb.LIST, "")]


def test_a_watch_that_never_says_anything_is_mute_only_where_bookmarks_are_known() -> None:
    run = live()
    run.give(StreamEnded(150.0, clean=False))
    assert run.session.silent == 1
    assert not run.session.mute
    assert run.requests() == [(Verb.WATCH, "10")]
    run.give(StreamOpened(), Bookmark("12", initial_events_end=False), StreamEnded(90.0, clean=False))
    assert not run.session.mute
    run.give(StreamOpened(), StreamEnded(150.0, clean=False))
    assert run.session.mute
    assert [count.what for count in run.of(Count)] == ["silent_watches"]
    run.give(StreamOpened(), frame(ADDED, "a", "13"))
    assert not run.session.mute
