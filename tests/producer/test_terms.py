"""Guarantees: of several producers one works, another takes over where it stopped, and one that comes back is harmless.

A leader that was frozen for longer than its lease wakes up, stops by itself, and overwrites no position.
"""

from __future__ import annotations

import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from kubecdc import kafka, topics, wire
from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured
from kubecdc.records import EventType, Position, RawEvent
from kubecdc.start import BEGINNING
from local import children, ports
from local.broker import Broker
from local.sim_server import SimServer
from producer.cluster import Cluster
from producer.kafka import KafkaSink
from producer.metrics import Metrics
from producer.service import Producer
from producer.settings import ClusterSettings, ElectionSettings, KafkaSettings, ProducerSettings, WatchSettings
from producer.sink import Sink
from producer.terms import Terms
from tests.producer import running
from tests.producer.front import Front
from tests.producer.judged import assert_holds, truth_of
from tests.producer.memory_sink import MemorySink
from tests.producer.running import Background, config_map

QUICK = ElectionSettings(duration_s=3.0)
PARTITIONS = 2
until = partial(running.until, seconds=30.0)  # leases run out, and processes start


def write(server: SimServer, name: str) -> str:
    made = server.store.create(server.store.kind("", "configmaps"), config_map(name), namespace="default")
    return str(made["metadata"]["resourceVersion"])


class Candidate(Background):
    """Terms of one candidate at work."""

    def __init__(self, url: str, sink: Sink) -> None:
        cluster, self.metrics, self.made = Cluster(ClusterSettings("c", server=url)), Metrics(), 0
        watch = WatchSettings(("configmaps",), progress_interval_s=0.1, backoff_min_s=0.05, watchlist="never")

        def make() -> Producer:
            self.made += 1
            return Producer(cluster, sink, ProducerSettings(watch), metrics=self.metrics)

        self.terms = Terms(cluster, QUICK, make, self.metrics)
        super().__init__(self.terms.run)

    @property
    def leads(self) -> bool:
        return self.metrics.value("leading") == 1


@pytest.fixture
def stand() -> Iterator[Callable[[str, Sink], Candidate]]:
    begun: list[Candidate] = []

    def begin(url: str, sink: Sink) -> Candidate:
        begun.append(Candidate(url, sink))
        return begun[-1]

    yield begin
    for candidate in begun:
        candidate.end()


def test_the_next_one_begins_at_once_where_the_first_one_stopped(stand: Callable[..., Candidate]) -> None:
    with SimServer() as server:
        sink = MemorySink()
        one = stand(server.url, sink)
        until(lambda: sink.position("c//configmaps/"))
        two = stand(server.url, sink)
        assert (two.terms.healthy(), two.terms.ready()) == (True, True)
        write(server, "a")
        began = time.monotonic()
        one.end()
        until(lambda: two.leads)
        assert time.monotonic() - began < QUICK.duration_s
        rv = write(server, "b")
        until(lambda: (position := sink.position("c//configmaps/")) is not None and position.rv == rv)
        assert two.made == 1
        sessions = {event.session for event in sink.events()}
        assert len(sessions) == 2
        (later,) = sessions - {sink.events()[0].session}
        resumed = [event.type for event in sink.events(0) if event.session == later]
        assert resumed[0] is EventType.RESUMED
        assert EventType.LISTED not in resumed
        two.end()
        assert (one.error, two.error) == (None, None)


def test_whoever_cannot_renew_stops_and_may_be_elected_again(stand: Callable[..., Candidate]) -> None:
    with SimServer() as server, Front(server.url) as front:
        sink = MemorySink()
        one = stand(front.url, sink)
        until(lambda: sink.position("c//configmaps/"))
        front.answer = (503, b"")
        until(lambda: not one.leads)
        until(lambda: one.terms._producer is None)
        assert one.metrics.value("session_phase") == one.metrics.value("position_lag_seconds") == 0
        front.answer = None
        until(lambda: one.made == 2)
        one.end()
        assert one.error is None


