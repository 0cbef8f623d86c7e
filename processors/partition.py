"""One partition of the events topic folded into canonical changes and state: every decision of a worker.

It decides nothing by itself that depends on I/O: time and offsets come in as values, what is to be written goes out
with `drain`. The memory is changed in place and belongs to one transaction at a time: whoever drives it either commits
a drained batch or throws the whole object away and loads the state topic again (kafka.md 6.2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from kubecdc import wire
from kubecdc.errors import Undecodable
from kubecdc.records import (
    OBJECT_TYPES,
    Cause,
    Change,
    EventType,
    Gap,
    Op,
    Progress,
    RawEvent,
    SessionState,
    StreamState,
    UidState,
)
from kubecdc.topics import HISTORY_MS
from kubecdc.versions import newer, not_newer, order, well_formed
from processors import changes, rules, streams
from processors.changes import At, make_at
from processors.memory import Living, Memory
from processors.rules import Outcome, Verdict

OP_COUNTERS = {op: op.lower() for op in Op}

StateRecord = UidState | StreamState | Progress


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction writes: changes in order (None is a tombstone), state by key, and counters to add."""

    changes: list[tuple[bytes, Change | None]]
    state: list[tuple[bytes, StateRecord | None]]
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
        self._memory = Memory()
        self._changes: list[tuple[bytes, Change | None]] = []
        self._state: dict[bytes, StateRecord | None] = {}
        self._touched: set[str] = set()
        self._written = 0
        self._counters: Counter[str] = Counter()

    @property
    def next_offset(self) -> int:
        """First source offset whose effects are not in memory."""
        return self._src_offset + 1

    @property
    def uids(self) -> int:
        """How many UIDs are remembered."""
        return len(self._memory)

    def load(self, key: bytes, record: StateRecord) -> None:
        """Take a record of the state topic; of each key the latest must come last."""
        if isinstance(record, Progress):
            self._src_offset = record.src_offset
        elif isinstance(record, StreamState):
            self._streams[wire.stream_of(record)] = record
        elif isinstance(record, UidState):
            self._memory.put(record)
        else:
            raise Undecodable(f"state key {key!r} holds a {type(record).__name__}")

    def truncated(self, low_watermark: int) -> None:
        """Tell that source offsets below `low_watermark` are gone: holes met from now on are COMPACTED."""
        if low_watermark > self.next_offset:
            self._truncated = True
            self._src_offset = low_watermark - 1

    def apply(
        self, offset: int, event: RawEvent | Undecodable | None, timestamp_ms: int, now_ms: int, key: bytes = b""
    ) -> None:
        """Account for one record of the events topic; a repeated offset is ignored, None is a tombstone of `key`."""
        if offset <= self._src_offset:
            return
        self._src_offset = offset
        if event is None:
            self._tombstone(key)
            return
        fault = event if isinstance(event, Undecodable) else _fault(event)
        if isinstance(event, Undecodable) or fault is not None:
            self._undecodable(offset, str(fault), now_ms)
            return
        name = wire.stream_of(event)
        stream = self._streams.get(name) or streams.opened(event)
        if event.epoch > stream.epoch and event.type is not EventType.RELIST_START:  # which closes the epoch before it
            stream = streams.new_epoch(stream, event)
        session, missing = streams.enter(stream, event)
        if missing < 0:
            self._counters["repeated"] += 1
            return
        if missing:
            self._counters["records_missing"] += missing
        old = self._truncated or now_ms - timestamp_ms > self._history_ms
        at = make_at(self._partition, offset, event, now_ms)
        if event.type in OBJECT_TYPES:
            stream = self._object(stream, session, at)
        else:
            self._counters["marker"] += 1
            before = stream.floor
            stream = streams.advance(stream, session)
            stream, outputs = streams.mark(stream, event, Cause.COMPACTED if old else Cause.TRANSPORT_LOSS)
            stream = self._stream_outputs(name, stream, outputs, at)
            if streams.mended(session, stream, event):
                stream = self._infer_compacted(name, stream, at)
            if stream.floor != before:
                self._bury(name, stream)
        self._streams[name] = stream
        self._touched.add(name)

    def take(self) -> list[tuple[bytes, Change | None]]:
        """The changes since the last call, ahead of the `drain` that ends the batch and then lacks them."""
        taken, self._changes = self._changes, []
        return taken

    def drain(self) -> Batch:
        """Everything since the last call, with `__progress__`; memory counts it as written."""
        state = self._state
        for name in sorted(self._touched):
            state[wire.stream_key(name)] = self._streams[name]
        state[wire.PROGRESS_KEY] = Progress(self._src_offset)
        batch = Batch(self._changes, list(state.items()), dict(self._counters))
        self._changes, self._state, self._touched, self._counters = [], {}, set(), Counter()
        return batch

    # --------------------------------------------------------------------------------------------- objects

    def _object(self, stream: StreamState, session: SessionState, at: At) -> StreamState:
        event = at.event
        living = self._memory.of((event.cluster, event.group, event.resource))
        known = living.uids.get(event.uid or "")
        outcome = rules.decide(known, event, stream)
        before = self._written
        listed = event.relist.id if event.type is EventType.LISTED and event.relist else None
        verdict = outcome.verdict
        if verdict is Verdict.EMITTED and outcome.noise and self._drop_noise:
            verdict = Verdict.NOISE_DROPPED
        self._counters[verdict] += 1
        if verdict is Verdict.EMITTED:
            self._make_room(living, at)
            self._emit(stream, known, outcome, at)
        elif known is not None:
            self._note(stream, known, verdict, event)
            if verdict is Verdict.STALE:
                session = streams.doubted(stream, session, event)
            if verdict is Verdict.CONFLICT:
                self._conflict(known, at)
        return streams.advance(stream, session, written=self._written - before, listed=listed)

    def _emit(self, stream: StreamState, known: UidState | None, outcome: Outcome, at: At) -> None:
        event, op = at.event, outcome.op
        if event.uid is None or op is None:
            raise AssertionError("an emitted outcome has an op, and its event a uid")
        seq = known.seq + 1 if known else 1
        key = event.uid.encode()
        self._changes.append((key, changes.of_object(at, known, outcome, op, seq)))
        self._counters[OP_COUNTERS[op]] += 1
        self._written += 1
        if outcome.inferred:
            self._counters["inferred_deletes"] += 1
        if outcome.gap is not None:
            self._counters[f"gap_{outcome.gap.cause}"] += 1
        self._write(changes.next_state(stream, known, event, seq, deleted=op is Op.DELETED))
        if op is Op.DELETED:
            self._changes.append((key, None))

    def _note(self, stream: StreamState, known: UidState, verdict: Verdict, event: RawEvent) -> None:
        """Keep what a record that was not emitted still tells: it was listed, it conflicts, it is noise."""
        state = known
        if event.type is EventType.LISTED and not known.deleted:
            state = replace(state, listed=changes.listed_in(stream, known, event))
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
        if event.type is EventType.DELETED and known.tombstones >= 0:
            state = replace(state, tombstones=known.tombstones + 1)
        if state is not known:
            self._write(state)

    def _tombstone(self, key: bytes) -> None:
        """Each DELETED has one after it; one too many is that of a DELETED which compaction has taken away."""
        self._counters["tombstone"] += 1
        for state in self._memory.found(key.decode(errors="replace")):
            if state.tombstones > 0 or (state.tombstones == 0 and not state.deleted):
                self._write(replace(state, tombstones=state.tombstones - 1))

    def _infer_compacted(self, name: str, stream: StreamState, at: At) -> StreamState:
        """Of deletes only the tombstones are left; they lie below the floor once no hole may reach above it.

        A tombstone comes before its session's hole is noticed, so this is asked when one has been mended.
        """
        if stream.floor is None or any(session.holed for session in stream.sessions):
            return stream
        before, gap = self._written, Gap(Cause.COMPACTED, None, "its DELETED was compacted away, a tombstone was left")
        for state in self._memory.doubtful(name, (stream.cluster, stream.group, stream.resource)):
            if state.epoch < stream.epoch or newer(stream.floor, state.rv):
                self._infer_delete(state, stream.epoch, stream.floor, gap, at)
        return streams.counted(stream, self._written - before) if self._written > before else stream

    def _conflict(self, known: UidState, at: At) -> None:
        gap = Gap(Cause.CONFLICT, None, "the same version has other content; what came first stands")
        change = changes.of_object(at, known, Outcome(Verdict.EMITTED, Op.GAP, gap), Op.GAP, None)
        self._changes.append((wire.uid_gap_key(known.uid), change))
        self._counters["gap_CONFLICT"] += 1

    def _make_room(self, living: Living, at: At) -> None:
        """A name is taken by a new UID: the old one's delete comes first (kubernetes.md 3.15)."""
        event = at.event
        state = living.holder(event.namespace, event.name, event.uid or "")
        if state is None or state.deleted or event.type is EventType.DELETED:
            return
        relist = event.relist
        bound = relist.list_rv if relist and relist.list_rv else event.rv
        if bound is None or event.rv is None:
            return
        if (event.epoch, order(event.rv)) > (state.epoch, order(state.rv)):
            cause = Cause.RELIST_WINDOW if relist else Cause.TRANSPORT_LOSS
            self._infer_delete(state, event.epoch, bound, Gap(cause, None, "its name was taken"), at)

    def _infer_delete(self, state: UidState, epoch: int, bound: str, gap: Gap, at: At) -> None:
        key = state.uid.encode()
        self._changes += [(key, changes.inferred_delete(at, state, epoch, bound, gap)), (key, None)]
        self._counters["deleted"] += 1
        self._counters["inferred_deletes"] += 1
        self._written += 1
        self._write(changes.dead_state(at, state, epoch, bound))

    # --------------------------------------------------------------------------------------------- streams

    def _stream_outputs(
        self, name: str, stream: StreamState, outputs: Sequence[streams.StreamOutput], at: At
    ) -> StreamState:
        """Write what a marker means; deletes of a sweep count for the record that follows them."""
        before = self._written
        for output in outputs:
            if isinstance(output, streams.Sweep):
                self._sweep(output, at)
            else:
                self._stream_record(name, output, self._written - before, at)
        closed = bool(outputs) and not isinstance(outputs[-1], streams.Sweep)
        return stream if closed or self._written == before else streams.counted(stream, self._written - before)

    def _stream_record(self, name: str, output: streams.Covered | streams.Missing, swept: int, at: At) -> None:
        bounds = (output.after_rv, output.upto_rv)
        if isinstance(output, streams.Covered):
            change = changes.of_stream(at, output.epoch, bounds, output.count + swept)
            self._changes.append((wire.progress_key(name), change))
            self._counters["progress"] += 1
        else:
            change = changes.of_stream(at, output.epoch, bounds, output.gap)
            self._changes.append((wire.gap_key(name, output.gap.cause, at.offset), change))
            self._counters[f"gap_{output.gap.cause}"] += 1

    def _sweep(self, sweep: streams.Sweep, at: At) -> None:
        event = at.event
        known = self._memory.of((event.cluster, event.group, event.resource))
        gone = [
            state
            for state in known.uids.values()
            if not state.deleted
            and event.scope in ("", state.namespace)
            and sweep.relist not in state.listed
            and (state.epoch < sweep.epoch or not_newer(state.rv, sweep.list_rv))
        ]
        for state in gone:
            gap = Gap(sweep.cause, None, "missing from a complete list")
            self._infer_delete(state, sweep.epoch, sweep.list_rv, gap, at)

    def _bury(self, name: str, stream: StreamState) -> None:
        """Forget the deleted UIDs that the floor has passed: below it an unknown UID is a deleted one."""
        if stream.floor is None:
            return
        for state in self._memory.dead(name, (stream.cluster, stream.group, stream.resource)):
            if state.epoch < stream.epoch or not newer(state.rv, stream.floor):
                self._memory.forget(name, state)
                self._state[state.uid.encode()] = None

    def _undecodable(self, offset: int, why: str, now_ms: int) -> None:
        change = changes.undecodable(self._partition, offset, why, now_ms)
        self._changes.append((wire.gap_key(f"{self._partition}", Cause.UNDECODABLE, offset), change))
        self._counters["undecodable"] += 1

    def _write(self, state: UidState) -> None:
        self._memory.put(state)
        self._state[state.uid.encode()] = state


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
