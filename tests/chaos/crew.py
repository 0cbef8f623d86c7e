"""The producers and workers under test, as processes, and their supervisor: what ends by itself is started again.

A supervisor is part of the product's promise (a worker that cannot go on exits, and the next one begins with a fence),
so one is part of the chaos. Every end is counted by its exit code, with the last words that came with it.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from local import children
from processors import crash

LOOK_S = 0.2
RESPAWN_S = 1.0
STOP_S = 20.0
WORDS_MAX = 200
STACK_LINES = 400
_ERROR = re.compile(r"^(error: .*|kubecdc: .*|.*Error: .*)$", re.MULTILINE)


@dataclass(slots=True)
class Member:
    """One process that should run. `due` is when it is to be started again, None while nobody wants it."""

    name: str
    argv: Sequence[str]
    child: children.Child | None = None
    due: float | None = None
    crash_at: str = ""

    @property
    def kind(self) -> str:
        return self.name.partition("-")[0]


class Crew:
    """Starts, ends and watches members by name. Thread-safe."""

    def __init__(self, folder: Path, commands: Mapping[str, Sequence[str]]) -> None:
        self._folder = folder
        self._members = {name: Member(name, argv) for name, argv in commands.items()}
        self._lock = threading.RLock()
        self._paused: set[str] = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._supervise, name="supervisor", daemon=True)
        self.crashed: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.starts: Counter[str] = Counter()
        self.words: list[str] = []

    def names(self, kind: str) -> list[str]:
        return [name for name, member in self._members.items() if member.kind == kind]

    def start(self, name: str, *, after_s: float = 0.0, crash_at: str = "") -> None:
        """Have it run, from now or later on."""
        with self._lock:
            member = self._members[name]
            member.due, member.crash_at = time.monotonic() + after_s, crash_at

    def kill(self, name: str, *, again_after_s: float | None = None, crash_at: str = "") -> None:
        """End it with SIGKILL; the supervisor starts it again when that is said."""
        self._end(name, again_after_s, crash_at, orderly=False)

    def stop(self, name: str, *, again_after_s: float | None = None, crash_at: str = "") -> None:
        """End it with SIGTERM; `crash_at` is for the next one."""
        self._end(name, again_after_s, crash_at, orderly=True)

    def doomed(self, name: str) -> bool:
        """Whether it runs, and is to die at a crash point that it has not come to yet."""
        with self._lock:
            member = self._members[name]
            return bool(member.crash_at and member.child is not None and member.child.alive)

    def freeze(self, name: str, seconds: float) -> bool:
        """SIGSTOP, wait, SIGCONT; one that is killed meanwhile stays dead. False when it does not run."""
        with self._lock:
            child = self._members[name].child
            if child is None or not child.alive:
                return False
            child.freeze()
        self._over.wait(seconds)
        child.thaw()
        return True

    def abort(self) -> list[str]:
        """End all with SIGABRT, and return where their threads stood; the supervisor starts them again."""
        with self._lock:
            running = [(name, member.child) for name, member in self._members.items() if member.child is not None]
        for _, child in running:
            child.abort()
        children.poll(lambda: not any(child.alive for _, child in running), STOP_S, LOOK_S)
        return [f"{name}: {child.tail(STACK_LINES)}" for name, child in running]

    def pause(self, kind: str) -> bool:
        """End all of a kind in order, and start none until `resume`; waits until those are gone."""
        self._paused.add(kind)
        gone = [self._take(name) for name in self.names(kind)]
        for child in gone:
            if child is not None and child.alive:
                child.stop(STOP_S)
        return self.running(kind) == 0

    def resume(self, kind: str) -> None:
        """Start again who was running."""
        self._paused.discard(kind)

    def _take(self, name: str) -> children.Child | None:
        with self._lock:
            member = self._members[name]
            child, member.child, member.crash_at = member.child, None, ""
            if child is not None:
                member.due = time.monotonic()
            return child

    def launch(self) -> None:
        """Start everyone, and watch over them."""
        self._thread.start()
        for name in self._members:
            if not name.endswith("-extra"):
                self.start(name)

    def running(self, kind: str) -> int:
        with self._lock:
            members = [self._members[name].child for name in self.names(kind)]
        return sum(child is not None and child.alive for child in members)

    def close(self) -> None:
        """End everyone."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()
        for member in self._members.values():
            if member.child is not None:
                member.child.kill()

    def _end(self, name: str, again_after_s: float | None, crash_at: str, *, orderly: bool) -> None:
        with self._lock:
            member = self._members[name]
            child, member.child = member.child, None
            member.due = None if again_after_s is None else time.monotonic() + again_after_s
            member.crash_at = crash_at
        if child is not None and child.alive:
            if orderly:
                child.stop(STOP_S)
                if child.exit_code not in (0, -15):  # else it hung, or ended with an error of its own
                    self._say(f"{name} after SIGTERM ended with {child.exit_code}", child)
            else:
                child.kill()

    def _supervise(self) -> None:
        while not self._over.wait(LOOK_S):
            with self._lock:
                for member in self._members.values():
                    self._look(member)

    def _look(self, member: Member) -> None:
        now = time.monotonic()
        if member.child is not None:
            if member.child.alive:
                return
            self._count_end(member, member.child)
            member.child, member.due, member.crash_at = None, now + RESPAWN_S, ""
        elif member.due is not None and now >= member.due and member.kind not in self._paused:
            member.due = None
            member.child = self._spawn(member)

    def _count_end(self, member: Member, child: children.Child) -> None:
        if member.crash_at and child.exit_code == -9:
            self.crashed[member.crash_at.partition(":")[0]] += 1
            return
        self._say(f"{member.name} ended by itself with {child.exit_code}", child)
        self.ended[f"{member.kind} exits with {child.exit_code}"] += 1

    def _say(self, what: str, child: children.Child) -> None:
        found = _ERROR.findall(child.tail(60))
        self.words.append(f"{time.strftime('%H:%M:%S')} {what}: {found[-1] if found else child.tail(3)}")
        del self.words[:-WORDS_MAX]

    def _spawn(self, member: Member) -> children.Child:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBECDC_")}
        environment["PYTHONFAULTHANDLER"] = "1"  # for `abort`
        if member.crash_at:
            environment[crash.VARIABLE] = member.crash_at
        self.starts[member.kind] += 1
        return children.spawn(
            [sys.executable, "-m", "kubecdc", *member.argv],
            log=self._folder / f"{member.name}.log",
            env=environment,
        )
