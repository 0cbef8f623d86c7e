"""Half a minute of the chaos that `python -m tests.chaos` makes for twenty: every guarantee, on real servers.

What fails here fails on one seed; run the module with that seed to see it, for longer.
"""

from __future__ import annotations

import pytest

from local.verdicts import Status
from tests.chaos import schedule
from tests.chaos.__main__ import chaos, main
from tests.chaos.reporting import ChaosReport
from tests.chaos.run import Plan
from tests.chaos.schedule import Family, Fault

SECONDS = 30
DENSE = (schedule.PROCESSES, schedule.NETWORK, Family(12.0, schedule.SERVERS.weights))
DENSE_HOSTILE = (
    schedule.HOSTILE[0],
    Family(12.0, schedule.HOSTILE[1].weights),
    Family(10.0, schedule.HOSTILE[2].weights),
)
# Seeds whose half minute has what matters; the first test below keeps it so.
SEED, HOSTILE_SEED = 317, 46


def held(report: ChaosReport) -> None:
    failed = {name: verdict for name, verdict in report.verdicts.items() if verdict.status is not Status.HOLDS}
    # The short run may end without a list that infers a delete, or without a gap.
    failed = {
        name: verdict for name, verdict in failed.items() if verdict.judged or name not in ("G1 gaps", "G5 lists")
    }
    assert failed == {}, report.markdown() + "\n".join(report.words)


def test_the_half_minutes_have_the_faults_that_matter():
    struck = {strike.fault for strike in schedule.storm(SEED, SECONDS, DENSE, {})}
    assert {Fault.KILL_PRODUCER, Fault.KILL_WORKER, Fault.CRASH_WORKER, Fault.KILL_BROKER, Fault.DROP_END_TXN} <= struck
    assert Fault.COMPACT_ETCD in struck
    hostile = {strike.fault for strike in schedule.storm(HOSTILE_SEED, SECONDS, DENSE_HOSTILE, {})}
    assert {Fault.CUT_API, Fault.DRIBBLE_API, Fault.COMPACT_ETCD, Fault.CHURN_CRD, Fault.REVOKE_ONE} <= hostile


@pytest.mark.timeout(700)  # a run that hangs tells where
@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_nothing_is_lost_repeated_or_reordered(runtime: str, tmp_path, envtest_folder):
    report = chaos(Plan(SECONDS, SEED, runtime, families=DENSE, large={}), tmp_path, envtest_folder)
    held(report)
    assert report.process_faults >= 3


@pytest.mark.timeout(700)
def test_a_hostile_api_server_is_survived(tmp_path, envtest_folder):
    plan = Plan(SECONDS, HOSTILE_SEED, "plain", producers=1, workers=1, families=DENSE_HOSTILE, large={}, hostile=True)
    held(chaos(plan, tmp_path, envtest_folder))


def test_a_wrong_command_line_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--runtime", "other"])
    assert ended.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
