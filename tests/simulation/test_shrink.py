"""Shrinking leaves what a failure needs and nothing else, within its number of runs."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.plan import Plan, Step, plan
from tests.simulation.shrink import shrink, trace


def kinds(of: Plan) -> list[str]:
    return [step.kind for step in of.steps]


def steps(*names: str) -> Plan:
    return replace(plan(0), steps=tuple(Step(float(at), name, 0.5, 0.5) for at, name in enumerate(names)))


def test_only_the_steps_that_matter_are_left():
    given = steps(*["write"] * 20, "poison", *["watch_cut"] * 13, "zombie", *["write"] * 7)
    assert kinds(shrink(given, lambda of: {"poison", "zombie"} <= set(kinds(of)))) == ["poison", "zombie"]


def test_a_failure_that_needs_nothing_shrinks_to_nothing():
    assert kinds(shrink(steps("write", "poison"), lambda of: True)) == []


def test_no_more_runs_than_allowed():
    runs: list[Plan] = []

    def fails(of: Plan) -> bool:
        runs.append(of)
        return len(of.steps) > 50

    assert len(shrink(steps(*["write"] * 100), fails, 10).steps) > 50
    assert len(runs) <= 10


def test_a_trace_tells_faults_one_by_one_and_writes_together():
    assert trace(steps("write", "write", "poison", "write")) == [
        "   0.00s  2 writes until 1.00s",
        "   2.00s  poison                   pick=0.500 size=0.500",
        "   3.00s  1 writes until 3.00s",
    ]
