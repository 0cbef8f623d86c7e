"""Changes folded: the latest state of every object, how far each resource is resolved, and the gaps.

Pure: `Fold.step` takes records in the order of their partitions. A version is resolved when every partition and scope
is covered up to it, by PROGRESS or by a gap that has a name; gaps that stand in every partition are told once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kubecdc.chain import OBJECT_OPS, Entry
from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer, order


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """A kind of object in one cluster."""

    cluster: str
    group: str
    resource: str

    def __str__(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource


@dataclass(frozen=True, slots=True)
class Resolved:
    """A version of an epoch up to which everything is in the log, or inside a gap with bounds."""

    epoch: int
    rv: str


@dataclass(frozen=True, slots=True)
class GapReport:
    """A gap, told once. `uid` None: of the stream, then `partitions` are those that tell it.

    `open`: coverage is lost and nothing has closed it yet.
    """

    resource: Resource
    scope: str
    epoch: int
    cause: Cause
    after_rv: str | None
    upto_rv: str | None
    missed_at_least: int | None
    detail: str
    uid: str | None
    namespace: str
    name: str
    partitions: tuple[int, ...]
    observed_at: int
    open: bool = False


_GapKey = tuple[Resource, str, int, Cause, str | None, str | None]
_StreamKey = tuple[Resource, str]


@dataclass(slots=True)
class Fold:
    """Memory of one reading. `partitions` is the topic's partition count; it grows with live objects and gaps.

    `kinds` are all that the log has, those included that are left out of the fold; whoever reads the log tells them.
    """

    partitions: int
    objects: dict[str, Change] = field(default_factory=dict)
    versions: dict[_StreamKey, str] = field(default_factory=dict)
    kinds: frozenset[Resource] = frozenset()
    _upto: dict[_StreamKey, dict[int, Resolved]] = field(default_factory=dict)
    _since: dict[tuple[_StreamKey, int], dict[int, Resolved]] = field(default_factory=dict)
    _stream_gaps: dict[_GapKey, GapReport] = field(default_factory=dict)
    _object_gaps: list[GapReport] = field(default_factory=list)

    def step(self, entry: Entry) -> None:
        """Take the next record; a tombstone ends its object."""
        change = entry.change
        if change is None:
            self.objects.pop(entry.key.decode(errors="replace"), None)
            return
        if change.op in OBJECT_OPS and change.uid is not None:
            if change.op is Op.DELETED:
                self.objects.pop(change.uid, None)
            else:
                self.objects[change.uid] = change
        if change.gap is not None:
            self._gap(entry.partition, change)
        if change.op not in OBJECT_OPS and change.uid is None and change.upto_rv is not None:
            self._cover(entry.partition, change)

    def resolved(self) -> dict[Resource, Resolved | None]:
        """How far each resource is resolved; None while a partition or scope has said nothing."""
        found: dict[Resource, Resolved | None] = {}
        for (resource, _), reached in self.streams().items():
            other = found.get(resource, reached)
            found[resource] = None if reached is None or other is None else _least((reached, other))
        return found

    def streams(self) -> dict[tuple[Resource, str], Resolved | None]:
        """How far each kind and scope is resolved; None while a partition has said nothing. `versions` has theirs.

        What covers all namespaces covers each of them, also one that nobody follows by itself any more.
        """
        own = {
            key: _least(by_partition.values()) if len(by_partition) == self.partitions else None
            for key, by_partition in self._upto.items()
        }
        return {key: _furthest(reached, own.get((key[0], ""))) for key, reached in own.items()}

    def since(self, stream: _StreamKey, epoch: int) -> Resolved | None:
        """The version from which on the log knows a kind and scope in an epoch; None where it does not in all of it.

        That is where the epoch's first list was read, or where the first coverage ends that compaction has left: what
        was before is not in the log. A list of all namespaces is one of each of them.
        """
        own, all_of_it = self._first(stream, epoch), self._first((stream[0], ""), epoch)
        return min((each for each in (own, all_of_it) if each is not None), key=_rank, default=None)

    def gaps(self) -> tuple[GapReport, ...]:
        """Stream gaps once each, then those that ride on an object's change, both in the order they were met."""
        return (*(self._judged(gap) for gap in self._stream_gaps.values()), *self._object_gaps)

    def _first(self, stream: _StreamKey, epoch: int) -> Resolved | None:
        first = self._since.get((stream, epoch), {})
        return max(first.values(), key=_rank) if len(first) == self.partitions else None

    def _cover(self, partition: int, change: Change) -> None:
        key = (resource_of(change), change.scope)
        self.versions[key] = change.version
        known = self._upto.setdefault(key, {}).get(partition)
        now = Resolved(change.epoch, change.upto_rv or "")
        if change.gap is None or change.gap.cause is not Cause.RELIST_INCOMPLETE:
            self._since.setdefault((key, now.epoch), {}).setdefault(partition, now)
        if known is None or _rank(now) > _rank(known):
            self._upto[key][partition] = now

    def _gap(self, partition: int, change: Change) -> None:
        report = _report(partition, change)
        if change.uid is not None or report.cause is Cause.UNDECODABLE:
            self._object_gaps.append(report)
            return
        key = (report.resource, report.scope, report.epoch, report.cause, report.after_rv, report.upto_rv)
        known = self._stream_gaps.get(key)
        if known is None:
            self._stream_gaps[key] = report
        elif partition not in known.partitions:
            self._stream_gaps[key] = replace(known, partitions=(*known.partitions, partition))

    def _judged(self, gap: GapReport) -> GapReport:
        """Tell whether an open gap is still open, in any partition that named it."""
        if gap.upto_rv is not None:
            return gap
        reached = self._upto.get((gap.resource, gap.scope), {})
        return replace(gap, open=any(not _passed(gap, reached.get(partition)) for partition in gap.partitions))


def resource_of(change: Change) -> Resource:
    """The kind of object that a change is about."""
    return Resource(change.cluster, change.group, change.resource)


def sorted_objects(objects: Mapping[str, Change]) -> tuple[Change, ...]:
    """Objects by cluster, kind, namespace and name."""
    return tuple(sorted(objects.values(), key=lambda c: (c.cluster, c.group, c.resource, c.namespace, c.name, c.uid)))


def _passed(gap: GapReport, reached: Resolved | None) -> bool:
    if reached is None:
        return False
    return reached.epoch > gap.epoch or (reached.epoch == gap.epoch and newer(reached.rv, gap.after_rv))


def _rank(resolved: Resolved) -> tuple[int, int, str]:
    return resolved.epoch, *order(resolved.rv)


def _least(all_resolved: Iterable[Resolved]) -> Resolved:
    return min(all_resolved, key=_rank)


def _furthest(one: Resolved | None, other: Resolved | None) -> Resolved | None:
    if one is None or other is None:
        return one or other
    return max(one, other, key=_rank)


def _report(partition: int, change: Change) -> GapReport:
    gap = change.gap
    if gap is None:
        raise ValueError("only a change with a gap can be reported as one")
    rides = change.uid is not None and change.after_rv is None and change.upto_rv is None
    return GapReport(
        resource_of(change),
        change.scope,
        change.epoch,
        gap.cause,
        change.prev_rv if rides else change.after_rv,
        change.rv if rides else change.upto_rv,
        gap.missed_at_least,
        gap.detail,
        change.uid,
        change.namespace,
        change.name,
        (partition,),
        change.observed_at,
    )
