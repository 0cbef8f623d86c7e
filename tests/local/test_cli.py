"""`up` and `demo` as a user starts them: what they print, what ends them, and with which status."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from kubecdc.kafka import live_topics
from local import cli
from local.ports import free_port


@contextmanager
def started(verb: str, *arguments: str, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """The verb in a process of its own, whose temporary files go to a folder that can be looked into."""
    command = [sys.executable, "-m", "kubecdc", verb, *arguments]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_up_prints_its_address_makes_topics_and_ends_when_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    arguments = ("--data", str(data), "--partitions", "2", "--prefix", "mine")
    for _ in range(2):  # the second time on the same data
        with started("up", *arguments, temporary=tmp_path) as process:
            assert process.stdout is not None
            bootstrap = process.stdout.readline().strip()
            assert live_topics(bootstrap, "mine")["mine.changes"].partitions == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", int(bootstrap.rpartition(":")[2])), timeout=5)


def test_a_second_up_on_a_folder_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    data = ("--data", str(tmp_path / "data"), "--no-topics")
    with started("up", *data, temporary=tmp_path) as first:
        assert first.stdout is not None
        assert first.stdout.readline()
        with started("up", *data, temporary=tmp_path) as second:
            _, err = second.communicate(timeout=60)
        assert second.returncode == 2
        (told,) = err.splitlines()
        assert told.startswith(f"error: another server runs on {tmp_path / 'data'}: ")
        first.kill()
    with started("up", *data, temporary=tmp_path) as third:
        assert third.stdout is not None
        assert third.stdout.readline()


def test_up_on_a_taken_port_says_so() -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        done = CliRunner().invoke(cli.up, ["--port", str(port), "--data", "unused"])
    assert done.exit_code == 2
    assert f"port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_demo_without_a_kubeconfig_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    done = CliRunner().invoke(cli.demo, ["--cluster", "kubeconfig"])
    assert done.exit_code == 2
    assert "set KUBECONFIG, or use --cluster sim" in done.stderr


def test_demo_without_a_real_api_server_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    done = CliRunner().invoke(cli.demo, ["--cluster", "envtest"])
    assert done.exit_code == 2
    assert "kube-apiserver" in done.stderr


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--cluster", "moon"], ["--seed", "-1"], ["-o", "xml"]])
def test_demo_refuses_what_makes_no_sense(arguments: list[str]) -> None:
    done = CliRunner().invoke(cli.demo, arguments)
    assert done.exit_code == 2
    assert "Invalid value" in done.stderr


def test_demo_reports_on_its_last_line_and_leaves_nothing_behind(tmp_path: Path) -> None:
    arguments = ("--seconds", "6", "--seed", "3", "--runtime", "plain", "-o", "json")
    with started("demo", *arguments, temporary=tmp_path) as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, err[-3000:]
    report = json.loads(out.splitlines()[-1])
    assert (report["ok"], report["cluster"], report["runtime"], report["seed"]) == (True, "sim", "plain", 3)
    assert "\x1b" not in err
    assert list(tmp_path.iterdir()) == []


def test_a_kept_log_can_be_served_and_replayed_later(tmp_path: Path) -> None:
    data = str(tmp_path / "kept")
    (temporary := tmp_path / "temporary").mkdir()
    with started("demo", "--seconds", "5", "--runtime", "plain", "--data", data, temporary=temporary) as process:
        out, err = process.communicate(timeout=200)
    assert process.returncode == 0, out[-3000:] + err[-3000:]
    assert f"kubecdc up --data {data}" in err
    with started("up", "--data", data, temporary=temporary) as process:
        assert process.stdout is not None
        bootstrap = process.stdout.readline().strip()
        replay = ["replay", "--bootstrap", bootstrap, "--from", "beginning", "-o", "ndjson"]
        command = [sys.executable, "-m", "kubecdc", *replay]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    records = [json.loads(line) for line in done.stdout.splitlines()]
    lives: dict[str, list[dict[str, object]]] = {}
    for record in records:
        if record["uid"] and record["seq"]:
            lives.setdefault(record["uid"], []).append(record)
    whole = [life for life in lives.values() if (life[0]["op"], life[-1]["op"]) == ("CREATED", "DELETED")]
    assert whole
    assert all([record["seq"] for record in life] == list(range(1, len(life) + 1)) for life in lives.values())
    gaps = [record for record in records if record["op"] == "GAP"]
    assert [gap for gap in gaps if gap["after_rv"] and gap["upto_rv"]]


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    done = CliRunner().invoke(cli.demo, ["--data", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty" in done.stderr


def test_ctrl_c_stops_everything_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with started("demo", "--seconds", "60", "--runtime", "plain", temporary=tmp_path) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "starting a producer" in line:
                break
        parent = psutil.Process(process.pid)
        deadline = time.monotonic() + 60
        while len(parent.children()) < 4 and time.monotonic() < deadline:  # Kafka, the server, producer, worker
            time.sleep(0.05)
        children = parent.children(recursive=True)
        assert len(children) >= 4
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in err
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert list(tmp_path.iterdir()) == []
