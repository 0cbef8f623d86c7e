"""The producer and the worker of a demo, as processes of their own: started, stopped in order, or killed.

Knows their command lines and nothing of what they do. One that ends by itself is an error that says what it said.
"""

from __future__ import annotations

import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local import children
from local.errors import ServerDied

_STOP_SECONDS = 15.0
_SESSION_SECONDS = 6  # the broker's least: how long the partitions of a killed worker lie idle


@dataclass(frozen=True, slots=True)
class Wiring:
    """What the processes are told. `resources` are names as `--resources` takes them."""

    bootstrap: str
    prefix: str
    kubeconfig: Path
    cluster: str
    runtime: str
    resources: Sequence[str]
    namespaces: Sequence[str] = ()


class Pipeline:
    """One producer and one worker. All methods raise `ServerDied` when a process could not live."""

    def __init__(self, folder: Path, wiring: Wiring) -> None:
        self._folder = folder
        self._wiring = wiring
        self._environment = _clean(os.environ)
        # One key for all producers of a run: else equal secrets would look changed after a restart.
        self._key_file = folder / "redaction-key"
        self._key_file.touch(mode=0o600)
        self._key_file.write_bytes(secrets.token_bytes(32))
        self._running: dict[str, children.Child] = {}

    def start_producer(self) -> None:
        """Start `kubecdc produce`; it resumes where the one before came to."""
        wiring = self._wiring
        argv = ["produce", "--cluster", wiring.cluster, "--kubeconfig", str(wiring.kubeconfig)]
        argv += ["--resources", ",".join(wiring.resources), "--redaction-key-file", str(self._key_file)]
        argv += ["--progress-interval", "1", "--backoff-max", "2"]  # a demo is short
        for namespace in wiring.namespaces:
            argv += ["--namespace", namespace]
        self._start("producer", argv)

    def start_worker(self) -> None:
        """Start `kubecdc process`."""
        argv = ["process", "--runtime", self._wiring.runtime, "--app", self._wiring.prefix]
        self._start("worker", [*argv, "--session-timeout", str(_SESSION_SECONDS)])

    def stop(self, name: str) -> None:
        """Stop `producer` or `worker` in order (SIGTERM)."""
        child = self._running.pop(name, None)
        if child is not None:
            child.stop(_STOP_SECONDS)

    def kill(self, name: str) -> None:
        """Kill `producer` or `worker` (SIGKILL)."""
        self._running.pop(name).kill()

    def stop_all(self) -> None:
        """Stop what runs."""
        for name in list(self._running):
            self.stop(name)

    def check(self) -> None:
        """Raise `ServerDied`, with its last words, for a process that ended by itself."""
        for name, child in self._running.items():
            if not child.alive:
                raise ServerDied(f"the {name} ended by itself (exit code {child.exit_code}):\n{child.tail()}")

    def _start(self, name: str, arguments: Sequence[str]) -> None:
        wiring = self._wiring
        common = ["--bootstrap", wiring.bootstrap, "--prefix", wiring.prefix]
        argv = [sys.executable, "-m", "kubecdc", *arguments, *common]
        log = self._folder / f"{name}.log"
        self._running[name] = children.spawn(argv, log=log, env=self._environment)


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Drop the settings of somebody's real deployment: they are not meant for a demo."""
    return {name: value for name, value in environment.items() if not name.startswith("KUBECDC_")}
