"""The versioned keyspace under the simulated API server: one revision counter, like etcd.

Decides: revisions, what a reader finds at a revision, what compaction and restore take away, and
the committed history as ground truth. Deliberately does not know what the objects mean, nor
threads: the caller holds the lock.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Literal

from local.sim_kinds import Json

Storage = tuple[str, str]
Change = Literal["ADDED", "MODIFIED", "DELETED"]


@dataclass(frozen=True, slots=True)
class Event:
    """One key's change.

    `object` carries the event's revision as its resourceVersion; of a DELETED it is the last
    stored object stamped so. `before` is what was stored until then.
    """

    revision: int
    type: Change
    key: str
    object: Json
    before: Json | None


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed change, as ground truth for checkers. `epoch` counts restores from 1."""

    revision: int
    kind: Literal["PUT", "DELETE"]
    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that a backup of the keyspace holds; opaque to callers."""

    revision: int
    compacted: int
    state: dict[Storage, dict[str, Json]]
    events: dict[Storage, list[Event]]
    dropped: dict[Storage, int]


@dataclass(slots=True)
class RevisionLog:
    """The keyspace. `compacted` is the lowest revision that can still be read from."""

    revision: int = 1
    compacted: int = 0
    epoch: int = 1
    commits: list[Commit] = field(default_factory=list)
    _state: dict[Storage, dict[str, Json]] = field(default_factory=dict)
    _events: dict[Storage, list[Event]] = field(default_factory=dict)
    _dropped: dict[Storage, int] = field(default_factory=dict)
    _paged: tuple[tuple[int, Storage, int], list[tuple[str, Json]]] | None = None  # what the pages of one list share

    def get(self, storage: Storage, key: str) -> Json | None:
        """Return the stored object, or None."""
        return self._state.get(storage, {}).get(key)

    def current(self, storage: Storage) -> dict[str, Json]:
        """Return the live objects by key, in no order. Not to be changed."""
        return self._state.get(storage, {})

    def at(self, storage: Storage, revision: int) -> list[tuple[str, Json]]:
        """Return (key, object) pairs as of a revision in [compacted, revision], in etcd's order. Not to be changed."""
        wanted = (self.epoch, storage, revision)
        if self._paged is None or self._paged[0] != wanted:
            self._paged = (wanted, self._at(storage, revision))
        return self._paged[1]

    def _at(self, storage: Storage, revision: int) -> list[tuple[str, Json]]:
        found = self.current(storage)
        later = self.after(storage, revision)
        if later:
            found = dict(found)
            for event in reversed(later):
                if event.before is None:
                    found.pop(event.key, None)
                else:
                    found[event.key] = event.before
        return sorted(found.items())

    def after(self, storage: Storage, revision: int) -> list[Event]:
        """Return the events of a revision greater than the given one, in order."""
        events = self._events.get(storage, [])
        return events[bisect_right(events, revision, key=lambda event: event.revision) :]

    def lost(self, storage: Storage, revision: int) -> bool:
        """Say whether compaction took an event of a revision greater than the given one."""
        return revision < self._dropped.get(storage, 0)

    def put(self, storage: Storage, key: str, obj: Json) -> Json:
        """Store an object at the next revision and return it with that version."""
        before = self.get(storage, key)
        self.revision += 1
        stored = _stamped(obj, self.revision)
        self._state.setdefault(storage, {})[key] = stored
        self._record(storage, Event(self.revision, _kind_of_put(before), key, stored, before))
        return stored

    def remove(self, storage: Storage, keys: list[str]) -> int:
        """Remove keys at one common revision and return it; every key must exist."""
        self.revision += 1
        for key in sorted(keys):
            before = self._state[storage].pop(key)
            event = Event(self.revision, "DELETED", key, _stamped(before, self.revision), before)
            self._record(storage, event)
        return self.revision

    def compact(self, revision: int) -> None:
        """Forget how anything came to be at or before a revision. Raises ValueError off range."""
        if not self.compacted <= revision <= self.revision:
            raise ValueError(
                f"cannot compact at {revision}: give a revision between {self.compacted} (already "
                f"compacted) and {self.revision} (the current one)"
            )
        self.compacted = revision
        for storage, events in self._events.items():
            if events and events[0].revision <= revision:
                kept = self.after(storage, revision)
                self._dropped[storage] = events[len(events) - len(kept) - 1].revision
        self._events = {storage: self.after(storage, revision) for storage in self._events}

    def snapshot(self) -> Snapshot:
        """Return a backup; later changes do not reach it."""
        return Snapshot(
            self.revision,
            self.compacted,
            {storage: dict(objects) for storage, objects in self._state.items()},
            {storage: list(events) for storage, events in self._events.items()},
            dict(self._dropped),
        )

    def restore(self, backup: Snapshot, bump: int | None) -> None:
        """Go back to a backup, as `etcdutl snapshot restore` does.

        Without a bump the counter falls back and revisions are given out again. With one, it
        continues at the backup's revision + `bump`, marked as compacted, and objects keep their
        old versions. The epoch rises by one in both cases.
        """
        self._state = {storage: dict(objects) for storage, objects in backup.state.items()}
        self._dropped = dict(backup.dropped)
        self.epoch += 1
        if bump is None:
            self.revision, self.compacted = backup.revision, backup.compacted
            self._events = {storage: list(events) for storage, events in backup.events.items()}
        else:
            self.revision = self.compacted = backup.revision + bump
            self._events = {}
            self._dropped |= {storage: events[-1].revision for storage, events in backup.events.items() if events}

    def _record(self, storage: Storage, event: Event) -> None:
        self._events.setdefault(storage, []).append(event)
        meta = event.object["metadata"]
        self.commits.append(
            Commit(
                event.revision,
                "DELETE" if event.type == "DELETED" else "PUT",
                *storage,
                meta.get("namespace", ""),
                meta["name"],
                meta["uid"],
                self.epoch,
            )
        )


def _kind_of_put(before: Json | None) -> Change:
    return "ADDED" if before is None else "MODIFIED"


def _stamped(obj: Json, revision: int) -> Json:
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": str(revision)}}
