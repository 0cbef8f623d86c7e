"""What the open batch will write: changes in order, the last state of each key, and counters; and the memory behind it.

Pure, and changed in place. It writes what it is told; what a record or a marker means is decided elsewhere.
"""

from __future__ import annotations

from collections import Counter

from kubecdc.records import Change, Progress, StreamState, UidState
from processors.memory import Memory

StateRecord = UidState | StreamState | Progress
Said = tuple[bytes, Change | None]  # None is a tombstone
Kept = tuple[bytes, StateRecord | None]


class Pending:
    """`written` counts the changes of objects, over all batches."""

    __slots__ = ("_changes", "_state", "counters", "memory", "written")

    def __init__(self) -> None:
        self.memory = Memory()
        self.counters: Counter[str] = Counter()
        self.written = 0
        self._changes: list[Said] = []
        self._state: dict[bytes, StateRecord | None] = {}

    def say(self, key: bytes, change: Change) -> None:
        """Write a record that is about no single object."""
        self._changes.append((key, change))

    def change(self, change: Change, state: UidState) -> None:
        """Write an object's change and the state after it; a tombstone follows a delete."""
        key = state.uid.encode()
        self._changes.append((key, change))
        if state.deleted:
            self._changes.append((key, None))
        self.written += 1
        self.memory.put(state)
        self._state[key] = state

    def keep(self, state: UidState) -> None:
        """Write what is known of an object, of which the log says nothing new."""
        self.memory.put(state)
        self._state[state.uid.encode()] = state

    def forget(self, stream: str, state: UidState) -> None:
        """Write that nothing is known of an object any more."""
        self.memory.forget(stream, state)
        self._state[state.uid.encode()] = None

    def take(self) -> list[Said]:
        """The changes since the last call."""
        taken, self._changes = self._changes, []
        return taken

    def drain(self) -> tuple[list[Said], dict[bytes, StateRecord | None], dict[str, int]]:
        """Changes, state and counters since the last call."""
        drained = self._changes, self._state, dict(self.counters)
        self._changes, self._state, self.counters = [], {}, Counter()
        return drained
