"""Each counter of the pure part has a metric; the page and the probes are served."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest

from kubecdc.errors import Misconfigured
from kubecdc.probes import MetricsServer
from processors.metrics import Metrics


def test_verdicts_changes_and_gaps_are_told_apart():
    metrics = Metrics()
    metrics.count({"duplicate": 2, "created": 3, "gap_CONFLICT": 1, "stale": 0})
    metrics.count({"duplicate": 1})
    assert metrics.value("verdicts_total", verdict="duplicate") == 3
    assert metrics.value("changes_total", op="created") == 3
    assert metrics.value("gaps_total", cause="CONFLICT") == 1
    assert metrics.value("verdicts_total") == 3


def test_a_partition_that_is_gone_leaves_no_gauge():
    metrics = Metrics()
    metrics.lag.labels("1").set(7)
    metrics.forget(1)
    metrics.forget(2)
    assert metrics.value("lag") == 0


def test_probes_follow_what_they_are_told():
    ready = [False]
    server = MetricsServer(0, Metrics().registry, lambda: True, lambda: ready[0])
    base = f"http://127.0.0.1:{server.port}"
    try:
        assert urllib.request.urlopen(f"{base}/healthz").status == 200
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{base}/readyz")
        ready[0] = True
        assert urllib.request.urlopen(f"{base}/readyz").status == 200
        assert b"kubecdc_processor_restarts_total" in urllib.request.urlopen(f"{base}/metrics").read()
        with pytest.raises(Misconfigured, match=f"--metrics-port {server.port} cannot be used"):
            MetricsServer(server.port, Metrics().registry, lambda: True, lambda: True)
    finally:
        server.close()
