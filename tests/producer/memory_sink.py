"""A sink in memory, whose acknowledgements can be held back; the other end of `producer.sink.Sink` in these tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from kubecdc.codec import Codec
from kubecdc.records import EventType, Position, RawEvent
from kubecdc.wire import Header
from producer.errors import SinkFailed
from producer.sink import Place


class MemorySink:
    """Keeps records in the order of sending."""

    def __init__(self, partitions: int = 3, stored: Mapping[str, bytes] | None = None) -> None:
        self.partitions = partitions
        self.log: list[tuple[int, bytes, bytes | None]] = []
        self.headers: dict[int, Sequence[Header]] = {}  # by place in the log
        self.stored = dict(stored or {})
        self.held: dict[bytes, bytes | None] = {}
        self.closed = False
        self.failure = ""
        self._held: list[Callable[[], None]] | None = None
        self._lock = threading.Lock()

    def positions(self, since: Place | None) -> tuple[list[tuple[str, bytes | None]], Place]:
        return list(self.stored.items()), {}

    def state(self) -> list[tuple[bytes, bytes | None]]:
        return list(self.held.items())

    def send(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        on_ack: Callable[[], None],
        headers: Sequence[Header] = (),
    ) -> None:
        if self.closed:
            raise SinkFailed("closed")
        with self._lock:
            self.log.append((partition, key, value))
            if headers:
                self.headers[len(self.log) - 1] = headers
            if self._held is not None:
                self._held.append(on_ack)
                return
        on_ack()

    def store_position(self, key: bytes, value: bytes) -> None:
        self.stored[key.decode()] = value

    def store_now(self, key: bytes, value: bytes) -> None:
        self.store_position(key, value)

    def check(self) -> None:
        if self.failure:
            raise SinkFailed(self.failure)

    def flush(self, timeout_s: float) -> bool:
        return self.depth() == 0

    def depth(self) -> int:
        return len(self._held or ())

    def close(self) -> None:
        self.closed = True

    def hold(self) -> None:
        """Acknowledge nothing from now on."""
        self._held = []

    def release(self) -> None:
        """Acknowledge all that was held back, in order."""
        with self._lock:
            held, self._held = self._held or [], None
        for on_ack in held:
            on_ack()

    def events(self, partition: int | None = None) -> list[RawEvent]:
        codec = Codec()
        return [codec.decode(value) for at, _, value in list(self.log) if value is not None and partition in (None, at)]

    def types(self, partition: int) -> list[EventType]:
        return [event.type for event in self.events(partition)]

    def position(self, stream: str) -> Position | None:
        value = self.stored.get(stream)
        return Codec().decode(value) if value is not None else None
