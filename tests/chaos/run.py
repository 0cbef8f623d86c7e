"""One chaos run from start to verdict: servers, crew, writer, storm, settling, judgement.

Decides the order of things. What strikes is decided in `schedule`, what holds in `judge`.
"""

from __future__ import annotations

import secrets
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from local.apiserver import User
from local.verdicts import Verdict
from local.workload import resources
from tests.chaos import judge, schedule, settling
from tests.chaos.cleaning import positions
from tests.chaos.crew import Crew
from tests.chaos.customs import USER, WIDGETS, Customs
from tests.chaos.epochs import Resource
from tests.chaos.following import Follower
from tests.chaos.judge import Case
from tests.chaos.kafkas import NAMES, PARTITIONS, PREFIX, Kafkas
from tests.chaos.reporting import ChaosReport
from tests.chaos.schedule import Fault
from tests.chaos.storm import Storm
from tests.chaos.world import World
from tests.chaos.writer import NAMESPACE, Remembering, Writer

SESSION_S = 6
FIRST_S = 240.0
CATCH_UP_S = 300.0
CLUSTER = "chaos"
ROOT = Path(__file__).parents[2]
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run. `large` places the faults that take long; `rate` is actions of the writer a second.

    `command` is how it was asked for, for the report.
    """

    seconds: float
    seed: int
    runtime: str
    brokers: int = 1
    producers: int = 2
    workers: int = 2
    rate: float = 6.0
    families: Sequence[schedule.Family] = (schedule.PROCESSES, schedule.NETWORK, schedule.SERVERS)
    large: Mapping[Fault, Sequence[float]] = field(default_factory=lambda: schedule.LARGE)
    hostile: bool = False
    command: str = "pytest"

    @property
    def expected(self) -> tuple[Resource, ...]:
        """The kinds that are written and followed."""
        return (*resources(), WIDGETS) if self.hostile else resources()


class Stage:
    """What runs during a run. Leave it through `close`, which ends all of it."""

    def __init__(self, plan: Plan, folder: Path, binaries: Path, say: Say) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.plan, self.folder, self.say = plan, folder, say
        self._cleaning = ExitStack()
        user = User(USER, secrets.token_hex(16), () if plan.hostile else ("system:masters",))
        self.kafkas = Kafkas(folder / "kafka", plan.brokers, small_disk=Fault.FULL_DISK in plan.large)
        self.world = World(folder / "kubernetes", binaries, user)
        self.crew = Crew(folder / "logs", self._commands())
        self.changes = Follower(self.kafkas.bootstrap, NAMES.changes, PARTITIONS)
        self.events = Follower(self.kafkas.bootstrap, NAMES.events, PARTITIONS)

    def start(self) -> None:
        """Start everything, and return when the first objects are in the log."""
        self._cleaning.callback(self.kafkas.stop)
        self._cleaning.callback(self.world.stop)
        with ThreadPoolExecutor(1) as beside:
            kafka = beside.submit(self.kafkas.start)
            self.world.start()
            kafka.result()
        self.client = Remembering.from_kubeconfig(self.world.admin_kubeconfig)
        self.client.remember(lambda: self.world.epoch)
        self._cleaning.callback(self.client.close)
        self.writer = Writer(self.client, self.plan.seed, self.plan.rate)
        self.writer.workload.begin()
        self.customs = Customs(self.client, NAMESPACE, self.plan.expected, self.world.relay.cut)
        if self.plan.hostile:
            self.customs.begin()
        for follower in (self.changes, self.events):
            follower.start()
            self._cleaning.callback(follower.stop)
        self._cleaning.callback(self.crew.close)
        self.crew.launch()
        if not settling.wait_until(lambda: bool(self.changes.kept()), FIRST_S):
            raise RuntimeError(f"nothing reached the log within {FIRST_S} s: {self.crew.words}")
        self.world.snapshot()

    def close(self) -> None:
        self._cleaning.close()

    def _commands(self) -> dict[str, list[str]]:
        plan = self.plan
        key = self.folder / "redaction-key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(32))
        names = [f"{plural}.{group}" if group else plural for group, plural in plan.expected]
        self.verify_command = ["verify", "--bootstrap", self.kafkas.bootstrap, "--prefix", PREFIX]
        self.verify_command += ["--cluster", CLUSTER, "--kubeconfig", str(self.world.kubeconfig)]
        self.verify_command += ["--redaction-key-file", str(key)]
        produce = ["produce", "--bootstrap", self.kafkas.clients, "--prefix", PREFIX, "--cluster", CLUSTER]
        produce += ["--kubeconfig", str(self.world.kubeconfig), "--resources", ",".join(names)]
        produce += ["--redaction-key-file", str(key), "--progress-interval", "1", "--backoff-max", "2"]
        produce += ["--audit-interval", "60", "--discovery-interval", "5"]
        process = ["process", "--bootstrap", self.kafkas.clients, "--prefix", PREFIX, "--runtime", plan.runtime]
        process += ["--session-timeout", str(SESSION_S)]
        commands = {f"producer-{number}": produce for number in range(1, plan.producers + 1)}
        commands |= {f"worker-{number}": process for number in range(1, plan.workers + 1)}
        return {**commands, "worker-extra": process}


def run(stage: Stage, storm: Storm) -> ChaosReport:
    """Rage, settle, judge."""
    plan, say = stage.plan, stage.say
    began = time.time()
    strikes = schedule.storm(plan.seed, plan.seconds, plan.families, plan.large)
    say(f"{len(strikes)} strikes in {plan.seconds:.0f} s")
    stage.writer.start()
    storm.rage(strikes, plan.seconds)
    say("the storm is over; waiting for the log")
    case = _settled(stage, storm)
    say("judging")
    found = judge.verdicts(case)
    return _report(stage, storm, case, found, began)


def _settled(stage: Stage, storm: Storm) -> Case:
    stage.kafkas.calm()
    stage.world.calm()
    stage.writer.finish()
    if stage.plan.hostile:
        stage.customs.end()
    expected, say = stage.plan.expected, stage.say
    resolved = settling.Resolved(stage.changes, stage.world.truths(), expected)
    late: list[str] = []
    if not settling.wait_until(resolved, CATCH_UP_S):
        late = resolved.missing
        say(f"not resolved after {CATCH_UP_S:.0f} s: {late}")
        say("\n".join([*stage.crew.words, *stage.crew.abort()]))
    if not settling.wait_until(lambda: settling.same_state(stage.changes, stage.client, expected), CATCH_UP_S):
        say("the log's state is not what the server lists")
    verify = settling.verify([*stage.verify_command])
    listed = settling.listed(stage.client, expected)
    truths = stage.world.truths()
    for name in stage.crew.names("producer"):
        stage.crew.kill(name)
    if not settling.wait_until(lambda: settling.lag(stage.kafkas.bootstrap) == 0, 60):
        say("events wait after a minute")
    settling.wait_until(lambda: not settling.open_transactions(stage.kafkas.bootstrap), 60)
    ends = settling.ends(stage.kafkas.bootstrap, NAMES.events, committed=False)
    settling.wait_until(lambda: _followed(stage, ends), 30)
    return Case(
        truths=truths,
        records=settling.whole_log(stage.kafkas.bootstrap),
        events=stage.events.kept(),
        partitions=PARTITIONS,
        expected=expected,
        acked=stage.client.acked,
        comparable=storm.comparable,
        struck=storm.struck,
        verify=verify,
        listed=listed,
        positions=positions(stage.kafkas.bootstrap),
        ends=ends,
        open_transactions=settling.open_transactions(stage.kafkas.bootstrap),
        late=late,
    )


def _followed(stage: Stage, ends: Mapping[int, int]) -> bool:
    """Whether the follower of events has come to their end."""
    return all(stage.events.position(partition) >= end for partition, end in ends.items() if end)


def _report(stage: Stage, storm: Storm, case: Case, found: Mapping[str, Verdict], began: float) -> ChaosReport:
    gaps: Counter[str] = Counter(str(e.change.gap.cause) for e in case.log if e.change.gap is not None)
    committed = {
        (c.uid, c.rv, c.kind) for truth in case.truths for c in truth if (c.group, c.resource) in case.expected
    }
    return ChaosReport(
        title=f"{stage.plan.runtime}, {stage.plan.brokers} broker(s), seed {stage.plan.seed}",
        commit=_commit(),
        date=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(began)),
        command=stage.plan.command,
        numbers={
            "seconds": round(time.time() - began),
            "versions committed": len(committed),
            "versions confirmed to the writer": len(case.acked),
            "epochs": len(case.truths),
            "raw events": len(case.events),
            "canonical records": len(case.log),
            "silent losses": judge.losses(found),
            "duplicates": len(found["exactly once"].findings),
            "order violations": judge.order_violations(case.log),
            "process starts": sum(stage.crew.starts.values()),
        },
        struck=storm.struck,
        missed=storm.missed,
        crashed=stage.crew.crashed,
        ended=stage.crew.ended,
        verdicts=found,
        gaps=gaps,
        words=[*storm.failed, *stage.crew.words],
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"
