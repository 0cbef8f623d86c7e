"""The log in memory keeps Kafka's promises and no others: order, acks after writing, and what an outage may lose."""

from __future__ import annotations

import pytest

from producer.errors import SinkFailed
from tests.cases.memory_log import MemoryLog, MemorySink


@pytest.fixture
def log():
    return MemoryLog(2)


@pytest.fixture
def sink(log):
    sink = MemorySink(log)
    yield sink
    sink.die()


def test_acks_come_in_order_and_after_the_record(log, sink):
    acks = []
    for number in range(50):
        sink.send(number % 2, b"k", str(number).encode(), lambda n=number: acks.append((n, log.end("events", n % 2))))
    assert sink.flush(5)
    assert [n for n, _ in acks] == list(range(50))
    assert all(end == n // 2 + 1 for n, end in acks)
    assert sink.depth() == 0


def test_a_pause_withholds_records_and_acks_until_it_is_over(log, sink):
    acks = []
    log.pause()
    sink.send(0, b"k", b"v", lambda: acks.append(1))
    assert not sink.flush(0.1)
    assert (log.end("events", 0), acks, sink.depth()) == (0, [], 1)
    assert log.read("events", 0, 0) == []
    assert not log.append("events", 0, b"k", b"v")
    log.resume()
    assert sink.flush(5)
    assert (log.end("events", 0), acks) == (1, [1])


def test_a_position_is_taken_even_in_a_pause(log, sink):
    log.pause()
    sink.send(0, b"k", b"v", lambda: None)
    sink.store_position(b"s", b"1")
    sink.store_position(b"s", b"2")
    assert sink.positions()[0] == [("s", b"2")]
    assert log.end("events", 0) == 0


def test_a_dead_client_loses_what_was_not_written(log, sink):
    log.pause()
    acks = []
    sink.send(0, b"k", b"v", lambda: acks.append(1))
    sink.die()
    log.resume()
    sink.send(0, b"k", b"v", lambda: acks.append(1))
    sink.store_position(b"s", b"1")
    assert (log.end("events", 0), acks, sink.positions()[0]) == (0, [], [])


def test_a_closed_client_refuses(log):
    sink = MemorySink(log)
    sink.send(0, b"k", b"v", lambda: None)
    assert sink.flush(5)
    sink.close()
    with pytest.raises(SinkFailed):
        sink.send(0, b"k", b"v", lambda: None)


def test_a_lost_transaction_is_seen_by_the_search_for_secrets_alone(log):
    log.commit([("changes", 0, b"a", b"1"), ("state", 1, b"b", b"2")])
    log.lose([("changes", 0, b"c", b"3")])
    assert [entry.value for entry in log.read("changes", 0, 0)] == [b"1"]
    assert {entry.key for entry in log.everything()} == {b"a", b"b", b"c"}


def test_the_latest_value_of_each_key(log):
    log.commit([("state", 0, b"a", b"1"), ("state", 0, b"b", b"2"), ("state", 0, b"a", b"3"), ("state", 0, b"b", None)])
    assert log.latest("state") == {b"a": b"3"}
