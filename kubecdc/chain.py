"""Whether what is read of the canonical log is whole: the seq chain of each UID, the coverage of each stream.

Pure: `Chain.step` takes one record of the changes topic and returns the breaks that it proves. It knows no Kafka and
no clock: `horizon_ms`, the time before which compaction may have taken records, comes in as a value. Before it a hole
proves nothing, and is accepted; after it a hole is a break. What is said of `(after_rv, upto_rv]` is believed: that
the producer and the processors are right about a gap is for other checks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer, order, well_formed

OBJECT_OPS = frozenset({Op.CREATED, Op.UPDATED, Op.DELETED, Op.SNAPSHOT})
ENDED_MAX = 10_000  # lives that are over, remembered to notice one that goes on
RETURNS = frozenset({Cause.RESURRECTED, Cause.AUDIT_DRIFT})

Resource = tuple[str, str, str]
Stream = tuple[int, str, str, str, str]


class Kind(StrEnum):
    """What is broken."""

    SEQ = "seq"
    ORDER = "order"
    COVERAGE = "coverage"
    COUNT = "count"
    VALUE = "value"
    HISTORY = "history"


@dataclass(frozen=True, slots=True)
class Entry:
    """A record of the changes topic where it stands; `change` None is a tombstone. `timestamp_ms` is epoch ms."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    change: Change | None


@dataclass(frozen=True, slots=True)
class Break:
    """Something is missing from the log before this record, or does not belong there."""

    kind: Kind
    partition: int
    offset: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind} broken at partition {self.partition} offset {self.offset}: {self.text}"


@dataclass(slots=True)
class _Life:
    epoch: int
    rv: str
    seq: int
    ended: bool


@dataclass(slots=True)
class _Coverage:
    """`bound_ms` is the time of the record that set `upto`; `count` the object records since, None if unknown."""

    epoch: int
    upto: str | None
    bound_ms: int
    count: int | None


