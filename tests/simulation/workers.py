"""Workers: the production `PartitionTask` on a simulated Kafka, with crashes before and after each of its effects.

The task is not modelled, it runs: fence, read state to its end, resume after `__progress__`, one transaction a batch.
What it takes from outside is replaced: codecs by references, `processors.kafka.Cluster` by `Kafka` below, the clock and
the crash points in the module's namespace (`installed` in `run`). A worker is a set of tasks that die together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kubecdc import topics
from kubecdc.records import Progress
from kubecdc.wire import PROGRESS_KEY
from processors.errors import Fenced, Restart, Stop, Stuck
from processors.metrics import Metrics
from processors.partition import Batch, Partition
from processors.task import PartitionTask
from tests.simulation.log import Ref, Transaction
from tests.simulation.sink import CODEC

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

METRICS = Metrics()
SESSION_TIMEOUT_S = 2.0
CRASH_POINTS = (
    "in_recovery", "after_begin", "after_produce", "before_commit", "commit_sent_no_reply", "after_commit",
    "before_ack",
)  # fmt: skip
ERRORS = ("fence_error", "produce_error", "commit_error", "commit_reply_lost", "commit_in_doubt", "zombie_in_commit")


class Crashed(BaseException):
    """The worker process is gone; no code of ours may catch it."""


class Memory(Partition):
    """The production partition; it tells which records a batch accounts for, and what it counted."""

    def __init__(self, simulation: Simulation, partition: int) -> None:
        super().__init__(partition, noise=simulation.plan.noise, history_ms=simulation.plan.history_ms)
        self._simulation = simulation
        self._number = partition
        self._applied: list[int] = []

    def apply(self, offset: int, *record: Any, **more: Any) -> None:
        if offset >= self.next_offset:
            self._applied.append(offset)
            read = self._simulation.log.read
            read[self._number] = max(read[self._number], offset + 1)
        super().apply(offset, *record, **more)

    def drain(self) -> Batch:
        batch = super().drain()
        self._simulation.drained[self._number] = (tuple(self._applied), batch.counters)
        self._applied = []
        return batch


class Task(PartitionTask):
    """The production task, with references for bytes."""

    def __init__(self, simulation: Simulation, partition: int) -> None:
        self._simulation = simulation
        super().__init__(
            partition,
            Kafka(simulation),
            METRICS,
            noise=simulation.plan.noise,
            history_ms=simulation.plan.history_ms,
        )
        self._events = self._changes = self._state = CODEC

    def _empty(self) -> Partition:
        return Memory(self._simulation, self.partition)


class Kafka:
    """What the task asks of `processors.kafka.Cluster`."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.names = topics.TopicNames.under("sim")

    def low_watermark(self, topic: str, partition: int) -> int:
        return self._simulation.log.start[partition]

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        return {partition: len(self._simulation.log.events[partition]) for partition in partitions}

    def committed(self, topic: str, partition: int, *, first_only: bool = False) -> dict[bytes, Ref]:
        log = self._simulation.log
        latest: dict[bytes, Ref] = {}
        for written in log.committed(log.state[partition] if topic == self.names.state else log.changes[partition]):
            if written.value is None:
                latest.pop(written.key, None)
            else:
                latest[written.key] = written.value
                if first_only:
                    break
        return latest

    def writer(self, partition: int) -> Writer:
        return Writer(self._simulation, partition)


