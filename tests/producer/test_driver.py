"""Guarantees: a session's thread ends with what went wrong, never in silence, and alarms ring without any answer."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from typing import Any

import pytest

from kubecdc.codec import Codec
from kubecdc.records import EventType
from local.sim_server import SimOptions, SimServer
from producer import session
from producer.cluster import Cluster
from producer.convert import Context
from producer.driver import Driver, begin
from producer.errors import SessionFailed, SinkFailed
from producer.frames import Item, Page
from producer.lanes import Target
from producer.metrics import Metrics, StreamMetrics
from producer.publisher import Publisher
from producer.redact import Redactor
from producer.selection import ResourceInfo
from producer.settings import ClusterSettings, WatchSettings
from producer.signals import Moved, Start, Stop, StreamOpened
from tests.producer.memory_sink import MemorySink
from tests.producer.running import until

KIND = ResourceInfo("", "v1", "configmaps", "ConfigMap", namespaced=True, verbs=frozenset({"list", "watch"}))


def driver(url: str, sink: MemorySink, metrics: Metrics, **watch: Any) -> Driver:
    rules = WatchSettings(**{"backoff_min_s": 0.05, "backoff_max_s": 0.1, "progress_interval_s": 0.1, **watch})
    redaction = Redactor(b"k" * 16).for_kind("", "ConfigMap")
    context = Context("c", "", "v1", "configmaps", "ConfigMap", "", "s", redaction, 1000)
    stream = StreamMetrics(metrics, "configmaps", "")
    publisher = Publisher(context, sink, (Codec(), Codec()), stream, lambda: 7)
    machine = session.new("s", rules, streamed=False)
    cluster = Cluster(ClusterSettings("c", server=url), rules.inactivity_s)
    return Driver(machine, Target(KIND, "", 500), cluster, publisher, stream, progress=lambda name, items, left: None)


def test_an_absent_server_is_asked_again_and_again() -> None:
    metrics = Metrics()
    running = driver("http://127.0.0.1:9", MemorySink(), metrics)
    begin(running, Start(None, 1))
    until(lambda: metrics.value("refusals_total", reason="unreachable") >= 3)
    assert not running.covered()
    running.order(Stop())
    running.join(10)
    assert not running.is_alive()
    assert running.failed is None


def test_an_impossible_input_ends_the_session_with_its_name() -> None:
    running = driver("http://127.0.0.1:9", MemorySink(), Metrics())
    running.order(StreamOpened())
    running.start()
    running.join(10)
    assert isinstance(running.failed, SessionFailed)
    assert "configmaps" in str(running.failed)


def test_an_epoch_that_a_session_begins_is_stored() -> None:
    """A producer that is killed in its first list must go on in it (G1)."""
    sink = MemorySink()
    with SimServer() as server:
        running = driver(server.url, sink, Metrics(), audit_interval_s=0.2)  # finds the restore
        begin(running, Start("999999999", 1))
        until(lambda: 2 in {event.epoch for event in sink.events()})
        running.order(Stop())
        running.join(10)
    begun = sink.position("__epoch__/c//configmaps/")
    assert begun is not None
    assert (begun.epoch, begun.rv) == (2, "")


def test_answers_of_the_version_before_do_not_bear_the_name_of_the_next() -> None:
    """Content of v1 under the name of v2 would be a CONFLICT when v2 is read."""
    sink = MemorySink(1)
    running = driver("http://127.0.0.1:9", sink, Metrics())
    old = {"metadata": {"uid": "u", "name": "a", "namespace": "d", "resourceVersion": "5"}}
    running.order(Start(None, 1), Page("10", "", None, (Item("u", "5", old),)))
    running.retarget(Target(replace(KIND, version="v2"), "", 500), Moved())
    running.order(Stop())
    running.start()
    running.join(10)
    assert running.failed is None
    assert [(e.type, e.version) for e in sink.events() if e.uid] == [(EventType.LISTED, "v1")]
    assert running.target.kind.version == "v2"


@pytest.mark.parametrize("killed", [False, True])
def test_a_closed_sink_is_a_failure_unless_we_were_killed(*, killed: bool) -> None:
    sink = MemorySink()
    with SimServer() as server:
        running = driver(server.url, sink, Metrics())
        if killed:
            running.kill()
        sink.close()
        begin(running, Start(None, 1))
        running.join(10)
    assert not running.is_alive()
    assert isinstance(running.failed, SinkFailed) is not killed


def test_a_quiet_watch_is_current_and_a_mute_one_is_not() -> None:
    """Of a quiet one bookmarks come. A mute one is open, and says nothing until its own time-out, again and again."""
    metrics = Metrics()
    with SimServer(options=SimOptions(bookmark_s=0.2)) as server:
        running = driver(server.url, MemorySink(), metrics, inactivity_s=1.2)
        begin(running, Start(None, 1))
        until(lambda: running.settled() and running._machine.bookmarked)
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 2.0:
            assert running.current()
            time.sleep(0.02)
        server.faults.set("mute", verb="watch")
        until(lambda: not running.current())
        assert running.covered()
        assert running.failed is None
        assert metrics.value("silent_watches_total", resource="configmaps") >= 1
        server.faults.clear()
        until(running.current)
        running.order(Stop())
        running.join(10)


def test_a_server_without_bookmarks_may_be_quiet() -> None:
    with SimServer(options=SimOptions(bookmark_s=3600.0)) as server:
        running = driver(server.url, MemorySink(), metrics := Metrics(), inactivity_s=1.1)
        begin(running, Start(None, 1))
        until(lambda: metrics.value("silent_watches_total") >= 2)
        assert running.current()
        running.order(Stop())
        running.join(10)


def test_a_server_that_is_gone_is_not_current() -> None:
    with SimServer() as server:
        running = driver(server.url, MemorySink(), Metrics(), inactivity_s=0.5)
        begin(running, Start(None, 1))
        until(running.settled)
    until(lambda: not running.current())
    assert running.covered()
    running.order(Stop())
    running.join(10)


def test_a_server_that_answers_with_errors_only_is_not_current() -> None:
    """Credentials that are refused for ever bring nothing, however often the server says so."""
    with SimServer() as server:
        running = driver(server.url, MemorySink(), Metrics(), inactivity_s=0.5)
        begin(running, Start(None, 1))
        until(running.settled)
        server.faults.set("unauthorized_401")
        server.faults.set("cut", count=1)
        until(lambda: not running.current())
        running.order(Stop())
        running.join(10)


def test_a_server_that_refuses_for_a_minute_is_not_heard_however_seldom_bookmarks_come() -> None:
    """It took 330 s: twice the time that an open watch may be silent, which says nothing of refusals."""
    with SimServer() as server:
        running = driver(server.url, MemorySink(), metrics := Metrics(), unheard_after_s=0.5)
        begin(running, Start(None, 1))
        until(running.settled)
        assert running.unready() == ""
        server.faults.set("throttle_429")
        server.faults.set("cut", count=1)
        until(lambda: not running.current())
        assert "configmaps: nothing heard for" in running.unready()
        assert "throttled" in running.unready()
        assert metrics.value("unheard_seconds", reason="throttled") >= 0.5
        assert running.note() == ""
        running.order(Stop())
        running.join(10)
    assert metrics.value("unheard_seconds") == 0, "who has stopped need not be heard"


def test_what_was_read_is_stored_while_a_list_is_to_come() -> None:
    """A server may take long for a list; whoever waits for what was read need not wait for that, nor does a stop."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        running = driver(f"http://127.0.0.1:{mute.getsockname()[1]}", MemorySink(), Metrics())
        assert not running.stored()
        begin(running, Start(None, 1))
        until(running.stored)
        assert not running.settled()
        running.kill()
        running.join(10)


def test_a_live_session_settles() -> None:
    sink = MemorySink()
    with SimServer() as server:
        running = driver(server.url, sink, Metrics())
        begin(running, Start(None, 1))
        until(running.settled)
        assert running.covered()
        running.order(Stop())
        running.join(10)
    assert sink.position("c//configmaps/") is not None
