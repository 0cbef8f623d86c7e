"""The tasks of one worker, by partition: what both shells do when partitions come and go, and when nothing moves.

It makes tasks, opens them side by side, and closes them. It does not know of consumer groups.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from kubecdc.codec import Codec
from kubecdc.hearing import Ear, on
from kubecdc.records import Change, Progress, StreamState, UidState
from kubecdc.registry import Registry
from kubecdc.unheard import Asked, Heard, Refused
from processors.errors import Restart, Stalled, Stop, Stuck
from processors.kafka import Cluster, Raw
from processors.metrics import Metrics
from processors.settings import WorkerSettings
from processors.task import PartitionTask
from processors.watchdog import Look, Watchdog

log = logging.getLogger(__name__)

THREADS = 4
UNHEARD_S = 60.0  # so long may Kafka not answer while the worker is ready
LOOK_S = 2.0
LOOK_MAX_S = 90.0  # more than all the deadlines of the calls that it makes
ADVICE = "check that Kafka's brokers run, and the network"
CUT_OFF = (
    "events partitions {} were cut off below the offset being read: start again, what is gone will be a COMPACTED gap"
)


class Tasks:
    """Thread-safe. Making it checks topics and schemas, and raises Misconfigured or Unreachable."""

    def __init__(self, settings: WorkerSettings, metrics: Metrics) -> None:
        self._settings = settings
        self._metrics = metrics
        self._cluster = Cluster(settings.kafka)
        self._layout = self._cluster.layout()
        url = settings.kafka.schema_registry
        self._registry = Registry(url) if url else None
        Codec(self._cluster.names.changes, self._registry).register(Change)  # which the registry's client remembers
        Codec(self._cluster.names.state, self._registry).register(UidState, StreamState, Progress)
        self._tasks: dict[int, PartitionTask] = {}
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="partition")
        self._lock = threading.Lock()
        self._opening: dict[int, PartitionTask] = {}
        self._kafka = Ear("Kafka", log, on(metrics.unheard, "kafka"), lost="it has not answered")
        self._assigned = False
        self._watchdog: Watchdog | None = None
        self._stood: dict[int, tuple[int, int]] = {}
        self._holes: dict[int, bool] = {}
        # Each batch makes tens of thousands of objects without cycles, beside state that never dies: at the default
        # thresholds the collector spends a tenth of the time walking over both.
        gc.set_threshold(100_000, 50, 100)

    def prepare(self, partitions: Iterable[int]) -> tuple[dict[int, PartitionTask], dict[int, int]]:
        """Open tasks, and return them with the offsets to resume at. Raises Stop. They get records after `adopt`."""
        with self._lock:
            self._assigned = False
        partitions = list(partitions)
        if max(partitions, default=0) >= self._layout.partitions:
            raise Stop(
                f"{self._cluster.names.events} has got partitions, {self._layout.partitions} before: start again for"
                " what that means"
            )
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
        self._opening = tasks
        with _uncollected():
            return tasks, dict(zip(tasks, self._pool.map(PartitionTask.open, tasks.values()), strict=True))

    def adopt(self, tasks: Mapping[int, PartitionTask]) -> None:
        """Hand records to these tasks from now on."""
        with self._lock:
            self._tasks.update(tasks)
            self._opening, self._assigned = {}, True

    def told(self, partitions: Iterable[int]) -> None:
        """Take note of what the group says is ours: with a task for each of them, also with none, all is settled."""
        with self._lock:
            self._assigned = self._tasks.keys() >= set(partitions)

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
        return {item[0]: offset for item, offset in zip(work, done, strict=True) if offset is not None}

    def close(self, partitions: Iterable[int] | None = None) -> None:
        """Give partitions up, all when none are named."""
        with self._lock:
            gone = [self._tasks.pop(p, None) for p in (list(self._tasks) if partitions is None else partitions)]
            self._assigned = self._assigned and bool(self._tasks)
        for task in gone:
            if task is not None:
                task.close()

    def positions(self) -> dict[int, int]:
        """The next source offset of each partition."""
        return {partition: task.next_offset for partition, task in self.owned().items()}

    def ready(self) -> bool:
        """Whether the group has told what is ours, even if that is nothing, and all of it is recovered.

        False while a rebalance is under way: then nothing is ours, but nothing says that this will stay so. False as
        well when Kafka has not answered for a minute.
        """
        return not self.unready()

    def unready(self) -> tuple[str, ...]:
        """What keeps the worker from being ready, a sentence each: what /readyz shows."""
        ears = (self._kafka, *(task.ear for task in self.owned().values() if task.recovered))
        return (*(said for ear in ears if (said := ear.sentence(UNHEARD_S))), *self._unsettled())

    def _unsettled(self) -> tuple[str, ...]:
        owned = self.owned()
        late = {partition: task for partition, task in owned.items() if not task.recovered}
        if not self._assigned:
            late |= {partition: task for partition, task in self._opening.items() if not task.recovered}
            if not late:
                return ("the consumer group has not told which partitions are ours",)
        return tuple(
            task.ear.sentence() or f"partition {partition} is being recovered" for partition, task in late.items()
        )

    def healthy(self) -> bool:
        """Whether the watchdog sees work being done; it ends the process itself where it still can."""
        return self._watchdog is None or self._watchdog.verdict(time.monotonic()) is None

    def watch(self, stop: threading.Event, fail: Callable[[Stuck], object]) -> None:
        """Call `fail` once when work is not done; until `stop` is set.

        One thread looks, which takes calls that may hang; another judges, and takes none.
        """
        watchdog = self._watchdog = Watchdog(self._settings.stuck_after_s, LOOK_MAX_S, time.monotonic())

        def look() -> None:
            while not stop.wait(LOOK_S):
                positions, settling = self.positions(), self._cluster.answers if self._unsettled() else None
                self._kafka.take(Asked(time.monotonic()))
                watchdog.look(Look(positions, self._lag(positions), settling), time.monotonic())

        def judge() -> None:
            while not stop.wait(LOOK_S):
                for ear in (self._kafka, *(task.ear for task in (self._opening | self.owned()).values())):
                    ear.look(detail=ADVICE)
                reason = watchdog.verdict(time.monotonic())
                if reason is not None:
                    fail(Stuck(reason))
                    return

        for run in (look, judge):
            threading.Thread(target=run, name=f"watchdog-{run.__name__}", daemon=True).start()

    def _lag(self, positions: Mapping[int, int]) -> dict[int, int] | None:
        """Records that wait, by partition; None when Kafka does not tell."""
        try:
            ends = self._cluster.high_watermarks(self._cluster.names.events, positions or (0,))
        except Restart as error:
            self._kafka.take(Refused(time.monotonic(), "unreachable", f"{error}: {ADVICE}"))
            return None
        self._kafka.take(Heard(time.monotonic()))
        lag = {
            partition: 0 if self._nothing_follows(partition, offset, ends[partition]) else ends[partition] - offset
            for partition, offset in positions.items()
        }
        owned = self.owned()
        for partition in lag.keys() & owned.keys():
            self._metrics.lag.labels(str(partition)).set(lag[partition])
        return lag

    def _nothing_follows(self, partition: int, offset: int, end: int) -> bool:
        """Whether no record lies in `[offset, end)`: marks of transactions and what was compacted take offsets too.

        It is looked up only where the position stands, and once for each pair of numbers. Raises Restart.
        """
        if offset >= end:
            return True
        stood, self._stood[partition] = self._stood.get(partition), (offset, end)
        if stood != (offset, end):
            self._holes.pop(partition, None)
            return False
        if partition not in self._holes:
            try:
                self._holes[partition] = not self._cluster.has_records(self._cluster.names.events, partition, offset)
            except Stalled:
                return False
        return self._holes[partition]


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Recover without garbage collection, which doubles its time: it makes millions of objects, all of which stay.

    Afterwards they are frozen, so that no later collection walks over them; they go when nothing refers to them.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
