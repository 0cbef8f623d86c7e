"""A minute of the chaos that `python -m tests.chaos` makes for twenty: every guarantee, on real servers and processes.

What fails here fails on one seed; run the module with that seed to see it, for longer.
"""

from __future__ import annotations

import pytest

from local.verdicts import Status
from tests.chaos import schedule
from tests.chaos.__main__ import chaos, main
from tests.chaos.reporting import ChaosReport
from tests.chaos.run import Plan


def held(report: ChaosReport) -> None:
    failed = {name: verdict for name, verdict in report.verdicts.items() if verdict.status is not Status.HOLDS}
    assert failed == {}, report.markdown() + "\n".join(report.words)


@pytest.mark.timeout(420)
@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_nothing_is_lost_repeated_or_reordered(runtime: str, tmp_path, envtest_folder):
    families = (schedule.PROCESSES, schedule.NETWORK, schedule.SERVERS)
    plan = Plan(30, seed=11, runtime=runtime, families=families, large={})
    report = chaos(plan, tmp_path, envtest_folder)
    held(report)
    assert report.process_faults >= 3


@pytest.mark.timeout(420)
def test_a_hostile_api_server_is_survived(tmp_path, envtest_folder):
    plan = Plan(40, seed=12, runtime="plain", producers=1, workers=1, families=schedule.HOSTILE, large={}, hostile=True)
    held(chaos(plan, tmp_path, envtest_folder))


def test_a_wrong_command_line_is_refused(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--runtime", "other"])
    assert ended.value.code == 2
    assert "invalid choice" in capsys.readouterr().err
