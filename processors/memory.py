"""The objects that a partition knows: by resource and UID, who holds which name, and the dead that wait for the floor.

Pure. It keeps, finds and forgets; what a state should be is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubecdc import wire
from kubecdc.records import UidState

ResourceKey = tuple[str, str, str]  # cluster, group, resource


class Living:
    """The objects of one resource."""

    __slots__ = ("names", "uids")

    def __init__(self) -> None:
        self.uids: dict[str, UidState] = {}
        self.names: dict[tuple[str, str], str] = {}

    def holder(self, namespace: str, name: str, other_than: str) -> UidState | None:
        """The live object that holds a name, unless it is the UID `other_than`."""
        uid = self.names.get((namespace, name))
        return self.uids.get(uid) if uid is not None and uid != other_than else None


class Memory:
    """Objects of all resources of a partition."""

    def __init__(self) -> None:
        self._resources: dict[ResourceKey, Living] = {}
        self._dead: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return sum(len(living.uids) for living in self._resources.values())

    def of(self, resource: ResourceKey) -> Living:
        """The objects of a resource; what is changed in it is remembered."""
        living = self._resources.get(resource)
        if living is None:
            living = self._resources[resource] = Living()
        return living

    def put(self, state: UidState) -> None:
        """Take a state as the latest of its UID."""
        living = self.of((state.cluster, state.group, state.resource))
        living.uids[state.uid] = state
        name = (state.namespace, state.name)
        if not state.deleted:
            living.names[name] = state.uid
            return
        if living.names.get(name) == state.uid:
            del living.names[name]
        self._dead.setdefault(wire.stream_of(state), set()).add(state.uid)

    def dead(self, stream: str, resource: ResourceKey) -> Iterator[UidState]:
        """The deleted UIDs whose delete a stream has shown, in order; those that live again drop out here."""
        waiting = self._dead.get(stream)
        if not waiting:
            return
        uids = self.of(resource).uids
        for uid in sorted(waiting):
            state = uids.get(uid)
            if state is None or not state.deleted:
                waiting.discard(uid)
            else:
                yield state

    def forget(self, stream: str, state: UidState) -> None:
        """Drop a deleted UID."""
        self.of((state.cluster, state.group, state.resource)).uids.pop(state.uid, None)
        self._dead.get(stream, set()).discard(state.uid)
