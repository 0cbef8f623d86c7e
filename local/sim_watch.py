"""Serving one watch stream: initial events, live events, bookmarks, and the faults of streams.

Decides: which frame goes out next and when the stream ends. Deliberately does not know HTTP: it
writes frames to a `Wire`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from local import sim_status
from local.sim_faults import Fault, Faults
from local.sim_kinds import Json
from local.sim_reads import Watch
from local.sim_store import SimStore
from local.sim_wire import bookmark, encoded, shown

_POLL_S = 0.5  # how soon a client that hung up is noticed
_DEFAULT_TIMEOUT_S = 1800.0
_END_OF_INITIAL = "k8s.io/initial-events-end"


class ClientGone(Exception):  # noqa: N818 - an end of the stream, not an error
    """The client has closed the connection."""


class Torn(Exception):  # noqa: N818 - as above
    """The connection was torn by a `cut` fault."""


class Wire(Protocol):
    """The body of a response in progress; `send` raises ClientGone."""

    def send(self, data: bytes) -> None:
        """Write and flush."""

    def gone(self) -> bool:
        """Say whether the client has hung up."""


@dataclass(slots=True)
class Cutting:
    """A wire that is torn after so many more bytes; None: not at all."""

    wire: Wire
    left: int | None = None

    def send(self, data: bytes) -> None:
        """Write what is left before the cut. Raises Torn at the cut, ClientGone."""
        if self.left is None:
            self.wire.send(data)
            return
        part, self.left = data[: self.left], self.left - len(data)
        if part:
            self.wire.send(part)
        if self.left <= 0:
            raise Torn


class WatchStream:
    """One stream. `bookmark_s`: seconds between bookmarks; `stopping`: the server is to stop."""

    def __init__(
        self,
        watch: Watch,
        store: SimStore,
        faults: Faults,
        wire: Wire,
        *,
        bookmark_s: float,
        stopping: Callable[[], bool],
    ) -> None:
        self._watch = watch
        self._kind = watch.scope.kind
        self._store = store
        self._faults = faults
        self._wire = Cutting(wire)
        self._bare_wire = wire
        self._stopping = stopping
        self._bookmark_s = bookmark_s
        self._position = watch.start
        self._mute: Fault | None = None
        self._mute_ends: float | None = None
        now = time.monotonic()
        asked = watch.options.timeout_s
        timeout_s = asked if asked > 0 else _DEFAULT_TIMEOUT_S * random.uniform(1, 2)  # noqa: S311 - spreads load, keeps no secret
        self._deadline = now + timeout_s
        self._bookmark_at = self._next_bookmark(now)

    def run(self) -> None:
        """Serve until the stream ends cleanly. Raises ClientGone and Torn."""
        if self._watch.refusal is not None:
            self._frame("ERROR", self._watch.refusal)
            return
        self._shape_wire()
        for obj in self._watch.initial:
            self._event("ADDED", obj)
        if self._watch.ends_initial:
            self._bookmark(self._position, {_END_OF_INITIAL: "true"})
        ticks = self._store.pulse.wait(-1, 0)
        while self._serve_once():
            wait_s = min(self._deadline, self._bookmark_at) - time.monotonic()
            ticks = self._store.pulse.wait(ticks, max(0.0, min(wait_s, _POLL_S)))
            if self._bare_wire.gone():
                raise ClientGone

    def _serve_once(self) -> bool:
        if self._stopping():
            return False
        if self._is_mute():
            self._bookmark_at = time.monotonic() + self._bookmark_s
            return True
        self._shape_wire()
        reading = self._store.follow(self._kind, self._position)
        if reading.epoch != self._watch.epoch:
            return False
        if self._ended_by_fault():
            return False
        for event in reading.events:
            self._position = event.revision
            if event.key.startswith(self._watch.scope.prefix):
                self._event(event.type, event.object)
        if reading.broken or time.monotonic() >= self._deadline:
            return False
        # A watch may start beyond the present; it stays there until the present catches up.
        self._position = max(self._position, reading.revision)
        if time.monotonic() >= self._bookmark_at:
            self._bookmark(self._position, None)
        return True

    def _shape_wire(self) -> None:
        """Let `cut` and `mute` faults take hold of this stream."""
        if self._wire.left is None:
            cut = self._take("cut")
            if cut is not None:
                self._wire.left = int(cut.options["after_bytes"])
                if not self._wire.left:
                    raise Torn
        if self._mute is None and (mute := self._take("mute")):
            self._mute = mute
            seconds = mute.options["seconds"]
            self._mute_ends = None if seconds is None else time.monotonic() + seconds

    def _is_mute(self) -> bool:
        if self._mute is None:
            return False
        ended = self._mute_ends is not None and time.monotonic() >= self._mute_ends
        if self._mute.over or ended:
            self._mute = None
        return self._mute is not None

    def _ended_by_fault(self) -> bool:
        kind, names = self._kind.qualified, ("expired_410", "instant_close")
        fault = self._faults.take(names, kind, "watch", lambda found: found.options.get("mode") != "status")
        if fault is not None and fault.options.get("mode") == "stream":
            text = f"too old resource version: {self._position} ({self._store.revision})"
            self._frame("ERROR", sim_status.expired(text).status)
        return fault is not None

    def _event(self, change: str, obj: Json) -> None:
        if not self._watch.options.selects(obj):
            return
        if fault := self._take("late"):
            self._pause(float(fault.options["seconds"]))
        if fault := self._take("garbage"):
            self._wire.send(fault.options["data"].encode() + b"\n")
            return
        for _ in range(2 if self._take("duplicate") else 1):
            self._frame(change, shown(self._kind, self._watch.scope.version, obj))

    def _pause(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._stopping():
            time.sleep(min(0.05, seconds))

    def _bookmark(self, revision: int, annotations: dict[str, str] | None) -> None:
        now = time.monotonic()
        self._bookmark_at = self._next_bookmark(now)
        version = self._watch.scope.version
        self._frame("BOOKMARK", bookmark(self._kind, version, revision, annotations or {}))

    def _next_bookmark(self, now: float) -> float:
        if not self._watch.options.bookmarks or not self._kind.cached:
            return float("inf")
        # As the real cacher: periodically, and 2 s before the end so that a client can resume.
        before_end = self._deadline - 2
        periodic = now + self._bookmark_s
        return min(periodic, before_end) if now < before_end else min(periodic, now + 1)

    def _frame(self, change: str, obj: Json) -> None:
        self._wire.send(encoded({"type": change, "object": obj}))

    def _take(self, *names: str) -> Fault | None:
        return self._faults.take(names, self._kind.qualified, "watch")
