"""A kind of which nothing is heard is told, whatever the reason, in the log, in /readyz and in a metric; its end too.

Told in full, not only survived: the canonical log says nothing of it where no version was lost.
"""

from __future__ import annotations

import logging
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kubecdc import unheard
from kubecdc.errors import Unreachable
from kubecdc.probes import MetricsServer
from kubecdc.records import EventType
from local.sim_server import SimServer
from producer import service
from producer.cluster import Cluster
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, WatchSettings
from producer.sink import Place
from tests.producer.edge import MUTE, UNAVAILABLE, Edge
from tests.producer.memory_sink import MemorySink
from tests.producer.running import QUICK, WIDGETS, Background, config_map, until

ALERT_S = 1.0


class Sink(MemorySink):
    """A log whose positions cannot be read while `away` says why."""

    away = ""

    def positions(self, since: Place | None) -> tuple[list[tuple[str, bytes | None]], Place]:
        if self.away:
            raise Unreachable(self.away)
        return super().positions(since)


class Watched(Background):
    """A producer of ConfigMaps behind an edge, with its page; what it logs is in `lines`."""

    def __init__(self, server: SimServer, lines: pytest.LogCaptureFixture, **watch: Any) -> None:
        self.server, self.sink, self._lines = server, Sink(), lines
        self.edge = Edge(("127.0.0.1", server.port)).start()
        settings = WatchSettings(**{"resources": ("configmaps",), "unheard_after_s": 1.5, **QUICK, **watch})
        cluster = Cluster(ClusterSettings("c", server=f"http://127.0.0.1:{self.edge.port}"), connect_s=2.0)
        self.complaint = ""
        self.producer = Producer(cluster, self.sink, ProducerSettings(settings), complaint=lambda: self.complaint)
        probes = (self.producer.healthy, self.producer.ready, self.producer.unready)
        self._page = MetricsServer(0, self.producer.metrics.registry, *probes, notes=self.producer.notes)
        super().__init__(self.producer.run)

    def ready(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page.port}/readyz", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def told(self, who: str, *words: str, level: int = logging.WARNING) -> list[str]:
        records = list(self._lines.records)
        lines = [record.getMessage() for record in records if record.levelno == level]
        return [line for line in lines if line.startswith(f"{who}: ") and all(word in line for word in words)]

    def seconds(self, **labels: str) -> float:
        return self.producer.metrics.value("unheard_seconds", **labels)

    def write(self, name: str) -> str:
        kind = self.server.store.kind("", "configmaps")
        written = self.server.store.create(kind, config_map(name), namespace="default")
        return str(written["metadata"]["resourceVersion"])

    def holds(self, rv: str) -> bool:
        return any(event.rv == rv and event.uid for event in self.sink.events())

    def close(self) -> None:
        self.end()
        self.edge.stop()
        self._page.close()


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer() as running:
        yield running


@pytest.fixture
def watched(
    server: SimServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., Watched]]:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(unheard, "ALERT_S", ALERT_S)
    begun: list[Watched] = []

    def begin(**watch: Any) -> Watched:
        begun.append(Watched(server, caplog, **watch))
        until(begun[-1].producer.settled)
        return begun[-1]

    yield begin
    for one in begun:
        one.close()


def by_server(fault: str) -> tuple[Callable[[Watched], None], Callable[[Watched], None]]:
    def begin(one: Watched) -> None:
        one.server.faults.set(fault, "configmaps", verb="watch" if fault == "instant_close" else "")
        one.edge.cut()

    return begin, lambda one: one.server.faults.clear()


def at_edge(answer: bytes) -> tuple[Callable[[Watched], None], Callable[[Watched], None]]:
    return lambda one: one.edge.give(answer), lambda one: one.edge.give(None)


SILENCES = {
    "throttled": (*by_server("throttle_429"), "429 TooManyRequests"),
    "closed": (*by_server("instant_close"), "opened and closed at once"),
    "unauthorized": (*by_server("unauthorized_401"), "check the token"),
    "unavailable": (*at_edge(UNAVAILABLE), "503"),
    "no-answer": (*at_edge(MUTE), "no-answer (a request is under way and nothing comes: check"),
    "connection": (lambda one: one.edge.stop(), lambda one: one.edge.start(), "check the address"),
}


@pytest.mark.parametrize("reason", SILENCES)
def test_a_silence_is_told_with_its_reason_and_so_is_its_end(watched: Callable[..., Watched], reason: str) -> None:
    begin, end, words = SILENCES[reason]
    one = watched()
    assert one.ready() == (200, "ok\n")
    begin(one)
    until(lambda: one.told("configmaps", "nothing heard for", "since 20", words))
    until(lambda: one.seconds(resource="configmaps", scope="", reason=reason) > 1.5)
    until(lambda: one.ready()[0] == 503)
    status, page = one.ready()
    assert (status, "configmaps: nothing heard for " in page) == (503, True)
    assert len(one.told("configmaps")) <= 3, "a line in growing distances"
    assert one.told("configmaps", level=logging.INFO) == []
    before = one.seconds(resource="configmaps")
    until(lambda: one.seconds(resource="configmaps") > before + 0.5)
    end(one)
    rv = one.write("after")
    until(lambda: one.holds(rv))
    until(lambda: one.told("configmaps", "heard again after", level=logging.INFO))
    until(lambda: one.ready() == (200, "ok\n"))
    assert one.seconds(resource="configmaps") == 0
    assert len(one.told("configmaps", "heard again", level=logging.INFO)) == 1
    assert EventType.COVERAGE_LOST not in one.sink.types(0), "nothing was lost"


