"""Guarantees: audits speak only about what the stream has passed, and find restores without a relist of their own."""

from __future__ import annotations

from kubecdc.records import EventType
from producer.frames import Bookmark
from producer.signals import (
    AuditAnswer,
    AuditDue,
    Cancel,
    Count,
    Lane,
    Mark,
    Publish,
    PublishAbsent,
    Request,
    StreamOpened,
    Verb,
)
from producer.state import Phase
from tests.producer.scripted import DELETED, MODIFIED, Run, error, frame, held, live, page


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


def test_a_delete_that_was_lost_before_the_restart_is_found_by_the_first_audit() -> None:
    run = Run(start="30", recalls=True).give(StreamOpened(), frame(DELETED, "z", "32"), AuditDue())
    assert run.of(Request) == [Request(Lane.AUDIT, Verb.RECALL)]
    run.give(AuditAnswer(held(x="20", y="28", z="29")))
    assert run.of(Request) == [Request(Lane.AUDIT, Verb.LIST)]
    run.give(AuditAnswer(page("35", ("y", "28"))), Bookmark("36", initial_events_end=False))
    assert [(out.uid, out.rv) for out in run.of(PublishAbsent)] == [("x", "35")]
    run.give(AuditDue())
    assert run.of(Request) == [Request(Lane.AUDIT, Verb.LIST)]


def test_an_audit_without_a_past_speaks_about_what_it_has_seen_and_asks_again_later() -> None:
    run = Run(start="30", recalls=True).give(StreamOpened(), AuditDue(), AuditAnswer(held(why="no broker")))
    run.give(AuditAnswer(error(503)), AuditDue())
    assert run.of(Request) == [Request(Lane.AUDIT, Verb.RECALL)]


def test_an_audit_that_the_stream_has_overtaken_is_no_older_list() -> None:
    """Under 300 changes a second a list is older than the open watch when it arrives, and always was."""
    run = live("10", ("x", "5"), ("y", "7"))
    for number in range(5):
        at = 20 + 10 * number
        run.give(AuditDue(), frame(MODIFIED, "x", str(at + 1)), frame(MODIFIED, "y", str(at + 2)))
        run.give(
            AuditAnswer(page(str(at), ("x", str(at - 9) if number else "5"), ("y", str(at - 8) if number else "7")))
        )
        assert run.of(Count) == [Count("audits", "complete")]
        assert run.of(Mark) == run.of(PublishAbsent) == []
    assert (run.session.epoch, run.session.older) == (1, 0)


def test_an_audit_older_than_what_was_known_when_it_was_asked_for_is_one() -> None:
    run = live("10", ("x", "5")).give(frame(MODIFIED, "x", "21"), AuditDue(), AuditAnswer(page("20", ("x", "5"))))
    assert run.of(Count) == [Count("older_lists")]
