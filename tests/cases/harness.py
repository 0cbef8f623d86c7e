"""Play a case: the real producer over real HTTP, the real processor's decisions over a log in memory.

It leads the script from barrier to barrier and carries out its actions. What comes out is compared elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest

from kubecdc.codec import Codec
from kubecdc.records import Position
from producer.cluster import Cluster
from producer.metrics import Metrics
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, RedactionSettings, WatchSettings
from tests.cases import bodies
from tests.cases.always import Logged
from tests.cases.compare import COUNTERS, Outcome
from tests.cases.loader import Action, Case, Serve
from tests.cases.memory_log import MemoryLog, MemorySink
from tests.cases.script import Script
from tests.cases.server import Listener
from tests.cases.worker import Worker

DEADLINE_S = 30.0
STEP_S = 0.02
SETTLED_S = 0.4  # longer than the PROGRESS timer
QUIET_S = 1.0
JOIN_S = 15.0
NEVER_S = 1e6
TOKEN = "token-1"
BEFORE_START = ("refuse", "accept", "token")


class CaseFailed(AssertionError):  # noqa: N818 - named by what happened
    """The script could not be played to its end; the text says where and why."""


@dataclass(slots=True)
class Process:
    """One incarnation of a producer."""

    listener: Listener
    sink: MemorySink
    producer: Producer
    metrics: Metrics
    stop: threading.Event = field(default_factory=threading.Event)
    thread: threading.Thread | None = None
    error: str = ""

    def run(self) -> None:
        """The process's life; an error is kept for the harness."""
        try:
            self.producer.run(self.stop)
        except Exception:  # noqa: BLE001 - reported with the case
            self.error = traceback.format_exc()


