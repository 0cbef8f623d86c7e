"""The requests of one session: each in a thread of its own, its answers in the session's mailbox.

It asks and reads, and decides nothing. Every answer carries the number of its request, so that the session's thread can
tell what belongs to a request that was cancelled since.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from producer import frames
from producer.cluster import Cluster, Stream, StreamBroken
from producer.mailbox import Mailbox
from producer.past import unknown
from producer.selection import ResourceInfo
from producer.signals import AuditAnswer, Input, Lane, Recalled, Request, StreamEnded, StreamOpened, Unreachable, Verb

PAGE_COST = 1  # pages are asked for one by one, so they need no bound of their own


@dataclass(frozen=True, slots=True)
class Target:
    """What a session asks for."""

    kind: ResourceInfo
    namespace: str
    page_size: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """Inputs in order, from request `number` of `lane`; lane None for orders of the service."""

    lane: Lane | None
    number: int
    inputs: tuple[Input, ...]


class LaneRunner:
    """Runs the requests of one lane, one at a time. `ask` and `cancel` belong to the session's thread."""

    def __init__(
        self, lane: Lane, cluster: Cluster, mailbox: Mailbox[Delivery], recall: Callable[[], Recalled] = unknown
    ) -> None:
        self._lane = lane
        self._cluster = cluster
        self._mailbox = mailbox
        self._recall = recall
        self._lock = threading.Lock()
        self._stream: Stream | None = None
        self.number = 0

    def ask(self, request: Request, target: Target) -> None:
        """Begin a request in a new thread; whatever was under way is cancelled."""
        self.cancel()
        name = f"{target.kind.name} {request.verb}"
        threading.Thread(target=self._run, args=(self.number, request, target), name=name, daemon=True).start()

    def cancel(self) -> None:
        """Make what is under way obsolete, and end its stream."""
        with self._lock:
            self.number += 1
            stream, self._stream = self._stream, None
        if stream is not None:
            stream.interrupt()

    def _run(self, number: int, request: Request, target: Target) -> None:
        try:
            if request.verb is Verb.RECALL:
                known = self._recall()
                self._post(number, AuditAnswer(known) if self._lane is Lane.AUDIT else known)
                return
            if request.verb is Verb.LIST:
                answer = self._cluster.list_page(target.kind, target.namespace, target.page_size, request.token)
                self._post(number, AuditAnswer(answer) if self._lane is Lane.AUDIT else answer)
                return
            opened = (
                self._cluster.watch(target.kind, target.namespace, request.rv)
                if request.verb is Verb.WATCH
                else self._cluster.watch_list(target.kind, target.namespace)
            )
            if isinstance(opened, Stream):
                self._follow(number, opened)
            else:
                self._post(number, opened)
        except Exception as error:  # noqa: BLE001 - a lane that dies in silence would leave a kind unwatched
            self._post(number, Unreachable(f"{type(error).__name__} in the producer"))

    def _post(self, number: int, *inputs: Input, cost: int = 0) -> None:
        self._mailbox.post(Delivery(self._lane, number, inputs), cost)

    def _follow(self, number: int, stream: Stream) -> None:
        with self._lock:
            if number != self.number:
                stream.close()
                return
            self._stream = stream
        opened_at = time.monotonic()
        self._post(number, StreamOpened())
        clean, why = True, "the server ended it"
        try:
            self._read(number, stream)
        except StreamBroken as error:
            clean, why = False, str(error)
        finally:
            stream.close()
        self._post(number, StreamEnded(time.monotonic() - opened_at, clean, why))

    def _read(self, number: int, stream: Stream) -> None:
        """Post frames until the end; bytes after the last line end belong to the lost connection."""
        splitter = frames.Splitter()
        while number == self.number:
            chunk = stream.read()
            if not chunk:
                return
            try:
                lines = splitter.feed(chunk)
            except frames.LineTooLong as error:
                self._post(number, frames.Broken(str(error)))
                return
            if lines:
                found = tuple(frames.classify(line) for line in lines)
                self._post(number, *found, cost=sum(map(len, lines)))
