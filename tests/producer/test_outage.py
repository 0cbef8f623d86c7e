"""Guarantee G6: while Kafka is away the producer holds a bounded amount back, and the watch waits with it.

Afterwards nothing is lost where the server has kept its history; where it has not, a gap names what nobody can know.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kubecdc import kafka, topics, unheard
from kubecdc.records import Cause
from local.broker import Broker
from local.sim_server import SimServer
from producer.cluster import Cluster
from producer.kafka import KafkaSink
from producer.service import Producer
from producer.settings import ClusterSettings, KafkaSettings, ProducerSettings, WatchSettings
from tests.producer.judged import assert_holds, truth_of

PARTITIONS = 2
BUFFER_MB = 1
BYTES = 2_000
# Two buffers, what librdkafka counts apart, and the frames of one chunk that is worked on.
HELD_MAX = int(1.5 * BUFFER_MB * 1024 * 1024 / BYTES)
EVENTS = 6 * HELD_MAX
OBJECTS = 40


def until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


class Running:
    """A producer with a small buffer, and a cluster that changes."""

    def __init__(self, broker: Broker, server: SimServer) -> None:
        kafka.create_topics(broker.bootstrap, topics.table("o", PARTITIONS, 1))
        self.server = server
        self.sink = KafkaSink(KafkaSettings(broker.bootstrap, "o", buffer_mb=BUFFER_MB))
        watch = WatchSettings(
            ("configmaps",), progress_interval_s=0.2, backoff_min_s=0.05, backoff_max_s=0.5, unheard_after_s=1.0
        )
        cluster = Cluster(ClusterSettings("c", server=server.url))
        self.producer = Producer(cluster, self.sink, ProducerSettings(watch), complaint=self.sink.complaint)
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self.written = 0
        self.change(OBJECTS)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        until(self.producer.settled)

    def _run(self) -> None:
        try:
            self.producer.run(self.stop)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def change(self, count: int) -> None:
        kind = self.server.store.kind("", "configmaps")
        for number in range(self.written, self.written + count):
            name, data = f"c{number % OBJECTS}", {"v": str(number), "blob": "x" * BYTES}
            body: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}
            if number < OBJECTS:
                self.server.store.create(kind, body, namespace="default")
            else:
                self.server.store.update(kind, body, namespace="default")
        self.written += count

    def sent(self) -> float:
        return self.producer.metrics.value("events_total", type="MODIFIED")

    def assert_held_back(self) -> None:
        """The buffer is full, nothing more is taken in, and that stays so."""
        until(lambda: self.sink.depth() > HELD_MAX // 4)
        before = -1.0
        while before != (before := self.sent()):
            time.sleep(1.0)
        self.change(100)
        held_since = time.monotonic()
        while time.monotonic() - held_since < 3.0:
            assert self.sink.depth() <= HELD_MAX
            assert self.sent() == before < EVENTS
            time.sleep(0.1)
        assert self.producer.healthy()
        assert not self.producer.settled()

    def end(self) -> None:
        self.stop.set()
        self.thread.join(60)
        assert not self.thread.is_alive()
        assert self.error is None
        self.sink.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    started = Broker(tmp_path / "kafka")
    try:
        started.launch()
        started.wait_ready(150)  # nothing is measured before it is ready, and cores may be few
        yield started
    finally:
        started.kill()


@pytest.mark.timeout(600)  # a broker of its own, on few cores
@pytest.mark.parametrize("history", ["kept", "gone"])
def test_a_frozen_broker_stops_the_watch_and_costs_no_memory(broker: Broker, history: str) -> None:
    with SimServer() as server:
        running = Running(broker, server)
        broker.freeze()
        try:
            running.change(EVENTS)
            running.assert_held_back()
            if history == "gone":
                server.store.compact()
                server.faults.set("cut", count=1, verb="watch")
                running.change(1)
        finally:
            broker.thaw()
        until(running.producer.settled)
        until(lambda: running.producer.metrics.value("position_lag_seconds") == 0)
        running.end()
        log = assert_holds(broker.bootstrap, "o", truth_of(server, "configmaps"), PARTITIONS)
    causes = {entry.change.gap.cause for entry in log if entry.change.gap is not None}
    versions = [entry.change.rv for entry in log if entry.change.uid]
    if history == "kept":
        assert causes == set()
        assert len(versions) == len(set(versions)) == running.written
    else:
        assert causes == {Cause.RELIST_WINDOW}
        assert len(versions) < running.written


@pytest.mark.timeout(600)  # as above
def test_a_broker_that_is_away_is_told_with_its_reason_and_so_is_the_end_of_it(
    broker: Broker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log had lines of the client now and then; /readyz was "ok" for minutes, and blamed the API server then."""
    monkeypatch.setattr(unheard, "ALERT_S", 1.0)
    caplog.set_level(logging.INFO)

    def told(*words: str) -> bool:
        return any(all(word in record.getMessage() for word in words) for record in list(caplog.records))

    with SimServer() as server:
        running = Running(broker, server)
        assert running.producer.unready() == ()
        broker.kill()
        running.change(1)
        until(lambda: told("Kafka: nothing is acknowledged", "wait; ", "Connection refused"))
        until(lambda: any("Kafka: nothing is acknowledged" in why for why in running.producer.unready()))
        assert running.producer.metrics.value("kafka_unheard_seconds", what="acknowledgements") >= 1
        broker.launch()
        broker.wait_ready(150)
        until(lambda: told("Kafka: heard again after"))
        until(running.producer.settled)
        until(lambda: running.producer.unready() == ())
        assert running.producer.metrics.value("kafka_unheard_seconds") == 0
        running.end()
