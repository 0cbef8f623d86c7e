"""Seeds of the simulation hold every guarantee; a seed gives one run; what breaks a run is told, not swallowed.

`python -m tests.simulation --seeds 1000` runs more, `--nightly` a night's worth.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from tests.simulation.judge import Total, explain, run, run_seed
from tests.simulation.plan import FAMILIES, plan
from tests.simulation.run import Simulation

SEEDS = int(os.environ.get("KUBECDC_SIMULATION_SEEDS", "200"))
BLOCK = 20


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_every_guarantee_holds_in_every_seed(first: int):
    total = Total()
    for seed in range(first, min(first + BLOCK, SEEDS)):
        report = run_seed(seed)
        total.add(report)
        assert not report.failed, "\n".join(explain(seed, report.failed, 30))
    assert total.events > BLOCK * 500


def test_a_seed_gives_the_same_run_twice():
    one, other = (Simulation(plan(3)).run() for _ in range(2))
    assert one.hits == other.hits
    assert repr(one.history.raw) == repr(other.history.raw)  # errors in it are compared by what they say
    assert [record.change for record in one.history.log] == [record.change for record in other.history.log]


def test_plans_have_faults_of_every_family():
    kinds = Counter(step.kind for seed in range(200) for step in plan(seed).steps)
    assert {kind for family in FAMILIES for kind in family} <= kinds.keys()


def test_an_error_of_production_code_fails_the_seed(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ValueError("planted")

    monkeypatch.setattr("producer.session.step", broken)
    report = run_seed(0)
    assert report.failed == ("simulation",)
    assert "planted" in report.verdicts["simulation"].findings[0]


def test_a_run_leaves_the_clock_and_the_crash_points_as_they_were():
    import time  # noqa: PLC0415 - compared with what the module has

    import processors.crash  # noqa: PLC0415 - as above
    import processors.task  # noqa: PLC0415 - as above

    before = processors.crash.due, processors.crash.die
    run(plan(1))
    assert processors.task.time is time
    assert (processors.crash.due, processors.crash.die) == before
