"""Planted bugs: each changes one decision of production code, for as long as it is installed.

They show that the checkers see what they must. Each is a context manager that patches one function or constant, the
way a wrong edit would, and names the rule that it breaks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from kubecdc.records import Cause, EventType, Op
from kubecdc.wire import PROGRESS_KEY
from processors import deletes, rules, streams
from processors.partition import Batch, Partition
from processors.rules import Verdict
from producer import listing, positions, published, session, state, watching
from producer.signals import Checkpoint, Mark
from tests.simulation.plan import plan

Patch = tuple[object, str, Any]


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Install a bug by name, and take it out again."""
    found = MUTATIONS[name]()
    kept = [(owner, attribute, vars(owner)[attribute]) for owner, attribute, _ in found]
    for owner, attribute, value in found:
        setattr(owner, attribute, value)
    try:
        yield
    finally:
        for owner, attribute, value in kept:
            setattr(owner, attribute, value)


# --- the processor's rules for one event ----------------------------------------------------------------------------


def equal_version_is_emitted() -> list[Patch]:
    """A duplicate is taken for a new version."""
    right = rules.decide

    def decide(known: Any, event: Any, stream: Any, beside: str | None = None) -> Any:
        outcome = right(known, event, stream, beside)
        duplicate = outcome.verdict is Verdict.DUPLICATE and known is not None and not known.deleted
        return rules.Outcome(Verdict.EMITTED, Op.UPDATED) if duplicate else outcome

    return [(rules, "decide", decide)]


def older_version_is_emitted() -> list[Patch]:
    """A late delivery overwrites what is newer."""
    right = rules.decide

    def decide(known: Any, event: Any, stream: Any, beside: str | None = None) -> Any:
        outcome = right(known, event, stream, beside)
        late = outcome.verdict is Verdict.STALE and known is not None and known.epoch == event.epoch
        return rules.Outcome(Verdict.EMITTED, Op.UPDATED) if late else outcome

    return [(rules, "decide", decide)]


def dead_uid_is_resurrected_by_a_duplicate() -> list[Patch]:
    """A repeated ADDED or MODIFIED of an object that is known to be deleted revives it."""
    right = rules.decide

    def decide(known: Any, event: Any, stream: Any, beside: str | None = None) -> Any:
        outcome = right(known, event, stream, beside)
        back = known is not None and known.deleted and event.type in (EventType.ADDED, EventType.MODIFIED)
        return rules.Outcome(Verdict.EMITTED, Op.CREATED) if back else outcome

    return [(rules, "decide", decide)]


def unknown_below_the_floor_is_created() -> list[Patch]:
    """The floor is not asked whether an unknown UID is a deleted one."""
    right = rules.decide
    return [(rules, "decide", lambda known, event, stream, _: right(known, event, replace(stream, floor=None)))]


def list_item_is_not_labelled() -> list[Patch]:
    """What a list shows newer than known is UPDATED like any event."""
    right = rules.decide

    def decide(known: Any, event: Any, stream: Any, beside: str | None = None) -> Any:
        outcome = right(known, event, stream, beside)
        return replace(outcome, gap=None) if outcome.gap and outcome.gap.cause is Cause.RELIST_WINDOW else outcome

    return [(rules, "decide", decide)]


def streamed_list_is_evidence() -> list[Patch]:
    """A list that has not told its version brings the dead back (this was so; the simulation found it)."""

    def evidence(event: Any, than: str | None) -> bool:
        list_rv = event.relist.list_rv if event.relist else None
        return list_rv is None or than is None or rules.not_newer(than, list_rv)

    return [(rules, "_evidence", evidence)]


# --- the processor's coverage ---------------------------------------------------------------------------------------


def sweep_ignores_list_rv() -> list[Patch]:
    """A complete list deletes also what is newer than it."""
    return [(deletes, "not_newer", lambda one, other: True)]


def _longer(rv: str) -> str:
    """Above every version of the run, and still well formed."""
    return rv + "0"


def sweep_does_not_sweep() -> list[Patch]:
    """A complete list deletes nothing."""
    return [(deletes, "sweep", lambda pending, swept, at: None)]


