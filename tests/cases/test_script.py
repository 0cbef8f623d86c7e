"""The script answers each request with its step and no other, and fails a case that asks for something else."""

from __future__ import annotations

import pytest

from tests.cases import loader
from tests.cases.loader import Lane
from tests.cases.outside import Outside, Refused
from tests.cases.script import Asked, Idle, Script, Scripted, fits

LANE = Lane("p1", "v1/configmaps", "")
LIST = {"to": "list", "want": {"resourceVersion": "", "continue": None}, "list": {"rv": "5", "items": []}}


def watch(rv, **rest):
    return {"to": "watch", "want": {"resourceVersion": rv}, "stream": []} | rest


class Play:
    """A script whose client leaves at once where it would have to wait."""

    def __init__(self, steps, **rest):
        self.case = loader.parse({"id": "a", "steps": steps, "expect": {}} | rest)
        self.outside = Outside(self.case, "t")
        self.script = Script(self.case, self.outside)
        self.waiting = [act for act in self.case.acts if isinstance(act, dict)]
        self.begin()

    def begin(self):
        if self.waiting:
            self.script.begin(self.waiting.pop(0))

    def ask(self, kind, *, token="t", at=0.0, lane=LANE, **params):
        return self.script.judge(Asked(lane, kind, params, token, at), lambda: True)

    def answered(self, kind, **params):
        verdict = self.ask(kind, **params)
        assert isinstance(verdict, Scripted), self.script.failure
        self.script.done(LANE)
        return verdict.step.answer


@pytest.mark.parametrize(
    ("want", "params", "fit"),
    [
        ({"a": "1"}, {"a": "1", "b": "2"}, True),
        ({"a": "1"}, {}, False),
        ({"a": ""}, {"a": ""}, True),
        ({"a": ""}, {}, True),
        ({"a": ""}, {"a": "1"}, False),
        ({"a": None}, {"a": ""}, False),
        ({"a": None}, {}, True),
        ({"a": "*"}, {"a": "x"}, True),
        ({"a": "*"}, {"a": ""}, False),
        ({"a": {"any_of": ["", "2"]}}, {"a": "2"}, True),
        ({"a": {"any_of": ["", "2"]}}, {}, True),
        ({"a": {"any_of": ["", "2"]}}, {"a": "3"}, False),
    ],
)
def test_wanted_parameters(want, params, fit):
    assert fits(want, params) is fit


def test_steps_come_in_order():
    play = Play([LIST, watch("5")])
    play.answered("list", limit="500")
    assert play.script.pending()
    play.answered("watch", resourceVersion="5")
    assert not play.script.pending()


@pytest.mark.parametrize(("kind", "params"), [("watch", {"resourceVersion": "5"}), ("list", {"resourceVersion": "7"})])
def test_another_request_fails_the_case(kind, params):
    play = Play([LIST])
    assert play.ask(kind, **params) is None
    assert "expected was list" in play.script.failure


def test_an_answer_under_way_makes_the_next_request_wait():
    play = Play([LIST, watch("5")])
    assert isinstance(play.ask("list"), Scripted)
    assert play.ask("watch", resourceVersion="5") is None
    assert play.script.failure is None


def test_a_request_waits_for_a_later_segment():
    play = Play([LIST, {"do": "settle"}, watch("5")])
    play.answered("list")
    assert play.ask("watch", resourceVersion="5") is None
    play.begin()
    play.answered("watch", resourceVersion="5")


def test_after_the_last_step_only_a_watch_from_the_last_version_is_right():
    play = Play([LIST])
    play.answered("list")
    play.script.show(LANE, "5")
    assert isinstance(play.ask("watch", resourceVersion="5"), Idle)
    assert play.ask("watch", resourceVersion="4") is None
    assert play.script.failure is not None


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_a_repetition_keeps_its_bounds(times):
    play = Play([{"repeat": {"at_least": 2, "at_most": 3}, "steps": [LIST]}, watch("5")])
    for _ in range(min(times, 3)):
        play.answered("list")
    last = play.ask("list" if times == 4 else "watch", resourceVersion="" if times == 4 else "5")
    assert isinstance(last, Scripted) is (times in (2, 3))


def test_a_repetition_of_nothing_may_be_left_out():
    play = Play([{"repeat": {"at_least": 0, "at_most": 3}, "steps": [watch("5", status=410)]}, LIST])
    assert play.answered("list") == LIST


