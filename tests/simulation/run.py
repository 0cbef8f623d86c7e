"""One seed: the world, its producers and workers, the steps of the plan, and the end, when faults stop and all settles.

What comes out is a `History` for the checkers, and what happened by count.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import processors.crash
import processors.task
from kubecdc.records import Change, RawEvent
from local.verdicts import ObjectId
from tests.checkers.history import Applied, History, Living, Raw, Record
from tests.simulation import faults
from tests.simulation.log import Log, Status
from tests.simulation.plan import DURATION_S, Plan
from tests.simulation.producers import Driver, Process
from tests.simulation.schedule import Clock, Schedule
from tests.simulation.server import Server
from tests.simulation.workers import Crashed, Worker
from tests.simulation.world import World

SETTLE_S = 60.0
RESTORE_NOTICED_S = 25.0
Epoch = tuple[tuple[str, str], str, int]  # (group, resource), scope, epoch


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run. `hits` counts faults that took effect, `counts` what sessions and workers counted."""

    history: History
    hits: Counter[str]
    counts: Counter[str]
    commits: int


class Simulation:
    """Everything that a run has; its parts reach each other through it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.rng = Random(f"run {plan.seed}")
        self.schedule = Schedule()
        self.hits: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.faults: list[str] = []
        self.world = World(
            Random(f"world {plan.seed}"), plan.kinds, plan.start_rv, old_deletes=plan.old_deletes
        )  # fmt: skip
        self.server = Server(self.world, self.schedule, Random(f"server {plan.seed}"), self.hit)
        self.log = Log(plan.partitions)
        self.armed: list[tuple[str, int]] = []
        self.crashes: dict[int, str] = {}
        self.down: dict[int, float] = {}
        self.drained: dict[int, tuple[tuple[int, ...], dict[str, int]]] = {}
        self.lost: set[int] = set()
        self.working = 0
        self.restoring = False
        self.eras: dict[Epoch, set[int]] = {}
        self.touched: dict[Epoch, set[int]] = {}
        self.processes = [Process(self, number) for number in range(plan.producers)]
        self.workers = [Worker(self, number) for number in range(plan.workers)]
        self.owners: dict[int, Worker] = {}

    # --- what happens -----------------------------------------------------------------------------------------------

    def hit(self, fault: str) -> None:
        """A fault took effect."""
        self.hits[fault] += 1

    def take(self, fault: str, partition: int) -> bool:
        """Whether an armed fault strikes this partition now."""
        if (fault, partition) in self.armed:
            self.armed.remove((fault, partition))
            self.hit(fault)
            return True
        return False

    def armed_crash(self, partition: int) -> str | None:
        """At which point the partition's next owner to get there dies."""
        return self.crashes.get(partition)

    def crash_point(self, point: str, partition: int) -> None:
        """Die here, if that is armed. Raises Crashed."""
        if self.crashes.get(partition) == point:
            del self.crashes[partition]
            self.hit(f"crash_{point}")
            raise Crashed(point)

    def spoke(self, driver: Driver, epoch: int, era: int | None, *, firm: bool) -> None:
        """A session has published, in an epoch, what it read in an era of the store.

        Pages of a list are published before the list is known to be of the same era: only its end is firm.
        """
        if era is None:
            return
        told = self.eras if firm else self.touched
        told.setdefault((driver.kind.key, driver.scope, epoch), set()).add(era)
        if firm:
            driver.era_told = era

    def restore(self, back: int, *, bump: bool, unseen: bool = False) -> bool:
        """Restore the store from a backup, unless somebody has yet to notice the one before.

        Versions that go on above all others hide a restore from whom nothing contradicts; only `unseen` does that.
        """
        known = [driver.machine.versions.known for process in self.processes for driver in process.drivers]
        if self._unnoticed() or not known or None in known:
            return False
        least = min(int(rv) for rv in known if rv)
        if not unseen and not (self._shows(back) if bump else least > self.world.revision - back + 12):
            return False
        if not self.world.restore(back, bump=bump):
            return False
        self.world.ceiling, self.world.only_new = None if bump else least, bump
        self.restoring = True
        for stream in list(self.server.streams):
            stream.later(self.rng.uniform(0.1, 1.0), lambda s=stream: s.end(clean=False))
        self.schedule.after(0.5, lambda at=self.schedule.now: self._lift(at))
        return True

    def _unnoticed(self) -> bool:
        every = all(process.alive and not process.frozen for process in self.processes)
        drivers = [driver for process in self.processes for driver in process.drivers]
        settled = all(not process.sink.depth() for process in self.processes if process.alive)
        return not (every and settled and all(driver.noticed for driver in drivers))

    def _shows(self, back: int) -> bool:
        """Every session knows a version that the restored store will contradict."""
        world = self.world
        forked = world.revision - back
        for driver in (driver for process in self.processes for driver in process.drivers):
            published = driver.machine.published
            lived = driver.kind.at(forked)
            lost = driver.kind.history[driver.kind.first_after(forked) :]
            if not any(
                v.uid in lived and (published.rv_of(v.uid) or published.deleted_rv(v.uid)) == str(v.rv) for v in lost
            ):
                return False
        return True

    def _lift(self, since: float) -> None:
        """Let clients write freely, and processes come and go, once everybody knows of the restore."""
        if self._unnoticed() and self.schedule.now - since < RESTORE_NOTICED_S:
            self.schedule.after(0.5, lambda: self._lift(since))
        else:
            self.world.ceiling, self.world.only_new = None, False
            self.restoring = False

    # --- the group --------------------------------------------------------------------------------------------------

    def rebalance(self) -> None:
        """Give what nobody owns to somebody."""
        for partition in range(self.plan.partitions):
            owner = self.owners.get(partition)
            if owner is not None and owner.alive and partition in owner.tasks:
                continue
            alive = [worker for worker in self.workers if worker.alive]
            if alive:
                self._give(partition, self.rng.choice(alive))

    def move(self, partition: int, pick: float) -> None:
        """Move a partition to another worker, in good order."""
        owner = self.owners.get(partition)
        if owner is None or not owner.alive:
            return
        owner.give_up(partition)
        heir = faults.chosen([worker for worker in self.workers if worker.alive], pick)
        if heir is not None:
            self.hit("rebalance")
            self._give(partition, heir)

    def steal(self, partition: int) -> bool:
        """Give a partition to another worker while the first believes that it is its own."""
        owner = self.owners.get(partition)
        others = [worker for worker in self.workers if worker.alive and worker is not owner]
        if not others or owner is None or partition not in owner.tasks:
            return False
        self._give(partition, self.rng.choice(others))
        return True

    def _give(self, partition: int, worker: Worker) -> None:
        self.owners[partition] = worker
        worker.own(partition)

    # --- the run ----------------------------------------------------------------------------------------------------

    def run(self) -> Outcome:
        """Play the plan to its end."""
        with installed(self):
            for number in range(self.plan.objects):
                self.world.create(self.world.kinds[number % len(self.world.kinds)])
            for _ in range(30):
                self.world.write()
            for process in self.processes:
                self.schedule.after(self.rng.uniform(0.0, 5.0), process.start)
            self.rebalance()
            for step in self.plan.steps:
                self.schedule.after(step.at, lambda s=step: faults.carry_out(self, s))
            self.schedule.run(DURATION_S)
            self._calm()
            self.schedule.run(DURATION_S + SETTLE_S)
        self.counts.update({f"worker ended: {name}": count for name, count in self.ended.items()})
        return Outcome(history_of(self), self.hits, self.counts, self.world.commits)

    def _calm(self) -> None:
        """No more faults; what is away comes back."""
        self.armed.clear()
        self.crashes.clear()
        self.down.clear()
        self.server.calm()
        for kind in self.world.kinds:
            kind.served = True
        for process in self.processes:
            if process.frozen:
                process.thaw()
            self.schedule.after(1.0, process.start)
        for worker in self.workers:
            worker.frozen_until = 0.0
        for seconds in (12.0, 30.0):
            self.schedule.after(seconds, self._audit)
        self.schedule.after(6.0, self.world.write)
        if self.lost:
            self.schedule.after(8.0, self._expire)

    def _expire(self) -> None:
        """Let every watch expire. A delete that Kafka has lost stands in a gap, and arrives with the next list only."""
        for stream in list(self.server.streams):
            stream.end(clean=True)
        for kind in self.world.kinds:
            self.world.create(kind)
        self.world.compact(0)

    def _audit(self) -> None:
        if self.plan.watch.audit_interval_s > 0:
            for process in self.processes:
                for driver in process.drivers:
                    driver.audit()


