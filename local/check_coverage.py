"""The checker of G1: no silent gap, and nothing invented.

Pure. For each stream and partition the PROGRESS and GAP records must follow each other without a hole; what PROGRESS
claims must be in the log before it, version by version as the server committed them; what is not in the log must lie
inside a gap that names its bounds. A log written with `noise` dropped omits versions on purpose: judge one without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kubecdc import wire
from kubecdc.records import Cause, Op
from kubecdc.versions import newer, not_newer, order
from local.history import Committed
from local.verdicts import (
    EPOCH,
    OBJECT_OPS,
    Entry,
    Evidence,
    Notes,
    ObjectId,
    Stream,
    belongs,
    by_object,
    object_id,
    other_epochs,
    stream_of,
)


@dataclass(frozen=True, slots=True)
class Interval:
    """`(after, upto]`; `after` None begins with the first list, `upto` None is open."""

    after: str | None
    upto: str | None
    offset: int

    def contains(self, rv: str) -> bool:
        """Tell whether a version lies inside."""
        return newer(rv, self.after) and (self.upto is None or not_newer(rv, self.upto))


@dataclass(slots=True)
class Coverage:
    """What one stream says of one partition: where it has come to, what it claims, what it names as missing."""

    upto: str | None = None
    lost: bool = False
    claims: list[Interval] = field(default_factory=list)
    gaps: list[Interval] = field(default_factory=list)
    holes: list[str] = field(default_factory=list)


def check(evidence: Evidence) -> Notes:
    """Judge coverage of all streams, then each record of an object against what was committed."""
    notes = Notes()
    streams = coverages(evidence.log)
    for stream, coverage in streams.items():
        notes.wrong += [f"{stream}: {hole}" for hole in coverage.holes]
    if evidence.truth is None:
        notes.unclear.append("nobody recorded what was committed")
        return notes
    other_epochs(notes, evidence.log)
    shown = by_object(entry for entry in evidence.log if entry.change.epoch == EPOCH)
    committed = _committed(evidence.truth)
    for stream, coverage in streams.items():
        mine = [commit for commit in evidence.truth if belongs(commit, stream, evidence.partitions)]
        notes.judged += len(mine)
        notes.wrong += _missing(stream, coverage, mine, shown, evidence.excused)
    notes.wrong += _invented(shown, committed)
    notes.wrong += _unreached(evidence, streams)
    return notes


def coverages(log: Iterable[Entry]) -> dict[Stream, Coverage]:
    """Fold the PROGRESS and GAP records of streams, in the order of the log."""
    streams: dict[Stream, Coverage] = {}
    for entry in log:
        change = entry.change
        if change.op in OBJECT_OPS or change.uid is not None or change.epoch != EPOCH:
            continue
        if change.gap is not None and change.gap.cause is Cause.UNDECODABLE:
            continue  # it names an offset of the events topic; what was lost shows as a hole of its session
        _extend(streams.setdefault(stream_of(entry), Coverage()), entry)
    return streams


def resolved_by_partition(log: Iterable[Entry]) -> dict[tuple[str, str, int], str]:
    """How far each (group, resource, partition) is covered: the smallest over its scopes."""
    resolved: dict[tuple[str, str, int], str] = {}
    for stream, coverage in coverages(log).items():
        key = (stream.group, stream.resource, stream.partition)
        if coverage.upto is not None and (key not in resolved or newer(resolved[key], coverage.upto)):
            resolved[key] = coverage.upto
    return resolved


def _extend(coverage: Coverage, entry: Entry) -> None:
    change = entry.change
    interval = Interval(change.after_rv, change.upto_rv, entry.offset)
    where = f"{change.op} ({interval.after}, {interval.upto}] at offset {entry.offset}"
    if interval.after is None:
        if coverage.upto is not None:
            coverage.holes.append(f"{where} begins anew, after coverage up to {coverage.upto}")
    elif newer(interval.after, coverage.upto):
        coverage.holes.append(f"{where} leaves ({coverage.upto}, {interval.after}] unnamed")
    if change.op is Op.PROGRESS:
        coverage.claims.append(interval)
        if interval.upto is None:
            coverage.holes.append(f"{where} has no upper bound")
    else:
        coverage.gaps.append(interval)
    coverage.lost = interval.upto is None
    if interval.upto is not None and newer(interval.upto, coverage.upto):
        coverage.upto = interval.upto


def _committed(truth: Iterable[Committed]) -> dict[tuple[ObjectId, str], Committed]:
    return {(object_id(commit), commit.rv): commit for commit in truth}


def _missing(
    stream: Stream,
    coverage: Coverage,
    commits: Sequence[Committed],
    shown: Mapping[ObjectId, Sequence[Entry]],
    excused: frozenset[tuple[ObjectId, str]],
) -> list[str]:
    """Name commits that are neither in the log before they were claimed, nor inside a gap."""
    faults = []
    current = _listed_first(coverage, commits)
    before: dict[ObjectId, str] = {}
    for commit in sorted(commits, key=lambda each: order(each.rv)):
        name = object_id(commit)
        last_put, before[name] = before.get(name), commit.rv
        if not not_newer(commit.rv, coverage.upto) or (name, commit.rv) in excused:
            continue
        claims = [claim for claim in coverage.claims if claim.contains(commit.rv)]
        if all(claim.after is None for claim in claims) and (name, commit.rv) not in current:
            continue  # superseded before the first list, or in no claim: the walk over bounds has named it
        entries = shown.get(name, ())
        found = [entry.offset for entry in entries if _shows(entry, commit, last_put)]
        claimed = min((claim.offset for claim in claims), default=0)
        if found and min(found) < claimed:
            continue
        if any(gap.contains(commit.rv) for gap in coverage.gaps) or _named_by_object(entries, commit.rv, claimed):
            continue
        late = f", at offset {found[0]}, after it was claimed" if found else ""
        faults.append(
            f"{stream}: {commit.kind} of {commit.namespace}/{commit.name} {commit.uid} at {commit.rv} is "
            + (f"in the log{late}" if found else "in no record and no gap")
        )
    return faults


def _listed_first(coverage: Coverage, commits: Sequence[Committed]) -> set[tuple[ObjectId, str]]:
    """Versions that a first list had to show: what lived at its version."""
    first = next((claim for claim in coverage.claims if claim.after is None), None)
    if first is None or first.upto is None:
        return set()
    living: dict[ObjectId, str] = {}
    for commit in sorted(commits, key=lambda each: order(each.rv)):
        if not_newer(commit.rv, first.upto):
            if commit.kind == "PUT":
                living[object_id(commit)] = commit.rv
            else:
                living.pop(object_id(commit), None)
    return set(living.items())


def _shows(entry: Entry, commit: Committed, last_put: str | None) -> bool:
    change = entry.change
    if change.inferred or (change.op is Op.DELETED) is not (commit.kind == "DELETE"):
        return False
    # Old servers show a delete at the object's last version (kubernetes.md 3).
    return change.rv == commit.rv or (commit.kind == "DELETE" and change.rv == last_put)


def _named_by_object(entries: Iterable[Entry], rv: str, claimed: int) -> bool:
    """A gap that rides on an object's own change speaks of what lies between its versions.

    After offset `claimed` it comes too late: the claim was false, unless an audit shows what the server had left out.
    """
    return any(
        entry.change.gap is not None
        and (entry.offset < claimed or entry.change.gap.cause is Cause.AUDIT_DRIFT)
        and newer(rv, entry.change.after_rv or entry.change.prev_rv)
        and not_newer(rv, entry.change.rv)
        for entry in entries
    )


def _invented(
    shown: Mapping[ObjectId, Sequence[Entry]],
    committed: Mapping[tuple[ObjectId, str], Committed],
) -> list[str]:
    faults = []
    for name, entries in shown.items():
        for entry in entries:
            change = entry.change
            if change.inferred:
                continue
            commit = committed.get((name, change.rv or ""))
            where = f"{name.resource} {change.namespace}/{change.name} {name.uid} at {change.rv}"
            if commit is None:
                faults.append(f"{where}: {change.op} of a version that was never committed")
            elif commit.kind == "DELETE" and change.op is not Op.DELETED:
                faults.append(f"{where}: {change.op}, but that version is its delete")
            elif (commit.namespace, commit.name) != (change.namespace, change.name):
                faults.append(f"{where}: committed as {commit.namespace}/{commit.name}")
    return faults


def owed(evidence: Evidence) -> dict[tuple[str, str, int], str]:
    """The version that each expected (group, resource, partition) must be covered to: its last commit."""
    wanted: dict[tuple[str, str, int], str] = {}
    for commit in evidence.truth or ():
        if (commit.group, commit.resource) in evidence.expected:
            key = (commit.group, commit.resource, wire.partition_of(commit.uid, evidence.partitions))
            if newer(commit.rv, wanted.get(key)):
                wanted[key] = commit.rv
    return wanted


def _unreached(evidence: Evidence, streams: Mapping[Stream, Coverage]) -> list[str]:
    """Name expected resources whose coverage ends before their last commit, without an open gap saying so."""
    resolved = resolved_by_partition(evidence.log)
    lost = {(s.group, s.resource, s.partition) for s, coverage in streams.items() if coverage.lost}
    return [
        f"{Stream('', *key[:2], '', key[2])}: its last commit is {rv}, coverage ends at {resolved.get(key, 'nothing')}"
        for key, rv in owed(evidence).items()
        if key not in lost and not not_newer(rv, resolved.get(key))
    ]
