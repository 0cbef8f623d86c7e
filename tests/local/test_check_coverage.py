"""G1's checker accepts a log that covers or names everything, and refuses each kind of silent loss and invention."""

from __future__ import annotations

import pytest

from kubecdc.records import Cause, Change, Op
from local import check_coverage
from local.history import Committed
from local.verdicts import Evidence, Status, Verdict, judge
from tests.local.logs import change, delete, evidence, gap, inferred, progress, put

# a: made at 5, listed at 10, updated at 12, deleted at 14; b: made at 13; c: made at 2, deleted at 4, before the list
TRUTH = [put("c", 2), delete("c", 4), put("a", 3), put("a", 5), put("a", 12), put("b", 13), delete("a", 14)]
FIRST = [change(Op.SNAPSHOT, "a", 5, seq=1), progress(None, 10)]
REST = [
    change(Op.UPDATED, "a", 12, seq=2, prev=5),
    change(Op.CREATED, "b", 13, seq=1),
    change(Op.DELETED, "a", 14, seq=3, prev=12),
    progress(10, 14),
]
RELIST = [gap(10, 20), inferred("a", 5, 20, seq=2), change(Op.CREATED, "b", 13, seq=1, gap=Cause.RELIST_WINDOW)]


def verdict(given: Evidence) -> Verdict:
    return judge("G1", check_coverage.check, given)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param([*FIRST, *REST], id="all of it"),
        pytest.param([*FIRST, REST[0], progress(10, 12), *REST[1:3], progress(12, 14)], id="in two steps"),
        pytest.param([*FIRST, *RELIST], id="a relist names its window"),
        pytest.param([*FIRST, gap(10, None, Cause.COVERAGE_LOST)], id="lost and never regained"),
        pytest.param([*FIRST, gap(10, None, Cause.COVERAGE_LOST), *RELIST], id="lost, then closed by a list"),
        pytest.param([*FIRST, *RELIST, gap(15, 20, Cause.RELIST_INCOMPLETE)], id="a gap inside what is passed"),
        pytest.param([gap(None, 14, Cause.COMPACTED), change(Op.UPDATED, "b", 13, seq=1)], id="begins in the middle"),
        pytest.param(
            [*FIRST, REST[1], progress(10, 14), change(Op.DELETED, "a", 14, seq=2, prev=5, gap=Cause.AUDIT_DRIFT)],
            id="the server's own loss, found by an audit",
        ),
        pytest.param(
            [*FIRST, *REST[:2], change(Op.DELETED, "a", 12, seq=3, prev=12), progress(10, 14)],
            id="an old server's delete at the last version",
        ),
    ],
)
def test_a_log_that_covers_or_names_everything_holds(log: list[Change]) -> None:
    assert verdict(evidence(TRUTH, log, [("", "pods")])).status is Status.HOLDS


@pytest.mark.parametrize(
    ("log", "says"),
    [
        pytest.param([*FIRST, *REST[1:]], "PUT of default/name-a a at 12 is in no record and no gap", id="lost"),
        pytest.param([*FIRST, *REST[:2], REST[3]], "DELETE of default/name-a a at 14 is in no", id="lost delete"),
        pytest.param([FIRST[1], *REST], "at 5 is in no record and no gap", id="not in the first list"),
        pytest.param(
            [change(Op.SNAPSHOT, "a", 3, seq=1), progress(None, 10), *REST], "at 5 is in no record", id="listed old"
        ),
        pytest.param([*FIRST, *REST[1:], REST[0]], "at offset 5, after it was claimed", id="claimed too early"),
        pytest.param([*FIRST, *REST[:3], progress(12, 14)], "leaves (10, 12] unnamed", id="hole"),
        pytest.param([*FIRST, *REST[:3], gap(12, 14)], "leaves (10, 12] unnamed", id="hole before a gap"),
        pytest.param([FIRST[0], progress(4, 10), *REST], "leaves (None, 4] unnamed", id="begins late"),
        pytest.param([*FIRST, *REST[:3], progress(None, 14)], "begins anew", id="first list again"),
        pytest.param([*FIRST, gap(10, 11), progress(11, 14), *REST[1:3]], "at 12 is in no", id="bounds too narrow"),
        pytest.param([*FIRST, *RELIST[:1], change(Op.UPDATED, "a", 11, seq=2)], "never committed", id="invented"),
        pytest.param([*FIRST, *REST, change(Op.CREATED, "z", 14, seq=1)], "never committed", id="invented object"),
        pytest.param([*FIRST, *REST[:2], change(Op.UPDATED, "a", 14), REST[3]], "is its delete", id="wrong kind"),
        pytest.param([*FIRST, *REST[:3]], "its last commit is 14, coverage ends at 10", id="not caught up"),
        pytest.param([], "coverage ends at nothing", id="nothing at all"),
    ],
)
def test_a_silent_loss_or_an_invention_is_refused(log: list[Change], says: str) -> None:
    found = verdict(evidence(TRUTH, log, [("", "pods")]))
    assert found.status is Status.FAILS
    assert any(says in finding for finding in found.findings), found.findings


def test_an_object_under_another_name_is_refused() -> None:
    truth = [Committed("", "pods", "default", "other", "a", "5", "PUT")]
    found = verdict(evidence(truth, FIRST))
    assert found.status is Status.FAILS
    assert "committed as default/other" in found.findings[0]


def test_what_lies_above_the_coverage_is_not_yet_owed() -> None:
    assert verdict(evidence(TRUTH, FIRST)).status is Status.HOLDS


def test_without_truth_only_the_bounds_can_be_judged() -> None:
    assert verdict(evidence(None, [*FIRST, *REST])).status is Status.UNKNOWN
    assert verdict(evidence(None, [*FIRST, progress(12, 14)])).status is Status.FAILS


def test_another_epoch_is_unknown_and_never_holds() -> None:
    later = change(Op.SNAPSHOT, "a", 3, seq=4, epoch=2)
    assert verdict(evidence(TRUTH, [*FIRST, *REST, later])).status is Status.UNKNOWN