class Chain:
    """What one reader remembers of what it has read. `whole` names the partitions read from their first record."""

    def __init__(self, whole: Collection[int]) -> None:
        self._whole = frozenset(whole)
        self._lives: dict[tuple[Resource, str], _Life] = {}
        self._ended: OrderedDict[tuple[Resource, str], _Life] = OrderedDict()
        self._streams: dict[Stream, _Coverage] = {}
        self._resources: set[Resource] = set()
        self._deleted: dict[int, bytes] = {}

    @property
    def resources(self) -> frozenset[Resource]:
        """Every kind that was met: cluster, group, resource."""
        return frozenset(self._resources) | {(cluster, group, name) for _, cluster, group, name, _ in self._streams}

    def step(self, entry: Entry, horizon_ms: int) -> list[Break]:
        """Account for the next record of its partition; repeated or reordered input is for the caller to prevent."""
        change = entry.change
        if change is None:
            self._tombstone(entry)
            return []
        if change.op in OBJECT_OPS:
            return self._object(entry, change, horizon_ms)
        if change.uid is None and not (change.gap and change.gap.cause is Cause.UNDECODABLE):
            return self._stream(entry, change, horizon_ms)
        return []

    # ------------------------------------------------------------------------------------------------- objects

    def _object(self, entry: Entry, change: Change, horizon_ms: int) -> list[Break]:
        resource = (change.cluster, change.group, change.resource)
        if change.uid is None or change.seq is None or change.rv is None or not well_formed(change.rv):
            return [_broken(Kind.SEQ, entry, f"{change.op} without uid, seq or a usable rv")]
        key = (resource, change.uid)
        ended = self._ended.pop(key, None)
        life = ended or self._lives.get(key)
        proven = entry.timestamp_ms >= horizon_ms
        if life is None:
            accepted = change.seq == 1 or not proven or entry.partition not in self._whole or _returns(change)
            faults = [] if accepted else [f"{_name(change)} begins with seq {change.seq}"]
            breaks = [_broken(Kind.SEQ, entry, fault) for fault in faults]
        elif life.ended:
            breaks = self._after_end(entry, change, life, proven=proven)
        else:
            breaks = self._within(entry, change, life, proven=proven)
        self._resources.add(resource)
        now = _Life(change.epoch, change.rv, change.seq, change.op is Op.DELETED)
        if now.ended:
            self._deleted[entry.partition] = entry.key
            self._lives.pop(key, None)
            self._end(key, now)
        else:
            self._lives[key] = now
        self._count(entry, change)
        return breaks

    def _after_end(self, entry: Entry, change: Change, life: _Life, *, proven: bool) -> list[Break]:
        at, ended = (change.epoch, *order(change.rv or "")), (life.epoch, *order(life.rv))
        if change.seq == 1 and at <= ended and not _returns(change):
            told = f"{_name(change)} begins again at {change.epoch}/{change.rv}, it ended at {life.epoch}/{life.rv}"
            return [_broken(Kind.ORDER, entry, told)]
        if change.seq == 1 or (_returns(change) and change.seq == life.seq + 1) or not proven:
            return []
        told = f"{_name(change)} goes on with seq {change.seq} after it ended with {life.seq}"
        return [_broken(Kind.SEQ, entry, told)]

    def _within(self, entry: Entry, change: Change, life: _Life, *, proven: bool) -> list[Break]:
        breaks = []
        seq, rv = change.seq or 0, change.rv or ""
        if seq <= life.seq or (seq > life.seq + 1 and proven):
            breaks.append(_broken(Kind.SEQ, entry, f"{_name(change)} has seq {seq} after {life.seq}"))
        repeats = change.op is Op.DELETED and rv == life.rv
        if change.epoch < life.epoch or (change.epoch == life.epoch and not newer(rv, life.rv) and not repeats):
            told = f"{_name(change)} has version {change.epoch}/{rv} after {life.epoch}/{life.rv}"
            breaks.append(_broken(Kind.ORDER, entry, told))
        return breaks

    def _tombstone(self, entry: Entry) -> None:
        """A tombstone ends a life also where compaction has taken its DELETED."""
        if self._deleted.get(entry.partition) == entry.key:
            return
        uid = entry.key.decode(errors="replace")
        for resource in self._resources:
            life = self._lives.pop((resource, uid), None)
            if life is not None:
                life.ended = True
                self._end((resource, uid), life)

    def _end(self, key: tuple[Resource, str], life: _Life) -> None:
        self._ended[key] = life
        if len(self._ended) > ENDED_MAX:
            self._ended.popitem(last=False)

    # ------------------------------------------------------------------------------------------------- streams

    def _count(self, entry: Entry, change: Change) -> None:
        coverage = self._streams.get(_stream(entry, change))
        if coverage is None:
            return
        if change.epoch > coverage.epoch:
            coverage.epoch, coverage.upto, coverage.count = change.epoch, None, None
        elif coverage.count is not None:
            coverage.count += 1

    def _stream(self, entry: Entry, change: Change, horizon_ms: int) -> list[Break]:
        stream = _stream(entry, change)
        known = self._streams.get(stream)
        breaks = []
        if entry.timestamp_ms >= horizon_ms:
            hole = self._hole(entry, change, known)
            if hole:
                breaks.append(_broken(Kind.COVERAGE, entry, f"{_label(change)}: {hole}"))
            short = _short(change, known, horizon_ms)
            if short:
                breaks.append(_broken(Kind.COUNT, entry, f"{_label(change)}: {short}"))
        coverage = known or _Coverage(change.epoch, None, entry.timestamp_ms, None)
        self._streams[stream] = coverage
        if change.epoch > coverage.epoch:
            coverage.epoch, coverage.upto, coverage.count = change.epoch, None, None
        if change.upto_rv is not None:
            coverage.count, coverage.bound_ms = 0, entry.timestamp_ms
            if newer(change.upto_rv, coverage.upto):
                coverage.upto = change.upto_rv
        return breaks

    def _hole(self, entry: Entry, change: Change, known: _Coverage | None) -> str:
        interval = f"{change.op} ({change.after_rv or 'start'}, {change.upto_rv or 'open'}]"
        if change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE:
            return ""  # it spans from one epoch to another
        if known is None:
            seen = entry.partition not in self._whole or change.after_rv is None
            return "" if seen else f"{interval} is the first record, nothing covers what is before it"
        if change.epoch < known.epoch:
            return f"{interval} of epoch {change.epoch} comes after epoch {known.epoch}"
        upto = known.upto if change.epoch == known.epoch else None
        if change.after_rv is None:
            return "" if upto is None else f"{interval} begins anew after coverage up to {upto}"
        if upto is not None and newer(change.after_rv, upto):
            return f"{interval} leaves ({upto}, {change.after_rv}] unnamed"
        return ""


def _short(change: Change, known: _Coverage | None, horizon_ms: int) -> str:
    """PROGRESS tells how many records an interval has; compaction cannot have taken one that began in the window.

    Deletes that a list inferred are not in that number, so more may have been read, never fewer.
    """
    if change.op is not Op.PROGRESS or change.count is None or known is None or known.count is None:
        return ""
    if known.bound_ms < horizon_ms or known.epoch != change.epoch or known.count >= change.count:
        return ""
    return f"{change.count} records are claimed for ({change.after_rv}, {change.upto_rv}], {known.count} were read"


def _broken(kind: Kind, entry: Entry, text: str) -> Break:
    return Break(kind, entry.partition, entry.offset, text)


def _returns(change: Change) -> bool:
    return change.gap is not None and change.gap.cause in RETURNS


def _stream(entry: Entry, change: Change) -> Stream:
    return entry.partition, change.cluster, change.group, change.resource, change.scope


def _name(change: Change) -> str:
    place = f"{change.namespace}/{change.name}" if change.namespace else change.name
    return f"{resource_name(change)} {place} ({change.uid})"


def _label(change: Change) -> str:
    scope = f" in {change.scope}" if change.scope else ""
    return f"{change.cluster} {resource_name(change)}{scope}"


def resource_name(change: Change) -> str:
    """`pods`, or `deployments.apps`, as kubectl writes it."""
    return f"{change.resource}.{change.group}" if change.group else change.resource