def history_of(simulation: Simulation) -> History:
    """What the checkers are to judge."""
    truth = {
        (kind.key, scope, epoch): simulation.world.truth(kind.key, scope, eras)
        for kind in simulation.world.kinds
        for (key, scope, epoch), eras in simulation.eras.items()
        if key == kind.key
    }
    loose = {
        (key, scope, epoch): simulation.world.beyond(key, scope, others)
        for (key, scope, epoch), eras in simulation.touched.items()
        if (others := eras - simulation.eras.get((key, scope, epoch), set()))
    }
    return History(
        partitions=simulation.plan.partitions,
        truth=truth,
        loose=loose,
        expected=tuple((kind.key, scope) for kind in simulation.world.kinds for scope in simulation.plan.scopes),
        raw=tuple(
            Raw(e.partition, e.offset, seen.record if (seen := e.value or e.told) else None, e.gone)  # type: ignore[arg-type]
            for topic in simulation.log.events
            for e in topic
        ),
        log=tuple(_records(simulation)),
        batches=tuple(
            Applied(t.partition, tuple(t.applied), t.counters, t.progress, t.status.value)
            for t in simulation.log.transactions
        ),
        living=_living(simulation),
        lost=frozenset(simulation.lost),
        withheld=frozenset(simulation.server.withheld),
        suffered=frozenset(simulation.hits),
        faults=tuple(simulation.faults),
    )


