"""The report counts what happened, and says that all hold only when all do."""

from __future__ import annotations

from local.verdicts import Status, Verdict
from tests.chaos.reporting import ChaosReport
from tests.chaos.schedule import Fault


def report(*verdicts: Verdict) -> ChaosReport:
    return ChaosReport(
        title="a run",
        commit="abc",
        date="today",
        command="python -m tests.chaos",
        numbers={"seconds": 60},
        struck={Fault.KILL_WORKER: 3, Fault.CRASH_WORKER: 5, Fault.CUT_API: 2},
        missed={Fault.CUT_KAFKA: 1},
        crashed={"before_ack": 2},
        ended={"worker exits with 1": 1},
        verdicts={verdict.guarantee: verdict for verdict in verdicts},
        gaps={"COMPACTED": 4},
        words=(),
    )


def test_what_cannot_be_told_is_not_called_held():
    assert report(Verdict("G1", Status.HOLDS, 1)).ok
    assert not report(Verdict("G1", Status.HOLDS, 1), Verdict("G2", Status.UNKNOWN, 0, ("nothing",))).ok
    assert not report(Verdict("G1", Status.FAILS, 1, ("lost",))).ok


def test_crashes_count_when_they_happened_and_not_when_they_were_asked_for():
    assert report().process_faults == 3 + 2


def test_the_text_names_faults_verdicts_findings_and_gaps():
    text = report(Verdict("G1", Status.FAILS, 7, ("pods: lost",))).markdown()
    for line in (
        "### a run: NOT all hold",
        "| process faults | 5 |",
        "| kill -9 of a worker | 3 | 0 |",
        "| connections to Kafka cut | 0 | 1 |",
        "| crash point `before_ack` | 2 | |",
        "- G1: pods: lost",
        "Gaps named: 4 COMPACTED.",
        "Ends that nobody ordered, each followed by a new start: worker exits with 1 1 times.",
    ):
        assert line in text.splitlines()
    assert Fault.CRASH_WORKER.value not in text
