"""The plain loop on a real broker: exact through kills, rebalances, and a graceful end."""

from __future__ import annotations

import threading

import pytest

from local.children import poll
from processors.errors import Stop
from processors.metrics import Metrics
from processors.plain import Worker
from processors.settings import KafkaSettings, WorkerSettings
from tests.processors import workers
from tests.processors.log import Log


@pytest.fixture
def log(quick_broker):
    return Log(quick_broker.bootstrap, partitions=4)


class Running:
    """A worker in a thread of this process."""

    def __init__(self, log):
        kafka = KafkaSettings(log.bootstrap, log.prefix, log.prefix, session_timeout_s=3.0)
        self.metrics = Metrics()
        self.failure = None
        self.worker = Worker(WorkerSettings(kafka), self.metrics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        try:
            self.worker.run(self._stop)
        except Stop as error:
            self.failure = error

    def stop(self):
        self._stop.set()
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_kill_9_at_every_point_leaves_the_log_exact(log, tmp_path):
    workers.crash_everywhere(log, tmp_path, "plain")
    assert log.exact()


def test_workers_that_come_and_go_share_the_partitions(log):
    log.first_list(f"u{n}" for n in range(40))
    log.history(400)
    first = Running(log)
    second = None
    try:
        assert poll(log.written, 60, 0.3)
        second = Running(log)
        assert poll(lambda: len(second.worker.tasks.positions()) == 2, 30, 0.1)
        log.history(400, start=500)
        assert poll(log.written, 60, 0.3)
        first.stop()
        log.history(200, start=1000)
        assert poll(lambda: len(second.worker.tasks.positions()) == 4 and log.written(), 60, 0.3)
    finally:
        first.stop()
        if second is not None:
            second.stop()
    assert first.failure is None
    assert second.failure is None
    assert log.exact()
    assert second.metrics.value("lag") == 0
