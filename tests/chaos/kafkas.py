"""The Kafka under test: one broker or three, each behind a hostile relay for its clients, direct for the judge.

Brokers have two listeners. The second is advertised with the relay's address, so that a client that begins at a relay
stays behind relays.
"""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from kubecdc.kafka import create_topics
from kubecdc.topics import TopicNames, TopicSpec, table
from local import ports
from local.broker import Broker, Quorum
from local.errors import LocalError
from tests.chaos.harm import alone, pause
from tests.chaos.relay import KafkaRelay

PREFIX = "chaos"
PARTITIONS = 3
NAMES = TopicNames.under(PREFIX)
NAMES_OF_LOGS = (NAMES.events, NAMES.changes, NAMES.state)
DISK_MB = 800
FILLER = "filler"
# Logs of which the cleaner may take all but the last seconds, once a topic lets it.
CLEANING = {"log.cleaner.backoff.ms": "200", "log.initial.task.delay.ms": "500", "log.segment.bytes": "16777216"}
TRIPLE = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "replica.lag.time.max.ms": "4000",
}
GIVES_UP_S = 30.0
ELECTION_S = 15.0
READY_S = 300.0


class Kafkas:
    """Brokers that can be harmed one at a time; `clients` is where the system under test begins."""

    def __init__(self, folder: Path, count: int, *, small_disk: bool = False) -> None:
        voters = {node: ports.free_port() for node in range(1, count + 1)}
        self._folder = folder
        self._disk = folder / "disk" if small_disk else None
        self._harm = threading.Lock()
        self.brokers: list[Broker] = []
        self.relays: list[KafkaRelay] = []
        for node in voters:
            behind = ports.free_port()
            relay = KafkaRelay((ports.HOST, behind))
            self.relays.append(relay)
            self.brokers.append(self._broker(node, voters, behind, relay.port))

    @property
    def bootstrap(self) -> str:
        """Past the relays: for the judge."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def clients(self) -> str:
        """Through the relays."""
        return ",".join(f"{ports.HOST}:{relay.port}" for relay in self.relays)

    def start(self) -> None:
        """Start all and make the topics."""
        if self._disk is not None:
            self._disk.mkdir(parents=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "chaos", str(self._disk)], check=True)
            (self._disk / "data").mkdir()
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_ready(READY_S)
        for relay in self.relays:
            relay.start()
        create_topics(self.bootstrap, self.topics())

    def topics(self) -> tuple[TopicSpec, ...]:
        return table(PREFIX, PARTITIONS, replication=3 if len(self.brokers) >= 3 else 1)

    def stop(self) -> None:
        for relay in self.relays:
            relay.stop()
        for broker in self.brokers:
            broker.kill()
        if self._disk is not None:
            subprocess.run(["umount", "--lazy", str(self._disk)], check=False, capture_output=True)

    def kill(self, pick: float, down_s: float) -> bool:
        """SIGKILL one and start it again; False when another harm is under way."""
        return self._harmed(pick, down_s, Broker.kill)

    def restart(self, pick: float) -> bool:
        return self._harmed(pick, 0.0, Broker.stop)

    def freeze(self, pick: float, seconds: float) -> bool:
        """SIGSTOP one for a while."""
        with alone(self._harm) as free:
            if free:
                broker = self._one(pick)
                broker.freeze()
                pause(seconds)
                broker.thaw()
            return free

    def fill_disk(self, seconds: float) -> bool:
        """Fill the disk until the broker gives up, make room, start it again; False without a small disk.

        It happens once or twice in a run, so it waits until the brokers are well.
        """
        with self._harm:
            return self._disk is not None and self._fill(self._disk / FILLER, seconds)

    def _fill(self, filler: Path, seconds: float) -> bool:
        broker = self.brokers[0]
        _take_all(filler)
        pause(seconds)
        until = time.monotonic() + GIVES_UP_S
        while broker.alive and time.monotonic() < until:  # it notices with its next write
            pause(0.1)
        died = not broker.alive
        filler.unlink()
        if died:
            _start(broker)
        return died

    def move_leaders(self) -> bool:
        """Ask for the preferred leaders; False when none had to move."""
        asked = [TopicPartition(topic, number) for topic in NAMES_OF_LOGS for number in range(PARTITIONS)]
        admin = AdminClient({"bootstrap.servers": self.bootstrap})
        try:
            answers = admin.elect_leaders(ElectionType.PREFERRED, asked, request_timeout=ELECTION_S)
            return any(error is None for error in answers.result(2 * ELECTION_S).values())
        except (KafkaException, TimeoutError):
            return False

    @contextmanager
    def unharmed(self) -> Iterator[None]:
        """Wait until all brokers are well, and keep them so."""
        with self._harm:
            yield

    def calm(self) -> None:
        """End what lasts, and wait for those that are down."""
        for relay in self.relays:
            relay.calm()
        with self._harm:
            for broker in self.brokers:
                if not broker.alive:
                    _start(broker)
                broker.wait_ready(READY_S)

    def _one(self, pick: float) -> Broker:
        return self.brokers[int(pick * len(self.brokers))]

    def _harmed(self, pick: float, down_s: float, harm: Callable[[Broker], object]) -> bool:
        with alone(self._harm) as free:
            if free:
                broker = self._one(pick)
                harm(broker)
                pause(down_s)
                _start(broker)
            return free

    def _broker(self, node: int, voters: Mapping[int, int], behind: int, relay_port: int) -> Broker:
        port = ports.free_port()
        place = self._folder / f"broker-{node}"
        if self._disk is not None:
            place.mkdir(parents=True)
            (place / "data").symlink_to(self._disk / "data")  # its log file is not on the disk that is filled
        properties = {
            **CLEANING,
            **(TRIPLE if len(voters) >= 3 else {}),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
            "listeners": f"PLAINTEXT://{ports.HOST}:{port},RELAYED://{ports.HOST}:{behind},"
            f"CONTROLLER://{ports.HOST}:{voters[node]}",
            "advertised.listeners": f"PLAINTEXT://{ports.HOST}:{port},RELAYED://{ports.HOST}:{relay_port}",
        }
        return Broker(place, port=port, properties=properties, quorum=Quorum(node, voters))


def _start(broker: Broker) -> None:
    """Start a broker, however long that takes on a busy machine; right after a crash its port may still be taken."""
    for _ in range(10):
        try:
            broker.launch()
            broker.wait_ready(READY_S)
        except LocalError:
            broker.kill()
            pause(2.0)
        else:
            return
    broker.start()


def _take_all(path: Path) -> None:
    """Take all the space that the disk of `path` has left."""
    with path.open("wb", buffering=0) as stream:
        for size in (1024 * 1024, 4096):
            while True:
                free = os.statvfs(path.parent)
                rest = free.f_bavail * free.f_frsize // size * size
                if not rest:
                    break
                try:
                    os.posix_fallocate(stream.fileno(), os.fstat(stream.fileno()).st_size, rest)
                except OSError:
                    break  # somebody was quicker
