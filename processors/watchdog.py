"""Whether a worker still does its work: the decision, from what was seen at each look.

Pure. A partition has records that wait and none is processed; Kafka is mute; the group gives no partitions, or their
recovery reads nothing; or nobody has looked: each must end the worker in time, since what hangs cannot end itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen: the next offset of each partition, and how many records wait there; None: Kafka did not tell.

    `settling` is None while all that the group gives is open, or else how often a recovery has read something so far.
    """

    positions: Mapping[int, int]
    lag: Mapping[int, int] | None
    settling: int | None = None


class Watchdog:
    """`limit_s` without progress is too long, and so is a look of `look_s`, which has deadlines of its own.

    Time in which Kafka is away counts as well; a partition without lag does not. Times are monotonic seconds. One
    thread may call `look` and another `verdict`.
    """

    def __init__(self, limit_s: float, look_s: float, now: float) -> None:
        self._limit_s, self._look_s = limit_s, max(limit_s, look_s)
        self._moved: dict[int, tuple[int, int, float]] = {}
        self._answered = self._looked = now
        self._mute = False
        self._settling: tuple[int, float] | None = None

    def look(self, seen: Look, now: float) -> None:
        """Take note of what was seen."""
        self._looked = now
        self._mute = seen.lag is None
        if seen.lag is not None:
            self._answered = now
            self._moved = {
                partition: self._stood(partition, offset, seen.lag.get(partition, 0), now)
                for partition, offset in seen.positions.items()
            }
        if seen.settling is None or self._settling is None or self._settling[0] != seen.settling:
            self._settling = None if seen.settling is None else (seen.settling, now)

    def _stood(self, partition: int, offset: int, waiting: int, now: float) -> tuple[int, int, float]:
        known, _, since = self._moved.get(partition, (-1, 0, now))
        return offset, waiting, since if offset == known and waiting else now

    def verdict(self, now: float) -> str | None:
        """Why the worker is stuck, or None: what the last look says now, when time has passed since."""
        if now - self._looked > self._look_s:
            return f"a look at what waits in Kafka has not come back for {now - self._looked:.0f} s"
        silent = now - self._answered
        if self._mute:
            return f"Kafka has not answered for {silent:.0f} s" if silent > self._limit_s else None
        settling = self._settling
        if settling is not None and now - settling[1] > self._limit_s:
            return (
                f"nothing has been assigned and open for {now - settling[1]:.0f} s: the consumer group, a recovery or"
                " the worker's own end hangs"
            )
        for partition, (offset, waiting, since) in self._moved.items():
            if waiting and now - since > self._limit_s:
                return f"partition {partition} stands at {offset} for {now - since:.0f} s, {waiting} records wait"
        return None
