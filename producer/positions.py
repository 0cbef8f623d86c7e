"""Which position may be stored: the newest one before which Kafka has acknowledged everything, in all partitions.

Pure. It counts; it does not know what was sent or how. Acks of one partition come in the order of sending, as an
idempotent producer gives them. Not safe for threads: the caller holds one lock around sending and acks.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

P = TypeVar("P")


class Tracker(Generic[P]):
    """Counts produced and acknowledged records for each partition, and holds the checkpoints between them.

    Memory is bounded by the records sent since the oldest that is not acknowledged: checkpoints with no record between
    them are one.
    """

    def __init__(self, partitions: int) -> None:
        if partitions < 1:
            raise ValueError(f"{partitions} partitions")
        self._produced = [0] * partitions
        self._acked = [0] * partitions
        self._waiting: deque[tuple[list[int], P]] = deque()

    @property
    def outstanding(self) -> int:
        """Records that are not acknowledged yet."""
        return sum(self._produced) - sum(self._acked)

    @property
    def pending(self) -> int:
        """Checkpoints that wait for acks."""
        return len(self._waiting)

    def produced(self, partition: int) -> None:
        """Count one record handed to Kafka."""
        self._produced[partition] += 1

    def checkpoint(self, position: P) -> P | None:
        """Everything up to `position` has been produced. Return it if it may be stored at once, else None."""
        if self._acked == self._produced:
            return position
        if self._waiting and self._waiting[-1][0] == self._produced:
            self._waiting.pop()
        self._waiting.append((self._produced.copy(), position))
        return None

    def acked(self, partition: int, count: int = 1) -> P | None:
        """Count acks. Return the newest position that this makes storable, else None.

        Raises ValueError for an ack of something that was never produced.
        """
        acked = self._acked[partition] + count
        if count < 1 or acked > self._produced[partition]:
            raise ValueError(
                f"ack of record {acked} of partition {partition}, {self._produced[partition]} were produced"
            )
        self._acked[partition] = acked
        ready = None
        while self._waiting and self._covers(self._waiting[0][0]):
            ready = self._waiting.popleft()[1]
        return ready

    def _covers(self, target: list[int]) -> bool:
        return all(acked >= wanted for acked, wanted in zip(self._acked, target, strict=True))