def test_what_ends_a_repetition_goes_first():
    again = LIST | {"list": {"rv": "9", "items": []}}
    play = Play([{"repeat": {"at_least": 1, "at_most": 9}, "steps": [LIST]}, again])
    assert play.answered("list") == LIST
    assert play.answered("list") == again


def test_a_trailing_repetition_may_go_on():
    play = Play([{"repeat": {"at_least": 1, "at_most": 2}, "steps": [LIST]}])
    play.answered("list")
    assert not play.script.pending()
    play.answered("list")
    assert play.ask("list") is None
    assert play.script.failure


@pytest.mark.parametrize("branch", ["list", "watch"])
def test_either_branch_is_right(branch):
    play = Play([{"either": [[LIST, watch("5")], [watch("7")]]}, LIST])
    if branch == "list":
        play.answered("list")
        play.answered("watch", resourceVersion="5")
    else:
        play.answered("watch", resourceVersion="7")
    play.answered("list")
    assert not play.script.pending()


@pytest.mark.parametrize("first", ["v1/configmaps", "v1/pods"])
def test_the_first_request_chooses_the_branch_for_every_lane(first):
    pods = {"to": "list", "resource": "v1/pods", "list": {"rv": "5", "items": []}}
    play = Play([{"either": [[LIST], [pods]]}], resources=["v1/configmaps", "v1/pods"])
    chosen, left = (Lane("p1", resource, "") for resource in sorted(("v1/configmaps", "v1/pods"), key=first.__ne__))
    assert isinstance(play.ask("list", lane=chosen), Scripted)
    play.script.done(chosen)
    assert not play.script.pending()
    assert play.ask("list", lane=left) is None
    assert play.script.failure


def test_more_frames_go_to_the_open_watch():
    play = Play([watch("5"), {"to": "open", "stream": [{"B": "6"}, {"B": "7"}]}])
    assert isinstance(play.ask("watch", resourceVersion="5"), Scripted)
    feed = play.script.opened(LANE, ({"B": "5"},))
    frames = []
    while play.script.pending():
        frame = play.script.next_frame(LANE, feed)
        frames += [frame] if frame else []
    assert frames == [{"B": "5"}, {"B": "6"}, {"B": "7"}]


def test_more_frames_are_done_at_once_when_the_client_has_left():
    play = Play([watch("5"), {"to": "open", "stream": [{"B": "6"}]}])
    play.ask("watch", resourceVersion="5")
    play.script.gone(LANE, play.script.opened(LANE, ()))
    assert not play.script.pending()


def test_refusals_are_outside_the_script():
    play = Play([LIST])
    play.outside.refuse({"status": 403, "verbs": ["list"]})
    assert play.ask("list") == Refused(403)
    assert play.ask("list", lane=Lane("p2", "v1/configmaps", "")) == Refused(403)
    play.outside.accept({})
    play.answered("list")
    assert [one.outcome for one in play.script.seen] == ["refused", "refused", "answered"]


def test_a_stale_token_is_refused():
    play = Play([LIST])
    play.outside.accept_token("u")
    assert play.ask("list") == Refused(401)
    assert isinstance(play.ask("list", token="u"), Scripted)


def test_a_streamed_list_is_refused_by_a_server_without():
    assert Play([LIST]).ask("watchlist", sendInitialEvents="true") == Refused(422, "Invalid")
    assert isinstance(
        Play([{"to": "watchlist", "stream": []}], settings={"watchlist": True}).ask("watchlist"), Scripted
    )


def test_a_request_may_come_too_early():
    for early in (True, False):
        play = Play([LIST, LIST | {"not_before_s": 10}])
        play.answered("list")
        at = play.script._lanes[LANE].answered_at + (8.9 if early else 9.1)
        assert (play.ask("list", at=at) is None) is early
        assert bool(play.script.failure) is early


def test_discovery_is_read_when_all_of_it_was():
    play = Play([LIST], resources=["v1/configmaps", "example.io/v1/widgets"])
    play.outside.serve(("v1/configmaps", "example.io/v1/widgets"))
    for path in ("/apis", "/api/v1", "/api", "/apis"):
        play.outside.discovery(path)
    assert not play.outside.discovered()
    for path in ("/api/v1", "/apis/example.io/v1"):
        play.outside.discovery(path)
    assert play.outside.discovered()
