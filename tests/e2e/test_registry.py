"""With a Schema Registry: the whole way in its framing, and no record lost or blamed while it is away."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kubecdc.topics import TopicNames
from local.broker import Broker
from local.children import Child, poll, spawn
from local.sim_server import SimServer
from tests.kubecdc.registries import MemoryRegistry, memory_registry

NUMBERS = itertools.count(1)


class Pipeline:
    """One broker, one registry, one simulated cluster, and our commands on them."""

    def __init__(self, broker: Broker, registry: MemoryRegistry, server: SimServer, folder: Path) -> None:
        self.registry, self._broker, self._server, self._folder = registry, broker, server, folder
        self.prefix = f"registered-{next(NUMBERS)}"
        assert self.run("topics init", "--replication", "1", registered=False).returncode == 0

    def command(self, name: str, *arguments: str, registered: bool = True) -> list[str]:
        where = ["--bootstrap", self._broker.bootstrap, "--prefix", self.prefix]
        where += ["--schema-registry", self.registry.url] if registered else []
        return [sys.executable, "-m", "kubecdc", *name.split(), *where, *arguments]

    def run(self, name: str, *arguments: str, registered: bool = True) -> subprocess.CompletedProcess[str]:
        command = self.command(name, *arguments, registered=registered)
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)

    @property
    def produce(self) -> tuple[str, ...]:
        """Its command and arguments."""
        follow = ("--cluster", "c", "--resources", "configmaps", "--progress-interval", "1")
        return ("produce", "--server", self._server.url, *follow)

    @contextmanager
    def running(self, name: str, *arguments: str) -> Iterator[Child]:
        """A command that must end in order when it is told to."""
        child = spawn(self.command(name, *arguments), log=self._folder / f"{name.replace(' ', '')}.log")
        try:
            yield child
            child.stop(40)
            assert child.exit_code == 0, child.tail(40)
        finally:
            child.kill()

    def create(self, name: str) -> None:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": "1"}}
        self._server.store.create(self._server.store.kind("", "configmaps"), body, namespace="default")

    def arrives(self, name: str) -> bool:
        """Whether a reader soon has it; a reader needs the registry too."""

        def names() -> set[str]:
            done = self.run("state", "-o", "ndjson")
            assert done.returncode == 0, done.stderr[-2000:]
            return {json.loads(line)["name"] for line in done.stdout.splitlines()}

        return poll(lambda: name in names(), 60, 0.5)


@pytest.fixture
def pipeline(kafka_broker: Broker, tmp_path: Path) -> Iterator[Pipeline]:
    with memory_registry() as registry, SimServer() as server:
        yield Pipeline(kafka_broker, registry, server, tmp_path)


def test_a_registry_may_go_away_while_all_runs_and_is_needed_to_begin(pipeline: Pipeline) -> None:
    registry, names = pipeline.registry, TopicNames.under(pipeline.prefix)
    with pipeline.running(*pipeline.produce):
        for number, runtime in enumerate(("plain", "faust")):
            with pipeline.running("process", "--runtime", runtime):
                pipeline.create(f"{runtime}-before")
                assert pipeline.arrives(f"{runtime}-before")
                registry.refuse = 503
                pipeline.create(f"{runtime}-without")
                done = pipeline.run("state")
                assert (done.returncode, done.stderr) == (
                    2,
                    f"kubecdc: Schema Registry {registry.url} answers 503 refused\n",
                )
                registry.refuse = 0
                assert pipeline.arrives(f"{runtime}-without")
            assert number == 0 or set(registry.subjects) == {
                f"{names.events}-value",
                f"{names.changes}-value",
                f"{names.positions}-value",
                *(f"{names.state}-io.kubecdc.{record}" for record in ("Progress", "StreamState", "UidState")),
            }
    assert pipeline.run("gaps", "-o", "ndjson").stdout == ""  # nothing was taken for undecodable
    registry.refuse = 503
    for command in (pipeline.produce, ("process", "--runtime", "plain"), ("process", "--runtime", "faust")):
        done = pipeline.run(*command)
        assert done.returncode == 2, done.stderr[-2000:]
        assert f"Schema Registry {registry.url} answers 503" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr


def test_a_reader_without_the_registry_is_told_to_name_it(pipeline: Pipeline) -> None:
    with pipeline.running(*pipeline.produce), pipeline.running("process", "--runtime", "plain"):
        pipeline.create("a")
        assert pipeline.arrives("a")
    done = pipeline.run("replay", registered=False)
    assert done.returncode != 0
    assert "set --schema-registry to read it" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
