"""Deletes that nobody showed: of what a complete list lacks, and of what has lost its name to another.

Pure: they are written to the batch, with bounds and cause (G2, G5). Whether a list is complete is decided in
`processors.streams`.
"""

from __future__ import annotations

from kubecdc.records import Cause, EventType, Gap, StreamState, UidState
from kubecdc.versions import newer, not_newer, order
from processors import changes, streams
from processors.changes import At
from processors.memory import Living
from processors.pending import Pending


def infer(pending: Pending, state: UidState, at: At, gap: Gap, bound: tuple[int, str]) -> None:
    """Write that an object was deleted between its version and `bound`, an epoch and a version in it."""
    pending.change(changes.inferred_delete(at, state, *bound, gap), changes.dead_state(at, state, *bound))
    pending.counters["deleted"] += 1
    pending.counters["inferred_deletes"] += 1


def sweep(pending: Pending, swept: streams.Sweep, at: At) -> None:
    """Delete what lives, is not newer than the complete list and was not in it."""
    event = at.event
    known = pending.memory.of((event.cluster, event.group, event.resource))
    gone = [
        state
        for state in known.states()
        if not state.deleted
        and event.scope in ("", state.namespace)
        and swept.relist not in state.listed
        and (state.epoch < swept.epoch or not_newer(state.rv, swept.list_rv))
    ]
    for state in gone:
        gap = Gap(swept.cause, None, "missing from a complete list")
        infer(pending, state, at, gap, (swept.epoch, swept.list_rv))


def make_room(pending: Pending, living: Living, at: At) -> None:
    """A name is taken by a new UID: the old one's delete comes first (kubernetes.md 3.15)."""
    event = at.event
    state = living.holder(event.namespace, event.name, event.uid or "") if event.name else None
    if state is None or state.deleted or event.type is EventType.DELETED:
        return
    relist = event.relist
    bound = relist.list_rv if relist and relist.list_rv else event.rv
    if bound is None or event.rv is None:
        return
    if (event.epoch, order(event.rv)) > (state.epoch, order(state.rv)):
        cause = Cause.RELIST_WINDOW if relist else Cause.TRANSPORT_LOSS
        infer(pending, state, at, Gap(cause, None, "its name was taken"), (event.epoch, bound))


def bury(pending: Pending, name: str, stream: StreamState) -> None:
    """Forget the deleted UIDs that the floor has passed: below it an unknown UID is a deleted one.

    Not before a list was complete: until then what a list shows of an unknown UID is taken as its first state.
    """
    if stream.floor is None or not stream.complete:
        return
    for state in pending.memory.dead(name, (stream.cluster, stream.group, stream.resource)):
        if state.epoch < stream.epoch or not newer(state.rv, stream.floor):
            pending.forget(name, state)
