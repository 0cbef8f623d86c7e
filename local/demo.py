"""The demo: Kafka, a cluster, a producer, a worker and a workload on this machine, faults, and the verdict.

Decides the order of things: what is started when, when which fault strikes, when everything has arrived. Whether the
log is right is decided by `local.checkers` alone, on a reading of its own, against the server's own history.
"""

from __future__ import annotations

import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from kubecdc.kafka import create_topics
from kubecdc.topics import TopicNames, table
from kubecdc.versions import not_newer
from local import check_coverage, checkers, report
from local.broker import Broker
from local.clusters import Cluster, FoundCluster, RealCluster, SimulatedCluster
from local.errors import FolderUnusable, NotReady
from local.history import Committed
from local.live import Screen
from local.logs import entry, read_whole
from local.observing import Observer
from local.pipeline import Pipeline, Wiring
from local.recount import recount
from local.verdicts import Evidence
from local.workload import Workload, resources

PREFIX = "kubecdc"
PARTITIONS = 3
_FIRST_SECONDS = 60.0
_CATCH_UP_SECONDS = 90.0
_BACK_SECONDS = 20.0
_TICK_SECONDS = 0.1
_DELETED_WHILE_DOWN = 6


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run: `cluster` is sim, envtest or kubeconfig, `runtime` plain or faust, `seconds` of workload.

    `data` keeps Kafka's data, to be looked into afterwards; without it nothing is left.
    """

    cluster: str
    runtime: str
    seconds: float
    seed: int
    data: Path | None = None

    @property
    def namespace(self) -> str:
        """The namespace that the workload makes and writes to."""
        return f"kubecdc-demo-{self.seed}"


def run(plan: Plan, screen: Screen) -> report.Report:
    """Run the whole demo and report. Raises `LocalError`; whatever happens, all it started is stopped and removed."""
    with ExitStack() as cleaning:
        folder = Path(cleaning.enter_context(tempfile.TemporaryDirectory(prefix="kubecdc-demo-")))
        screen.say(f"starting Kafka and the cluster ({plan.cluster}); data in {folder}")
        if plan.data is not None and plan.data.exists() and any(plan.data.iterdir()):
            raise FolderUnusable(
                f"--data {plan.data} is not empty: name a new folder, since the demo judges a whole log"
            )
        broker, cluster = _servers(plan, folder, screen, cleaning)
        create_topics(broker.bootstrap, table(PREFIX, PARTITIONS, replication=1))
        stage = _Stage(plan, screen, cleaning, broker.bootstrap, cluster)
        pipeline = stage.start(folder)
        stage.perform(pipeline)
        truth = stage.settle(pipeline)
        screen.say("reading the log again, and judging it")
        return _judged(plan, screen, stage, broker.bootstrap, truth)


def _servers(plan: Plan, folder: Path, screen: Screen, cleaning: ExitStack) -> tuple[Broker, Cluster]:
    cluster = _cluster(plan, folder)
    broker = Broker(plan.data or folder / "kafka", progress=screen.say)
    cleaning.callback(broker.stop)
    cleaning.callback(cluster.stop)
    broker.launch()  # starts while the cluster does
    cluster.start()
    broker.wait_ready()
    return broker, cluster


def _cluster(plan: Plan, folder: Path) -> Cluster:
    if plan.cluster == SimulatedCluster.name:
        return SimulatedCluster(folder, seed=plan.seed)
    return RealCluster(folder) if plan.cluster == RealCluster.name else FoundCluster()


class _Stage:
    """The acts of the demo in their order, over servers that run."""

    def __init__(self, plan: Plan, screen: Screen, cleaning: ExitStack, bootstrap: str, cluster: Cluster) -> None:
        self._plan = plan
        self._screen = screen
        self._cleaning = cleaning
        self._bootstrap = bootstrap
        self.cluster = cluster
        self._workload = Workload(cluster.client, plan.namespace, seed=plan.seed)
        self._observer = Observer(bootstrap, TopicNames.under(PREFIX).changes)
        self.faults: Counter[str] = Counter()

    def start(self, folder: Path) -> Pipeline:
        """Start producer and worker on the first objects, and return when those are in the log."""
        self._workload.begin()
        if not self._is_ours():
            self._cleaning.callback(self._workload.end)
        self._cleaning.callback(self._observer.stop)
        self._observer.start()
        wiring = Wiring(
            self._bootstrap,
            PREFIX,
            self.cluster.kubeconfig,
            self.cluster.name,
            self._plan.runtime,
            [f"{resource}.{group}" if group else resource for group, resource in resources()],
            () if self._is_ours() else (self._plan.namespace,),
        )
        pipeline = Pipeline(folder, wiring)
        self._cleaning.callback(pipeline.stop_all)
        self._screen.say(f"starting a producer and a {self._plan.runtime} worker")
        pipeline.start_producer()
        pipeline.start_worker()
        self._wait(pipeline, lambda: bool(self._observer.entries()), _FIRST_SECONDS, "nothing reached the log")
        return pipeline

    def perform(self, pipeline: Pipeline) -> None:
        """Let the workload run for its time while the faults strike one after another."""
        over = threading.Event()
        working = threading.Thread(target=self._workload.run, args=(over,), name="workload")
        begun = self._screen.seconds
        working.start()
        try:
            for share, act in self._acts(pipeline):
                due = begun + share * self._plan.seconds
                self._wait(pipeline, lambda due=due: self._screen.seconds >= due)  # type: ignore[misc]  # bound now
                act()
            due = begun + self._plan.seconds
            self._wait(pipeline, lambda: self._screen.seconds >= due)
        finally:
            over.set()
            working.join()

    def settle(self, pipeline: Pipeline) -> Sequence[Committed] | None:
        """End the workload, wait until the log has come to the last commit of every resource, return the truth."""
        self._workload.last_word()
        done = sum(self._workload.counts.values())
        self._screen.say(f"the workload is over: {done} actions, {self._workload.writes} writes; waiting for the log")
        truth = self.cluster.truth()
        wanted = check_coverage.owed(Evidence(truth, (), PARTITIONS, resources()))
        arrived = self._all_resolved(wanted) if truth is not None else self._last_words_seen
        try:
            self._wait(pipeline, arrived, _CATCH_UP_SECONDS, "the log did not catch up")
        except NotReady as error:
            self._screen.say(f"{error}; judging what is there")
        return truth

    # ---------------------------------------------------------------------------------------------- acts

    def _acts(self, pipeline: Pipeline) -> list[tuple[float, Callable[[], None]]]:
        """What happens at which share of the time."""
        return [
            (0.05, self.cluster.annoy),
            (0.15, lambda: self._kill_worker(pipeline)),
            (0.3, self._cut),
            (0.4, lambda: self._kill_producer(pipeline)),
            (0.65, lambda: self._lose_history(pipeline)),
        ]

    def _kill_worker(self, pipeline: Pipeline) -> None:
        self._strike("kill -9 of the worker")
        pipeline.kill("worker")
        pipeline.start_worker()

    def _cut(self) -> None:
        if self._is_ours():
            self._strike("cut of the producer's connections")
            self.cluster.cut()

    def _kill_producer(self, pipeline: Pipeline) -> None:
        self._strike("kill -9 of the producer")
        sessions = self._sessions()
        pipeline.kill("producer")
        self._delete_while_down()
        pipeline.start_producer()
        self._see_it_back(pipeline, sessions)

    def _lose_history(self, pipeline: Pipeline) -> None:
        if not self._is_ours():
            return
        sessions = self._sessions()
        pipeline.stop("producer")
        self._delete_while_down()
        if self.cluster.forget():
            self._strike("410 with lost history")
        pipeline.start_producer()
        self._see_it_back(pipeline, sessions)

    def _see_it_back(self, pipeline: Pipeline, sessions: set[str]) -> None:
        """Wait for records of a new session: the next act would hide what became of this one."""
        with suppress(NotReady):
            self._wait(pipeline, lambda: bool(self._sessions() - sessions), _BACK_SECONDS, "no producer came back")

    def _delete_while_down(self) -> None:
        gone = self._workload.delete_some(_DELETED_WHILE_DOWN)
        self._strike("delete while the producer is down", gone)

    def _strike(self, name: str, times: int = 1) -> None:
        self.faults[name] += times
        self._screen.say(f"fault: {name}" + (f" ({times})" if times > 1 else ""))

    # ---------------------------------------------------------------------------------------------- waiting

    def _wait(
        self,
        pipeline: Pipeline,
        until: Callable[[], bool],
        timeout_seconds: float = float("inf"),
        failed: str = "",
    ) -> None:
        """Show what arrives until something holds. Raises `NotReady`, and `ServerDied` when a process ended."""
        deadline = self._screen.seconds + timeout_seconds
        pause = threading.Event()
        while not until():
            if self._screen.seconds > deadline:
                raise NotReady(f"{failed} within {timeout_seconds:.0f} s")
            pipeline.check()
            self._screen.show(self._observer.entries())
            pause.wait(_TICK_SECONDS)

    def _all_resolved(self, wanted: dict[tuple[str, str, int], str]) -> Callable[[], bool]:
        def resolved() -> bool:
            reached = check_coverage.resolved_by_partition(self._observer.entries())
            return all(not_newer(rv, reached.get(key)) for key, rv in wanted.items())

        return resolved

    def _last_words_seen(self) -> bool:
        changes = [each.change for each in self._observer.entries()]
        seen = {(change.group, change.resource) for change in changes if change.name.startswith("last-")}
        return seen >= set(resources())

    def _sessions(self) -> set[str]:
        return {each.change.source.session for each in self._observer.entries()}

    def _is_ours(self) -> bool:
        return not isinstance(self.cluster, FoundCluster)


def _judged(
    plan: Plan, screen: Screen, stage: _Stage, bootstrap: str, truth: Sequence[Committed] | None
) -> report.Report:
    names = TopicNames.under(PREFIX)
    log = sorted(entry(kept) for kept in read_whole(bootstrap, names.changes))
    counted = recount(read_whole(bootstrap, names.events))
    mine = set(resources())
    committed = [each for each in truth or () if (each.group, each.resource) in mine]
    return report.Report(
        cluster=plan.cluster,
        runtime=plan.runtime,
        seed=plan.seed,
        events=len(counted.versions) if truth is None else len(committed),
        changes=report.changes_in(log),
        duplicates=counted.counters["duplicate"],
        stale=counted.counters["stale"],
        inferred_deletes=report.inferred_deletes_in(log),
        gaps=report.gaps_in(log),
        faults={**stage.faults, **{name: count for name, count in stage.cluster.faults.items() if count}},
        verdicts=checkers.check_all(Evidence(truth, log, PARTITIONS, resources())),
        seconds=screen.seconds,
    )
