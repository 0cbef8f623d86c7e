"""Guarantees: against a real HTTP API server (the simulated one) the service lists, watches, resumes, parks and stops.

Positions are stored only after acknowledgement, and every record is numbered without a hole.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured, Unreachable
from kubecdc.records import OBJECT_TYPES, EventType, Position
from local.sim_server import SimServer
from producer import service
from producer.cluster import Cluster
from producer.errors import SessionFailed, SinkFailed
from producer.selection import Discovery
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, WatchSettings
from producer.sink import Place
from tests.producer.memory_sink import MemorySink
from tests.producer.running import QUICK, WIDGETS, Running, config_map, until


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer() as running:
        yield running


@pytest.fixture
def start(server: SimServer) -> Iterator[Callable[..., Running]]:
    begun: list[Running] = []

    def begin(sink: MemorySink, **watch: Any) -> Running:
        begun.append(Running(server, sink, **watch))
        return begun[-1]

    yield begin
    for running in begun:
        running.end()


def write(server: SimServer, name: str, value: str = "1") -> str:
    kind = server.store.kind("", "configmaps")
    return str(server.store.create(kind, config_map(name, value), namespace="default")["metadata"]["resourceVersion"])


@pytest.mark.parametrize("watchlist", ["never", "always"])
def test_everything_is_numbered_without_holes_and_lists_count_exactly(
    server: SimServer, start: Callable[..., Running], watchlist: str
) -> None:
    for number in range(25):
        write(server, f"c{number}")
    sink = MemorySink()
    running = start(sink, page_size=10, watchlist=watchlist)
    until(running.producer.settled)
    rv = write(server, "late")
    server.store.delete(server.store.kind("", "configmaps"), "default", "c3")
    until(lambda: (position := sink.position("c//configmaps/")) is not None and position.rv == rv)
    running.end()
    assert running.error is None
    for partition in range(3):
        events = sink.events(partition)
        assert [event.seq for event in events] == list(range(len(events)))
        listed = [event for event in events if event.type is EventType.LISTED]
        (end,) = [event for event in events if event.type is EventType.RELIST_END]
        assert end.relist is not None
        assert end.relist.expected == len(listed)
    objects = [event for event in sink.events() if event.type in OBJECT_TYPES]
    assert [event.type for event in objects[25:]] == [EventType.ADDED, EventType.DELETED]
    assert sum(1 for _, _, value in sink.log if value is None) == 1


def test_a_restart_resumes_where_it_stopped_and_lists_nothing(server: SimServer, start: Callable[..., Running]) -> None:
    write(server, "a")
    sink = MemorySink()
    first = start(sink)
    until(first.producer.settled)
    first.end()
    write(server, "b")
    resumed = MemorySink(stored=sink.stored)
    second = start(resumed)
    until(lambda: EventType.ADDED in [event.type for event in resumed.events()])
    second.end()
    assert resumed.types(0)[0] is EventType.RESUMED
    assert EventType.LISTED not in [event.type for event in resumed.events()]


def stored(epoch: int, rv: str) -> bytes:
    return Codec().encode(Position("c", "", "configmaps", "", epoch, rv, "v1", "another", 1))


def test_an_epoch_that_another_producer_began_is_taken_over(server: SimServer, start: Callable[..., Running]) -> None:
    """One that did not see the restore would say stale things for ever (G1); it starts after the other's position."""
    rv = write(server, "a")
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    sink.stored["c//configmaps/"] = stored(2, rv)
    until(lambda: EventType.RESUMED in sink.types(0))
    write(server, "b")
    until(lambda: "b" in [event.name for event in sink.events() if event.epoch == 2])
    until(lambda: (position := sink.position("c//configmaps/")) is not None and position.session != "another")
    running.end()
    position = sink.position("c//configmaps/")
    assert position is not None
    assert position.epoch == 2
    resumed = next(event for event in sink.events(0) if event.type is EventType.RESUMED)
    assert (resumed.epoch, resumed.rv) == (2, rv)


def test_a_producer_goes_on_in_an_epoch_that_had_only_begun_when_it_was_killed(
    server: SimServer, start: Callable[..., Running]
) -> None:
    """In the epoch before, all that it says would be stale, for ever and in silence (found by the simulation)."""
    rv = write(server, "a")
    begun = Codec().encode(Position("c", "", "configmaps", "", 2, "", "v1", "killed", 1))
    sink = MemorySink(stored={"__epoch__/c//configmaps/": begun, "c//configmaps/": stored(1, rv)})
    running = start(sink)
    until(running.producer.settled)
    running.end()
    assert {event.epoch for event in sink.events()} == {2}
    assert "a" in [event.name for event in sink.events() if event.type is EventType.LISTED]


