"""The reading verbs on a real broker: what they print, where they end, and with which status."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kubecdc.cli import main
from kubecdc.records import Cause, Op
from local.broker import Broker
from tests.kubecdc.logs import Log
from tests.kubecdc.making import change, gap, progress

LIFE = [change(), change(Op.UPDATED, rv="11", seq=2), change(Op.DELETED, rv="12", seq=3, object=None)]
OTHER = change(uid="u2", rv="13", group="apps", resource="deployments", namespace="other")


@pytest.fixture
def log(kafka_broker: Broker) -> Log:
    return Log(kafka_broker.bootstrap)


def where(log: Log) -> list[str]:
    return ["--bootstrap", log.bootstrap, "--prefix", log.prefix]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_replay_shows_a_life_and_the_gaps_with_bounds(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(*LIFE, ("u1", None), progress(None, "12", count=0), gap(Cause.RELIST_WINDOW, "12", "20"), OTHER)
    assert main(["replay", *where(log), "-o", "ndjson", "--from", "beginning"]) == 0
    output = capsys.readouterr()
    found = [json.loads(line) for line in output.out.splitlines()]
    assert [(each["op"], each["seq"]) for each in found if each["uid"] == "u1"] == [
        ("CREATED", 1),
        ("UPDATED", 2),
        ("DELETED", 3),
    ]
    assert [(g["after_rv"], g["upto_rv"]) for g in found if g["op"] == "GAP"] == [("12", "20")] * 2
    assert sum(each["op"] == "PROGRESS" for each in found) == 2
    assert output.err == "kubecdc: full history from the beginning of the log\n"


def test_replay_can_be_narrowed(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(*LIFE, OTHER, progress(None, "12", count=0))
    for flags in (
        ["--resource", "deployments.apps"],
        ["-n", "other", "--no-progress"],
        ["--uid", "u2", "--no-progress"],
    ):
        assert main(["replay", *where(log), "-o", "ndjson", *flags]) == 0
        assert [each["uid"] for each in lines(capsys)] == ["u2"]
    assert main(["replay", *where(log), "--cluster", "none"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1, "the head of the table"


@pytest.mark.parametrize("verb", ["replay", "state", "gaps"])
def test_filters_that_match_nothing_are_told(verb: str, log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(*LIFE, OTHER, progress(None, "12", count=0))
    for flags, told in (
        (["--resource", "configmap"], "kubecdc: no kind configmap in what was read, only deployments.apps, pods\n"),
        (["--cluster", "none"], "kubecdc: no cluster none in what was read, only c\n"),
        (["--resource", "deployments", "--cluster", "c"], ""),
    ):
        assert main([verb, *where(log), *flags, "-o", "ndjson"]) == 0
        err = capsys.readouterr().err
        assert err.removeprefix("kubecdc: full history from the beginning of the log\n") == told


def test_state_in_each_form(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(*LIFE, OTHER, progress(None, "12", count=0))
    assert main(["state", *where(log), "-o", "ndjson"]) == 0
    assert [(each["uid"], each["object"]) for each in lines(capsys)] == [
        ("u2", {"kind": "Pod", "spec": {"nodeName": "a"}})
    ]
    assert main(["state", *where(log), "-o", "json"]) == 0
    whole = json.loads(capsys.readouterr().out)
    assert [each["uid"] for each in whole["objects"]] == ["u2"]
    assert whole["resolved"] == [{"cluster": "c", "resource": "pods", "epoch": 1, "resolved": "12"}]
    assert main(["state", *where(log)]) == 0
    assert "deployments.apps  other      pod-u2" in capsys.readouterr().out


def test_tables_know_what_progress_tells(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(LIFE[0], progress(None, "12"), gap(Cause.COVERAGE_LOST, "12", None), progress("12", "30", count=0))
    assert main(["state", *where(log), "--at-rv", "29"]) == 0
    told = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["c", "pods", "1", "30"] in told
    assert ["pods", "ns", "pod-u1"] in [line[:3] for line in told]
    assert main(["gaps", *where(log)]) == 0
    assert "(12, closed later]" in capsys.readouterr().out


def test_a_state_inside_a_gap_is_told(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(progress(None, "12"), gap(Cause.RELIST_WINDOW, "12", "20"))
    assert main(["state", *where(log), "--at-rv", "15", "-o", "json"]) == 0
    output = capsys.readouterr()
    assert "version 15 of pods lies inside a gap: objects may be missing" in output.err
    assert json.loads(output.out)["inside_gap"] == [{"cluster": "c", "resource": "pods", "scope": ""}]
    assert main(["state", *where(log), "--at-rv", "20", "-o", "json"]) == 0
    output = capsys.readouterr()
    assert (output.err, json.loads(output.out)["inside_gap"]) == ("", [])


def test_gaps_in_each_form(log: Log, capsys: pytest.CaptureFixture[str]):
    log.write(progress(None, "12"), gap(Cause.COVERAGE_LOST, "12", None), gap(Cause.RELIST_WINDOW, "12", "20"))
    for form in ("json", "ndjson"):
        assert main(["gaps", *where(log), "-o", form]) == 0
        out = capsys.readouterr().out
        found = json.loads(out) if form == "json" else [json.loads(line) for line in out.splitlines()]
        assert [(each["cause"], each["after_rv"], each["upto_rv"], each["open"]) for each in found] == [
            ("COVERAGE_LOST", "12", None, False),
            ("RELIST_WINDOW", "12", "20", False),
        ]
    assert main(["gaps", *where(log)]) == 0
    assert "(12, 20]" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["replay", "state", "gaps"])
def test_a_broken_log_ends_with_status_3_at_once_or_after_the_report(
    verb: str, log: Log, capsys: pytest.CaptureFixture[str]
):
    log.write(LIFE[0], LIFE[2])
    assert main([verb, *where(log)]) == 3
    assert "has seq 3 after 1" in capsys.readouterr().err
    assert main([verb, *where(log), "--on-break", "report"]) == 3
    told = capsys.readouterr().err
    assert "has seq 3 after 1" in told
    assert "the log is broken in 1 places" in told


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """A program started in the background of a shell ignores SIGINT, as do its children."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_subscribe_prints_at_once_and_ends_quietly_with_ctrl_c(log: Log, ctrl_c: None):
    log.write(LIFE[0])
    command = [sys.executable, "-m", "kubecdc", "subscribe", *where(log), "-o", "ndjson"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["seq"] == 1
        log.write(LIFE[1])
        assert json.loads(process.stdout.readline())["seq"] == 2
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (out, err, process.returncode) == ("", "", 130)


def test_what_is_wrong_is_told_at_once_and_before_any_connection(capsys: pytest.CaptureFixture[str]):
    assert main(["subscribe", "--bootstrap", "127.0.0.1", "--from", "x", "--on-break", "y", "-o", "z"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 4


def test_topics_that_do_not_exist_are_told(log: Log, capsys: pytest.CaptureFixture[str]):
    assert main(["replay", "--bootstrap", log.bootstrap, "--prefix", "none"]) == 2
    assert "topic none.changes does not exist" in capsys.readouterr().err