class _Lines(logging.Handler):
    """Keeps every log line of the process, since none may hold a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


class Harness:
    """One play of a case, in `folder`; `crash_at` is where the processor dies where the case says that it does."""

    def __init__(self, case: Case, folder: Path, crash_at: str | None = None) -> None:
        self._case = case
        self._crash_at = crash_at
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._script = Script(case, TOKEN)
        self._log = MemoryLog(case.settings["partitions"])
        self._worker: Worker | None = None
        self._processes: dict[str, Process] = {}
        self._past: list[Process] = []
        self._lines = _Lines()
        self._deadline = 0.0
        self._codec = Codec()
        self._actions: dict[str, Callable[[Any], None]] = {
            "settle": lambda _: self._settle(SETTLED_S),
            "wait": lambda step: self._pause(step["seconds"]),
            "restart-producer": self._restart,
            "kill-producer": self._kill,
            "second-producer": lambda _: self._start("p2"),
            "kill-processor": lambda _: self._processor().kill(),
            "crash-processor": lambda _: self._processor().crash_at(self._crash_at or ""),
            "pause-kafka": lambda _: self._log.pause(),
            "resume-kafka": lambda _: self._log.resume(),
            "audit": lambda step: self._processes[step.get("by", "p1")].producer.audit_now(),
            "refuse": self._script.refuse,
            "accept": self._script.accept,
            "token": self._renew_token,
        }

    def play(self) -> Outcome:
        """Play all steps. Raises CaseFailed."""
        root = logging.getLogger()
        level = root.level
        root.addHandler(self._lines)
        root.setLevel(logging.DEBUG)
        self._deadline = time.monotonic() + DEADLINE_S
        try:
            self._play()
            self._settle(QUIET_S)
            self._check()
            return self._outcome()
        except CaseFailed as error:
            raise CaseFailed(f"{error}\n{self._story()}") from None
        finally:
            self._end()
            root.setLevel(level)
            root.removeHandler(self._lines)

    def _play(self) -> None:
        started = False
        for act in self._case.acts:
            if isinstance(act, Serve):
                self._script.serve(act.resources)
            if not started and not (isinstance(act, Action) and act.name in BEFORE_START):
                started = True
                self._worker = Worker(self._log, self._case.settings["noise"])
                self._start("p1")
            if isinstance(act, Serve):
                self._until(self._script.discovered, lambda: "discovery is not read")
            elif isinstance(act, Action):
                self._actions[act.name](act.options)
            else:
                self._script.begin(act)
                self._until(lambda: not self._script.pending(), lambda: "; ".join(self._script.pending()))

    # --- actions --------------------------------------------------------------------------------------------------

    def _start(self, by: str) -> None:
        settings = self._case.settings
        listener = Listener(self._script, by)
        sink = MemorySink(self._log)
        metrics = Metrics()
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
        producer = Producer(cluster, sink, ProducerSettings(watch, redaction), metrics=metrics)
        process = self._processes[by] = Process(listener, sink, producer, metrics)
        process.thread = threading.Thread(target=process.run, name=f"producer {by}", daemon=True)
        process.thread.start()

    def _restart(self, step: Any) -> None:
        self._settle(SETTLED_S)
        by = step.get("by", "p1")
        self._shut(by)
        self._start(by)

    def _shut(self, by: str) -> None:
        process = self._processes.pop(by)
        process.stop.set()
        self._join(process, by)
        process.sink.close()
        self._past.append(process)

    def _kill(self, step: Any) -> None:
        by = step.get("by", "p1")
        process = self._processes.pop(by)
        process.sink.die()
        process.producer.kill()
        self._join(process, by)
        self._past.append(process)
        if "position" in step:
            for key, value in self._log.latest("positions").items():
                position: Position = self._codec.decode(value)
                older = self._codec.encode(replace(position, rv=step["position"]))
                self._log.append("positions", 0, key, older)
        self._start(by)

    def _join(self, process: Process, by: str) -> None:
        process.listener.hang_up()
        if process.thread is not None:
            process.thread.join(JOIN_S)
            if process.thread.is_alive():
                raise CaseFailed(f"producer {by} does not end")
        if process.error:
            raise CaseFailed(f"producer {by} failed:\n{process.error}")

    def _renew_token(self, step: Any) -> None:
        if "file" in step:
            self._token_file.write_text(step["file"])
        if "server" in step:
            self._script.accept_token(step["server"])

    def _processor(self) -> Worker:
        if self._worker is None:
            raise CaseFailed("the processor is not started")
        return self._worker

    # --- waiting --------------------------------------------------------------------------------------------------

    def _until(self, holds: Callable[[], bool], what: Callable[[], str]) -> None:
        while not holds():
            self._check()
            if time.monotonic() > self._deadline:
                raise CaseFailed(f"not finished in {DEADLINE_S:.0f} s: {what()}")
            time.sleep(STEP_S)
        self._check()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self._until(lambda: time.monotonic() >= until, lambda: f"waits {seconds} s")

    def _settle(self, quiet_s: float) -> None:
        """Wait until everything is acknowledged, stored and processed, and nothing has happened for `quiet_s`."""
        since, before = time.monotonic(), -1

        def quiet() -> bool:
            nonlocal since, before
            if not self._level() or self._log.appended != before:
                since, before = time.monotonic(), self._log.appended
            return time.monotonic() - since >= quiet_s

        self._until(quiet, self._unsettled)

    def _level(self) -> bool:
        settled = all(p.producer.settled() and p.sink.depth() == 0 for p in self._processes.values())
        return settled and self._processor().level() and not self._script.pending()

    def _unsettled(self) -> str:
        producers = {by: p.producer.settled() for by, p in self._processes.items()}
        return f"not settled: producers {producers}, processor level {self._processor().level()}"

    def _check(self) -> None:
        """Raise CaseFailed if anything has failed."""
        if self._script.failure is not None:
            raise CaseFailed(self._script.failure)
        if self._worker is not None and self._worker.failure is not None:
            raise CaseFailed(self._worker.failure)
        for by, process in self._processes.items():
            if process.thread is not None and not process.thread.is_alive():
                raise CaseFailed(f"producer {by} ended by itself:\n{process.error}")

    # --- the end --------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        if self._processor().crash_pending:
            raise CaseFailed(f"the processor never came to {self._crash_at}")
        processes = [*self._past, *self._processes.values()]
        counters = {name: self._processor().counters[name] for name in COUNTERS}
        counters["relist_aborted"] = sum(_count(process.metrics, "relist_aborted") for process in processes)
        left = [("the log", "\n".join(self._lines.lines).encode())]
        left += [("a metrics page", generate_latest(process.metrics.registry)) for process in processes]
        left += [("an error", process.error.encode()) for process in processes]
        left += [("a topic", entry.key + b"\0" + (entry.value or b"")) for entry in self._log.everything()]
        left += [(str(path.name), path.read_bytes()) for path in self._token_file.parent.rglob("*") if path.is_file()]
        return Outcome(self.changes(), counters, tuple(self._script.seen), left)

    def changes(self) -> list[Logged]:
        """The changes topic, partition after partition."""
        return [
            Logged(partition, entry.key, None if entry.value is None else self._codec.decode(entry.value))
            for partition in range(self._log.partitions)
            for entry in self._log.read("changes", partition, 0)
        ]

    def _end(self) -> None:
        self._log.resume()
        self._script.fail("the case is over")
        for process in self._processes.values():
            process.sink.die()
            process.producer.kill()
            process.listener.hang_up()
            if process.thread is not None:
                process.thread.join(JOIN_S)
        if self._worker is not None:
            self._worker.stop()

    def _story(self) -> str:
        """What happened, for whoever has to find out why a case failed."""
        asked = [f"  {one.lane}: {one.kind} {dict(one.params)} {one.outcome}" for one in self._script.seen]
        written = [
            f"  {c.resource} {c.op} {c.uid or ''}@{c.rv} ({c.after_rv}, {c.upto_rv}] {c.gap.cause if c.gap else ''}"
            for c in (logged.change for logged in self.changes() if logged.partition == 0 or logged.change)
            if c is not None
        ]
        return "\n".join(["requests:", *asked, "changes:", *written, "log:", *self._lines.lines[-60:]])


def _pattern(resource: str) -> str:
    group, _, plural = bodies.split(resource)
    return f"{plural}.{group}" if group else plural


def _count(metrics: Metrics, name: str) -> int:
    """The sum of a producer's counter over its labels."""
    return int(
        sum(
            sample.value
            for family in metrics.registry.collect()
            for sample in family.samples
            if sample.name == f"kubecdc_producer_{name}_total"
        )
    )