def wrong_count_sweeps_all_the_same() -> list[Patch]:
    """RELIST_END is believed whatever it expects."""
    right = streams._relist_end

    def relist_end(stream: Any, event: Any, hole: Any) -> Any:
        running = next((r for r in stream.relists if event.relist and r.id == event.relist.id), None)
        seen = running.seen if running else 0
        return right(stream, replace(event, relist=replace(event.relist, expected=seen)), hole)

    return [(streams, "_MARKERS", {**streams._MARKERS, EventType.RELIST_END: relist_end})]


def floor_is_raised_despite_a_hole() -> list[Patch]:
    """Missing records of a session are not noticed."""
    right = streams.enter

    def enter(stream: Any, event: Any) -> Any:
        session, missing = right(stream, event)
        start = session.start_rv or stream.floor
        return (replace(session, holed=False, start_rv=start) if session.holed else session), max(missing, -1)

    return [(streams, "enter", enter)]


def hole_ends_at_the_next_progress() -> list[Patch]:
    """A delete that was lost above the next PROGRESS is claimed (this was so; the simulation found it)."""
    return [(streams, "_mended", lambda session, event, rv: replace(session, start_rv=rv, holed=False))]


def repeated_delivery_is_not_noticed() -> list[Patch]:
    """A batch that Kafka has twice is numbered once."""
    right = streams.enter

    def enter(stream: Any, event: Any) -> Any:
        session, missing = right(stream, event)
        return session, max(missing, 0)

    return [(streams, "enter", enter)]


def epoch_is_not_begun() -> list[Patch]:
    """A later epoch goes on with the floor of the one before."""

    def new_epoch(stream: Any, event: Any) -> Any:
        return replace(stream, epoch=event.epoch) if event.epoch > stream.epoch else stream

    return [(streams, "new_epoch", new_epoch)]


# --- exactly once ---------------------------------------------------------------------------------------------------


def progress_is_not_written_with_the_batch() -> list[Patch]:
    """Every other transaction leaves `__progress__` as it was."""
    right = Partition.drain
    count = [0]

    def drain(self: Any) -> Batch:
        batch = right(self)
        count[0] += 1
        return (
            batch if count[0] % 2 else replace(batch, state=[pair for pair in batch.state if pair[0] != PROGRESS_KEY])
        )

    return [(Partition, "drain", drain)]


def repeated_offset_is_applied() -> list[Patch]:
    """A delivery below what is done is applied again."""
    right = Partition.apply

    def apply(self: Any, offset: int, *record: Any, **more: Any) -> None:
        reached = self._src_offset
        self._src_offset = min(reached, offset - 1)
        right(self, offset, *record, **more)
        self._src_offset = max(reached, self._src_offset)

    return [(Partition, "apply", apply)]


def dead_are_forgotten_at_once() -> list[Patch]:
    """The state of a deleted UID goes before the floor has passed its delete."""
    right = deletes.bury

    def bury(pending: Any, name: str, stream: Any) -> None:
        right(pending, name, replace(stream, floor=_longer(stream.floor)) if stream.floor else stream)

    return [(deletes, "bury", bury)]


# --- the producer ---------------------------------------------------------------------------------------------------


def position_advances_past_a_deleted() -> list[Patch]:
    """A DELETED is safe at once, though more may share its version."""

    def read(self: Any, kind: EventType, rv: str) -> Any:
        del kind
        known = rv if self.known is None or state.newer(rv, self.known) else self.known
        return state.Versions(rv, rv, known, None, self.told)

    return [(state.Versions, "read", read)]


def position_is_stored_before_the_acknowledgement() -> list[Patch]:
    """A position may be stored when its records are sent."""
    return [(positions.Tracker, "checkpoint", lambda self, position: position)]


def broken_frame_is_skipped() -> list[Patch]:
    """What cannot be read is left out, and the stream goes on."""
    skip = session.Row(state.Phase.LIVE, watching.frames.Broken, session._ignore, (state.Phase.LIVE,))
    return [(session, "TABLE", {**session.TABLE, (skip.phase, skip.signal): skip})]


def list_goes_on_after_other_pages() -> list[Patch]:
    """Pages of different versions are put together."""
    right = listing._next_page

    def next_page(session: Any, answer: Any) -> Any:
        relist = session.relist
        return right(session, replace(answer, rv=relist.list_rv) if relist else answer)

    return [(listing, "_next_page", next_page)]


