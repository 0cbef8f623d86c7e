"""The API server before the store: lists by pages, watches as streams of bytes, and every way it has to refuse.

Answers are values of `producer.frames`, made from the JSON that a server would send. Faults are armed by `faults` and
met by the next request that they fit, or strike an open stream at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

import orjson

from kubecdc.errors import KubecdcError
from producer import frames
from producer.signals import StreamEnded, Unreachable, Verb
from tests.simulation.schedule import Schedule
from tests.simulation.world import Kind, Version, World, living

TICK_S = (0.08, 0.5)
BOOKMARK_S = 4.0
INITIAL_PER_TICK = 5
STALE_APART_S = 15.0

Answer = frames.Page | frames.Broken | frames.ServerError | Unreachable
Hit = Callable[[str], None]


def status(code: int, reason: str, message: str = "", **more: Any) -> frames.ServerError:
    """A refusal, as production reads it."""
    body = {"kind": "Status", "code": code, "reason": reason, "message": message, **more}
    return frames.server_error(body, code)


GONE = {"code": 410, "reason": "Expired", "message": "too old resource version"}
TOO_LARGE = {
    "code": 504,
    "reason": "Timeout",
    "message": "Too large resource version: 9, current: 1",
    "details": {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1},
}


@dataclass(slots=True)
class Armed:
    """A fault that waits for a request. `answer` None: the request goes well, and `name` says what happens to it."""

    name: str
    verbs: tuple[Verb, ...]
    answer: Answer | None
    later_pages: bool = False


@dataclass(slots=True)
class _Snapshot:
    """A list under way: what its continue token stands for."""

    era: int
    rv: int
    items: list[Version]


class Server:
    """Answers requests. `hit` is told each fault that took effect."""

    def __init__(self, world: World, schedule: Schedule, rng: Random, hit: Hit) -> None:
        self.world = world
        self.schedule = schedule
        self.rng = rng
        self.hit = hit
        self.armed: list[Armed] = []
        self.streams: list[Stream] = []
        self.forbidden: dict[str, float] = {}
        self.lag: tuple[float, int, int] | None = None  # until, revision, era
        self.withheld: set[tuple[str, str, str]] = set()  # resource, uid, rv that a stream left out
        self._snapshots: dict[str, _Snapshot] = {}
        self._stale_until: dict[str, float] = {}

    def view(self) -> int:
        """The revision that watch caches have reached."""
        if self.lag is not None:
            until, revision, era = self.lag
            if self.schedule.now < until and era == self.world.era:
                return revision
            self.lag = None
        return self.world.revision

    def calm(self) -> None:
        """No faults from now on."""
        self.armed.clear()
        self.forbidden.clear()
        self.lag = None
        for stream in self.streams:
            stream.mute_until = 0.0

    def refusal(self, kind: Kind, verb: Verb, *, later_page: bool = False) -> Armed | Answer | None:
        """What keeps a request from going well."""
        if self.forbidden.get(kind.resource, 0.0) > self.schedule.now:
            self.hit("forbidden")
            return status(403, "Forbidden", "no")
        if not kind.served:
            return status(404, "NotFound", "the server could not find the requested resource")
        for armed in self.armed:
            if armed.name == "stale_list" and self._stale_until.get(kind.resource, 0.0) > self.schedule.now:
                continue  # a server that lags again and again is taken for a restored one, as it should be
            if verb in armed.verbs and armed.later_pages == later_page:
                self.armed.remove(armed)
                self.hit(armed.name)
                return armed if armed.answer is None else armed.answer
        return None

    # --- lists ------------------------------------------------------------------------------------------------------

    def list_page(self, kind: Kind, scope: str, limit: int, token: str) -> Answer:
        """One page of a consistent list, or of one that a lagging server answers."""
        refused = self.refusal(kind, Verb.LIST, later_page=bool(token))
        if refused is not None and not isinstance(refused, Armed):
            return refused
        if token:
            snapshot = self._snapshots.pop(token, None)
            if snapshot is None or snapshot.era != self.world.era or snapshot.rv < self.world.compacted:
                self.hit("page_expired")
                return status(410, "Expired", "The provided continue parameter is too old")
        else:
            rv = self.world.revision
            if isinstance(refused, Armed) and refused.name == "stale_list":
                self._stale_until[kind.resource] = self.schedule.now + STALE_APART_S
                rv = max(self.world.compacted, rv - self.rng.randrange(1, 40))
            snapshot = _Snapshot(self.world.era, rv, list(living(kind, rv, scope)))
        shown, rest = snapshot.items[:limit], snapshot.items[limit:]
        rv = snapshot.rv
        if isinstance(refused, Armed) and refused.name == "pages_mixed":
            rv = self.world.revision + 1
        metadata: dict[str, object] = {"resourceVersion": str(rv)}
        if rest:
            token = f"t{self.rng.getrandbits(64)}"
            self._snapshots[token] = _Snapshot(snapshot.era, snapshot.rv, rest)
            metadata["continue"] = token
        body = b'{"metadata":%s,"items":[%s]}' % (orjson.dumps(metadata), b",".join(v.body for v in shown))
        return frames.page(body)

    # --- watches ----------------------------------------------------------------------------------------------------

    def watch(self, kind: Kind, scope: str, rv: str, post: Post) -> Stream | Answer:
        """Open a watch after `rv`; its frames go to `post`."""
        refused = self.refusal(kind, Verb.WATCH)
        if refused is not None and not isinstance(refused, Armed):
            return refused
        start = int(rv)
        view = self.view()
        stream = Stream(self, kind, scope, post)
        if isinstance(refused, Armed):
            self.schedule.after(0.05, lambda: stream.suffer(refused.name))
        if start > view:
            self.hit("version_too_large")
            if self.rng.random() < 0.5:
                stream.drop()
                return frames.server_error(TOO_LARGE, 504)
            stream.later(0.05, lambda: stream.send(_error(TOO_LARGE)))
            return stream
        if start < self.world.compacted:
            self._expired(stream)
            return stream.refused or stream
        stream.open(start)
        return stream

    def _expired(self, stream: Stream) -> None:
        """History is gone; servers say so in three ways."""
        way = self.rng.randrange(3)
        self.hit(("expired_as_status", "expired_in_stream", "expired_by_close")[way])
        if way == 0:
            stream.refused = frames.server_error(GONE, 410)
            stream.drop()
        elif way == 1:
            stream.later(0.05, lambda: stream.send(_error(GONE)))
        else:
            stream.later(0.05, lambda: stream.end(clean=True))

    def watch_list(self, kind: Kind, scope: str, post: Post) -> Stream | Answer:
        """Open a streamed list."""
        refused = self.refusal(kind, Verb.WATCHLIST)
        if refused is not None and not isinstance(refused, Armed):
            return refused
        stream = Stream(self, kind, scope, post)
        endless = isinstance(refused, Armed) and refused.name == "streamed_list_endless"
        stream.open_list(endless=endless)
        if isinstance(refused, Armed) and not endless:
            self.schedule.after(0.3, lambda: stream.suffer(refused.name))
        return stream


Post = Callable[[Sequence[bytes], StreamEnded | None], None]


class Stream:
    """An open watch. It sends what the store has, a tick at a time, until it is closed."""

    def __init__(self, server: Server, kind: Kind, scope: str, post: Post) -> None:
        self.server = server
        self.kind = kind
        self.scope = scope
        self.era = server.world.era
        self.refused: Answer | None = None
        self.closed = False
        self.mute_until = 0.0
        self.withhold = 0
        self.cut_next = False
        self.garble_next = False
        self.sent: list[Version] = []
        self.initial: list[Version] | None = None
        self._post = post
        self._cursor = 0
        self._endless = False
        self._batch = 0
        self._opened = server.schedule.now
        self._bookmark_at = server.schedule.now + BOOKMARK_S
        server.streams.append(self)

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Do something unless the stream is closed by then."""
        self.server.schedule.after(seconds, lambda: None if self.closed else action())

    def open(self, rv: int) -> None:
        """Send what follows `rv`."""
        self._cursor = self.kind.first_after(rv)
        self._again()

    def open_list(self, *, endless: bool) -> None:
        """Send what lives as ADDED, then what follows, and the mark that ends the list."""
        rv = self.server.view()
        self.initial = list(living(self.kind, rv, self.scope))
        self.server.rng.shuffle(self.initial)
        self._cursor = self.kind.first_after(rv)
        self._endless = endless
        self._again()

    def _again(self) -> None:
        low, high = TICK_S
        self.later(self.server.rng.uniform(low, high), self._tick)

    def _tick(self) -> None:
        if self.era != self.server.world.era:
            return  # the restarted server knows nothing of it; its end comes on its own
        if not self.kind.served:
            self.end(clean=True)
            return
        if self.server.schedule.now >= self.mute_until:
            self._send_due()
        self._again()

    def _send_due(self) -> None:
        lines: list[bytes] = []
        if self.initial is not None:
            shown, self.initial = self.initial[:INITIAL_PER_TICK], self.initial[INITIAL_PER_TICK:]
            lines += [b'{"type":"ADDED","object":%s}\n' % v.body for v in shown]
            if not self.initial and not self._endless:
                lines += self._events()
                lines.append(_bookmark(self.server.view(), ends=True))
                self.initial = None
        else:
            lines += self._events()
            if self.server.schedule.now >= self._bookmark_at:
                self._bookmark_at = self.server.schedule.now + BOOKMARK_S
                lines.append(_bookmark(self.server.view()))
        if lines and self.cut_next and (place := self._cut_at()) is not None:
            self.server.hit("cut_in_batch")
            lines = lines[:place]
            del self.sent[len(self.sent) - self._batch + place :]
            self.mute_until = math.inf  # a stream that went on without the rest would be a server that loses events
            self.later(self.server.rng.uniform(0.0, 2.0), lambda: self.end(clean=False))
        if lines:
            self.send(b"".join(lines))

    def _cut_at(self) -> int | None:
        """How much of a batch comes before the connection stalls and breaks: that between deletes of one version.

        Most batches have no such place, and are left whole as a rule.
        """
        sent = self.sent[-self._batch :] if self._batch else []
        shared = [place for place, (one, other) in enumerate(pairwise(sent), 1) if one.rv == other.rv]
        if shared:
            return shared[0]
        return self.server.rng.randrange(self._batch + 1) if self.server.rng.random() < 0.1 else None

    def _events(self) -> list[bytes]:
        view = self.server.view()
        history = self.kind.history
        lines = []
        before = len(self.sent)
        while self._cursor < len(history) and history[self._cursor].rv <= view:
            version = history[self._cursor]
            self._cursor += 1
            if self.scope not in ("", version.namespace):
                continue
            if self.withhold:
                self.withhold -= 1
                self.server.hit("event_withheld")
                self.server.withheld.add((self.kind.resource, version.uid, str(version.rv)))
                continue
            self.sent.append(version)
            lines.append(version.line)
            if self.garble_next:
                self.garble_next = False
                self.server.hit("frame_garbled")
                lines[-1] = self.server.rng.choice(GARBLED)
        self._batch = len(self.sent) - before
        return lines

    def send(self, data: bytes) -> None:
        """Send bytes, cut anywhere."""
        cut = self.server.rng.randrange(len(data) + 1)
        self._post([data[:cut], data[cut:]], None)

    def end(self, *, clean: bool, partial: bytes = b"") -> None:
        """The connection is over; `partial` is the beginning of a frame that did not come."""
        if self.closed:
            return
        self.closed = True
        self.server.streams.remove(self)
        lasted = self.server.schedule.now - self._opened
        self._post([partial] if partial else [], StreamEnded(lasted, clean, "the simulation ended it"))

    def drop(self) -> None:
        """The client has hung up."""
        if not self.closed:
            self.closed = True
            self.server.streams.remove(self)

    # --- faults -----------------------------------------------------------------------------------------------------

    def suffer(self, name: str) -> bool:
        """Carry out a fault of an open stream; False when it makes no sense now."""
        if self.closed:
            return False
        match name:
            case "watch_ended" | "instant_close":
                self.end(clean=True)
            case "watch_cut" | "streamed_list_cut":
                self.end(clean=False)
            case "frame_cut":
                upcoming = self.kind.history[self._cursor : self._cursor + 1] or self.sent[-1:]
                if not upcoming:
                    return False
                line = upcoming[0].line
                self.end(clean=True, partial=line[: self.server.rng.randrange(1, len(line) - 1)])
            case "frame_garbled":
                self.garble_next = True
            case "frame_twice":
                if not self.sent:
                    return False
                self.send(self.sent[-1].line)
            case "frame_older":
                if len(self.sent) < 5:
                    return False
                self.send(self.sent[-4].line)
            case "error_in_stream":
                self.send(_error({"code": 500, "reason": "InternalError", "message": "etcd"}))
            case "throttled_in_stream":
                self.send(_error({"code": 429, "reason": "TooManyRequests", "details": {"retryAfterSeconds": 1}}))
            case "expired_mid_stream":
                self.send(_error(GONE))
            case "watch_mute":
                self.mute_until = self.server.schedule.now + 6.0
                self.later(5.0, lambda: self.end(clean=False))
            case "cut_in_batch":
                self.cut_next = True
            case "withhold":
                self.withhold = 1
            case _:
                raise KubecdcError(f"no such fault: {name}")
        return True


GARBLED = (
    b'{"type":"MODIFIED","object":{"metadata":{"uid":"x","resourceVersion":"0012"}}}\n',
    b'{"type":"MODIFIED","object":{"met\n',
    b"\xff\xfe\x00\n",
    b'{"type":"CHANGED","object":{}}\n',
    b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}\n',
)


def _error(body: dict[str, Any]) -> bytes:
    return b'{"type":"ERROR","object":%s}\n' % orjson.dumps({"kind": "Status", **body})


def _bookmark(rv: int, *, ends: bool = False) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(rv)}
    if ends:
        metadata["annotations"] = {frames.INITIAL_EVENTS_END: "true"}
    return b'{"type":"BOOKMARK","object":{"metadata":%s}}\n' % orjson.dumps(metadata)
