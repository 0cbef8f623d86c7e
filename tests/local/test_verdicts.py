"""Verdicts are three-valued: wrong outweighs unclear, and nothing seen or a broken checker is unknown."""

from __future__ import annotations

import pytest

from local.verdicts import FINDINGS_MAX, Evidence, Notes, Status, judge

NOTHING = Evidence(None, (), 1)


@pytest.mark.parametrize(
    ("notes", "status"),
    [
        (Notes(judged=1), Status.HOLDS),
        (Notes(), Status.UNKNOWN),
        (Notes(judged=1, unclear=["why"]), Status.UNKNOWN),
        (Notes(wrong=["this"]), Status.FAILS),
        (Notes(judged=9, wrong=["this"], unclear=["why"]), Status.FAILS),
    ],
)
def test_what_is_weighed(notes: Notes, status: Status) -> None:
    assert judge("G1", lambda _: notes, NOTHING).status is status


def test_a_broken_checker_has_proved_nothing() -> None:
    def broken(_: Evidence) -> Notes:
        raise IndexError("no such thing")

    verdict = judge("G2", broken, NOTHING)
    assert verdict.status is Status.UNKNOWN
    assert "no such thing" in verdict.findings[0]


def test_findings_are_counted_when_there_are_too_many() -> None:
    verdict = judge("G3", lambda _: Notes(wrong=[str(n) for n in range(FINDINGS_MAX + 5)]), NOTHING)
    assert len(verdict.findings) == FINDINGS_MAX + 1
    assert verdict.findings[-1] == "and 5 more"