def test_while_it_is_silent_the_resolved_version_stands_still(watched: Callable[..., Watched]) -> None:
    one = watched()
    one.write("before")
    until(one.producer.settled)
    one.server.faults.set("throttle_429", "configmaps")
    one.edge.cut()
    one.write("meanwhile")
    until(lambda: one.told("configmaps", "throttled"))
    before = one.sink.stored["c//configmaps/"]
    until(lambda: one.ready()[0] == 503)
    assert one.sink.stored["c//configmaps/"] == before
    one.server.faults.clear()
    until(lambda: any(event.name == "meanwhile" and event.type is EventType.ADDED for event in one.sink.events()))


def test_a_forbidden_kind_is_named_and_keeps_nobody_from_being_ready(watched: Callable[..., Watched]) -> None:
    """The log says that it is not covered (COVERAGE_LOST); a role that leaves kinds out is no fault that passes."""
    one = watched()
    one.server.faults.set("forbidden_403", "configmaps")
    one.edge.cut()
    until(lambda: one.told("configmaps", "forbidden", "--exclude"))
    until(lambda: "configmaps: nothing heard" in one.ready()[1])
    assert one.ready()[0] == 200
    assert one.seconds(resource="configmaps", reason="forbidden") > 0
    until(lambda: EventType.COVERAGE_LOST in one.sink.types(0))
    one.server.faults.clear()
    rv = one.write("after")
    until(lambda: one.holds(rv))
    until(lambda: one.told("configmaps", "heard again", level=logging.INFO))
    until(lambda: one.ready() == (200, "ok\n"))


def test_a_kind_that_goes_is_silent_no_more(watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service, "CONFIRM_S", 0.1)
    definitions, faults = "customresourcedefinitions", "widgets.example.io"
    one = watched(resources=("configmaps", "*.example.io"))
    kind = one.server.store.kind("apiextensions.k8s.io", definitions)
    one.server.faults.set("throttle_429", faults)
    one.server.store.create(kind, WIDGETS)
    until(lambda: one.told(faults, "throttled"))
    until(lambda: f"{faults}: nothing heard" in one.ready()[1])
    one.server.store.delete(kind, "", "widgets.example.io")
    until(lambda: one.seconds(resource=faults) == 0)
    until(lambda: one.ready()[0] == 200)


def test_a_quiet_kind_is_heard(watched: Callable[..., Watched]) -> None:
    """No event, and no bookmark for a minute: that is how most kinds are."""
    one = watched(progress_interval_s=0.1)
    until(lambda: one.producer.metrics.value("session_phase", phase="live") == 1)
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 2 * ALERT_S:
        assert one.ready() == (200, "ok\n")
        time.sleep(0.05)
    assert one.told("configmaps") == []
    assert one.seconds() == 0


def test_a_discovery_that_fails_is_told_and_so_is_its_end(
    watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "CONFIRM_S", 0.1)
    one = watched()
    whole = Cluster.discover

    def fails(cluster: Cluster) -> Any:
        raise Unreachable(f"API server {cluster.host} refuses discovery at /api: 503")

    monkeypatch.setattr(Cluster, "discover", fails)
    until(lambda: one.told("discovery", "kinds cannot be read", "refuses discovery at /api: 503", "failed requests"))
    until(lambda: one.seconds(resource="discovery", reason="unreachable") > 1.5)
    until(lambda: one.ready()[0] == 503)
    assert "discovery: the API server's kinds cannot be read" in one.ready()[1]
    monkeypatch.setattr(Cluster, "discover", whole)
    until(lambda: one.told("discovery", "heard again after", level=logging.INFO))
    until(lambda: one.ready() == (200, "ok\n"))
    assert one.seconds() == 0


def test_a_log_that_acknowledges_nothing_is_told_and_so_is_its_end(watched: Callable[..., Watched]) -> None:
    one = watched()
    one.complaint = "broker:9092: Connect failed"
    one.sink.hold()
    one.write("a")
    until(lambda: one.told("Kafka", "nothing is acknowledged", "wait", "broker:9092: Connect failed"))
    until(lambda: one.producer.metrics.value("kafka_unheard_seconds", what="acknowledgements") > 1.5)
    until(lambda: one.ready()[0] == 503)
    assert "Kafka: nothing is acknowledged" in one.ready()[1]
    assert "configmaps" not in one.ready()[1]
    one.sink.release()
    until(lambda: one.told("Kafka", "heard again after", level=logging.INFO))
    until(lambda: one.ready() == (200, "ok\n"))


def test_positions_that_cannot_be_read_are_told_and_so_is_the_end(watched: Callable[..., Watched]) -> None:
    one = watched()
    one.sink.away = "Kafka at broker:9092 does not answer"
    until(lambda: one.told("Kafka", "positions cannot be read", "broker:9092"))
    until(lambda: "Kafka: stored positions cannot be read" in one.ready()[1])
    assert one.producer.metrics.value("kafka_unheard_seconds", what="positions", reason="unreachable") > 0
    one.sink.away = ""
    until(lambda: one.told("Kafka", "heard again after", level=logging.INFO))
    until(lambda: one.ready() == (200, "ok\n"))
