"""Play a case: the real producer over real HTTP, the real processor's decisions over a log in memory.

It leads the script from barrier to barrier and carries out its actions. What comes out is compared elsewhere.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest

from kubecdc.codec import Codec
from tests.cases.always import Logged
from tests.cases.compare import COUNTERS, Outcome
from tests.cases.loader import Action, Case, Serve
from tests.cases.memory_log import MemoryLog
from tests.cases.outside import Outside
from tests.cases.processes import CaseFailed, Processes
from tests.cases.script import Script
from tests.cases.server import Listener
from tests.cases.worker import Worker

DEADLINE_S = 30.0
STEP_S = 0.02
SETTLED_S = 0.4  # longer than the PROGRESS timer
QUIET_S = 1.0
TOKEN = "token-1"
BEFORE_START = ("refuse", "accept", "token", "pause-kafka", "resume-kafka")
STORY_LINES = 60


class _Lines(logging.Handler):
    """Keeps every log line of the process, since none may hold a secret."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Keep what every logger says in the meantime."""
        root = logging.getLogger()
        level = root.level
        root.addHandler(self)
        root.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            root.setLevel(level)
            root.removeHandler(self)


class Harness:
    """One play of a case, in `folder`; `crash_at` is where the processor dies where the case says that it does."""

    def __init__(self, case: Case, folder: Path, crash_at: str | None = None) -> None:
        self._case = case
        self._crash_at = crash_at
        self._token_file = folder / "token"
        self._token_file.write_text(TOKEN)
        self._outside = Outside(case, TOKEN)
        self._script = Script(case, self._outside)
        self._log = MemoryLog(case.settings["partitions"])
        self._processes = Processes(case, self._listen, self._log, self._token_file)
        self._worker: Worker | None = None
        self._lines = _Lines()
        self._deadline = 0.0
        self._codec = Codec()
        self._actions: dict[str, Callable[[Any], None]] = {
            "settle": lambda _: self._settle(SETTLED_S),
            "wait": lambda step: self._pause(step["seconds"]),
            "restart-producer": self._restart,
            "kill-producer": lambda step: self._processes.kill(step.get("by", "p1"), step.get("position")),
            "second-producer": lambda _: self._processes.start("p2"),
            "kill-processor": lambda _: self._processor().kill(),
            "crash-processor": lambda _: self._processor().crash_at(self._crash_at or ""),
            "pause-kafka": lambda _: self._log.pause(),
            "resume-kafka": lambda _: self._log.resume(),
            "audit": lambda step: self._processes.audit(step.get("by", "p1")),
            "refuse": self._outside.refuse,
            "accept": self._outside.accept,
            "token": self._renew_token,
        }

    def play(self) -> Outcome:
        """Play all steps. Raises CaseFailed."""
        self._deadline = time.monotonic() + DEADLINE_S
        with self._lines.kept():
            try:
                self._play()
                self._settle(QUIET_S)
                return self._outcome()
            except CaseFailed as error:
                raise CaseFailed(f"{error}\n{self._story()}") from None
            finally:
                self._end()

    def _play(self) -> None:
        started = False
        for act in self._case.acts:
            if isinstance(act, Serve):
                self._outside.serve(act.resources)
            if not started and not (isinstance(act, Action) and act.name in BEFORE_START):
                started = True
                self._worker = Worker(self._log, self._case.settings["noise"])
                self._processes.start("p1")
            if isinstance(act, Serve):
                self._until(self._outside.discovered, lambda: "discovery is not read")
            elif isinstance(act, Action):
                self._actions[act.name](act.options)
            else:
                self._script.begin(act)
                self._until(lambda: not self._script.pending(), lambda: "; ".join(self._script.pending()))

    def _listen(self, by: str) -> Listener:
        return Listener(self._script, self._outside, by)

    def _restart(self, step: Any) -> None:
        self._settle(SETTLED_S)
        self._processes.restart(step.get("by", "p1"))

    def _renew_token(self, step: Any) -> None:
        if "file" in step:
            self._token_file.write_text(step["file"])
        if "server" in step:
            self._outside.accept_token(step["server"])

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
        settled = all(self._processes.settled().values())
        return settled and self._processor().level() and not self._script.pending()

    def _unsettled(self) -> str:
        return f"settled: {self._processes.settled()}, processor level: {self._processor().level()}"

    def _check(self) -> None:
        """Raise CaseFailed if anything has failed."""
        failures = (self._script.failure, self._worker and self._worker.failure, self._processes.failed())
        for failure in failures:
            if failure is not None:
                raise CaseFailed(failure)

    # --- the end --------------------------------------------------------------------------------------------------

    def _outcome(self) -> Outcome:
        if self._processor().crash_pending:
            raise CaseFailed(f"the processor never came to {self._crash_at}")
        counters = {name: self._processor().counters[name] for name in COUNTERS}
        counters["relist_aborted"] = self._processes.counted("relist_aborted")
        left = [("the log", "\n".join(self._lines.lines).encode())]
        left += [("a metrics page", generate_latest(process.metrics.registry)) for process in self._processes.all]
        left += [("an error", process.error.encode()) for process in self._processes.all]
        left += [
            ("a topic", b"\0".join((entry.key, entry.value or b"", *(told for _, told in entry.headers))))
            for entry in self._log.everything()
        ]
        left += [
            (path.name, path.read_bytes())
            for path in self._token_file.parent.rglob("*")
            if path.is_file() and path != self._token_file
        ]
        return Outcome(self._changes(), counters, tuple(self._script.seen), left)

    def _changes(self) -> list[Logged]:
        """The changes topic, partition after partition."""
        return [
            Logged(partition, entry.key, None if entry.value is None else self._codec.decode(entry.value))
            for partition in range(self._log.partitions)
            for entry in self._log.read("changes", partition, 0)
        ]

    def _end(self) -> None:
        self._log.resume()
        self._script.fail("the case is over")
        self._processes.abandon()
        if self._worker is not None:
            self._worker.stop()

    def _story(self) -> str:
        """What happened, for whoever has to find out why a case failed."""
        asked = [f"  {one.lane}: {one.kind} {dict(one.params)} {one.outcome}" for one in self._script.seen]
        changes = [(logged.partition, logged.change) for logged in self._changes() if logged.change is not None]
        written = [
            f"  {partition} {c.resource} {c.op} {c.uid or ''}@{c.rv} ({c.after_rv}, {c.upto_rv}] {c.gap or ''}"
            for partition, c in changes
        ]
        return "\n".join(["requests:", *asked, "changes:", *written, "log:", *self._lines.lines[-STORY_LINES:]])
