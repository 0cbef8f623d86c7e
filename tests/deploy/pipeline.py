"""Runs the command lines of docker-compose.yml and of the manifests as processes of this machine.

A `Part` is one container as its YAML describes it: arguments, environment, time to stop. Only addresses differ here
from what the container would see: the brokers, the API server's kubeconfig, the metrics port.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import confluent_kafka

from kubecdc.codec import Codec
from local import children

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ARRIVAL_SECONDS = 90.0
TOPICS_SECONDS = 60.0
# What a container's image has anyway, and nothing of the developer's own environment.
_IMAGE = ("PATH", "LANG", "XDG_CACHE_HOME", "TMPDIR")


@dataclass(frozen=True, slots=True)
class Part:
    """A container: the command line after the image's entry point, the environment, seconds to stop in."""

    name: str
    args: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    grace_seconds: float = 10.0

    def at(self, **addresses: str) -> Part:
        """The same container with other addresses."""
        return replace(self, env={**self.env, **addresses})


def entry_point() -> list[str]:
    """The ENTRYPOINT of the image, as the program of the environment that runs the tests."""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    (name,) = json.loads(next(line for line in lines if line.startswith("ENTRYPOINT ")).split(" ", 1)[1])
    program = Path(sys.executable).with_name(name)
    assert program.exists(), f"{program} is not installed"
    return [str(program)]


def environment(part: Part, home: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _IMAGE if name in os.environ}
    return {**kept, "HOME": str(home), **part.env}


def run(part: Part, folder: Path) -> str:
    """Run a container that ends by itself; returns what it printed."""
    done = subprocess.run(
        [*entry_point(), *part.args],
        env=environment(part, folder),
        cwd=folder,
        capture_output=True,
        timeout=TOPICS_SECONDS,
        check=False,
    )
    output = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, f"{part.name}: {part.args} ended with {done.returncode}:\n{output}"
    return output


class Running:
    """A container that goes on until it is stopped, in an empty working folder of its own."""

    def __init__(self, part: Part, folder: Path) -> None:
        self._part = part
        self.folder = folder / part.name
        self.folder.mkdir()
        self.log = folder / f"{part.name}.log"
        # A child of `local.children` ends with this process, whatever ends it; `env -C` gives it a folder.
        argv = ["env", "-C", str(self.folder), *entry_point(), *part.args]
        self._child = children.spawn(argv, log=self.log, env=environment(part, self.folder))

    def check(self) -> None:
        """Fail with the log when it has ended."""
        assert self._child.alive, f"{self._part.name} ended with {self._child.exit_code}:\n{self.tail()}"

    def stop(self) -> int | None:
        """SIGTERM, as Docker and the kubelet send it, SIGKILL after the grace period; the exit status."""
        self.check()
        self._child.stop(self._part.grace_seconds)
        return self._child.exit_code

    def kill(self) -> None:
        self._child.kill()

    def tail(self) -> str:
        return self._child.tail(30)

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = ARRIVAL_SECONDS) -> None:
        def holds() -> bool:
            self.check()
            return condition()

        assert children.poll(holds, seconds, 0.2), f"{self._part.name}: no {what} within {seconds} s:\n{self.tail()}"


@contextmanager
def started(part: Part, folder: Path) -> Iterator[Running]:
    running = Running(part, folder)
    try:
        yield running
    finally:
        running.kill()


def status(port: str, path: str) -> int:
    """HTTP status of a probe as the kubelet sends it; 0 when nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


class Topic:
    """Records of a topic from its beginning, committed ones only, read by Kafka's client and nothing of ours."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._codec = Codec()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "deploy-test",  # nothing is committed under it
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "log_level": 2,
            }
        )
        partitions = self._consumer.list_topics(name, timeout=20).topics[name].partitions
        self._unfinished = set(partitions)
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign([confluent_kafka.TopicPartition(name, number, beginning) for number in partitions])

    def poll(self) -> list[Any]:
        """What has arrived, decoded; tombstones left out."""
        records = []
        for message in self._consumer.consume(1000, 0.2):
            error = message.error()
            if error is None and message.value() is not None:
                records.append(self._codec.decode(message.value()))
            elif error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                self._unfinished.discard(message.partition())
            else:
                assert error is None or error.retriable(), error
        return records

    def read_to_end(self) -> list[Any]:
        records, deadline = [], time.monotonic() + ARRIVAL_SECONDS
        while self._unfinished:
            assert time.monotonic() < deadline, f"the ends of {self._unfinished} were not reached"
            records += self.poll()
        return records

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()


def arrived(topic: Topic, running: Running, what: str, wanted: Callable[[Any], bool]) -> Any:
    """Read on until a record is `wanted`, while `running` runs."""
    deadline = time.monotonic() + ARRIVAL_SECONDS
    while time.monotonic() < deadline:
        running.check()
        for record in topic.poll():
            if wanted(record):
                return record
    raise AssertionError(f"no {what} within {ARRIVAL_SECONDS} s:\n{running.tail()}")
