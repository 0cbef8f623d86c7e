"""The page and the probes are served, and a port that cannot be had is told."""

from __future__ import annotations

import urllib.error
import urllib.request

import pytest
from prometheus_client import CollectorRegistry, Counter

from kubecdc.errors import Misconfigured
from kubecdc.probes import MetricsServer


def test_readyz_says_why_not_and_healthz_does_not():
    server = MetricsServer(0, CollectorRegistry(), lambda: False, lambda: False, lambda: ["a token is refused", "é"])
    try:
        said = {}
        for probe in ("healthz", "readyz"):
            with pytest.raises(urllib.error.HTTPError, match="503") as refused:
                urllib.request.urlopen(f"http://127.0.0.1:{server.port}/{probe}")
            said[probe] = refused.value.read().decode()
        assert said == {"healthz": "not yet\n", "readyz": "not yet\na token is refused\né\n"}
    finally:
        server.close()


def test_probes_follow_what_they_are_told():
    ready = [False]
    registry = CollectorRegistry()
    Counter("seen", "Things seen", registry=registry).inc(3)
    server = MetricsServer(0, registry, lambda: True, lambda: ready[0])
    base = f"http://127.0.0.1:{server.port}"
    try:
        assert urllib.request.urlopen(f"{base}/healthz").status == 200
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{base}/readyz")
        ready[0] = True
        assert urllib.request.urlopen(f"{base}/readyz").status == 200
        assert b"seen_total 3.0" in urllib.request.urlopen(f"{base}/metrics").read()
        with pytest.raises(Misconfigured, match=f"--metrics-port {server.port} cannot be used"):
            MetricsServer(server.port, CollectorRegistry(), lambda: True, lambda: True)
    finally:
        server.close()


def test_notes_are_shown_by_readyz_whether_ready_or_not():
    ready = [True]
    server = MetricsServer(0, CollectorRegistry(), lambda: True, lambda: ready[0], notes=lambda: ("forbidden",))
    try:
        base = f"http://127.0.0.1:{server.port}"
        assert urllib.request.urlopen(f"{base}/readyz").read() == b"ok\nforbidden\n"
        assert urllib.request.urlopen(f"{base}/healthz").read() == b"ok\n"
        ready[0] = False
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"{base}/readyz")
        with refused.value:
            assert refused.value.read() == b"not yet\nforbidden\n"
    finally:
        server.close()
