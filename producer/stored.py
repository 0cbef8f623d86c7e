"""The stored positions of a cluster's streams, as all of its producers have left them.

Of each stream the one that reaches furthest counts, not the last: several producers store in turns, and one that has
not noticed a restore yet stores positions of an epoch that is over. Epochs that have begun are stored beside the
positions, under keys that no such position replaces. One thread reads, others may ask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import Position
from kubecdc.versions import order, well_formed
from producer.signals import Overtaken, Start
from producer.sink import Place

log = logging.getLogger(__name__)

Read = Callable[[Place | None], tuple[Iterable[tuple[str, bytes | None]], Place]]


class StoredPositions:
    """`read` is the `positions` of a `producer.sink.Sink`."""

    def __init__(self, read: Read, codec: Codec) -> None:
        self._read = read
        self._codec = codec
        self._place: Place | None = None
        self._furthest: dict[str, Position] = {}  # by key, so that a position taken back leaves the epoch begun

    def refresh(self) -> None:
        """Take over what has been stored; None takes a position back. Raises Unreachable."""
        records, self._place = self._read(self._place)
        for key, stored in records:
            if stored is None:
                self._furthest.pop(key, None)
                continue
            position, known = self._decoded(key, stored), self._furthest.get(key)
            if position is not None and (known is None or _reach(position) > _reach(known)):
                self._furthest[key] = position

    def of(self, stream: str) -> Position | None:
        """The position of a stream, if there is one; its `rv` is empty while nothing of its epoch is covered."""
        keys = (stream, f"{wire.EPOCH}{stream}")
        return max((self._furthest[key] for key in keys if key in self._furthest), key=_reach, default=None)

    def start(self, stream: str) -> Start:
        """How a session of the stream begins."""
        position = self.of(stream)
        return Start(position.rv or None, position.epoch) if position else Start(None, 1)

    def overtaken(self, stream: str, epoch: int) -> Overtaken | None:
        """What to tell a session that is in `epoch`, when another producer has begun a later one."""
        position = self.of(stream)
        if position is None or position.epoch <= epoch:
            return None
        return Overtaken(position.rv or None, position.epoch)

    def all(self) -> dict[str, Position]:
        """The position of each stream."""
        streams = {key.removeprefix(wire.EPOCH) for key in self._furthest}
        return {stream: position for stream in streams if (position := self.of(stream)) is not None}

    def epochs(self) -> dict[str, int]:
        """The epoch of each stream."""
        return {stream: position.epoch for stream, position in self.all().items()}

    def _decoded(self, key: str, stored: bytes) -> Position | None:
        begun = key.startswith(wire.EPOCH)
        try:
            position = self._codec.decode(stored)
            if isinstance(position, Position) and (position.rv == "" if begun else well_formed(position.rv)):
                return position
            why = "it is no position"
        except Undecodable as error:
            why = str(error)
        log.warning("a stored position of %s does not count: %s", key, why)
        return None


def _reach(position: Position) -> tuple[int, tuple[int, str]]:
    return position.epoch, order(position.rv)
