"""Worker processes for the tests of the shells: started on a log, killed at crash points, watched until done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from local.children import Child, poll, spawn
from processors import crash
from tests.processors.log import Log

# The least session timeout that the command takes is 6 s; a test cannot wait that long after each kill.
_SHORT_SESSIONS = "import sys, processors.settings as s; s.SESSION_TIMEOUT_MIN_S = 0.5; "


def start(
    log: Log,
    folder: Path,
    runtime: str,
    *,
    crash_at: str = "",
    session_s: float = 1.0,
    patch: str = "",
    **settings: object,
) -> Child:
    """`kubecdc process` on the log, with a short session timeout; more `settings` by key.

    `patch` is Python that runs first, to shorten what a user cannot set.
    """
    environment = {**os.environ, "KUBECDC_SESSION_TIMEOUT": str(session_s)}
    environment |= {f"KUBECDC_{name.upper()}": str(value) for name, value in settings.items()}
    if crash_at:
        environment[crash.VARIABLE] = crash_at
    patch = _SHORT_SESSIONS + patch
    command = [sys.executable, "-c", patch + "from kubecdc.cli import main; sys.exit(main())", "process"]
    command += ["--runtime", runtime]
    command += ["--bootstrap", log.bootstrap, "--prefix", log.prefix]
    if runtime == "faust":
        # The command becomes another process, which reads the environment and has the ordinary least timeout.
        environment |= faust_environment(log, session_s)
        command = [sys.executable, "-c", patch + "from faust.cli.faust import cli; cli()", "-A", "processors.app"]
        command += ["worker", "-l", "info"]
        command += ["--without-web"]
    name = settings.get("group_instance_id", runtime)
    return spawn(command, log=folder / f"{name}.log", env=environment)


def faust_environment(log: Log, session_s: float) -> Mapping[str, str]:
    return {
        "KUBECDC_BOOTSTRAP": log.bootstrap,
        "KUBECDC_PREFIX": log.prefix,
        "KUBECDC_SESSION_TIMEOUT": str(session_s),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }


def finish(log: Log, worker: Child, seconds: float = 90) -> None:
    """Wait until everything is written, then stop in order."""
    assert poll(lambda: not worker.alive or log.written(), seconds, 0.5), worker.tail(40)
    assert worker.alive, worker.tail(40)
    worker.stop(30)
    assert worker.exit_code == 0, worker.tail(40)


def crash_everywhere(log: Log, folder: Path, runtime: str) -> None:
    """Kill a worker at each crash point in turn, with new events each time; then let one finish."""
    log.first_list(f"u{n}" for n in range(20))
    number = 11
    for point in crash.POINTS:
        log.history(60, start=number)
        number += 61
        worker = start(log, folder, runtime, crash_at=point)
        assert poll(lambda worker=worker: not worker.alive, 60, 0.05), f"{point}: {worker.tail(40)}"
        assert worker.exit_code == -signal.SIGKILL, f"{point}: {worker.exit_code} {worker.tail(40)}"
    finish(log, start(log, folder, runtime))


def run(arguments: list[str], environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`kubecdc process` to its end."""
    command = [sys.executable, "-m", "kubecdc", "process", *arguments]
    env = {**os.environ, **(environment or {})}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env, check=False)
