"""Where records go: the one interface between sessions and a log.

`producer.kafka` implements it on Kafka; the cases play on one in memory. It knows bytes, partitions and
acknowledgements, and neither sessions nor records.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class Sink(Protocol):
    """A log of `partitions` partitions that acknowledges in order within each."""

    @property
    def partitions(self) -> int:
        """Partition count of the events topic."""

    def positions(self) -> Mapping[str, bytes]:
        """Newest stored position of each stream, by `wire.stream_name`, as it was at the call."""

    def send(self, partition: int, key: bytes, value: bytes | None, on_ack: Callable[[], None]) -> None:
        """Append a record; blocks while too much waits. `on_ack` runs in any thread, in order within a partition.

        Raises SinkFailed when the record can never be written.
        """

    def store_position(self, key: bytes, value: bytes) -> None:
        """Store a position; never blocks, may be called from `on_ack`. A newer value replaces one still waiting."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything, positions too, is acknowledged; False when the time was not enough."""

    def depth(self) -> int:
        """Records and positions that are not acknowledged yet."""

    def close(self) -> None:
        """Release what it holds; later sends raise SinkFailed."""
