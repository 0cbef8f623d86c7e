"""Guarantees: a candidate leads only while its lease is good by its own clock; one that was away stops by itself.

Of candidates that write at once the server takes one; nobody's wall clock matters.
"""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from producer import election
from producer.election import Due, Election, Failed, Follow, Found, Lead, Lease, Read, Write, Written, step

S = 15.0


def body(holder: str, renewed: str = "t1", rv: str = "5", seconds: int = 15) -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": seconds, "renewTime": renewed, "strategy": "kept"}
    return {"metadata": {"name": "l", "resourceVersion": rv}, "spec": spec}


def lease(holder: str, renewed: str = "t1", rv: str = "5", seconds: int = 15) -> Lease:
    return election.parse(body(holder, renewed, rv, seconds))


def leader(at: float = 100.0) -> Election:
    return step(Election("me", S), Written(lease("me"), at, at))[0]


def test_a_missing_lease_is_created_and_leads_once_it_is_written():
    me, outputs = step(Election("me", S), Found(None, 1.0, "now"))
    (write,) = outputs
    assert isinstance(write, Write)
    assert write.body["spec"]["holderIdentity"] == "me"
    assert "metadata" not in write.body
    assert not me.leading
    me, outputs = step(me, Written(lease("me"), 1.0, 1.1))
    assert (me.leading, outputs) == (True, [Lead()])
    assert step(me, Written(lease("me", "t2"), 3.0, 3.1))[1] == []


def test_a_lease_of_another_is_respected_for_its_own_duration_after_it_last_changed():
    me = Election("me", S)
    me, outputs = step(me, Found(lease("you", "t1", seconds=30), 0.0, "n"))
    assert outputs == []
    me, outputs = step(me, Found(lease("you", "t2", seconds=30), 29.0, "n"))
    assert outputs == []
    me, outputs = step(me, Found(lease("you", "t2", seconds=30), 58.9, "n"))
    assert outputs == []
    me, outputs = step(me, Found(lease("you", "t2", rv="9", seconds=30), 59.0, "now"))
    (write,) = outputs
    assert isinstance(write, Write)
    assert write.body["metadata"]["resourceVersion"] == "9"
    assert write.body["spec"] == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "renewTime": "now",
        "acquireTime": "now",
        "leaseTransitions": 1,
        "strategy": "kept",
    }


def test_a_renewal_keeps_when_it_was_acquired():
    _, outputs = step(leader(), Found(lease("me", rv="7"), 102.0, "now"))
    (write,) = outputs
    assert isinstance(write, Write)
    assert "acquireTime" not in write.body["spec"]
    assert write.body["metadata"]["resourceVersion"] == "7"


@pytest.mark.parametrize("signal", [Due(110.0), Failed(110.0), Found(lease("me"), 110.0, "n")])
def test_a_leader_that_was_paused_or_could_not_renew_stops_before_others_may_start(signal: Any):
    me, outputs = step(leader(100.0), signal)
    assert Follow() in outputs
    assert not me.leading
    assert step(leader(100.0), type(signal)(*(109.9 if v == 110.0 else v for v in _fields(signal))))[0].leading


def _fields(signal: Any) -> list[Any]:
    return [getattr(signal, name) for name in type(signal).__match_args__]


def test_a_leader_whose_lease_another_holds_stops_at_once_and_waits():
    me, outputs = step(leader(), Found(lease("you", "t9"), 101.0, "n"))
    assert outputs == [Follow()]
    assert not me.leading


def test_an_answer_that_comes_too_late_gives_no_lead():
    me, outputs = step(Election("me", S), Written(lease("me"), 1.0, 11.0))
    assert (me.leading, outputs) == (False, [])
    me, outputs = step(leader(100.0), Written(lease("me"), 101.0, 111.0))
    assert (me.leading, outputs) == (False, [Follow()])


def test_a_conflict_is_no_loss_in_itself():
    me, outputs = step(leader(), Failed(104.0))
    assert (me.leading, outputs) == (True, [])
    assert step(me, Due(104.0))[1] == [Read()]


def test_a_released_lease_is_taken_at_once():
    handed = election.released(leader(), "now")
    assert handed is not None
    left = election.parse(handed)
    assert left.holder == ""
    _, outputs = step(Election("you", S), Found(left, 0.0, "n"))
    assert isinstance(outputs[0], Write)
    assert election.released(Election("you", S), "now") is None


@pytest.mark.parametrize("odd", [{}, {"spec": None}, {"spec": {"holderIdentity": 3, "leaseDurationSeconds": "x"}}])
def test_an_odd_lease_counts_as_free(odd: dict[str, Any]):
    _, outputs = step(Election("me", S), Found(election.parse(odd), 0.0, "n"))
    assert isinstance(outputs[0], Write)


class Candidates(RuleBasedStateMachine):
    """Three candidates with clocks apart, and a server that refuses stale writes; any may sleep at any point."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0
        self.stored: dict[str, Any] | None = None
        self.rv = 0
        self.members = {name: Election(name, S) for name in "abc"}
        self.pending: dict[str, tuple[float, Any]] = {}

    def clock(self, name: str) -> float:
        return self.time + 1000 * ord(name)

    @rule(seconds=st.floats(0.1, 20.0))
    def pass_time(self, seconds: float) -> None:
        self.time += seconds

    @rule(name=st.sampled_from("abc"))
    def look(self, name: str) -> None:
        me, _ = step(self.members[name], Due(self.clock(name)))
        found = None if self.stored is None else election.parse(self.stored)
        me, outputs = step(me, Found(found, self.clock(name), f"t{self.time}"))
        self.members[name] = me
        self.pending.pop(name, None)
        for out in outputs:
            if isinstance(out, Write):
                self.pending[name] = (self.clock(name), out.body)

    @rule(name=st.sampled_from("abc"), answered=st.booleans())
    def write(self, name: str, answered: bool) -> None:
        if name not in self.pending:
            return
        asked_at, sent = self.pending.pop(name)
        sent_rv = sent.get("metadata", {}).get("resourceVersion")
        taken = sent_rv == (None if self.stored is None else self.stored["metadata"]["resourceVersion"])
        if taken:
            self.rv += 1
            self.stored = {**sent, "metadata": {"resourceVersion": str(self.rv)}}
        answer = (
            Written(election.parse(self.stored or {}), asked_at, self.clock(name))
            if taken and answered
            else Failed(self.clock(name))
        )
        self.members[name], _ = step(self.members[name], answer)

    @invariant()
    def at_most_one_believes_in_a_good_lease(self) -> None:
        """One that is woken up believes in it only until it looks at its clock, which every step does first."""
        good = [name for name, me in self.members.items() if step(me, Due(self.clock(name)))[0].leading]
        assert len(good) <= 1

    @invariant()
    def who_leads_wrote_the_lease(self) -> None:
        for name, me in self.members.items():
            if step(me, Due(self.clock(name)))[0].leading:
                assert self.stored is not None
                assert self.stored["spec"]["holderIdentity"] == name


TestCandidates = Candidates.TestCase
TestCandidates.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
