"""The tasks of one worker, by partition: what both shells do when partitions come and go, and when nothing moves.

It makes tasks, opens them side by side, and closes them. It does not know of consumer groups.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from kubecdc.registry import Registry
from processors.errors import Restart, Stuck
from processors.kafka import Cluster, Raw
from processors.metrics import Metrics
from processors.settings import WorkerSettings
from processors.task import PartitionTask

THREADS = 4


class Tasks:
    """Thread-safe. `start` must come first: it checks the topics. Raises Misconfigured or Unreachable there."""

    def __init__(self, settings: WorkerSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cluster = Cluster(settings.kafka)
        self._layout = self._cluster.layout()
        url = settings.kafka.schema_registry
        self._registry = Registry(url) if url else None
        self._tasks: dict[int, PartitionTask] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="partition")
        self._lock = threading.Lock()
        self._moved_at: dict[int, tuple[int, float]] = {}

    def prepare(self, partitions: Iterable[int]) -> tuple[dict[int, PartitionTask], dict[int, int]]:
        """Open tasks, and return them with the offsets to resume at. Raises Stop. They get records after `adopt`."""
        tasks = {
            partition: PartitionTask(
                partition,
                self._cluster,
                self._metrics,
                noise=self._settings.noise,
                history_ms=self._layout.history_ms,
                registry=self._registry,
            )
            for partition in partitions
        }
        return tasks, dict(zip(tasks, self._pool.map(PartitionTask.open, tasks.values()), strict=True))

    def adopt(self, tasks: Mapping[int, PartitionTask]) -> None:
        """Hand records to these tasks from now on."""
        now = time.monotonic()
        with self._lock:
            self._tasks.update(tasks)
            self._moved_at.update(dict.fromkeys(tasks, (-1, now)))

    def owned(self) -> dict[int, PartitionTask]:
        """The tasks as of now; compare with `is` to see whether a partition was away in between."""
        with self._lock:
            return dict(self._tasks)

    def process(self, batches: Mapping[int, list[Raw]], before: Mapping[int, PartitionTask]) -> dict[int, int]:
        """Hand each partition's records to its task, if it is the one in `before`. Raises Stop.

        Records that were fetched before a partition came back would leave a hole in front of them; they are dropped
        here, and read again from where the new task resumes. Returns the next offsets.
        """
        owned = self.owned()
        work = [
            (partition, task, records)
            for partition, records in batches.items()
            if (task := owned.get(partition)) is not None and before.get(partition) is task
        ]
        done = self._pool.map(lambda item: item[1].process(item[2]), work)
        offsets = {item[0]: offset for item, offset in zip(work, done, strict=True) if offset is not None}
        now = time.monotonic()
        with self._lock:
            self._moved_at.update({partition: (offset, now) for partition, offset in offsets.items()})
        return offsets

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """Give partitions up, all when none are named."""
        with self._lock:
            gone = [self._tasks.pop(p, None) for p in (list(self._tasks) if partitions is None else partitions)]
        for task in gone:
            if task is not None:
                task.close()

    def check_progress(self) -> None:
        """Raise Stuck when a partition has had records to read for `stuck_after_s` and none was processed."""
        owned = self.owned()
        try:
            ends = self._cluster.high_watermarks(self._cluster.names.events, owned)
        except Restart:
            return  # the broker is away: nothing can be done, and nothing is lost
        now = time.monotonic()
        for partition, end in ends.items():
            offset, since = self._moved_at.get(partition, (-1, now))
            lag = max(0, end - max(offset, 0)) if offset >= 0 else 0
            self._metrics.lag.labels(str(partition)).set(lag)
            waiting = offset < 0 or lag > 0
            if not waiting:
                self._moved_at[partition] = (offset, now)
            elif end > 0 and lag > 0 and now - since > self._settings.stuck_after_s:
                raise Stuck(
                    f"partition {partition} stands at {offset} of {end} for {now - since:.0f} s although there is work"
                )
