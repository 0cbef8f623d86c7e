"""Guarantees: the command writes to a real Kafka, leaves gracefully on SIGTERM, and tells all faults at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubecdc import kafka, topics
from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured, Unreachable
from kubecdc.records import EventType, Position
from kubecdc.start import BEGINNING
from local.broker import Broker
from local.ports import free_port
from local.sim_server import SimServer
from producer.cli import produce


def read_all(bootstrap: str, topic: str) -> list[object]:
    reader = kafka.TopicReader(bootstrap, topic, BEGINNING, follow=False)
    records: list[object] = []
    try:
        while not reader.done:
            records += [Codec().decode(stored.value) for stored in reader.poll(0.2) if stored.value is not None]
    finally:
        reader.close()
    return records


def get(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except OSError:
        return 0


def test_it_writes_events_and_positions_and_leaves_gracefully(kafka_broker: Broker, tmp_path: Path) -> None:
    prefix, port = f"cli{uuid.uuid4().hex[:8]}", free_port()
    kafka.create_topics(kafka_broker.bootstrap, topics.table(prefix, 3, 1))
    with SimServer() as server:
        kind = server.store.kind("", "configmaps")
        for number in range(10):
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{number}"}}
            server.store.create(kind, body, namespace="default")
        command = [sys.executable, "-m", "kubecdc", "produce", "--bootstrap", kafka_broker.bootstrap]
        command += ["--prefix", prefix, "--server", server.url, "--cluster", "c", "--resources", "configmaps"]
        environment = os.environ | {"KUBECDC_METRICS_PORT": str(port), "XDG_STATE_HOME": str(tmp_path)}
        with subprocess.Popen(command, stderr=subprocess.PIPE, env=environment, text=True) as process:
            lines: list[str] = []
            assert process.stderr is not None
            drain = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
            drain.start()
            deadline = time.monotonic() + 60
            while get(f"http://127.0.0.1:{port}/readyz") != 200:
                assert process.poll() is None, lines
                assert time.monotonic() < deadline, lines
                time.sleep(0.05)
            assert get(f"http://127.0.0.1:{port}/healthz") == 200
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, lines
            drain.join(5)
        assert not any("Traceback" in line for line in lines)
    events = read_all(kafka_broker.bootstrap, f"{prefix}.events")
    assert sum(1 for event in events if getattr(event, "type", None) is EventType.LISTED) == 10
    (position,) = read_all(kafka_broker.bootstrap, f"{prefix}.positions")
    assert isinstance(position, Position)
    assert position.rv == str(server.store.revision)


def test_all_faults_of_the_configuration_are_told_at_once() -> None:
    result = CliRunner().invoke(
        produce,
        ["--server", "http://x", "--context", "y", "--resources", "a/b/c/d", "--page-size", "0", "--backoff-min", "50"],
        env={"KUBECDC_METRICS_PORT": "99999", "KUBECDC_REDACTION_KEY": "short"},
    )
    assert isinstance(result.exception, Misconfigured)
    text = str(result.exception)
    for part in ("--bootstrap", "--context", "a/b/c/d", "page-size", "METRICS_PORT", "--backoff-min", "redaction key"):
        assert part in text
    assert "short" not in text


def test_an_absent_api_server_is_told(kafka_broker: Broker) -> None:
    result = CliRunner().invoke(
        produce, ["--bootstrap", kafka_broker.bootstrap, "--server", "http://127.0.0.1:9", "--redaction-key", "k" * 16]
    )
    assert isinstance(result.exception, Unreachable)
    assert "127.0.0.1:9" in str(result.exception)


def test_an_absent_broker_is_told_within_seconds() -> None:
    started = time.monotonic()
    with SimServer() as server:
        result = CliRunner().invoke(
            produce, ["--bootstrap", "127.0.0.1:9", "--server", server.url, "--redaction-key", "k" * 16]
        )
    assert isinstance(result.exception, Unreachable)
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_help_and_formats(log_format: str) -> None:
    result = CliRunner().invoke(produce, ["--help"])
    assert result.exit_code == 0
    assert "--resources" in result.output
    assert log_format in result.output
