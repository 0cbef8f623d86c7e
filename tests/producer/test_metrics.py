"""Guarantees: what sessions count is on the page under their labels, probes answer, a port in use is told."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request

import pytest

from kubecdc.errors import Misconfigured
from kubecdc.probes import MetricsServer
from producer.metrics import Metrics, StreamMetrics


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_pages_and_probes() -> None:
    metrics = Metrics()
    stream = StreamMetrics(metrics, "pods", "ns")
    stream.count("relists", "broken-frame: not JSON")
    stream.count("relist_aborted", "")
    stream.phase("live")
    stream.phase("waiting")
    stream.frame()
    state = {"healthy": True, "ready": False}
    server = MetricsServer(0, metrics.registry, lambda: state["healthy"], lambda: state["ready"])
    try:
        status, text = get(server.port, "/metrics")
        assert status == 200
        assert 'kubecdc_producer_relists_total{reason="broken-frame",resource="pods"} 1.0' in text
        assert 'kubecdc_producer_session_phase{phase="live",resource="pods",scope="ns"} 0.0' in text
        assert get(server.port, "/healthz")[0] == 200
        assert get(server.port, "/readyz")[0] == 503
        state["ready"] = True
        assert get(server.port, "/readyz")[0] == 200
        assert get(server.port, "/other")[0] == 404
    finally:
        server.close()
    assert metrics.value("relist_aborted_total") == 1
    assert metrics.value("leading") == 1
    assert metrics.value("session_phase", phase="waiting") == 1
    assert metrics.value("absent") == 0


# What an operator has to see of a producer; gaps and drops by verdict are a worker's (processors.metrics).
PROMISED = {
    *("events_total", "relists_total", "coverage_lost_total", "position_lag_seconds", "last_frame_timestamp_seconds"),
    *("queue_depth", "omitted_total", "redacted_total"),
}


def test_every_promised_metric_is_there_from_the_start() -> None:
    metrics = Metrics()
    named = {sample for family in metrics.registry.collect() for sample in (family.name, f"{family.name}_total")}
    assert {f"kubecdc_producer_{name}" for name in PROMISED} <= named


def test_a_port_in_use_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        with pytest.raises(Misconfigured, match="metrics-port"):
            MetricsServer(taken.getsockname()[1], Metrics().registry, lambda: True, lambda: True)
