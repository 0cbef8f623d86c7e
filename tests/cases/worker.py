"""A processor process on the log in memory: the real decisions, one transaction for each batch, and its deaths.

Memory is thrown away with every death and comes back from the state topic, as a worker's does (kafka.md 6.2).
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import RawEvent
from kubecdc.wire import told
from processors.partition import Batch, Partition
from tests.cases.memory_log import MemoryLog

BATCH = 8  # small, so that every case has many transactions
BEFORE_COMMIT = ("after_begin", "after_produce", "before_commit")
AFTER_COMMIT = ("commit_sent_no_reply", "after_commit")


class Crash(Exception):  # noqa: N818 - it is a death, not an error
    """The process dies here."""


@dataclass(slots=True)
class _Task:
    number: int
    memory: Partition


class Worker:
    """One process that owns all partitions. `counters` are those of committed batches."""

    def __init__(self, log: MemoryLog, noise: str) -> None:
        self._log = log
        self._noise = noise
        self._codec = Codec()
        self._done = [0] * log.partitions  # committed source offsets, for `level` alone
        self._crash_at: str | None = None
        self._killed = threading.Event()
        self._stopped = threading.Event()
        self.counters: Counter[str] = Counter()
        self.failure: str | None = None
        self.deaths = 0
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)
        self._thread.start()

    def crash_at(self, point: str) -> None:
        """Die at this point of the next batch, and be started again."""
        if point not in (*BEFORE_COMMIT, *AFTER_COMMIT):
            raise ValueError(point)
        self._crash_at = point

    @property
    def crash_pending(self) -> bool:
        """The crash that was asked for has not happened yet."""
        return self._crash_at is not None

    def kill(self) -> None:
        """Die at once, and be started again; returns when it has happened."""
        deaths = self.deaths
        self._killed.set()
        while self.deaths == deaths and self._thread.is_alive():
            time.sleep(0.005)

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        self._thread.join()

    def level(self) -> bool:
        """Everything in the events topic is processed and committed."""
        return all(self._done[p] == self._log.end("events", p) for p in range(self._log.partitions))

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                try:
                    self._live()
                except Crash:
                    self.deaths += 1
        except Exception as error:  # noqa: BLE001 - the harness reports it with the case
            self.failure = f"the processor failed: {type(error).__name__}: {error}"

    def _live(self) -> None:
        self._killed.clear()
        tasks = [_Task(number, self._recovered(number)) for number in range(self._log.partitions)]
        while not self._stopped.is_set():
            busy = [self._batch(task) for task in tasks]
            if self._killed.is_set():
                raise Crash
            if not any(busy):
                self._log.wait(0.02)

    def _recovered(self, partition: int) -> Partition:
        memory = Partition(partition, noise=self._noise)
        while self._log.paused and not self._stopped.is_set():
            self._log.wait(0.02)
        newest: dict[bytes, bytes | None] = {}
        for entry in self._log.read("state", partition, 0):
            newest.pop(entry.key, None)
            newest[entry.key] = entry.value
        for key, value in newest.items():
            if value is not None:
                memory.load(key, self._codec.decode(value))
        return memory

    def _batch(self, task: _Task) -> bool:
        entries = self._log.read("events", task.number, task.memory.next_offset, BATCH)
        if not entries:
            return False
        self._maybe_die("after_begin")
        now = time.time_ns() // 1_000_000
        for offset, entry in enumerate(entries, task.memory.next_offset):
            task.memory.apply(offset, self._decoded(told(entry.value, entry.headers)), entry.timestamp_ms, now)
        batch = task.memory.drain()
        records = self._records(task.number, batch)
        for point in ("after_produce", "before_commit"):
            self._maybe_die(point, records)
        while not self._log.commit(records):
            self._log.wait(0.02)
            if self._killed.is_set() or self._stopped.is_set():
                self._log.lose(records)
                raise Crash
        self.counters.update(batch.counters)
        self._done[task.number] = task.memory.next_offset
        for point in AFTER_COMMIT:
            self._maybe_die(point)
        return True

    def _decoded(self, value: bytes | None) -> RawEvent | Undecodable | None:
        if value is None:
            return None
        try:
            record = self._codec.decode(value)
        except Undecodable as error:
            return error
        return record if isinstance(record, RawEvent) else Undecodable(f"a {type(record).__name__} in the events topic")

    def _records(self, partition: int, batch: Batch) -> list[tuple[str, int, bytes, bytes | None]]:
        written = [("changes", *pair) for pair in batch.changes] + [("state", *pair) for pair in batch.state]
        if wire.PROGRESS_KEY not in {key for _, key, _ in written}:
            raise AssertionError("a batch without __progress__")
        return [
            (topic, partition, key, None if record is None else self._codec.encode(record))
            for topic, key, record in written
        ]

    def _maybe_die(self, point: str, written: list[tuple[str, int, bytes, bytes | None]] | None = None) -> None:
        if self._crash_at == point:
            self._crash_at = None
            self._log.lose(written or [])
            raise Crash
