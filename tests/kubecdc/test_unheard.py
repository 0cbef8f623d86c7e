"""A silence is told after ten seconds, ever more seldom, and its end once; what is served for a moment ends none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.unheard import (
    ALERT_S,
    DISTANCE_MAX_S,
    STEADY_S,
    Answered,
    Asked,
    Heard,
    Hearing,
    Input,
    Left,
    Look,
    Over,
    Paused,
    Refused,
    Serving,
    Warned,
    due,
    step,
)


class Story:
    """A state, and all that was told, with the time at which it was."""

    def __init__(self) -> None:
        self.state = Hearing()
        self.told: list[tuple[float, Warned | Over]] = []

    def give(self, *signals: Input) -> Story:
        for signal in signals:
            self.state, outputs = step(self.state, signal)
            self.told += [(signal.at, output) for output in outputs]
        return self

    def warned(self) -> list[float]:
        return [at for at, output in self.told if isinstance(output, Warned)]

    def over(self) -> list[Over]:
        return [output for _, output in self.told if isinstance(output, Over)]


def refused(*times: float, reason: str = "throttled") -> list[Refused]:
    return [Refused(at, reason) for at in times]


def test_a_refusal_that_lasts_is_told_after_ten_seconds_with_all_that_is_known():
    story = Story().give(*refused(100, 101, 103, 107))
    assert story.told == []
    assert due(story.state) == 110
    story.give(Look(109.9))
    assert story.told == []
    story.give(Look(110))
    assert story.told == [(110, Warned("throttled", "", 4, 10))]


def test_a_look_is_not_needed_where_a_refusal_comes():
    assert Story().give(*refused(100, 109, 115)).warned() == [115]


def test_it_is_repeated_with_growing_distance():
    story = Story().give(Refused(0, "throttled"))
    for second in range(7200):
        story.give(Look(second))
    assert story.warned() == [10, 30, 70, 150, 310, 630, 1270, 2550, 5110]
    assert story.told[-1][1] == Warned("throttled", "", 1, 5110)
    for second in range(7200, 30000, 10):
        story.give(Look(second))
    distances = [later - former for former, later in zip(story.warned(), story.warned()[1:], strict=False)]
    assert max(distances) == DISTANCE_MAX_S


def test_the_end_is_told_once_with_how_long_it_lasted():
    story = Story().give(*refused(100, 105, 112), Heard(130), Heard(131), Look(150))
    assert story.over() == [Over("throttled", 3, 30)]
    assert story.state == Hearing()
    assert Hearing().lasted_s(131) == 0


def test_a_short_silence_is_no_news():
    assert Story().give(*refused(100, 105), Heard(109), Look(200)).told == []


def test_the_last_reason_is_told():
    story = Story().give(Refused(0, "connection"), Refused(11, "throttled", "429"))
    assert story.told[0][1] == Warned("throttled", "429", 2, 11)


def test_a_watch_that_is_opened_and_closed_at_once_is_not_heard():
    story = Story()
    for second in range(0, 60, 3):
        story.give(Asked(second), Serving(second), Refused(second + 0.1, "closed"), Look(second + 1))
    assert story.warned() == [12.1, 33.1]  # here a look comes every third second only
    assert story.state.lasted_s(60) > 59


def test_lists_that_come_between_closed_watches_are_not_enough():
    """The third close leads to a list, which is served at once, and the watch after it is closed again."""
    story = Story()
    for second in range(0, 30, 3):
        story.give(*refused(second, second + 1, reason="closed"), Serving(second + 2), Serving(second + 2.5))
    assert story.warned() == [10]


def test_what_is_served_and_lasts_ends_the_silence_where_it_began_to_be_served():
    story = Story().give(*refused(0, 12), Serving(20))
    assert due(story.state) == 20 + STEADY_S
    story.give(Look(24.9))
    assert story.over() == []
    story.give(Look(25))
    assert story.over() == [Over("throttled", 2, 20)]


def test_no_warning_comes_while_something_is_served():
    assert Story().give(Refused(0, "closed"), Serving(9), Look(13), Heard(13.5)).told == []


def test_a_long_list_that_broke_off_was_heard():
    """Pages come for twenty minutes, one is refused, and the list begins anew: nobody is silent."""
    story = Story().give(
        Refused(0, "expired"), *(Serving(at) for at in range(1, 1200, 2)), Refused(1200, "unavailable")
    )
    assert story.state.lasted_s(1201) == 1
    assert story.told == []


def test_a_question_without_an_answer_is_a_silence_too():
    story = Story().give(Asked(100))
    assert due(story.state) == 110
    story.give(Look(110, detail="nothing"))
    assert story.told == [(110, Warned("no-answer", "nothing", 0, 10))]
    story.give(Refused(160, "timeout"), Heard(170))
    assert story.over() == [Over("timeout", 1, 70)]


def test_a_question_without_an_answer_is_the_reason_of_a_silence_that_began_otherwise():
    story = Story().give(Refused(0, "connection"), Asked(1), Look(10), Look(30))
    assert [output.reason for _, output in story.told if isinstance(output, Warned)] == ["connection", "no-answer"]


def test_an_answer_in_time_is_none():
    assert Story().give(Asked(100), Answered(109), Look(150)).told == []


def test_the_silence_of_a_timed_out_question_began_when_it_was_asked():
    assert Story().give(Asked(100), Refused(160, "timeout")).told == [(160, Warned("timeout", "", 1, 60))]
    assert Story().give(Refused(160, "mute", since=10)).told == [(160, Warned("mute", "", 1, 150))]


def test_while_something_else_is_waited_for_nothing_is_told():
    story = Story().give(Refused(0, "unavailable"), Paused(1), Look(500))
    assert story.told == []
    assert due(story.state) is None
    story.give(Asked(501), Look(502))
    assert len(story.told) == 1


def test_who_need_not_be_heard_any_more_is_told_of_no_more():
    story = Story().give(*refused(0, 12), Left(20), Look(100))
    assert (len(story.told), story.state) == (1, Hearing())


KINDS = st.sampled_from(["asked", "answered", "serving", "heard", "refused", "look", "paused"])
MAKE = {"asked": Asked, "answered": Answered, "serving": Serving, "heard": Heard, "look": Look, "paused": Paused}


def signals(steps: list[tuple[float, str]]) -> list[Input]:
    at, found = 0.0, list[Input]()
    for seconds, kind in steps:
        at += seconds
        found.append(Refused(at, "r") if kind == "refused" else MAKE[kind](at))
    return found


@given(st.lists(st.tuples(st.floats(0, 40), KINDS), max_size=80))
def test_whatever_happens_ends_are_told_of_silences_that_were_told_and_of_nothing_else(steps):
    told_since: list[float] = []
    story = Story()
    for signal in signals(steps):
        before = len(story.told)
        story.give(signal)
        for at, output in story.told[before:]:
            if isinstance(output, Warned):
                assert output.lasted_s >= ALERT_S
                assert all(at > earlier for earlier in told_since)
                told_since.append(at)
            else:
                assert told_since, "an end without a begin"
                told_since = []
        if isinstance(signal, Heard):
            assert story.state == Hearing()
            assert told_since == []


@given(st.lists(st.floats(0.1, 5), min_size=1, max_size=100))
def test_refusals_alone_are_always_told_and_never_often(gaps):
    story, at = Story(), 0.0
    story.give(Refused(0, "r"))
    for gap in gaps:
        at += gap
        story.give(Serving(at - gap / 2), Refused(at, "r"))
    assert bool(story.warned()) is (at >= ALERT_S)
    assert len(story.warned()) <= 6  # of at most 500 s
    assert story.over() == []


@given(st.lists(st.tuples(st.floats(0, 40), KINDS), max_size=60), st.floats(0, 50))
def test_a_look_has_no_effect_before_it_is_due_and_one_when_it_is(steps, later):
    """The thread that looks sleeps until then."""
    story, given_signals = Story(), signals(steps)
    story.give(*given_signals)
    now = given_signals[-1].at if given_signals else 0.0
    at = due(story.state)
    early = now + later if at is None else min(now + later, (now + at) / 2)
    if at is None or early < at:
        assert step(story.state, Look(early))[1] == []
    if at is not None:
        assert step(story.state, Look(max(at, now)))[0] != story.state
