"""From a plan that fails to a smaller one that still fails: steps are left out, in halves first, then one by one.

Pure but for the predicate that it is given. What is left need not be the smallest, but no single step of it can go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.simulation.plan import Plan, Step

RUNS_MAX = 400


def shrink(plan: Plan, fails: Callable[[Plan], bool], runs_max: int = RUNS_MAX) -> Plan:
    """Return the smallest plan found with at most `runs_max` runs; `fails` must hold for the one given."""
    steps, runs, size = plan.steps, 0, max(1, len(plan.steps) // 2)
    while runs < runs_max:
        smaller = None
        for start in range(0, len(steps), size):
            kept = steps[:start] + steps[start + size :]
            runs += 1
            if fails(replace(plan, steps=kept)):
                smaller = kept
                break
            if runs >= runs_max:
                break
        if smaller is not None:
            steps = smaller
        elif size == 1:
            break
        size = max(1, min(size, len(steps)) // (1 if smaller is not None else 2))
    return replace(plan, steps=steps)


def trace(plan: Plan) -> list[str]:
    """The steps as lines; runs of writes are one line."""
    lines: list[str] = []
    writes: list[Step] = []

    def flush() -> None:
        if writes:
            lines.append(f"{writes[0].at:7.2f}s  {len(writes)} writes until {writes[-1].at:.2f}s")
            writes.clear()

    for step in plan.steps:
        if step.kind == "write":
            writes.append(step)
        else:
            flush()
            lines.append(str(step))
    flush()
    return lines
