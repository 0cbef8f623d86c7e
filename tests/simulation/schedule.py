"""Time in the simulation: a queue of actions, each at its second. Nothing here is of the world.

Actions of the same instant run in the order in which they were planned, so that a seed gives one run only.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

EPOCH_MS = 1_700_000_000_000


class Schedule:
    """What is to happen, and what time it is (`now` in seconds, `now_ms` in epoch ms)."""

    def __init__(self) -> None:
        self.now = 0.0
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()

    @property
    def now_ms(self) -> int:
        return EPOCH_MS + int(self.now * 1000)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Run `action` when that time has passed."""
        heapq.heappush(self._queue, (self.now + seconds, next(self._numbers), action))

    def run(self, until: float) -> None:
        """Run everything that is due before `until`, and what follows from it."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, action = heapq.heappop(queue)
            action()
        self.now = until


class Clock:
    """The module `time`, as far as the partition task uses it, on the schedule's time."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule

    def time(self) -> float:
        return self._schedule.now_ms / 1000

    def monotonic(self) -> float:
        return self._schedule.now

    def sleep(self, seconds: float) -> None:
        """A task that sleeps keeps its thread; others are not simulated meanwhile."""
