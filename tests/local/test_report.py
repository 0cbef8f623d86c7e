"""The report says the same to people and to programs, names each gap once, and is ok only if everything holds."""

from __future__ import annotations

import io
import json
from dataclasses import replace

from rich.console import Console

from kubecdc.records import Cause, Op
from local.report import GapLine, Report, changes_in, gaps_in, inferred_deletes_in
from local.verdicts import Entry, Status, Verdict
from tests.local.logs import change, gap, inferred, progress

HOLDS = {name: Verdict(name, Status.HOLDS, 5) for name in ("G1", "G2", "G3")}
REPORT = Report(
    cluster="sim",
    runtime="plain",
    seed=7,
    events=10,
    changes=9,
    duplicates=2,
    stale=1,
    inferred_deletes=3,
    gaps=[GapLine("RELIST_WINDOW", "pods", "4", None)],
    faults={"kill -9 of the worker": 1},
    verdicts=HOLDS,
    seconds=12.34,
)


def test_the_object_has_exactly_the_promised_keys() -> None:
    assert json.loads(REPORT.to_json()) == {
        "ok": True,
        "cluster": "sim",
        "runtime": "plain",
        "seed": 7,
        "events": 10,
        "changes": 9,
        "duplicates": 2,
        "stale": 1,
        "inferred_deletes": 3,
        "gaps": [{"cause": "RELIST_WINDOW", "resource": "pods", "after_rv": "4", "upto_rv": None}],
        "faults": {"kill -9 of the worker": 1},
        "verdicts": {"G1": "holds", "G2": "holds", "G3": "holds"},
        "seconds": 12.3,
    }
    assert "\n" not in REPORT.to_json()


def test_what_is_unknown_is_not_ok() -> None:
    for status in (Status.UNKNOWN, Status.FAILS):
        assert not replace(REPORT, verdicts={**HOLDS, "G2": Verdict("G2", status, 0, ("why",))}).ok


def test_people_read_the_numbers_the_faults_the_gaps_and_every_finding() -> None:
    out = io.StringIO()
    failing = replace(REPORT, verdicts={**HOLDS, "G2": Verdict("G2", Status.FAILS, 1, ("a delete is [missing]",))})
    failing.render(Console(file=out, width=120))
    text = out.getvalue()
    for words in (
        "seed 7",
        "kill -9 of the worker",
        "RELIST_WINDOW",
        "still open",
        "fails",
        "G2: a delete is [missing]",
    ):
        assert words in text
    assert "\x1b" not in text


def test_a_gap_of_the_stream_counts_once_over_partitions() -> None:
    log = [Entry(number, 0, gap(4, 9)) for number in range(3)] + [Entry(0, 1, gap(12, None, Cause.COVERAGE_LOST))]
    assert gaps_in(log) == [GapLine("RELIST_WINDOW", "pods", "4", "9"), GapLine("COVERAGE_LOST", "pods", "12", None)]


def test_a_cause_on_an_object_is_listed_where_no_stream_gap_names_it() -> None:
    missed = change(Op.UPDATED, "a", 8, seq=2, prev=5, gap=Cause.GENERATION_JUMP)
    log = [Entry(0, 0, gap(4, 9)), Entry(0, 1, inferred("b", 2, 9, seq=2)), Entry(0, 2, missed)]
    assert gaps_in(log) == [GapLine("RELIST_WINDOW", "pods", "4", "9"), GapLine("GENERATION_JUMP", "pods", "5", "8")]


def test_counts() -> None:
    changes = [change(Op.CREATED, "a", 2, seq=1), inferred("a", 2, 9, seq=2), gap(2, 9), progress(9, 12)]
    log = [Entry(0, offset, each) for offset, each in enumerate(changes)]
    assert changes_in(log) == 2
    assert inferred_deletes_in(log) == 1
