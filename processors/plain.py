"""The plain loop: a consumer group of the events topic, a PartitionTask for each assigned partition, no framework.

The reference, and the fastest. It decides nothing: where to resume comes from the tasks, offsets are committed after
the transaction and for monitoring only, and any error that a task cannot mend ends the worker with its reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack

from processors.ending import end_stuck
from processors.errors import Restart, Stop, Stuck
from processors.kafka import Source
from processors.metrics import Metrics
from processors.settings import WorkerSettings
from processors.tasks import CUT_OFF, Tasks

log = logging.getLogger(__name__)

POLL_S = 0.1
POLL_RECORDS = 4_000  # fewer wait more for commits, more no longer fit into the cache of a processor
COMMIT_S = 2.0


class Worker:
    """Runs until `stop` is set. `on_stuck` is called from another thread than `run`, which may hang.

    Raises Misconfigured or Unreachable when it is made, Stop when it runs.
    """

    def __init__(
        self, settings: WorkerSettings, metrics: Metrics, on_stuck: Callable[[Stuck], object] = end_stuck
    ) -> None:
        self.tasks = Tasks(settings, metrics)
        self._settings = settings
        self._on_stuck = on_stuck

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        with ExitStack() as ending:  # the watchdog goes last: what closes can hang as well
            ended = threading.Event()
            ending.callback(ended.set)
            self.tasks.watch(ended, self._on_stuck)
            source = Source(self._settings.kafka, self._assigned, self.tasks.close)
            ending.callback(source.close)
            ending.callback(self.tasks.close)
            self._loop(source, stop)

    def _loop(self, source: Source, stop: threading.Event) -> None:
        told: dict[int, int] = {}
        told_at = time.monotonic()
        while not stop.is_set():
            self._round(source)
            if time.monotonic() - told_at > COMMIT_S:
                positions = self.tasks.positions()
                source.commit({p: offset for p, offset in positions.items() if told.get(p) != offset})
                told, told_at = positions, time.monotonic()
        source.commit(self.tasks.positions())

    def _round(self, source: Source) -> None:
        try:
            batches, out_of_range = source.poll(POLL_RECORDS, POLL_S)
        except Restart as error:
            log.warning("%s", error)  # librdkafka tries again by itself; the watchdog sees whether that helps
            return
        if out_of_range:
            raise Stop(CUT_OFF.format(sorted(out_of_range)))
        if batches:
            # As of now, not before the poll: it may have assigned partitions, whose first records nobody reads again.
            self.tasks.process(batches, self.tasks.owned())

    def _assigned(self, partitions: list[int]) -> dict[int, int]:
        tasks, offsets = self.tasks.prepare(partitions)
        self.tasks.adopt(tasks)
        return offsets
