"""A crash point kills at the passage that was asked for, and nowhere else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from kubecdc.errors import Misconfigured
from processors import crash


def test_nothing_happens_without_the_variable(monkeypatch):
    monkeypatch.delenv(crash.VARIABLE, raising=False)
    for point in crash.POINTS:
        crash.point(point)


def test_an_unknown_point_is_told_with_the_known_ones(monkeypatch):
    monkeypatch.setenv(crash.VARIABLE, "somewhere")
    with pytest.raises(Misconfigured, match="in_recovery, after_begin"):
        crash.point("after_begin")


def test_kills_at_the_third_passage():
    code = (
        "from processors import crash\n"
        "for n in range(5):\n    crash.point('before_ack'); crash.point('after_commit'); print(n, flush=True)"
    )
    environment = {**os.environ, crash.VARIABLE: "after_commit:3"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert done.stdout.split() == ["0", "1"]