def test_a_second_term_resumes_where_the_log_stands_and_stays_in_its_epoch(
    kafka_broker: Broker, stand: Callable[..., Candidate]
) -> None:
    """The sink outlives a term: what the first had read of the positions topic, the second must read again."""
    prefix = f"terms{uuid.uuid4().hex[:8]}"
    kafka.create_topics(kafka_broker.bootstrap, topics.table(prefix, PARTITIONS, 1))
    sink = KafkaSink(KafkaSettings(kafka_broker.bootstrap, prefix))
    with SimServer() as server:
        write(server, "a")
        begun = Position("c", "", "configmaps", "", 7, "", "v1", "earlier", 1)
        sink.store_now(wire.epoch_key("c//configmaps/"), Codec().encode(begun))
        one = stand(server.url, sink)
        until(lambda: sink.positions(None)[0][1:])
        take_lease(server)
        until(lambda: one.terms._producer is None)
        until(lambda: one.made == 2)  # nobody renews it
        rv = write(server, "b")
        until(lambda: any(event.rv == rv for event in events_of(sink, prefix, kafka_broker)))
        found = events_of(sink, prefix, kafka_broker)
        one.end()
    sink.close()
    assert {event.epoch for event in found} == {7}
    later = [event.type for event in found if event.session != found[0].session]
    assert EventType.RESUMED in later
    assert EventType.LISTED not in later


def take_lease(server: SimServer) -> None:
    """Somebody else writes that the lease is theirs."""
    leases = server.store.kind("coordination.k8s.io", "leases")
    lease = server.store.get(leases, "default", QUICK.name)
    server.store.update(leases, {**lease, "spec": {**lease["spec"], "holderIdentity": "another"}}, namespace="default")


def events_of(sink: KafkaSink, prefix: str, broker: Broker) -> list[RawEvent]:
    assert sink.flush(20)
    reader = kafka.TopicReader(broker.bootstrap, f"{prefix}.events", BEGINNING, follow=False)
    found: list[RawEvent] = []
    while not reader.done:
        found += [Codec().decode(record.value) for record in reader.poll(0.1) if record.value is not None]
    reader.close()
    return found


def test_a_lease_that_can_never_be_had_is_one_clear_error(stand: Callable[..., Candidate]) -> None:
    with SimServer() as server, Front(server.url) as front:
        front.answer = (403, b"{}")
        one = stand(front.url, MemorySink())
        one.thread.join(20)
        assert isinstance(one.error, Misconfigured)
        assert one.made == 0


# --- as processes ---------------------------------------------------------------------------------------------------


class Process:
    """`kubecdc produce --elect` as a process of its own."""

    def __init__(self, folder: Path, bootstrap: str, prefix: str, url: str) -> None:
        self.port = ports.free_port()
        argv = [sys.executable, "-m", "kubecdc", "produce", "--bootstrap", bootstrap, "--prefix", prefix]
        argv += ["--server", url, "--cluster", "c", "--resources", "configmaps", "--redaction-key", "k" * 16]
        argv += ["--elect", "--lease-duration", "3", "--progress-interval", "0.2", "--metrics-port", str(self.port)]
        self.child = children.spawn(argv, log=folder / f"{self.port}.log")

    def page(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def leads(self) -> bool:
        assert self.child.alive, self.child.tail()
        return "kubecdc_producer_leading 1.0" in self.page("/metrics")


@pytest.mark.timeout(180)  # two processes on few cores, each started once
def test_a_leader_that_was_frozen_does_no_harm_when_it_wakes_up(kafka_broker: Broker, tmp_path: Path) -> None:
    prefix = f"elect{uuid.uuid4().hex[:8]}"
    bootstrap = kafka_broker.bootstrap
    kafka.create_topics(bootstrap, topics.table(prefix, PARTITIONS, 1))
    with SimServer() as server:
        old = Process(tmp_path, bootstrap, prefix, server.url)
        new = None
        try:
            until(old.leads)
            for number in range(10):
                write(server, f"before-{number}")
            new = Process(tmp_path, bootstrap, prefix, server.url)
            until(lambda: new is not None and new.page("/healthz") == "ok\n" and "leading 0.0" in new.page("/metrics"))
            old.child.freeze()
            for number in range(10):
                write(server, f"meanwhile-{number}")
            until(new.leads)
            for number in range(10):
                server.store.delete(server.store.kind("", "configmaps"), "default", f"before-{number}")
            old.child.thaw()
            until(lambda: not old.leads())
            for number in range(10):
                write(server, f"after-{number}")
            until(lambda: new is not None and new.page("/readyz") == "ok\n")
            assert "lost the lease" in old.child.tail(60)
            lease = server.store.get(server.store.kind("coordination.k8s.io", "leases"), "default", QUICK.name)
            assert lease["spec"]["leaseTransitions"] == 1
        finally:
            for process in (old, new):
                if process is not None:
                    process.child.stop(30)
        assert (old.child.exit_code, new.child.exit_code) == (0, 0), old.child.tail() + new.child.tail()
        log = assert_holds(bootstrap, prefix, truth_of(server, "configmaps"), PARTITIONS)
    assert {entry.change.name for entry in log if entry.change.uid} >= {f"after-{n}" for n in range(10)}
    assert not [entry.change for entry in log if entry.change.gap is not None]
