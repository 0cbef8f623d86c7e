"""Sessions have ids of their own, and what no session follows any more is told all the same."""

from __future__ import annotations

import logging

import pytest

from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured
from kubecdc.records import EventType, Position
from producer.cluster import Cluster
from producer.metrics import Metrics
from producer.past import unknown
from producer.selection import ResourceInfo
from producer.sessions import Sessions
from producer.settings import ClusterSettings, ProducerSettings, RedactionSettings, WatchSettings
from tests.producer.memory_sink import MemorySink

KIND = ResourceInfo("", "v1", "configmaps", "ConfigMap", namespaced=True, verbs=frozenset({"list", "watch"}))


def made(sink: MemorySink, metrics: Metrics, *rules: str) -> Sessions:
    cluster = Cluster(ClusterSettings("c", server="http://127.0.0.1:9"))
    settings = ProducerSettings(WatchSettings(page_size=7), RedactionSettings(rules=rules))
    return Sessions(cluster, sink, settings, metrics, (Codec(), Codec()))


def test_no_two_sessions_share_an_id() -> None:
    """Readers take records of one id for one numbered series, over all runs."""
    runs = [made(MemorySink(), Metrics()) for _ in range(2)]
    drivers = [run.driver(KIND, scope, streamed=False, recall=unknown) for run in runs for scope in ("", "default")]
    assert len({driver.labels["session"] for driver in drivers}) == 4
    assert [(driver.target.namespace, driver.target.page_size) for driver in drivers[:2]] == [("", 7), ("default", 7)]


def test_coverage_of_a_kind_that_went_is_lost_in_every_partition(caplog: pytest.LogCaptureFixture) -> None:
    sink, metrics = MemorySink(), Metrics()
    sessions = made(sink, metrics)
    with caplog.at_level(logging.WARNING):
        sessions.tell_unserved(Position("c", "example.io", "widgets", "n", 3, "70", "v2", "earlier", 1))
    assert [(e.type, e.epoch, e.version, e.scope, e.rv, e.seq) for e in sink.events()] == [
        (EventType.COVERAGE_LOST, 3, "v2", "n", None, 0)
    ] * sink.partitions
    assert sink.stored == {}
    assert "widgets.example.io is not served any more" in caplog.text
    assert metrics.value("coverage_lost_total", resource="widgets.example.io") == 1


def test_rules_that_nobody_can_read_are_refused() -> None:
    with pytest.raises(Misconfigured, match="redaction rule"):
        made(MemorySink(), Metrics(), "no rule")
