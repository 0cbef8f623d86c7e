"""What is printed: JSON that holds the whole record, tables that people can read."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc import render
from kubecdc.folding import Fold, GapReport, Resolved, Resource
from kubecdc.records import Cause, Gap, Manager, ObjectOmitted, Op
from kubecdc.start import start_of
from tests.kubecdc.making import NOW_MS, change, entry, gap, progress

PODS = Resource("c", "", "pods")


def test_a_change_as_json_has_every_field_and_its_object_as_json():
    made = change(
        Op.UPDATED,
        changed=("/spec/a",),
        changed_by=(Manager("kubectl", "Apply", "", "t"),),
        object='{"n":12345678901234567890123,"f":1.10}',
        object_omitted=ObjectOmitted("too-large", 9),
        gap=Gap(Cause.GENERATION_JUMP, 2),
    )
    text = render.change_json(made).decode()
    assert '"object":{"n":12345678901234567890123,"f":1.10}' in text
    value = json.loads(text)
    assert set(value) == set(type(made).__dataclass_fields__)
    assert value["gap"] == {"cause": "GENERATION_JUMP", "missed_at_least": 2, "detail": ""}
    assert value["changed_by"] == [{"manager": "kubectl", "operation": "Apply", "subresource": "", "time": "t"}]
    assert value["op"] == "UPDATED"


@given(st.one_of(st.text(), st.sampled_from(['{"a":\n1}', "[1,\r2]", '"\u2028"', "{", "NaN", "1e999"])))
def test_whatever_the_object_says_a_change_is_one_line_of_json(text: str):
    line = render.change_json(change(object=text)).decode()
    assert "\n" not in line
    assert "\r" not in line
    assert json.loads(line)["uid"] == "u1"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_changes_as_json_are_one_array(count: int, capsys: pytest.CaptureFixture[str]):
    with render.Changes("json") as printer:
        for number in range(count):
            printer.add([change(uid=f"u{number}")])
    assert [each["uid"] for each in json.loads(capsys.readouterr().out)] == [f"u{n}" for n in range(count)]


def test_an_array_is_ended_when_the_reading_is_interrupted(capsys: pytest.CaptureFixture[str]):
    def interrupted() -> None:
        with render.Changes("json") as printer:
            printer.add([change()])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(json.loads(capsys.readouterr().out)) == 1


def test_changes_as_ndjson_are_a_line_each(capsys: pytest.CaptureFixture[str]):
    with render.Changes("ndjson") as printer:
        printer.add([change(), progress(None, "10")])
    assert [json.loads(line)["op"] for line in capsys.readouterr().out.splitlines()] == ["CREATED", "PROGRESS"]


def test_changes_as_lines_tell_what_happened_where_and_why(capsys: pytest.CaptureFixture[str]):
    inferred = change(
        Op.DELETED,
        inferred=True,
        after_rv="10",
        upto_rv="20",
        rv="20",
        seq=2,
        gap=Gap(Cause.RELIST_WINDOW, None, "why"),
    )
    paths = tuple(f"/spec/p{number}" for number in range(6))
    updated = change(Op.UPDATED, changed=paths, changed_by=(Manager("kubectl", "Apply", "", ""),), noise=True)
    with render.Changes("table") as printer:
        printer.add(
            [change(name="[red]x"), updated, inferred, gap(Cause.COVERAGE_LOST, "20", None), progress(None, "9")]
        )
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["TIME", "OP", "KIND", "OBJECT"]
    assert "ns/[red]x" in lines[0]
    assert "noise; /spec/p0 /spec/p1 /spec/p2 /spec/p3 and 2 more; by kubectl" in lines[1]
    assert "RELIST_WINDOW: why; inferred in (10, 20]" in lines[2]
    assert "(20, open]" in lines[3]
    assert "(start, 9]" in lines[4]


EVIL = "\x1b]0;x\x07\x9b2J\x7f\ra\nb\tc\u202e"
SHOWN = "\\x1b]0;x\\x07\\x9b2J\\x7f\\ra\\nb\\tc\\u202e"


@pytest.mark.parametrize("terminal", [False, True])
def test_names_and_details_cannot_act_on_the_terminal(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("COLUMNS", "400")
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")
    lost = gap(Cause.COVERAGE_LOST, "5", None)
    report = GapReport(PODS, "", 1, Cause.COVERAGE_LOST, "5", None, None, EVIL, None, "", "", (0,), NOW_MS)
    with render.Changes("table") as printer:
        printer.add([change(name=EVIL), replace(lost, gap=Gap(Cause.COVERAGE_LOST, None, EVIL))])
    render.state_table([change(name=EVIL, namespace=EVIL)], {})
    render.gap_table([report])
    render.rows([{"name": EVIL}], "table")
    out = capsys.readouterr().out
    assert out.count(SHOWN) == 6
    assert not set("\x07\x9b\x7f\r\t\u202e") & set(out)
    assert terminal or "\x1b" not in out


def test_rows_in_each_form(capsys: pytest.CaptureFixture[str]):
    found = [{"name": "a", "size": 1, "of": (1, 2)}, {"name": "bcd", "size": None, "of": ()}]
    render.rows(found, "table")
    assert capsys.readouterr().out == "NAME  SIZE  OF\na     1     1,2\nbcd\n"
    render.rows(found, "json")
    assert json.loads(capsys.readouterr().out)[1] == {"name": "bcd", "size": None, "of": []}
    render.rows(found, "ndjson")
    assert len([json.loads(line) for line in capsys.readouterr().out.splitlines()]) == 2
    render.rows([], "table")
    assert capsys.readouterr().out == ""


def test_gaps_and_state_for_people(capsys: pytest.CaptureFixture[str]):
    lost = GapReport(PODS, "", 1, Cause.COVERAGE_LOST, "5", None, None, "forbidden", None, "", "", (0, 1), NOW_MS, True)
    jump = GapReport(PODS, "", 1, Cause.GENERATION_JUMP, "5", "9", 2, "", "u1", "ns", "p", (0,), NOW_MS)
    render.gap_table([lost, jump])
    _, first, second = capsys.readouterr().out.splitlines()
    assert first.split()[1:] == ["COVERAGE_LOST", "pods", "(all)", "(5,", "open]", "forbidden"]
    assert second.split()[1:] == ["GENERATION_JUMP", "pods", "ns/p", "(5,", "9]", ">=", "2"]
    assert [row["open"] for row in render.gap_rows([lost, jump])] == [True, False]
    render.state_table([change()], {PODS: Resolved(1, "9"), Resource("c", "apps", "deployments"): None})
    out = capsys.readouterr().out
    assert "pods  ns         pod-u1" in out
    assert ["c", "pods", "1", "9"] in [line.split() for line in out.splitlines()]
    assert ["c", "deployments.apps"] in [line.split() for line in out.splitlines()]


def test_tables_tell_the_day(capsys: pytest.CaptureFixture[str]):
    told = "2027-01-15T08:00:00.000Z"
    render.state_table([change()], {})
    render.gap_table([GapReport(PODS, "", 1, Cause.CONFLICT, "5", "9", None, "", "u", "n", "p", (0,), NOW_MS)])
    assert render.change_line(change()).startswith(told)
    assert capsys.readouterr().out.count(told) == 2
    assert start_of(told, datetime.now(UTC)).time_ms == NOW_MS


def test_a_record_that_nobody_can_read_is_shown_as_one(capsys: pytest.CaptureFixture[str]):
    detail = "events partition 1 offset 7: unknown framing"
    record = replace(
        gap(Cause.UNDECODABLE, None, None, cluster="", resource="", version=""),
        gap=Gap(Cause.UNDECODABLE, None, detail),
    )
    fold = Fold(1)
    fold.step(entry(record))
    render.gap_table(fold.gaps())
    shown = capsys.readouterr().out.splitlines()[1]
    for line in (shown, render.change_line(record)):
        assert "(unknown)" in line
        assert "(one record)" in line
        assert detail in line
        assert "start" not in line
        assert "closed" not in line
    (row,) = render.gap_rows(fold.gaps())
    assert (row["cluster"], row["resource"], row["open"], row["detail"]) == (None, None, None, detail)


def test_a_table_on_a_terminal_is_drawn_with_all_that_is_in_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    render.rows([{"name": "[bold]x", "size": 1}], "table")
    out = capsys.readouterr().out
    assert "[bold]x" in out
    assert "NAME" in out
