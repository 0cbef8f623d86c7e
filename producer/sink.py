"""Where records go: the one interface between sessions and a log.

`producer.kafka` implements it on Kafka; the cases play on one in memory. It knows bytes, partitions and
acknowledgements, and neither sessions nor records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from kubecdc.wire import Header

Place = Mapping[int, int]  # offsets by partition


class Sink(Protocol):
    """A log of `partitions` partitions that acknowledges in order within each."""

    @property
    def partitions(self) -> int:
        """Partition count of the events topic."""

    def positions(self, since: Place | None) -> tuple[Iterable[tuple[str, bytes | None]], Place]:
        """Stored positions by `wire.stream_name`, oldest first, and where the next call goes on.

        All that are there, or at least what has been stored after `since`, by whomever; None takes a position back.
        Raises Unreachable when they cannot be read to their end.
        """

    def state(self) -> Iterable[tuple[bytes, bytes | None]]:
        """The state topic, as it was at the call, in order within a key. Raises Unreachable."""

    def send(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        on_ack: Callable[[], None],
        headers: Sequence[Header] = (),
    ) -> None:
        """Append a record; blocks while too much waits. `on_ack` runs in any thread, in order within a partition.

        Raises SinkFailed when the record can never be written.
        """

    def store_position(self, key: bytes, value: bytes) -> None:
        """Store a position; never blocks, may be called from `on_ack`. A newer value replaces one still waiting."""

    def store_now(self, key: bytes, value: bytes) -> None:
        """Write to the positions topic and wait for the acknowledgement, however long it takes. Raises SinkFailed."""

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything, positions too, is acknowledged; False when the time was not enough."""

    def check(self) -> None:
        """Raise SinkFailed if something can never be written: who only waits for acknowledgements learns it here."""

    def depth(self) -> int:
        """Records and positions that are not acknowledged yet."""

    def close(self) -> None:
        """Release what it holds; later sends raise SinkFailed."""
