"""G2's checker accepts deletes that arrived, and refuses one that is missing, out of bounds, or invented."""

from __future__ import annotations

import pytest

from kubecdc.records import Cause, Change, Op
from local import check_deletes
from local.verdicts import Evidence, Status, Verdict, judge
from tests.local.logs import change, delete, evidence, gap, inferred, progress, put

TRUTH = [put("a", 3), put("a", 12), delete("a", 14), put("b", 15)]
FIRST = [change(Op.SNAPSHOT, "a", 3, seq=1), progress(None, 10)]


def verdict(given: Evidence) -> Verdict:
    return judge("G2", check_deletes.check, given)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([*FIRST, change(Op.DELETED, "a", 14, seq=2, prev=3), progress(10, 14)], id="observed"),
        pytest.param([*FIRST, change(Op.DELETED, "a", 12, seq=2, prev=12), progress(10, 14)], id="last version"),
        pytest.param([*FIRST, inferred("a", 3, 20, seq=2), gap(10, 20)], id="inferred"),
        pytest.param([*FIRST, inferred("a", 13, 14, seq=2), gap(10, 14)], id="inferred at its bound"),
    ],
)
def test_a_delete_that_arrived_holds(log: list[Change]) -> None:
    assert verdict(evidence(TRUTH, log)).status is Status.HOLDS


@pytest.mark.parametrize(
    ("log", "says"),
    [
        pytest.param([*FIRST, progress(10, 14)], "the log ends with SNAPSHOT at 3", id="missing"),
        pytest.param([*FIRST, gap(10, 14)], "the log ends with SNAPSHOT at 3", id="missing though the gap is named"),
        pytest.param([*FIRST, inferred("a", 3, 13, seq=2), gap(10, 13)], "outside the inferred bounds", id="too low"),
        pytest.param([*FIRST, inferred("a", 14, 20, seq=2), gap(10, 20)], "outside the inferred", id="above"),
        pytest.param([*FIRST, change(Op.DELETED, "a", 13, seq=2), progress(10, 14)], "says at 13", id="wrong version"),
        pytest.param(
            [*FIRST, change(Op.DELETED, "a", 14), change(Op.CREATED, "a", 16, gap=Cause.RESURRECTED), progress(10, 16)],
            "the log ends with CREATED",
            id="resurrected though dead",
        ),
        pytest.param([*FIRST, inferred("b", 15, 20, seq=2), gap(10, 20)], "was not deleted", id="invented"),
        pytest.param(
            [
                *FIRST,
                inferred("a", 3, 11, seq=2),
                change(Op.CREATED, "a", 12, gap=Cause.RESURRECTED),
                change(Op.DELETED, "a", 14),
            ],
            "DELETED at 11, but it was not deleted",
            id="invented, then taken back",
        ),
    ],
)
def test_a_missing_or_invented_delete_is_refused(log: list[Change], says: str) -> None:
    found = verdict(evidence(TRUTH, log))
    assert found.status is Status.FAILS
    assert any(says in finding for finding in found.findings), found.findings


def test_a_delete_above_the_resolved_version_is_not_yet_owed() -> None:
    assert verdict(evidence(TRUTH, [*FIRST, progress(10, 13)])).status is Status.UNKNOWN  # nothing was judged


def test_without_truth_nothing_can_be_said() -> None:
    assert verdict(evidence(None, FIRST)).status is Status.UNKNOWN
