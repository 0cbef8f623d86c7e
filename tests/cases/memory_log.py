"""A log in memory that behaves as Kafka does where a case can tell: order, acknowledgements, transactions, outages.

Topics are `events`, `changes`, `state` and `positions`. While it is paused nothing is read or acknowledged; of what is
sent, positions are taken and all else is not. That is the worst that brokers can do to a producer that stores a
position too early: partitions are apart, and a broker may keep what it never acknowledged.
What a transaction wrote is seen when it is committed, and never when it was lost; what a dead client had not got rid of
is lost with it. It knows bytes only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kubecdc.wire import Header
from producer.errors import SinkFailed
from producer.sink import Place

TOPICS = ("events", "changes", "state", "positions")
OnAck = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Entry:
    """A record; `timestamp_ms` is when the log took it."""

    key: bytes
    value: bytes | None
    timestamp_ms: int
    headers: Sequence[Header] = ()


class MemoryLog:
    """All topics with `partitions` partitions each; safe for threads."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self._topics = {topic: [list[Entry]() for _ in range(partitions)] for topic in TOPICS}
        self._changed = threading.Condition()
        self._paused = False
        self.appended = 0
        self.lost: list[Entry] = []  # written by transactions that were never committed

    def pause(self) -> None:
        """Answer nothing from now on."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Answer again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    @property
    def paused(self) -> bool:
        """Nothing is answered at the moment."""
        return self._paused

    def append(
        self, topic: str, partition: int, key: bytes, value: bytes | None, headers: Sequence[Header] = ()
    ) -> bool:
        """Append a record; False while the log is paused."""
        with self._changed:
            if self._paused:
                return False
            self._write([(topic, partition, key, value)], headers)
            return True

    def take_unanswered(self, topic: str, partition: int, key: bytes, value: bytes | None) -> None:
        """Append a record even while the log is paused."""
        with self._changed:
            self._write([(topic, partition, key, value)])

    def commit(self, records: list[tuple[str, int, bytes, bytes | None]]) -> bool:
        """Append all records at once; False while the log is paused."""
        with self._changed:
            if self._paused:
                return False
            self._write(records)
            return True

    def _write(self, records: list[tuple[str, int, bytes, bytes | None]], headers: Sequence[Header] = ()) -> None:
        now = time.time_ns() // 1_000_000
        for topic, partition, key, value in records:
            self._topics[topic][partition].append(Entry(key, value, now, headers))
        self.appended += len(records)
        self._changed.notify_all()

    def lose(self, records: list[tuple[str, int, bytes, bytes | None]]) -> None:
        """Keep, for the search for secrets, what an aborted transaction wrote."""
        with self._changed:
            self.lost += [Entry(key, value, 0) for _, _, key, value in records]

    def read(self, topic: str, partition: int, start: int, limit: int | None = None) -> list[Entry]:
        """Records from the offset `start` on; none while the log is paused."""
        with self._changed:
            if self._paused:
                return []
            end = None if limit is None else start + limit
            return self._topics[topic][partition][start:end]

    def end(self, topic: str, partition: int) -> int:
        """Offset of the next record."""
        with self._changed:
            return len(self._topics[topic][partition])

    def latest(self, topic: str) -> dict[bytes, bytes]:
        """The newest value of each key that is not a tombstone, as compaction would leave it."""
        with self._changed:
            values: dict[bytes, bytes] = {}
            for entries in self._topics[topic]:
                for entry in entries:
                    values.pop(entry.key, None)
                    if entry.value is not None:
                        values[entry.key] = entry.value
            return values

    def wait(self, timeout_s: float) -> None:
        """Wait until something happens, at most `timeout_s` seconds."""
        with self._changed:
            self._changed.wait(timeout_s)

    def everything(self) -> list[Entry]:
        """Every record of every topic, lost ones too."""
        with self._changed:
            return [e for partitions in self._topics.values() for entries in partitions for e in entries] + self.lost


class MemorySink:
    """A `producer.sink.Sink` on the log, for one producer process. Acknowledgements come from a thread of its own."""

    def __init__(self, log: MemoryLog) -> None:
        self._log = log
        self._waiting: deque[tuple[int, bytes, bytes | None, Sequence[Header], OnAck]] = deque()
        self._condition = threading.Condition()
        self._sending = 0
        self._closed = False
        self._dead = False
        self._thread = threading.Thread(target=self._run, name="memory-sink", daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> int:
        return self._log.partitions

    def positions(self, since: Place | None = None) -> tuple[list[tuple[str, bytes | None]], Place]:
        return [(key.decode(), value) for key, value in self._log.latest("positions").items()], {}

    def state(self) -> list[tuple[bytes, bytes | None]]:
        return list(self._log.latest("state").items())

    def send(
        self, partition: int, key: bytes, value: bytes | None, on_ack: OnAck, headers: Sequence[Header] = ()
    ) -> None:
        with self._condition:
            if self._closed:
                raise SinkFailed("the log is closed")
            if not self._dead:
                self._waiting.append((partition, key, value, headers, on_ack))
                self._condition.notify_all()

    def store_position(self, key: bytes, value: bytes) -> None:
        with self._condition:
            if not self._closed and not self._dead:
                self._log.take_unanswered("positions", 0, key, value)

    def store_now(self, key: bytes, value: bytes) -> None:
        self.store_position(key, value)

    def flush(self, timeout_s: float) -> bool:
        with self._condition:
            return self._condition.wait_for(lambda: not self._waiting and not self._sending, timeout_s)

    def check(self) -> None:
        """It takes everything."""

    def depth(self) -> int:
        with self._condition:
            return len(self._waiting) + self._sending

    def die(self) -> None:
        """Be the client of a process that was killed: nothing more gets out, and nothing is acknowledged."""
        with self._condition:
            self._dead = True
            self._condition.notify_all()
        self._thread.join()

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._condition:
                self._condition.wait_for(lambda: self._waiting or self._closed or self._dead)
                if self._dead or not self._waiting:
                    return
                partition, key, value, headers, on_ack = self._waiting.popleft()
                self._sending = 1
            while not self._log.append("events", partition, key, value, headers):
                self._log.wait(0.05)
                if self._dead or self._closed:
                    return
            on_ack()
            with self._condition:
                self._sending = 0
                self._condition.notify_all()
