"""Real servers for the tests, started once a session: fixtures for `pytest_plugins`.

Kafka comes from its jars and is always had. kube-apiserver and etcd come from `KUBEBUILDER_ASSETS`, or
from the `shared/envtest` folder beside the checkout. Without either, the tests that need them are
not run, and the summary says which and how to get it; in CI that is a failure.

The session's servers are shared: use names of your own, and never stop, compact or freeze them. A
test that does starts a server of its own.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from local.apiserver import ASSETS_VARIABLE, ApiServer
from local.broker import Broker
from local.jars import cache_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "envtest"
NOT_RUN = "needs a real kube-apiserver"
HOW_TO_GET_IT = (
    f"set {ASSETS_VARIABLE} to a folder that holds kube-apiserver and etcd "
    "(setup-envtest of controller-runtime fetches one)"
)

# Compaction within a second or two, for tests that wait for it; topics choose their own segments.
FAST_CLEANER = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500"}


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A running Kafka broker; its cleaner runs often."""
    with Broker(tmp_path_factory.mktemp("kafka"), properties=FAST_CLEANER) as broker:
        yield broker


@pytest.fixture(scope="session")
def envtest_folder() -> Path:
    """The folder of kube-apiserver and etcd."""
    folder = find_envtest()
    if folder is None:
        message = f"{NOT_RUN}: {HOW_TO_GET_IT}"
        if os.environ.get("CI") == "true":
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    return folder


@pytest.fixture(scope="session")
def apiserver(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """A running etcd and kube-apiserver."""
    with ApiServer(tmp_path_factory.mktemp("apiserver"), binaries=envtest_folder) as server:
        yield server


def find_envtest() -> Path | None:
    """The folder that the environment names, else the shared one, unpacked once per version."""
    named = os.environ.get(ASSETS_VARIABLE)
    if named:
        return Path(named)
    packed = sorted(_SHARED.glob("*.xz"))
    if not packed or not (_SHARED / "unpack").exists():
        return None
    version = hashlib.sha256()
    for archive in packed:
        version.update(f"{archive.name} {archive.stat().st_size}\n".encode())
    cache = cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"envtest-{version.hexdigest()[:12]}"
    with (cache / "envtest.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["sh", str(_SHARED / "unpack"), str(folder)], check=True, stdout=subprocess.DEVNULL)
    return folder


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name the tests that were not run for want of a server; a count of skips tells too little."""
    reports = terminalreporter.stats.get("skipped", [])
    names = [report.nodeid for report in reports if NOT_RUN in str(report.longrepr)]
    if names:
        terminalreporter.section("not run: no real kube-apiserver")
        for name in names:
            terminalreporter.line(name)
        terminalreporter.line(f"To run them, {HOW_TO_GET_IT}.")