def watch_begins_at_the_last_version_seen() -> list[Patch]:
    """A watch is resumed from what was read last, safe or not, and nothing tells the gap."""
    right = state.ask_watch

    def ask_watch(session: Any) -> Any:
        seen = session.versions.seen
        return right(replace(session, versions=replace(session.versions, safe=seen)))

    return [(module, "ask_watch", ask_watch) for module in (state, listing, watching)]


def expired_watch_resumes_without_a_list() -> list[Patch]:
    """After 410 the session watches from the newest bookmark that it can get, and says it is at its safe version."""
    right = listing.complete

    def complete(session: Any) -> Any:
        after, outputs = right(session)
        kept = [
            Mark(EventType.PROGRESS, out.epoch, out.rv)
            if isinstance(out, Mark) and session.reason == "expired"
            else out
            for out in outputs
        ]
        return after, kept

    return [(module, "complete", complete) for module in (listing, watching)]


def audit_finds_nothing() -> list[Patch]:
    """Drift between the server's list and what was published is not seen."""

    def judge(self: Any, shown: Any, safe_rv: str) -> Any:
        return None if state.newer(self.list_rv, safe_rv) else published.Drift()

    return [(published.AuditRun, "judge", judge)]


def progress_is_told_at_the_version_seen() -> list[Patch]:
    """PROGRESS names the last version read instead of the safe one."""
    right = state.tell

    def tell(told_by: Any) -> Any:
        after, outputs = right(told_by)
        seen = told_by.versions.seen
        told = [replace(out, rv=seen) if isinstance(out, (Mark, Checkpoint)) and seen else out for out in outputs]
        return after, told

    return [(module, "tell", tell) for module in (state, watching, session)]


LOST = ("record_lost", "item_lost", "delete_lost", "marker_lost", "record_corrupted")
# Which faults bring a bug to light: seeds that have most of them are tried first.
SHOWN_BY: Mapping[str, tuple[str, ...]] = {
    "streamed_list_is_evidence": (),
    "wrong_count_sweeps_all_the_same": ("item_lost", "expired_mid_stream", "frame_garbled", "history_compacted"),
    "floor_is_raised_despite_a_hole": LOST,
    "hole_ends_at_the_next_progress": ("delete_lost", "marker_lost"),
    "repeated_delivery_is_not_noticed": ("items_twice",),
    "epoch_is_not_begun": ("restored", "restored_bumped"),
    "position_advances_past_a_deleted": ("cut_in_batch",),
    "position_is_stored_before_the_acknowledgement": ("producer_killed", "broker_away"),
    "broken_frame_is_skipped": ("frame_garbled",),
    "list_goes_on_after_other_pages": ("pages_mixed",),
    "watch_begins_at_the_last_version_seen": ("cut_in_batch", "watch_cut"),
    "expired_watch_resumes_without_a_list": ("expired_mid_stream",),
    "audit_finds_nothing": ("withhold",),
    "progress_is_told_at_the_version_seen": ("producer_killed", "cut_in_batch"),
}


def likely(name: str, seeds: int) -> list[int]:
    """Seeds in the order in which they are likely to show a bug; two producers and streamed lists come first."""
    kinds = SHOWN_BY.get(name, ())

    def rank(seed: int) -> tuple[int, int, int]:
        of = plan(seed)
        return -sum(step.kind in kinds for step in of.steps), -(of.producers + 2 * of.watchlist), seed

    return sorted(range(seeds), key=rank)


MUTATIONS: Mapping[str, Callable[[], list[Patch]]] = {
    function.__name__: function
    for function in (
        equal_version_is_emitted,
        older_version_is_emitted,
        dead_uid_is_resurrected_by_a_duplicate,
        unknown_below_the_floor_is_created,
        list_item_is_not_labelled,
        streamed_list_is_evidence,
        sweep_ignores_list_rv,
        sweep_does_not_sweep,
        wrong_count_sweeps_all_the_same,
        floor_is_raised_despite_a_hole,
        hole_ends_at_the_next_progress,
        repeated_delivery_is_not_noticed,
        epoch_is_not_begun,
        progress_is_not_written_with_the_batch,
        repeated_offset_is_applied,
        dead_are_forgotten_at_once,
        position_advances_past_a_deleted,
        position_is_stored_before_the_acknowledgement,
        broken_frame_is_skipped,
        list_goes_on_after_other_pages,
        watch_begins_at_the_last_version_seen,
        expired_watch_resumes_without_a_list,
        audit_finds_nothing,
        progress_is_told_at_the_version_seen,
    )
}