def _records(simulation: Simulation) -> Iterator[Record]:
    for partition, topic in enumerate(simulation.log.changes):
        for number, written in enumerate(topic):
            change = written.value.record if written.value else None
            assert change is None or isinstance(change, Change)
            yield Record(
                partition, number, written.timestamp_ms, written.key, change, written.transaction.status.value,
                id(written.transaction),
            )  # fmt: skip


def _living(simulation: Simulation) -> dict[ObjectId, Living]:
    return {
        ObjectId(kind.group, kind.resource, version.uid): Living(str(version.rv), version.body, version.namespace)
        for kind in simulation.world.kinds
        for version in kind.live.values()
        if any(scope in ("", version.namespace) for scope in simulation.plan.scopes)
    }


@contextmanager
def installed(simulation: Simulation) -> Iterator[None]:
    """Put the simulation's clock and crash points where the task looks for them; nothing else is replaced."""
    task, crash = processors.task, processors.crash
    kept = task.time, crash.due, crash.die, logging.root.manager.disable
    dead: list[str] = []

    def due(point: str) -> bool:
        dead[:] = [point]
        return simulation.crashes.get(simulation.working) == point

    def die() -> None:
        simulation.crash_point(dead[0], simulation.working)

    task.time = Clock(simulation.schedule)  # type: ignore[assignment]  # what it uses of the module
    crash.due, crash.die = due, die  # type: ignore[assignment]  # it does return, if nothing is armed
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        task.time, crash.due, crash.die = kept[:3]
        logging.disable(kept[3])


def events(outcome: Outcome) -> int:
    """How many records of objects the events topic got."""
    return sum(1 for raw in outcome.history.raw if isinstance(raw.record, RawEvent) and raw.record.uid)


def still_open(outcome: Outcome) -> int:
    """How many transactions nobody has ended."""
    return sum(1 for batch in outcome.history.batches if batch.status == Status.OPEN)
