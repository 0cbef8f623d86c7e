"""The state of a partition from its changes, and from what the events topic still has: for a lost state topic.

Pure: `Rebuild` takes both topics' records in their order and gives state records. It proves what it writes:

- Which UIDs live, with which version and `seq`: their latest changes, which compaction keeps. Exact.
- Where to resume: after the greatest source offset in the log. What was processed behind it left no change, and leaves
  none again.
- Coverage: `processors.coverage`. What sessions and lists under way have sent: by running the events once more, with
  their output thrown away. Where compaction has holes in them, a session reads as holed and a list as incomplete, which
  ends in a gap record, never in a delete or in silence.

What cannot be had is counted in `Report`: it costs description, or is recorded as a gap, never a version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from kubecdc import wire
from kubecdc.errors import Undecodable
from kubecdc.records import Change, EventType, Op, Progress, RawEvent, SessionState, StreamState, UidState
from processors.coverage import Coverage
from processors.partition import Partition
from processors.pending import StateRecord

COMMIT_MARKER = 1  # offsets that the end of a transaction takes


@dataclass(frozen=True, slots=True)
class Report:
    """What was rebuilt, and how well.

    `bare`: UIDs whose version the events topic no longer has. Their next change names every path and manager as
    changed, and shows no GENERATION_JUMP. `vanished`: tombstones whose DELETED was compacted away: a record of such a
    UID that is delivered again above the floor is written once more, with a MISSED_CREATE. `holed`: sessions with a
    hole: their next PROGRESS is a gap. `cut`: the log's last records were compacted away, of lives that have ended:
    what the events topic still has of them is written again.
    """

    src_offset: int
    uids: int
    dead: int
    streams: int
    bare: int
    vanished: int
    holed: int
    cut: bool


@dataclass(frozen=True, slots=True)
class _Last:
    """The latest change of a UID without its object, and its place in the log."""

    change: Change
    place: int


class Rebuild:
    """First every `change`, then every `event` up to `src_offset`, then `records` and `report`.

    `noise` is what the workers were told: "emit" or "drop".
    """

    def __init__(self, partition: int, noise: str = "emit") -> None:
        self.src_offset = -1
        self._shadow = Partition(partition, noise=noise)
        self._place = 0
        self._last: dict[str, _Last] = {}
        self._conflicts: dict[str, Change] = {}
        self._coverage: dict[str, Coverage] = {}
        self._streams: dict[str, StreamState] = {}
        self._uids: dict[str, UidState] = {}
        self._vanished: set[str] = set()
        self._cut = False

    def change(self, key: bytes, change: Change | None) -> None:
        """The next record of the changes topic."""
        if change is None:
            self._tombstone(key.decode(errors="replace"))
            return
        self._place = change.source.offset  # a marker's deletes and its rise of the floor are one step
        self.src_offset, self._cut = max(self.src_offset, change.source.offset), False
        if change.uid is not None and change.op is Op.GAP:
            self._conflicts[change.uid] = change
        elif change.uid is not None:
            self._covered(change).object(change)
            self._last[change.uid] = _Last(replace(change, object=None, changed=()), self._place)
            self._conflicts.pop(change.uid, None)
            self._vanished.discard(change.uid)
        elif change.cluster:  # else it is an UNDECODABLE, which belongs to no stream
            self._covered(change).stream(change, self._place)

    def end(self, last_offset: int, high_watermark: int) -> None:
        """Where the changes topic ends, and its last record lies: between them one offset is the commit's own."""
        self._cut |= high_watermark - last_offset > COMMIT_MARKER + 1

    def event(self, offset: int, event: RawEvent | Undecodable | None, timestamp_ms: int) -> None:
        """The next record of the events topic; those behind `src_offset` are ignored."""
        if offset > self.src_offset:
            return
        ends = isinstance(event, RawEvent) and event.type is EventType.RELIST_END
        if ends:
            self._take()
        self._shadow.apply(offset, event, timestamp_ms, timestamp_ms)
        if isinstance(event, RawEvent) and ends:
            self._listed(offset, event)

    def records(self) -> list[tuple[bytes, StateRecord]]:
        """The state topic's records, `__progress__` last; none where nothing was ever written."""
        if self.src_offset < 0:
            return []
        self._take()
        streams = [(wire.stream_key(name), self._stream(name)) for name in sorted(self._coverage | self._streams)]
        uids = [(state.uid.encode(), state) for state in self._states()]
        return [*streams, *uids, (wire.PROGRESS_KEY, Progress(self.src_offset))]

    def report(self) -> Report:
        """What `records` gives, in numbers."""
        states = list(self._states())
        dead = sum(state.deleted for state in states)
        bare = sum(not state.deleted and self._detail(self._last[state.uid].change) is None for state in states)
        streams = [self._stream(name) for name in sorted(self._coverage | self._streams)]
        holed = sum(session.holed for stream in streams for session in stream.sessions)
        living = len(states) - dead
        return Report(self.src_offset, living, dead, len(streams), bare, len(self._vanished), holed, self._cut)

    # ----------------------------------------------------------------------------------------------- what came in

    def _tombstone(self, uid: str) -> None:
        last = self._last.get(uid)
        if last is None or last.change.op is not Op.DELETED:
            self._last.pop(uid, None)
            self._vanished.add(uid)
            self._cut = True  # unless a record follows that tells a source offset

    def _covered(self, change: Change) -> Coverage:
        name = wire.stream_of(change)
        coverage = self._coverage.get(name)
        if coverage is None:
            coverage = self._coverage[name] = Coverage(change.version, change.epoch)
        return coverage

    def _take(self) -> None:
        """Keep the state that the events run into; their output was written long ago."""
        for key, record in self._shadow.drain().state:
            if isinstance(record, StreamState):
                self._streams[wire.stream_of(record)] = record
            elif isinstance(record, UidState):
                self._uids[record.uid] = record
            elif record is None:
                self._uids.pop(key.decode(), None)

    def _listed(self, offset: int, event: RawEvent) -> None:
        """A list that ends complete proves completeness, also where it left no record."""
        name = wire.stream_of(event)
        before = self._streams.get(name)
        self._take()
        after = self._streams.get(name)
        coverage = self._coverage.get(name)
        if coverage is None or after is None or not after.complete or after.epoch != coverage.epoch:
            return
        if after.before_epoch is not None:  # a session that began inside of the epoch completed it, not this list
            return
        if before is None or not before.complete or before.epoch < event.epoch or before.before_epoch:
            coverage.prove(offset)

    # ----------------------------------------------------------------------------------------------- what goes out

    def _stream(self, name: str) -> StreamState:
        shadow, proven = self._streams.get(name), self._coverage.get(name)
        if proven is None:
            if shadow is None:
                raise KeyError(name)
            return replace(shadow, floor=None, complete=False, lost=False, count=0, before_epoch=None)
        cluster, group, resource, scope = name.split("/")
        known = StreamState(
            cluster=cluster,
            group=group,
            resource=resource,
            scope=scope,
            version=proven.version,
            epoch=proven.epoch,
            floor=proven.floor,
            complete=proven.complete,
            lost=proven.lost,
            count=proven.count,
            before_epoch=proven.before_epoch,
            sessions=(),
            relists=(),
        )
        if shadow is None:
            return known
        if shadow.epoch < proven.epoch:
            sessions = tuple(SessionState(s.id, s.next_seq, None, holed=False) for s in shadow.sessions)
            return replace(known, sessions=sessions)
        if shadow.epoch > proven.epoch:  # begun by a marker that left no record
            before = proven.floor or proven.before_epoch
            known = replace(known, epoch=shadow.epoch, floor=None, complete=False, count=0, before_epoch=before)
        return replace(known, version=shadow.version, sessions=shadow.sessions, relists=shadow.relists)

    def _states(self) -> list[UidState]:
        return [self._state(last) for last in self._last.values() if not self._buried(last)]

    def _buried(self, last: _Last) -> bool:
        """The floor has passed this delete since: a worker has forgotten it."""
        change = last.change
        coverage = self._covered(change)
        return change.op is Op.DELETED and coverage.buries(change.epoch, change.rv or "", last.place)

    def _state(self, last: _Last) -> UidState:
        change = last.change
        shadow = self._detail(change)
        if shadow is not None:
            return replace(shadow, seq=change.seq or 0)
        conflict = self._conflicts.get(change.uid or "")
        return of_change(change, self._uids.get(change.uid or ""), conflict.digest if conflict else "")

    def _detail(self, change: Change) -> UidState | None:
        """What the events say of this very version; with dropped noise, of a later one with the same content."""
        shadow = self._uids.get(change.uid or "")
        same = (
            shadow is not None
            and shadow.emitted_rv == change.rv
            and shadow.digest == change.digest
            and shadow.epoch >= change.epoch
            and shadow.deleted == (change.op is Op.DELETED)
        )
        return shadow if same else None


def of_change(change: Change, shadow: UidState | None, conflict: str) -> UidState:
    """A UID's state from its latest change alone; `shadow` tells which running lists have shown it."""
    deleted = change.op is Op.DELETED
    return UidState(
        cluster=change.cluster,
        epoch=change.epoch,
        group=change.group,
        version=change.version,
        resource=change.resource,
        scope=change.scope,
        namespace=change.namespace,
        name=change.name,
        uid=change.uid or "",
        rv=change.rv or "",
        emitted_rv=change.rv or "",
        seq=change.seq or 0,
        deleted=deleted,
        generation=None,
        digest=change.digest,
        paths="",
        managers=(),
        listed=() if deleted or shadow is None else shadow.listed,
        conflict=conflict,
    )
