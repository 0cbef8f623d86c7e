"""A session is current while its server is heard, and says why not; quiet, parked and lost ones count as heard."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from kubecdc.unheard import Hearing
from producer.attention import Attention
from producer.frames import Bookmark
from producer.metrics import Metrics
from producer.signals import Cancel, Gone, Lane, Request, StreamEnded, StreamOpened, Verb
from producer.state import Session
from tests.producer.scripted import RULES, Run, error, live

PATIENT = replace(RULES, unheard_after_s=60.0)
HASTY = replace(RULES, unheard_after_s=1e-9)


def attention(metrics: Metrics | None = None) -> Attention:
    counted = metrics or Metrics()
    return Attention("pods", lambda reason, seconds: counted.unheard.labels("pods", "", reason), {})


def session(rules: object = PATIENT) -> Session:
    return replace(live().session, rules=rules)


def refuse(one: Attention, run: Run) -> None:
    before = run.session
    signal = error(429, "TooManyRequests")
    run.give(signal)
    one.stepped(before, run.session, signal)


def test_a_refusal_counts_when_it_has_lasted() -> None:
    one, run = attention(), live().give(StreamEnded(300.0, True))
    assert one.current(replace(run.session, rules=HASTY), idle=True)
    refuse(one, run)
    assert one.current(replace(run.session, rules=PATIENT), idle=True)
    assert not one.current(replace(run.session, rules=HASTY), idle=True)
    assert "pods: nothing heard for 0 s" in one.why(covered=True)
    assert "throttled" in one.why(covered=True)


def test_parked_and_lost_sessions_have_nobody_to_hear_and_the_lost_are_noted() -> None:
    one, run = attention(), live().give(StreamEnded(300.0, True))
    refuse(one, run)
    lost = replace(run.session, rules=HASTY, lost=True)
    assert one.current(lost, idle=True)
    assert "pods: nothing heard" in one.note(lost)
    assert one.note(replace(lost, lost=False)) == ""
    assert one.current(replace(run.give(Gone()).session, rules=HASTY), idle=True)


def test_a_mute_watch_is_not_current() -> None:
    run = live().give(Bookmark("11", False), StreamEnded(300.0, True), StreamOpened(), StreamEnded(150.0, False))
    assert run.session.mute
    assert not attention().current(replace(run.session, rules=PATIENT), idle=True)


@pytest.mark.parametrize("idle", [True, False])
def test_what_waits_to_be_worked_on_is_no_silence_of_the_server(*, idle: bool) -> None:
    """While Kafka is away the session stands still, and the server has done its part."""
    one = attention()
    rules = replace(RULES, inactivity_s=-10.0, backoff_max_s=0.0)
    assert one.current(session(rules), idle=idle) is not idle
    assert "sent nothing for long" in one.why(covered=True)
    assert "no version to watch from yet" in one.why(covered=False)


def test_questions_on_the_main_lane_are_waited_for_and_given_up() -> None:
    one, latest = attention(), time.monotonic() + 1000
    one.performing(Request(Lane.AUDIT, Verb.LIST))
    assert one.due(latest) == latest
    one.performing(Request(Lane.MAIN, Verb.WATCH, rv="1"))
    assert one.due(latest) < latest
    one.performing(Cancel(Lane.AUDIT))
    assert one.due(latest) < latest
    one.performing(Cancel(Lane.MAIN))
    assert one.due(latest) == latest


def test_who_has_left_is_silent_no_more() -> None:
    one, run = attention(), live().give(StreamEnded(300.0, True))
    refuse(one, run)
    one.leave()
    assert one._ear._state == Hearing()
