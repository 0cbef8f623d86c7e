"""The worker of the cases dies where it is told to, and comes back to exactly what it had committed."""

from __future__ import annotations

import time

import pytest

from kubecdc.codec import Codec
from kubecdc.records import EventType
from tests.cases.memory_log import MemoryLog
from tests.cases.worker import AFTER_COMMIT, BEFORE_COMMIT, Worker
from tests.processors.raw import raw

CODEC = Codec()


@pytest.fixture
def log():
    return MemoryLog(1)


@pytest.fixture
def worker(log):
    worker = Worker(log, "emit")
    yield worker
    worker.stop()
    assert worker.failure is None


def feed(log, seq):
    event = raw(EventType.ADDED, "u", str(seq + 5), seq=seq)
    assert log.append("events", 0, b"u", CODEC.encode(event))


def until(holds):
    end = time.monotonic() + 5
    while not holds() and time.monotonic() < end:
        time.sleep(0.005)
    assert holds()


def versions(log):
    return [CODEC.decode(entry.value).rv for entry in log.read("changes", 0, 0)]


@pytest.mark.parametrize("point", [*BEFORE_COMMIT, *AFTER_COMMIT])
def test_a_death_at_any_point_leaves_each_change_once(log, worker, point):
    feed(log, 0)
    until(worker.level)
    worker.crash_at(point)
    feed(log, 1)
    until(lambda: worker.level() and not worker.crash_pending)
    feed(log, 2)
    until(worker.level)
    assert versions(log) == ["5", "6", "7"]
    assert worker.deaths == 1
    assert bool(log.lost) is (point in ("after_produce", "before_commit"))


def test_a_killed_worker_remembers_what_it_had_committed(log, worker):
    for seq in range(3):
        feed(log, seq)
    until(worker.level)
    worker.kill()
    feed(log, 3)
    until(worker.level)
    assert versions(log) == ["5", "6", "7", "8"]
    assert (worker.deaths, worker.counters["emitted"]) == (1, 4)


def test_nothing_is_committed_in_a_pause(log, worker):
    log.pause()
    time.sleep(0.1)  # in which a worker that does not wait would commit
    assert log.end("changes", 0) == 0
    log.resume()
    feed(log, 0)
    until(worker.level)
    assert versions(log) == ["5"]


def test_what_is_no_record_is_recorded_as_such(log, worker):
    log.append("events", 0, b"u", b"no record")
    until(worker.level)
    assert worker.counters["undecodable"] == 1


def test_an_unknown_crash_point_is_refused(worker):
    with pytest.raises(ValueError, match="nowhere"):
        worker.crash_at("nowhere")
