"""G3's checker accepts whole lives in order, and refuses repeats, holes, returns without a word, and wrong places."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubecdc.records import Cause, Change, Op
from local import check_order
from local.verdicts import Entry, Evidence, Status, Verdict, judge
from tests.local.logs import change, evidence

LIFE = [
    change(Op.CREATED, "a", 9, seq=1),
    change(Op.UPDATED, "a", 10, seq=2, prev=9),
    change(Op.DELETED, "a", 11, seq=3, prev=10),
]


def verdict(given: Evidence) -> Verdict:
    return judge("G3", check_order.check, given)


@pytest.mark.parametrize(
    "log",
    [
        pytest.param(LIFE, id="a life"),
        pytest.param([*LIFE[:2], change(Op.DELETED, "a", 10, seq=3, prev=10)], id="deleted at the last version"),
        pytest.param(
            [*LIFE, change(Op.CREATED, "a", 12, seq=1, gap=Cause.RESURRECTED)], id="back, when it was forgotten"
        ),
        pytest.param(
            [*LIFE, change(Op.CREATED, "a", 12, seq=4, prev=11, gap=Cause.RESURRECTED)], id="back, still known"
        ),
        pytest.param([*LIFE[:2], change(Op.SNAPSHOT, "a", 4, seq=3, prev=10, epoch=2)], id="lower in a later epoch"),
        pytest.param([*LIFE, change(Op.SNAPSHOT, "a", 4, seq=1, epoch=2)], id="back, forgotten, in a later epoch"),
        pytest.param([LIFE[0], change(Op.GAP, "a", 9, gap=Cause.CONFLICT), LIFE[1]], id="a conflict is no version"),
        pytest.param([LIFE[0], change(Op.CREATED, "b", 2, seq=1), LIFE[1]], id="others do not matter"),
    ],
)
def test_lives_in_order_hold(log: list[Change]) -> None:
    assert verdict(evidence(None, log)).status is Status.HOLDS


@pytest.mark.parametrize(
    ("log", "says"),
    [
        pytest.param([LIFE[0], LIFE[0]], "seq 1 follows 1", id="repeated"),
        pytest.param([LIFE[0], replace(LIFE[0], seq=2, prev_rv="9")], "9 follows CREATED at 9", id="version repeated"),
        pytest.param([LIFE[0], LIFE[2]], "seq 3 follows 1", id="hole"),
        pytest.param(LIFE[1:], "seq 2 is its first", id="begins late"),
        pytest.param([LIFE[1], LIFE[0]], "at version 9 follows UPDATED at 10", id="back in version"),
        pytest.param([LIFE[0], change(Op.UPDATED, "a", 10, seq=2, prev=8)], "prev_rv 8", id="another predecessor"),
        pytest.param([*LIFE, change(Op.CREATED, "a", 12, seq=4, prev=11)], "without RESURRECTED", id="back unsaid"),
        pytest.param(
            [*LIFE, change(Op.DELETED, "a", 11, seq=4, prev=11)], "11 follows DELETED at 11", id="deleted twice"
        ),
        pytest.param([change(Op.SNAPSHOT, "a", 9, seq=1, epoch=2), LIFE[1]], "epoch 1 follows 2", id="back in epoch"),
        pytest.param(
            [*LIFE, change(Op.SNAPSHOT, "a", 4, seq=4, prev=11, epoch=2)],
            "without RESURRECTED",
            id="back unsaid, known",
        ),
    ],
)
def test_disorder_is_refused(log: list[Change], says: str) -> None:
    found = verdict(evidence(None, log))
    assert found.status is Status.FAILS
    assert any(says in finding for finding in found.findings), found.findings


def test_a_record_in_a_foreign_partition_is_refused() -> None:
    given = Evidence(None, (Entry(0, 0, LIFE[0]), Entry(1, 0, LIFE[1])), partitions=2)
    found = verdict(given)
    assert found.status is Status.FAILS
    assert "its UID belongs to" in found.findings[0]


def test_an_empty_log_proves_nothing() -> None:
    assert verdict(evidence(None, [])).status is Status.UNKNOWN
