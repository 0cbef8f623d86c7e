"""A seed run and judged, as values that travel between processes; and many seeds on all cores."""

from __future__ import annotations

import gc
import subprocess
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from local.verdicts import Status, Verdict
from tests.checkers.gaps import empty_windows
from tests.checkers.suite import CHECKERS, check_all
from tests.simulation.plan import Plan, plan
from tests.simulation.run import Simulation, events
from tests.simulation.shrink import shrink, trace

BROKE = "simulation"


@dataclass(frozen=True, slots=True)
class Report:
    """Of one seed. `verdicts` by guarantee; an error of production code that ended the run is one of them."""

    seed: int
    verdicts: dict[str, Verdict]
    events: int = 0
    commits: int = 0
    changes: int = 0
    empty_windows: int = 0
    hits: Counter[str] = field(default_factory=Counter)

    @property
    def failed(self) -> tuple[str, ...]:
        """Guarantees that do not hold."""
        return tuple(name for name, verdict in self.verdicts.items() if verdict.status is Status.FAILS)


def run(of: Plan) -> Report:
    """Run a plan and judge it."""
    try:
        outcome = Simulation(of).run()
    except Exception:  # noqa: BLE001 - whatever production code raises in a session is a finding
        text = " | ".join(traceback.format_exc().strip().splitlines()[-6:])
        return Report(of.seed, {BROKE: Verdict(BROKE, Status.FAILS, 1, (text,))})
    history = outcome.history
    return Report(
        of.seed,
        check_all(history),
        events(outcome),
        outcome.commits,
        sum(1 for record in history.committed() if record.change is not None),
        empty_windows(history),
        outcome.hits,
    )


def run_seed(seed: int) -> Report:
    """Run a seed."""
    return run(plan(seed))


def run_seeds(seeds: Iterable[int], processes: int) -> Iterator[Report]:
    """Run seeds in processes of their own, in the order in which they finish."""
    if processes < 2:
        yield from map(run_seed, seeds)
        return
    with get_context("fork").Pool(processes, initializer=prepare) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=4)


def prepare() -> None:
    """A run makes many objects with few cycles: at its defaults the collector takes a third of the time."""
    gc.set_threshold(100_000, 50, 100)


def explain(seed: int, failed: Iterable[str], runs_max: int = 120) -> list[str]:
    """What to tell of a failing seed: the commit, and the smallest list of steps that still fails so."""
    wanted = set(failed)
    small = shrink(plan(seed), partial(_fails_so, wanted), runs_max)
    report = run(small)
    lines = [f"seed {seed} at commit {commit()}: python -m tests.simulation --from {seed} --seeds 1"]
    for name, verdict in report.verdicts.items():
        if verdict.status is Status.FAILS:
            lines += [f"  {name}: {finding}" for finding in verdict.findings[:5]]
    lines.append(f"  {len(small.steps)} of {len(plan(seed).steps)} steps are enough; {settings(small)}")
    lines += [f"    {line}" for line in trace(small)]
    return lines


def _fails_so(wanted: set[str], of: Plan) -> bool:
    return bool(wanted & set(run(of).failed))


def settings(of: Plan) -> str:
    """A plan without its steps."""
    names = ("partitions", "kinds", "producers", "workers", "scopes", "watchlist", "history_ms", "objects")
    return ", ".join(f"{name}={getattr(of, name)}" for name in names)


def commit() -> str:
    """The git commit of this tree."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    found = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


@dataclass(slots=True)
class Total:
    """Many reports added up."""

    seeds: int = 0
    events: int = 0
    commits: int = 0
    changes: int = 0
    empty_windows: int = 0
    hits: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[str, Status]] = field(default_factory=Counter)
    failed: dict[int, tuple[str, ...]] = field(default_factory=dict)

    def add(self, report: Report) -> None:
        """Count one more."""
        self.seeds += 1
        self.events += report.events
        self.commits += report.commits
        self.changes += report.changes
        self.empty_windows += report.empty_windows
        self.hits.update(report.hits)
        for name, verdict in report.verdicts.items():
            self.verdicts[name, verdict.status] += 1
        if report.failed:
            self.failed[report.seed] = report.failed

    def lines(self) -> list[str]:
        """The report in words."""
        often = sum(1 for count in self.hits.values() if count >= 100)
        found = [
            f"{self.seeds} seeds at commit {commit()}",
            f"{self.commits:,} commits, {self.events:,} events of objects, {self.changes:,} canonical records",
            f"{sum(self.hits.values()):,} faults of {len(self.hits)} kinds, {often} of them 100 times or more:",
        ]
        ordered = [f"{name:<27}{count:>6}" for name, count in self.hits.most_common()]
        found += ["  " + "  ".join(ordered[start : start + 4]) for start in range(0, len(ordered), 4)]
        found.append(f"{'guarantee':<18}{'holds':>8}{'fails':>8}{'cannot tell':>13}")
        for name in dict.fromkeys((*CHECKERS, *(guarantee for guarantee, _ in self.verdicts))):
            holds, fails, unknown = (
                self.verdicts[name, status] for status in (Status.HOLDS, Status.FAILS, Status.UNKNOWN)
            )
            found.append(f"{name:<18}{holds:>8}{fails:>8}{unknown:>13}")
        found.append(f"{self.empty_windows:,} gaps of streams held nothing that was missed (their cause cannot know)")
        return found