def test_of_stored_positions_the_furthest_counts(server: SimServer, start: Callable[..., Running]) -> None:
    """Two producers store in turns: the last may be the one that lags, or is in an epoch that is over."""
    rv = write(server, "a")

    class Several(MemorySink):
        def positions(self, since: Place | None) -> tuple[list[tuple[str, bytes | None]], Place]:
            kept = [stored(1, "999999"), stored(2, rv), stored(2, "1"), stored(1, "1000000"), b"damaged"]
            return [("c//configmaps/", value) for value in kept], {}

    sink = Several()
    running = start(sink)
    until(lambda: sink.types(0))
    running.end()
    assert next((event.type, event.epoch, event.rv) for event in sink.events(0)) == (EventType.RESUMED, 2, rv)


def test_a_kind_that_discovery_leaves_out_once_is_not_taken_for_gone(
    server: SimServer, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted API server does so; a gap for it would be one that need not be."""
    write(server, "a")
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    whole, looks = Cluster.discover, list[Discovery]()

    def once_less(cluster: Cluster) -> Discovery:
        found = whole(cluster)
        less = tuple(info for info in found.resources if info.resource != "configmaps")
        looks.append(found)
        return replace(found, resources=less) if len(looks) == 1 else found

    monkeypatch.setattr(Cluster, "discover", once_less)
    until(lambda: len(looks) > 2)
    until(lambda: (write(server, f"more-{time.monotonic_ns()}"), len(sink.events(0)) > 5)[1])
    running.end()
    assert EventType.COVERAGE_LOST not in sink.types(0)


def test_a_kind_that_discovery_lacks_at_the_start_is_looked_for_twice(
    server: SimServer, start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A producer that starts beside its API server must not end with "no such kind"."""
    write(server, "a")
    whole, looks = Cluster.discover, list[Discovery]()

    def nothing_at_first(cluster: Cluster) -> Discovery:
        looks.append(whole(cluster))
        return replace(looks[-1], resources=()) if len(looks) == 1 else looks[-1]

    monkeypatch.setattr(Cluster, "discover", nothing_at_first)
    monkeypatch.setattr(service, "CONFIRM_S", 0.1)
    sink = MemorySink()
    running = start(sink)
    until(lambda: running.error or any(event.uid for event in sink.events()))
    assert running.error is None


def test_no_position_is_stored_before_kafka_acknowledged(server: SimServer, start: Callable[..., Running]) -> None:
    write(server, "a")
    sink = MemorySink()
    sink.hold()
    running = start(sink)
    until(lambda: EventType.RELIST_END in [event.type for event in sink.events()])
    write(server, "b")
    until(lambda: EventType.ADDED in [event.type for event in sink.events()])
    assert sink.stored == {}
    assert not running.producer.settled()
    sink.release()
    until(
        lambda: (position := sink.position("c//configmaps/")) is not None and position.rv == str(server.store.revision)
    )


def test_killed_it_says_nothing_more(server: SimServer, start: Callable[..., Running]) -> None:
    write(server, "a")
    sink = MemorySink()
    running = start(sink, progress_interval_s=60.0)
    until(running.producer.settled)
    stored = dict(sink.stored)
    write(server, "b")
    until(lambda: EventType.ADDED in [event.type for event in sink.events()])
    running.producer.kill()
    running.thread.join(10)
    assert not running.thread.is_alive()
    assert sink.stored == stored
    assert EventType.PROGRESS not in [event.type for event in sink.events()]


def test_namespaces_have_sessions_of_their_own(server: SimServer, start: Callable[..., Running]) -> None:
    write(server, "a")
    sink = MemorySink()
    running = start(sink, namespaces=("default", "kube-system"))
    until(running.producer.settled)
    assert {event.scope for event in sink.events()} == {"default", "kube-system"}
    assert set(sink.stored) == {"c//configmaps/default", "c//configmaps/kube-system"}


@pytest.mark.parametrize("fault", ["cut", "error_500", "throttle_429", "unauthorized_401", "instant_close", "garbage"])
def test_what_happens_during_a_fault_arrives_after_it(
    server: SimServer, start: Callable[..., Running], fault: str
) -> None:
    write(server, "a")
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    server.faults.set(fault, count=2)
    server.faults.set("cut", count=1)
    rv = write(server, "b")
    write(server, "c")
    until(lambda: any(event.rv == rv and event.uid for event in sink.events()))
    server.faults.clear()
    last = write(server, "d")
    until(lambda: any(event.rv == last and event.uid for event in sink.events()))
    running.end()
    assert running.error is None


def test_a_forbidden_kind_is_told_and_heals(server: SimServer, start: Callable[..., Running]) -> None:
    server.faults.set("forbidden_403")
    sink = MemorySink()
    running = start(sink)
    until(lambda: EventType.COVERAGE_LOST in sink.types(0))
    server.faults.clear()
    until(lambda: EventType.RELIST_END in sink.types(0))
    assert sink.types(0).count(EventType.COVERAGE_LOST) == 1
    assert running.producer.metrics.value("coverage_lost_total", resource="configmaps") == 1


def test_an_audit_of_a_sound_stream_finds_nothing(server: SimServer, start: Callable[..., Running]) -> None:
    write(server, "a")
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    before = len(sink.events())
    running.producer.audit_now()
    until(lambda: running.producer.metrics.value("audits_total", result="complete") == 1)
    assert len([event for event in sink.events() if event.uid]) == 1
    assert len(sink.events()) == before


def test_a_selection_that_leaves_nothing_ends_the_start(server: SimServer, start: Callable[..., Running]) -> None:
    running = start(MemorySink(), resources=("nodes",), namespaces=("default",))
    running.thread.join(20)
    assert isinstance(running.error, Misconfigured)
    assert "nothing is left to follow" in str(running.error)


def test_what_is_followed_and_what_not_is_said_at_the_start_and_when_discovery_changes_it(
    server: SimServer, start: Callable[..., Running], caplog: pytest.LogCaptureFixture
) -> None:
    """Events and Leases are off by default, and nobody could know."""
    caplog.set_level(logging.INFO)

    def said() -> list[str]:
        lines = [record.getMessage() for record in list(caplog.records) if record.levelno == logging.INFO]
        return [line for line in lines if line.startswith("following ")]

    running = start(MemorySink(), resources=("*",))
    until(running.producer.settled)
    (first,) = said()
    assert "configmaps" in first
    assert "not following 2 kinds: events, leases.coordination.k8s.io (off by default: name what you want" in first
    server.store.create(server.store.kind("apiextensions.k8s.io", "customresourcedefinitions"), WIDGETS)
    until(lambda: len(said()) == 2)
    assert "widgets.example.io" in said()[1]
    until(running.producer.settled)
    running.end()
    assert len(said()) == 2, "other looks have changed nothing"


def test_unknown_kinds_end_the_start(server: SimServer, start: Callable[..., Running]) -> None:
    running = start(MemorySink(), resources=("confgmaps", "podz"))
    running.thread.join(10)
    assert isinstance(running.error, Misconfigured)
    assert len(running.error.problems) == 2
    assert "configmaps" in running.error.problems[0]


def test_a_sink_that_fails_for_good_ends_the_work(server: SimServer, start: Callable[..., Running]) -> None:
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    sink.close()
    write(server, "a")
    running.thread.join(10)
    assert isinstance(running.error, SinkFailed)
    assert not running.producer.healthy()


def test_a_sink_that_fails_while_nothing_is_written_ends_the_work(
    server: SimServer, start: Callable[..., Running]
) -> None:
    """A session that waits for an acknowledgement sends nothing more, and would wait for ever."""
    sink = MemorySink()
    running = start(sink)
    until(running.producer.settled)
    sink.failure = "no rights"
    running.thread.join(10)
    assert isinstance(running.error, SinkFailed)


def test_a_kind_that_went_while_no_producer_ran_is_told_to_be_lost(
    server: SimServer, start: Callable[..., Running]
) -> None:
    """Nothing follows it any more, so nothing else would ever say that the log knows its objects no longer (G1, G8)."""
    definitions = server.store.kind("apiextensions.k8s.io", "customresourcedefinitions")
    server.store.create(definitions, WIDGETS)
    widget = {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "a"}}
    server.store.create(server.store.kind("example.io", "widgets"), widget, namespace="default")
    sink = MemorySink()
    first = start(sink, resources=("*.example.io",))
    until(first.producer.settled)
    first.end()
    server.store.delete(definitions, "", "widgets.example.io")
    kept = sink.stored | {"other//pods/": Codec().encode(Position("other", "", "gone", "", 1, "5", "v1", "s", 1))}
    sink = MemorySink(stored=kept)
    again = start(sink, resources=("*.example.io", "configmaps"))
    until(again.producer.settled)
    told = [event for event in sink.events() if event.type is EventType.COVERAGE_LOST]
    assert [(event.resource, event.version, event.epoch) for event in told] == [("widgets", "v1", 1)] * sink.partitions
    assert again.producer.metrics.value("coverage_lost_total", resource="widgets.example.io") == 1
    server.store.create(definitions, WIDGETS)
    widget = {**widget, "metadata": {"name": "b"}}
    server.store.create(server.store.kind("example.io", "widgets"), widget, namespace="default")
    until(lambda: any(event.name == "b" for event in sink.events()))


def test_a_discovery_that_ends_with_a_fault_of_ours_ends_the_work(server: SimServer) -> None:
    """Without it new kinds would be missed, and gone ones kept, in silence."""

    class Faulty(Cluster):
        looks = 0

        def discover(self) -> Discovery:
            self.looks += 1
            if self.looks > 1:
                raise RuntimeError("a fault")
            return super().discover()

    settings = ProducerSettings(WatchSettings(resources=("configmaps",), **QUICK))
    with pytest.raises(SessionFailed, match=r"^discovery: RuntimeError$"):
        Producer(Faulty(ClusterSettings("c", server=server.url)), MemorySink(), settings).run(threading.Event())


def test_an_absent_server_is_unreachable() -> None:
    cluster = Cluster(ClusterSettings("c", server="http://127.0.0.1:9"))
    with pytest.raises(Unreachable, match="does not answer"):
        Producer(cluster, MemorySink(), ProducerSettings()).run(threading.Event())
