"""Guarantees: only a whole, consistent and believable list ends with RELIST_END (G5), and a restore is found out."""

from __future__ import annotations

from typing import Any

import pytest

from kubecdc.records import EventType
from producer.frames import Broken
from producer.signals import (
    Checkpoint,
    Count,
    EpochBegun,
    Mark,
    Publish,
    Recalled,
    RetryDue,
    StreamEnded,
    StreamOpened,
    Unreachable,
    Verb,
)
from producer.state import Phase
from tests.producer.scripted import ADDED, Run, error, frame, held, live, page


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
    told = [out for out in run.last if isinstance(out, EpochBegun) or getattr(out, "epoch", 0) == 2]
    assert told[0] == EpochBegun(2), "what is killed in its first list must start again in this epoch"


def test_an_epoch_does_not_begin_with_a_list_older_than_those_that_proved_it() -> None:
    """What they showed would be swept, and be created once more later (found by the simulation)."""
    run = live("10").give(frame(ADDED, "a", "20"), error(410, "Expired"))
    for rv in ("97", "99"):
        run.give(page(rv, ("a", "5")), RetryDue())
    run.give(page("98", ("a", "5")))
    assert (run.phase, run.session.epoch) == (Phase.WAITING, 1)
    run.give(RetryDue(), page("98", ("a", "5")))
    assert run.session.epoch == 2, "the server may have gone back a second time, so what is asked for does not rise"


def test_an_item_older_than_known_proves_a_restore_too() -> None:
    run = live("10").give(frame(ADDED, "a", "20"), error(410, "Expired"))
    for _ in range(2):
        run.give(page("99", ("a", "5")))
        assert run.phase is Phase.WAITING
        run.give(RetryDue())
    run.give(page("99", ("a", "5")))
    assert run.session.epoch == 2


def test_a_session_that_resumed_asks_what_the_log_holds_before_its_first_list() -> None:
    run = Run(start="30", recalls=True).give(StreamOpened(), error(410, "Expired"))
    assert run.requests() == [(Verb.RECALL, "")]
    run.give(held(x="20"))
    assert run.requests() == [(Verb.LIST, "")]
    assert Count("recalls", "complete") in run.last
    run.give(page("1000", ("x", "20")), StreamOpened(), error(410, "Expired"), RetryDue())
    assert run.requests()[-1] == (Verb.LIST, "")


def test_a_bumped_restore_while_nobody_watched_is_found_by_what_the_log_holds() -> None:
    run = Run(start="30", recalls=True).give(StreamOpened(), error(410, "Expired"), held(x="20", y="28"))
    for _ in range(2):
        run.give(page("1000", ("x", "20"), ("y", "25")))
        assert run.marks() == []
        run.give(RetryDue())
    run.give(page("1000", ("x", "20"), ("y", "25")))
    assert [(mark.type, mark.epoch) for mark in run.of(Mark)] == [
        (EventType.RELIST_START, 2),
        (EventType.RELIST_END, 2),
    ]


@pytest.mark.parametrize("answer", [held(why="no broker"), held(2, y="28")])
def test_what_cannot_be_known_or_is_of_another_epoch_accuses_nobody(answer: Recalled) -> None:
    run = Run(start="30", recalls=True).give(StreamOpened(), error(410, "Expired"), answer)
    run.give(page("1000", ("y", "25")))
    assert [(mark.type, mark.epoch) for mark in run.of(Mark)] == [
        (EventType.RELIST_START, 1),
        (EventType.RELIST_END, 1),
    ]


def test_a_first_start_asks_the_log_nothing() -> None:
    assert Run(recalls=True).requests() == [(Verb.LIST, "")]
