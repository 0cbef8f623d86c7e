"""What the log held of our objects before this process began: versions by UID, from the workers' state topic.

A producer that resumes knows no version of any object. A list after a restore with raised revisions then looks sound,
and a delete that the server's stream had lost before the restart can never be missed. The state topic is compacted
without lag and bounded by what lives, so it is read once, when the first session asks, and handed out by stream.

What it says may be behind, never ahead: older versions accuse no list of being old, and a delete that is told again is
a duplicate. A version of another epoch says nothing. Safe for use from many threads; it decides nothing.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.errors import KubecdcError, Undecodable
from kubecdc.records import UidState
from producer.published import Versions
from producer.signals import Recalled

log = logging.getLogger(__name__)

Records = Iterable[tuple[bytes, bytes | None]]


@dataclass(frozen=True, slots=True)
class Kept:
    """Versions of a stream's objects by UID: what lives, and deletes that the workers have not forgotten yet."""

    live: Versions
    deleted: Versions


class Past:
    """Objects as the state topic had them when `read` was called, of the streams in `epochs` at those epochs."""

    def __init__(self, read: Callable[[], Records], codec: Codec, epochs: Mapping[str, int]) -> None:
        self._read = read
        self._codec = codec
        self._epochs = dict(epochs)
        self._lock = threading.Lock()
        self._known: dict[str, Kept] | None = None

    def take(self, stream: str) -> Kept:
        """Return what is known of a stream, and forget it. Waits while it is read. Raises KubecdcError."""
        with self._lock:
            if self._known is None:
                self._known = self._gather()
            return self._known.pop(stream, None) or Kept(Versions(), Versions())

    def recall(self, stream: str) -> Recalled:
        """The answer to a session that asks; why it can have none is logged, and counted by the session."""
        try:
            kept = self.take(stream)
            return Recalled(kept.live, self._epochs.get(stream, 0), deleted=kept.deleted)
        except KubecdcError as error:
            log.warning("what the log holds of %s cannot be read: %s", stream, error)
            return Recalled(Versions(), 0, str(error))

    def _gather(self) -> dict[str, Kept]:
        known = {stream: Kept(Versions(), Versions()) for stream in self._epochs}
        buried: dict[str, Kept] = {}  # by UID; there are few, while each record would ask all streams
        for key, value in self._read():
            if not wire.is_object_key(key):
                continue
            uid = key.decode("utf-8", "replace")
            if uid in buried:
                buried.pop(uid).deleted.remove(uid)
            state = self._decoded(key, value)
            stream = wire.stream_of(state) if state is not None else ""
            counts = state is not None and state.epoch == self._epochs.get(stream)
            if state is not None and counts and not state.deleted:
                known[stream].live.put(uid, state.rv)
                continue
            for kept in known.values():
                kept.live.remove(uid)
            if state is not None and counts:
                buried[uid] = known[stream]
                buried[uid].deleted.put(uid, state.rv)
        log.info("read what the log holds of %d objects", sum(len(kept.live) for kept in known.values()))
        return known

    def _decoded(self, key: bytes, value: bytes | None) -> UidState | None:
        if value is None:
            return None
        try:
            record = self._codec.decode(value)
        except Undecodable as error:
            log.warning("state of %r cannot be read and does not count: %s", key, error)
            return None
        return record if isinstance(record, UidState) else None


def unknown() -> Recalled:
    """The answer of whoever knows nothing."""
    return Recalled(Versions(), 0)
