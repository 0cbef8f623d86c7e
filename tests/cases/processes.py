"""The producer processes of a case: started, stopped and killed as the script says, all on one log.

Each incarnation has a base URL, a client of the log and metrics of its own, as a process has. It does not know the
script's steps.
"""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from kubecdc.codec import Codec
from kubecdc.records import Position
from producer.cluster import Cluster
from producer.metrics import Metrics
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, RedactionSettings, WatchSettings
from tests.cases import bodies
from tests.cases.loader import Case
from tests.cases.memory_log import MemoryLog, MemorySink
from tests.cases.server import Listener

JOIN_S = 15.0
NEVER_S = 1e6  # the cases say when an audit falls due


class CaseFailed(AssertionError):  # noqa: N818 - named by what happened
    """The script could not be played to its end; the text says where and why."""


@dataclass(slots=True)
class Process:
    """One incarnation of a producer."""

    by: str
    listener: Listener
    sink: MemorySink
    producer: Producer
    metrics: Metrics
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    error: str = ""

    def start(self) -> None:
        """Begin the process's life."""
        self.thread = threading.Thread(target=self._run, name=f"producer {self.by}", daemon=True)
        self.thread.start()

    def alive(self) -> bool:
        """It runs."""
        return self.thread is not None and self.thread.is_alive()

    def settled(self) -> bool:
        """All that was read is acknowledged, and its position is stored."""
        return self.producer.stored() and self.sink.depth() == 0

    def end(self) -> None:
        """Stop gracefully. Raises CaseFailed when it does not."""
        self.stop.set()
        self._join()
        self.listener.hang_up()
        self.sink.close()

    def kill(self) -> None:
        """Die at once: what is not in the log by now never will be."""
        self.sink.die()
        self.listener.hang_up()
        self.producer.kill()
        self._join()

    def _join(self) -> None:
        if self.thread is not None:
            self.thread.join(JOIN_S)
        if self.alive():
            raise CaseFailed(f"producer {self.by} does not end")
        if self.error:
            raise CaseFailed(f"producer {self.by} failed:\n{self.error}")

    def _run(self) -> None:
        try:
            self.producer.run(self.stop)
        except Exception:  # noqa: BLE001 - reported with the case
            self.error = traceback.format_exc()


class Processes:
    """All incarnations of all producers of a case."""

    def __init__(self, case: Case, listen: Callable[[str], Listener], log: MemoryLog, token_file: Path) -> None:
        self._case = case
        self._listen = listen
        self._log = log
        self._token_file = token_file
        self._running: dict[str, Process] = {}
        self.all: list[Process] = []

    def start(self, by: str) -> None:
        """Start a producer; the first one as `p1`."""
        settings = self._case.settings
        listener = self._listen(by)
        cluster = Cluster(
            ClusterSettings(name="c", server=listener.url, token_file=self._token_file), settings["inactivity_s"]
        )
        watch = WatchSettings(
            resources=tuple(dict.fromkeys(_pattern(resource) for resource in self._case.resources)),
            namespaces=tuple(settings["namespaces"]),
            max_object_bytes=settings["max_object_bytes"],
            inactivity_s=settings["inactivity_s"],
            progress_interval_s=0.2,
            backoff_min_s=0.05,
            backoff_max_s=0.5,
            watchlist_deadline_s=settings["watchlist_deadline_s"],
            discovery_interval_s=0.3,
            audit_interval_s=NEVER_S if settings["audit"] else 0,
        )
        redaction = RedactionSettings(key=b"a key of the cases, 32 bytes long")
        sink, metrics = MemorySink(self._log), Metrics()
        producer = Producer(cluster, sink, ProducerSettings(watch, redaction), metrics=metrics)
        process = self._running[by] = Process(by, listener, sink, producer, metrics)
        self.all.append(process)
        process.start()

    def restart(self, by: str) -> None:
        """Stop cleanly, and start."""
        self._running.pop(by).end()
        self.start(by)

    def kill(self, by: str, position: str | None) -> None:
        """Kill, put the stored positions back to `position` if one is given, and start."""
        self._running.pop(by).kill()
        if position is not None:
            self._put_back(position)
        self.start(by)

    def _put_back(self, rv: str) -> None:
        """Make `rv` the stored position again; as it was stored then, epoch and all, if it ever was."""
        codec = Codec()
        earlier: dict[tuple[bytes, str], bytes] = {}
        for entry in self._log.read("positions", 0, 0):
            if entry.value is not None:
                earlier[entry.key, codec.decode(entry.value).rv] = entry.value
        for key, value in self._log.latest("positions").items():
            stored: Position = codec.decode(value)
            again = earlier.get((key, rv)) or codec.encode(replace(stored, rv=rv))
            self._log.take_unanswered("positions", 0, key, again)

    def audit(self, by: str) -> None:
        """An audit list falls due now."""
        self._running[by].producer.audit_now()

    def settled(self) -> dict[str, bool]:
        """For each producer: all that it read is acknowledged, and its position is stored."""
        return {by: process.settled() for by, process in self._running.items()}

    def failed(self) -> str | None:
        """Why a producer that should run does not."""
        for by, process in self._running.items():
            if not process.alive():
                return f"producer {by} ended by itself:\n{process.error}"
        return None

    def counted(self, name: str) -> int:
        """The sum of a counter over all producers and labels."""
        samples = [s for p in self.all for family in p.metrics.registry.collect() for s in family.samples]
        found = [sample.value for sample in samples if sample.name == f"kubecdc_producer_{name}_total"]
        return int(sum(found))

    def abandon(self) -> None:
        """Kill what still runs, without a look at how it ends."""
        for process in self._running.values():
            process.sink.die()
            process.producer.kill()
            process.listener.hang_up()
            if process.thread is not None:
                process.thread.join(JOIN_S)
        self._running.clear()


def _pattern(resource: str) -> str:
    group, _, plural = bodies.split(resource)
    return f"{plural}.{group}" if group else plural
