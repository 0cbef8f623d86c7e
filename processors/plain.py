"""The plain loop: a consumer group of the events topic, a PartitionTask for each assigned partition, no framework.

The reference, and the fastest. It decides nothing: where to resume comes from the tasks, offsets are committed after
the transaction and for monitoring only, and any error that a task cannot mend ends the worker with its reason.
"""

from __future__ import annotations

import threading
import time

from processors.errors import Stop
from processors.kafka import Source
from processors.metrics import Metrics
from processors.settings import WorkerSettings
from processors.tasks import Tasks

POLL_S = 0.1
POLL_RECORDS = 4_000
CHECK_S = 5.0


class Worker:
    """Runs until `stop` is set. Raises Misconfigured, Unreachable or Stop."""

    def __init__(self, settings: WorkerSettings, metrics: Metrics) -> None:
        self._tasks = Tasks(settings, metrics)
        self._settings = settings

    def run(self, stop: threading.Event) -> None:
        """Consume until told to stop."""
        source = Source(self._settings.kafka, self._assigned, self._tasks.close)
        checked = time.monotonic()
        try:
            while not stop.is_set():
                batches, out_of_range = source.poll(POLL_RECORDS, POLL_S)
                if out_of_range:
                    raise Stop(
                        f"events partitions {sorted(out_of_range)} were cut off while they were read; start again"
                    )
                if batches:
                    source.commit(self._tasks.process(batches, self._tasks.owned()))
                if time.monotonic() - checked > CHECK_S:
                    self._tasks.check_progress()
                    checked = time.monotonic()
        finally:
            self._tasks.close()
            source.close()

    def _assigned(self, partitions: list[int]) -> dict[int, int]:
        tasks, offsets = self._tasks.prepare(partitions)
        self._tasks.adopt(tasks)
        return offsets
