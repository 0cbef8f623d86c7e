"""Guarantees: the safe version never covers what may still come, is told once, and waits are bounded."""

from __future__ import annotations

from kubecdc.records import EventType
from producer.frames import Bookmark
from producer.signals import (
    Checkpoint,
    Mark,
    ProgressDue,
    StreamEnded,
    StreamOpened,
    Verb,
)
from tests.producer.scripted import ADDED, DELETED, MODIFIED, Run, error, frame, live


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


def test_an_endless_retry_after_is_not_obeyed_for_ever() -> None:
    assert Run().give(error(429, retry_after=10.0**9)).alarm() == 600.0
