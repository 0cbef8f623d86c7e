"""One partition of the events topic folded into canonical changes and state: every decision of a worker.

It decides nothing by itself that depends on I/O: time and offsets come in as values, what is to be written goes out
with `drain`. The memory is changed in place and belongs to one transaction at a time: whoever drives it either commits
a drained batch or throws the whole object away and loads the state topic again (kafka.md 6.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import orjson

from kubecdc import wire
from kubecdc.errors import Undecodable
from kubecdc.records import (
    COMPACTED_AWAY,
    OBJECT_TYPES,
    Cause,
    EventType,
    Gap,
    Op,
    Progress,
    RawEvent,
    SessionState,
    StreamState,
    UidHead,
    UidState,
)
from kubecdc.topics import HISTORY_MS
from kubecdc.versions import well_formed
from processors import changes, deletes, rules, streams
from processors.changes import At, make_at
from processors.memory import ResourceKey, Sealed
from processors.pending import Kept, Pending, Said, StateRecord
from processors.rules import Outcome, Verdict

NONE_RUNNING: frozenset[str] = frozenset()
OP_COUNTERS = {op: op.lower() for op in Op}


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes: changes in order (None is a tombstone), state by key, and counters to add."""

    changes: list[Said]
    state: list[Kept]
    counters: dict[str, int]