class Writer:
    """The transactional producer of a partition, and what may go wrong with it."""

    def __init__(self, simulation: Simulation, partition: int) -> None:
        self._simulation = simulation
        self._partition = partition
        self._epoch = -1

    def fence(self) -> None:
        if self._simulation.take("fence_error", self._partition):
            raise Restart("the coordinator is not available")
        self._epoch = self._simulation.log.fence(self._partition)

    def discard(self) -> None:
        """An open transaction stays open until the next fence."""

    def write(self, changes: Iterable[tuple[bytes, Ref | None]], state: Iterable[tuple[bytes, Ref | None]]) -> None:
        simulation, partition, log = self._simulation, self._partition, self._simulation.log
        self._check()
        transaction = Transaction(partition, (), {})
        log.begin(transaction)
        simulation.crash_point("after_begin", partition)
        now_ms = simulation.schedule.now_ms
        for pair in changes:  # the batch is applied while it is written
            log.write(log.changes[partition], now_ms, pair, transaction)
        if simulation.take("produce_error", partition):
            raise Restart("produce: a broker is away")
        for pair in state:
            log.write(log.state[partition], now_ms, pair, transaction)
            if pair[0] == PROGRESS_KEY and pair[1] is not None and isinstance(pair[1].record, Progress):
                transaction.progress = pair[1].record.src_offset
        transaction.applied, transaction.counters = simulation.drained.pop(partition)
        simulation.crash_point("after_produce", partition)
        simulation.crash_point("before_commit", partition)
        if simulation.take("zombie_in_commit", partition):
            simulation.steal(partition)
        self._commit(transaction)
        simulation.crash_point("after_commit", partition)

    def _check(self) -> None:
        if self._epoch != self._simulation.log.epochs[self._partition]:
            self._simulation.hit("zombie_fenced")
            raise Fenced("there is a newer producer")

    def _commit(self, transaction: Transaction) -> None:
        simulation, partition, log = self._simulation, self._partition, self._simulation.log
        self._check()
        if simulation.take("commit_error", partition):
            raise Restart("commit: the request did not arrive")
        if simulation.take("commit_in_doubt", partition):
            transaction.doubtful = True
            raise Restart("commit: no answer, it is carried out later")
        if simulation.armed_crash(partition) == "commit_sent_no_reply":
            transaction.doubtful = True
        simulation.crash_point("commit_sent_no_reply", partition)
        log.end(transaction, commit=True)
        if simulation.take("commit_reply_lost", partition):
            raise Restart("commit: the answer was lost")


class Worker:
    """A process with tasks for the partitions that the group gives it."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation = simulation
        self.number = number
        self.alive = True
        self.frozen_until = 0.0
        self.tasks: dict[int, Task] = {}
        self.positions: dict[int, int] = {}
        self._again()

    def _again(self) -> None:
        self.simulation.schedule.after(self.simulation.rng.uniform(0.05, 0.4), self._round)

    def _round(self) -> None:
        simulation = self.simulation
        if self.alive and simulation.schedule.now >= self.frozen_until:
            try:
                for partition in sorted(self.tasks):
                    self._work(partition)
            except (Crashed, Stop) as error:
                self.ended(error)
        self._again()

    def own(self, partition: int) -> None:
        """The group gives a partition."""
        before, self.simulation.working = self.simulation.working, partition
        try:
            task = Task(self.simulation, partition)
            self.positions[partition] = task.open()
            self.tasks[partition] = task
        except (Crashed, Stop) as error:
            self.ended(error)
        finally:
            self.simulation.working = before

    def ended(self, error: BaseException) -> None:
        """The process ends, with this reason."""
        self.simulation.ended[type(error).__name__] += 1
        if isinstance(error, Stop) and not isinstance(error, Fenced | Stuck):
            self.simulation.faults.append(f"worker {self.number}: {error}")
        self.die()

    def give_up(self, partition: int) -> None:
        """The group takes a partition."""
        task = self.tasks.pop(partition, None)
        if task is not None:
            task.close()

    def die(self) -> None:
        """The process is gone; the group notices after the session timeout."""
        self.alive = False
        self.tasks.clear()
        self.simulation.schedule.after(SESSION_TIMEOUT_S, self.simulation.rebalance)
        self.simulation.schedule.after(self.simulation.rng.uniform(0.5, 4.0), self.revive)

    def revive(self) -> None:
        """Started anew, it joins the group."""
        if not self.alive:
            self.alive = True
            self.simulation.rebalance()

    def _work(self, partition: int) -> None:
        simulation, task = self.simulation, self.tasks[partition]
        position = self.positions[partition]
        if simulation.take("delivered_twice", partition):
            position = max(simulation.log.start[partition], position - 20)
        if position < simulation.log.start[partition]:
            raise Fenced("cut off: the worker ends and starts again")
        found = simulation.log.fetch(partition, position, simulation.rng.randrange(1, 60))
        if not found:
            return
        records = [(e.offset, e.timestamp_ms, e.key, e.value or e.told) for e in found]
        simulation.working = partition
        reached = task.process(records)
        if reached is not None:
            self.positions[partition] = reached
