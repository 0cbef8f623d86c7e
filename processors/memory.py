"""The objects that a partition knows: by resource and UID, who holds which name, and the dead that wait for the floor.

Pure. It keeps, finds and forgets; what a state should be is decided elsewhere. What was stored is kept sealed, as it
was read, until somebody asks for it: to decode everything was two thirds of a recovery, and a worker needs little of it
at first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubecdc import wire
from kubecdc.records import UidHead, UidState

ResourceKey = tuple[str, str, str]  # cluster, group, resource
Sealed = Callable[[], UidState]  # decodes it


class Living:
    """The objects of one resource."""

    __slots__ = ("_states", "names")

    def __init__(self) -> None:
        self._states: dict[str, UidState | Sealed] = {}
        self.names: dict[tuple[str, str], str] = {}

    def __len__(self) -> int:
        return len(self._states)

    def get(self, uid: str) -> UidState | None:
        """The state of a UID. Raises what unsealing it raises."""
        state = self._states.get(uid)
        if state is None or isinstance(state, UidState):
            return state
        unsealed = self._states[uid] = state()
        return unsealed

    def states(self) -> list[UidState]:
        """All of them. Raises as `get`."""
        return [state for uid in list(self._states) if (state := self.get(uid)) is not None]

    def keep(self, uid: str, state: UidState | Sealed) -> None:
        """Take a state as the latest."""
        self._states[uid] = state

    def drop(self, uid: str) -> None:
        """Forget a UID."""
        self._states.pop(uid, None)

    def holder(self, namespace: str, name: str, other_than: str) -> UidState | None:
        """The live object that holds a name, unless it is the UID `other_than`."""
        uid = self.names.get((namespace, name))
        return self.get(uid) if uid is not None and uid != other_than else None


class Memory:
    """Objects of all resources of a partition."""

    def __init__(self) -> None:
        self._resources: dict[ResourceKey, Living] = {}
        self._dead: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return sum(len(living) for living in self._resources.values())

    def of(self, resource: ResourceKey) -> Living:
        """The objects of a resource; what is changed in it is remembered."""
        living = self._resources.get(resource)
        if living is None:
            living = self._resources[resource] = Living()
        return living

    def put(self, state: UidState) -> None:
        """Take a state as the latest of its UID."""
        self._place(state).keep(state.uid, state)

    def seal(self, head: UidHead, sealed: Sealed) -> None:
        """Take a state as the latest of its UID that is decoded when somebody asks for it."""
        self._place(head).keep(head.uid, sealed)

    def _place(self, state: UidState | UidHead) -> Living:
        """Note who holds the name and who is dead, and return where the state belongs."""
        living = self.of((state.cluster, state.group, state.resource))
        name = (state.namespace, state.name)
        if not state.deleted:
            living.names[name] = state.uid
            return living
        if living.names.get(name) == state.uid:
            del living.names[name]
        self._dead.setdefault(wire.stream_of(state), set()).add(state.uid)
        return living

    def dead(self, stream: str, resource: ResourceKey) -> Iterator[UidState]:
        """The deleted UIDs whose delete a stream has shown, in order; those that live again drop out here."""
        waiting = self._dead.get(stream)
        if not waiting:
            return
        living = self.of(resource)
        for uid in sorted(waiting):
            state = living.get(uid)
            if state is None or not state.deleted:
                waiting.discard(uid)
            else:
                yield state

    def forget(self, stream: str, state: UidState) -> None:
        """Drop a deleted UID."""
        self.of((state.cluster, state.group, state.resource)).drop(state.uid)
        self._dead.get(stream, set()).discard(state.uid)