class Partition:
    """Memory of one partition. `noise` is "emit" or "drop"; `history_ms` the events topic's compaction lag."""

    def __init__(self, partition: int, *, noise: str = "emit", history_ms: int = HISTORY_MS) -> None:
        self._partition = partition
        self._drop_noise = noise == "drop"
        self._history_ms = history_ms
        self._src_offset = -1
        self._truncated = False
        self._streams: dict[str, StreamState] = {}
        self._scopes: dict[ResourceKey, set[str]] = {}  # names of the streams of a resource
        self._touched: set[str] = set()
        self._pending = Pending()

    @property
    def next_offset(self) -> int:
        """First source offset whose effects are not in memory."""
        return self._src_offset + 1

    @property
    def uids(self) -> int:
        """How many UIDs are remembered."""
        return len(self._pending.memory)

    def load(self, key: bytes, record: StateRecord) -> None:
        """Take a record of the state topic; of each key the latest must come last."""
        if isinstance(record, Progress):
            self._src_offset = record.src_offset
        elif isinstance(record, StreamState):
            self._follow(wire.stream_of(record), record)
        elif isinstance(record, UidState):
            self._pending.memory.put(record)
        else:
            raise Undecodable(f"state key {key!r} holds a {type(record).__name__}")

    def seal(self, head: UidHead, sealed: Sealed) -> None:
        """Take a UID's record of the state topic, to be decoded by `sealed` when it is needed, in `apply`."""
        self._pending.memory.seal(head, sealed)

    def _follow(self, name: str, stream: StreamState) -> StreamState:
        self._streams[name] = stream
        self._scopes.setdefault((stream.cluster, stream.group, stream.resource), set()).add(name)
        return stream

    def truncated(self, low_watermark: int) -> None:
        """Tell that source offsets below `low_watermark` are gone: holes met from now on are COMPACTED."""
        if low_watermark > self.next_offset:
            self._truncated = True
            self._src_offset = low_watermark - 1

    def apply(self, offset: int, event: RawEvent | Undecodable | None, timestamp_ms: int, now_ms: int) -> None:
        """Account for one record of the events topic; a repeated offset is ignored.

        A tombstone is None, or tells the DELETED before it once more: in case that was compacted away unread.
        """
        if offset <= self._src_offset:
            return
        self._src_offset = offset
        if event is None:
            self._pending.counters["tombstone"] += 1
            return
        fault = event if isinstance(event, Undecodable) else _fault(event)
        if isinstance(event, Undecodable) or fault is not None:
            self._undecodable(offset, str(fault), now_ms)
            return
        name = wire.stream_of(event)
        stream = self._streams.get(name) or self._follow(name, streams.opened(event))
        if event.epoch > stream.epoch and event.type is not EventType.RELIST_START:  # which closes the epoch before it
            stream = streams.new_epoch(stream, event)
        session, missing = streams.enter(stream, event)
        if missing < 0:
            omitted = event.object_omitted
            told = omitted is not None and omitted.reason == COMPACTED_AWAY
            self._pending.counters["tombstone" if told else "repeated"] += 1
            return
        if missing:
            self._pending.counters["records_missing"] += missing
        old = self._truncated or now_ms - timestamp_ms > self._history_ms
        at = make_at(self._partition, offset, event, now_ms)
        if event.type in OBJECT_TYPES:
            stream = self._object(stream, session, at)
        else:
            self._pending.counters["marker"] += 1
            before = stream.floor
            stream = streams.advance(stream, session)
            stream, outputs = streams.mark(stream, event, Cause.COMPACTED if old else Cause.TRANSPORT_LOSS)
            stream = self._stream_outputs(name, stream, outputs, at)
            if stream.floor != before:
                deletes.bury(self._pending, name, stream)
        self._streams[name] = stream
        self._touched.add(name)

    def take(self) -> list[Said]:
        """The changes since the last call, ahead of the `drain` that ends the batch and then lacks them."""
        return self._pending.take()

    def drain(self) -> Batch:
        """Everything since the last call, with `__progress__`; memory counts it as written."""
        said, state, counters = self._pending.drain()
        for name in sorted(self._touched):
            state[wire.stream_key(name)] = self._streams[name]
        state[wire.PROGRESS_KEY] = Progress(self._src_offset)
        self._touched = set()
        return Batch(said, list(state.items()), counters)

    # --------------------------------------------------------------------------------------------- objects

    def _object(self, stream: StreamState, session: SessionState, at: At) -> StreamState:
        event = at.event
        pending = self._pending
        resource = (event.cluster, event.group, event.resource)
        living = pending.memory.of(resource)
        known = living.get(event.uid or "")
        names = self._scopes[resource]
        others = self._beside(names, event) if len(names) > 1 else ()
        beside = streams.floor_beside(others, event) if known is None else None
        running = streams.running((stream, *others)) if others or stream.relists else NONE_RUNNING
        try:
            outcome = rules.decide(known, event, stream, beside)
        except orjson.JSONDecodeError as error:
            self._undecodable(at.offset, f"digests of {event.type} of {event.uid}: {error}", at.now_ms)
            return streams.advance(stream, session)
        before = pending.written
        listed = event.relist.id if event.type is EventType.LISTED and event.relist else None
        verdict = outcome.verdict
        if verdict is Verdict.EMITTED and outcome.noise and self._drop_noise:
            verdict = Verdict.NOISE_DROPPED
        pending.counters[verdict] += 1
        if verdict is Verdict.EMITTED:
            deletes.make_room(pending, living, at)
            self._emit(running, known, outcome, at)
        elif known is not None:
            self._note(running, known, verdict, event)
            if verdict is Verdict.STALE:
                session = streams.doubted(stream, session, event)
            if verdict is Verdict.CONFLICT:
                self._conflict(known, at)
        return streams.advance(stream, session, written=pending.written - before, listed=listed)

    def _beside(self, names: Iterable[str], event: RawEvent) -> Sequence[StreamState]:
        """Of the streams of a resource those of other scopes."""
        own = wire.stream_of(event)
        return tuple(self._streams[name] for name in names if name != own)

    def _emit(self, running: frozenset[str], known: UidState | None, outcome: Outcome, at: At) -> None:
        event, op = at.event, outcome.op
        if event.uid is None or op is None:
            raise AssertionError("an emitted outcome has an op, and its event a uid")
        seq, counters = known.seq + 1 if known else 1, self._pending.counters
        counters[OP_COUNTERS[op]] += 1
        if outcome.inferred:
            counters["inferred_deletes"] += 1
        if outcome.gap is not None:
            counters[f"gap_{outcome.gap.cause}"] += 1
        self._pending.change(
            changes.of_object(at, known, outcome, op, seq),
            changes.next_state(running, known, event, seq, deleted=op is Op.DELETED),
        )

    def _note(self, running: frozenset[str], known: UidState, verdict: Verdict, event: RawEvent) -> None:
        """Keep what a record that was not emitted still tells: it was listed, it conflicts, it is noise."""
        state = known
        if event.type is EventType.LISTED and not known.deleted:
            state = replace(state, listed=changes.listed_in(running, known, event))
        if verdict is Verdict.CONFLICT:
            state = replace(state, conflict=event.digest)
        if verdict is Verdict.NOISE_DROPPED:
            state = replace(
                state,
                epoch=event.epoch,
                rv=event.rv or known.rv,
                generation=event.generation,
                managers=event.managers,
            )
        if state is not known:
            self._pending.keep(state)

    def _conflict(self, known: UidState, at: At) -> None:
        gap = Gap(Cause.CONFLICT, None, "the same version has other content; what came first stands")
        change = changes.of_object(at, known, Outcome(Verdict.EMITTED, Op.GAP, gap), Op.GAP, None)
        self._pending.say(wire.uid_gap_key(known.uid), change)
        self._pending.counters["gap_CONFLICT"] += 1

    # --------------------------------------------------------------------------------------------- streams

    def _stream_outputs(
        self, name: str, stream: StreamState, outputs: Sequence[streams.StreamOutput], at: At
    ) -> StreamState:
        """Write what a marker means; deletes of a sweep count for the record that follows them."""
        pending, before = self._pending, self._pending.written
        for output in outputs:
            if isinstance(output, streams.Sweep):
                deletes.sweep(pending, output, at)
            else:
                self._stream_record(name, output, pending.written - before, at)
        closed = bool(outputs) and not isinstance(outputs[-1], streams.Sweep)
        return stream if closed or pending.written == before else streams.counted(stream, pending.written - before)

    def _stream_record(self, name: str, output: streams.Covered | streams.Missing, swept: int, at: At) -> None:
        bounds = (output.after_rv, output.upto_rv)
        if isinstance(output, streams.Covered):
            change = changes.of_stream(at, output.epoch, bounds, output.count + swept)
            self._pending.say(wire.progress_key(name), change)
            self._pending.counters["progress"] += 1
        else:
            change = changes.of_stream(at, output.epoch, bounds, output.gap)
            self._pending.say(wire.gap_key(name, output.gap.cause, at.offset), change)
            self._pending.counters[f"gap_{output.gap.cause}"] += 1

    def _undecodable(self, offset: int, why: str, now_ms: int) -> None:
        change = changes.undecodable(self._partition, offset, why, now_ms)
        self._pending.say(wire.gap_key(f"{self._partition}", Cause.UNDECODABLE, offset), change)
        self._pending.counters["undecodable"] += 1


def _fault(event: RawEvent) -> Undecodable | None:
    """Why a decoded record still cannot be used; nothing else in this package checks it again."""
    uid, rv, is_object = event.uid, event.rv, event.type in OBJECT_TYPES
    if is_object and (not uid or uid.startswith(wire.RESERVED)):
        return Undecodable(f"{event.type} without a usable uid")
    if (is_object or rv is not None) and not well_formed(rv):
        return Undecodable(f"{event.type} with resourceVersion {rv!r}")
    relist = event.relist
    if relist is not None:
        for rv in (relist.previous_rv, relist.list_rv):
            if rv is not None and not well_formed(rv):
                return Undecodable(f"{event.type} of a list with resourceVersion {rv!r}")
    return None
