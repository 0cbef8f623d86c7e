"""Crash points: a test hook that ends the process with SIGKILL at a named place of a partition task.

`KUBECDC_CRASH_AT=<point>[:<n>]` kills at the n-th time (1 when left out) that the process passes the point; without the
variable nothing happens. The points, in the order of a batch: `in_recovery` (fenced, state read), `after_begin`,
`after_produce`, `before_commit` (all records are with the broker), `commit_sent_no_reply`, `after_commit`,
`before_ack` (memory is ahead, the shell does not know).
"""

from __future__ import annotations

import os
import signal
from collections import Counter

from kubecdc.errors import Misconfigured

VARIABLE = "KUBECDC_CRASH_AT"
POINTS = (
    "in_recovery",
    "after_begin",
    "after_produce",
    "before_commit",
    "commit_sent_no_reply",
    "after_commit",
    "before_ack",
)

_passed: Counter[str] = Counter()


def due(point: str) -> bool:
    """Whether the process is to die here, now; counts the passage."""
    wanted = os.environ.get(VARIABLE)
    if not wanted:
        return False
    name, _, count = wanted.partition(":")
    if name not in POINTS:
        raise Misconfigured(f"{VARIABLE}={wanted}: the points are {', '.join(POINTS)}")
    if name != point:
        return False
    _passed[point] += 1
    return _passed[point] == int(count or "1")


def die() -> None:
    """End the process as a power cut would: no handler, no flush."""
    os.kill(os.getpid(), signal.SIGKILL)


def point(name: str) -> None:
    """Die here if that was asked for."""
    if due(name):
        die()
