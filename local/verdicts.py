"""What a checker of a guarantee says, and what it is given: values only, shared by all checkers.

A checker is a pure function from (ground truth, canonical log) to a `Verdict` of three values, as Jepsen's are: what
could not be judged is *unknown*, never *holds*, and a checker that breaks is unknown too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from kubecdc import wire
from kubecdc.records import Change, Op
from local.history import Committed

EPOCH = 1  # the ground truth is one etcd's history; after a restore it would be another one's
FINDINGS_MAX = 20

OBJECT_OPS = frozenset({Op.CREATED, Op.UPDATED, Op.DELETED, Op.SNAPSHOT})


class Status(StrEnum):
    """Whether a guarantee holds."""

    HOLDS = "holds"
    FAILS = "fails"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`judged` counts what was looked at; `findings` say what is wrong, or why nothing can be said."""

    guarantee: str
    status: Status
    judged: int
    findings: tuple[str, ...] = ()


class Entry(NamedTuple):
    """A record of the changes topic and where it stands; entries of a partition come in offset order."""

    partition: int
    offset: int
    change: Change


class ObjectId(NamedTuple):
    """One object over all its versions; the same UID under another resource is another object."""

    group: str
    resource: str
    uid: str


class Stream(NamedTuple):
    """What a PROGRESS or a GAP of a stream speaks for, in one partition."""

    cluster: str
    group: str
    resource: str
    scope: str
    partition: int

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        scope = f" in namespace {self.scope}" if self.scope else ""
        return f"{resource}{scope}, partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is judged: `truth` None when nobody knows what was committed.

    `expected` are (group, resource) pairs that must be covered to their last commit; `partitions` is the count of the
    changes topic; `excused` are versions that the server is known to have left out of its streams.
    """

    truth: Sequence[Committed] | None
    log: Sequence[Entry]
    partitions: int
    expected: Sequence[tuple[str, str]] = ()
    excused: frozenset[tuple[ObjectId, str]] = frozenset()


@dataclass(slots=True)
class Notes:
    """What a checker gathers while it looks: `wrong` makes the guarantee fail, `unclear` unknown."""

    judged: int = 0
    wrong: list[str] = field(default_factory=list)
    unclear: list[str] = field(default_factory=list)

    def verdict(self, guarantee: str) -> Verdict:
        """Weigh them: one thing wrong outweighs all that is unclear, and nothing seen proves nothing."""
        if self.wrong:
            return Verdict(guarantee, Status.FAILS, self.judged, _first(self.wrong))
        if self.unclear:
            return Verdict(guarantee, Status.UNKNOWN, self.judged, _first(self.unclear))
        if not self.judged:
            return Verdict(guarantee, Status.UNKNOWN, 0, ("there was nothing to judge",))
        return Verdict(guarantee, Status.HOLDS, self.judged)


def judge(guarantee: str, check: Callable[[Evidence], Notes], evidence: Evidence) -> Verdict:
    """Run a checker; one that raises has proved nothing, whatever it raised."""
    try:
        return check(evidence).verdict(guarantee)
    except Exception as error:  # noqa: BLE001 - any fault of a checker is "unknown", by its contract
        return Verdict(guarantee, Status.UNKNOWN, 0, (f"the checker broke: {error!r}",))


def object_id(record: Change | Committed) -> ObjectId:
    """Name the object of a change or of a commit."""
    return ObjectId(record.group, record.resource, record.uid or "")


def stream_of(entry: Entry) -> Stream:
    """Name the stream and partition of an entry."""
    change = entry.change
    return Stream(change.cluster, change.group, change.resource, change.scope, entry.partition)


def belongs(commit: Committed, stream: Stream, partitions: int) -> bool:
    """Tell whether a stream's coverage speaks of this commit."""
    return (
        (commit.group, commit.resource) == (stream.group, stream.resource)
        and stream.scope in ("", commit.namespace)
        and wire.partition_of(commit.uid, partitions) == stream.partition
    )


def by_object(entries: Iterable[Entry]) -> dict[ObjectId, list[Entry]]:
    """Group the records of objects; GAP and PROGRESS are left out."""
    grouped: dict[ObjectId, list[Entry]] = {}
    for entry in entries:
        if entry.change.op in OBJECT_OPS:
            grouped.setdefault(object_id(entry.change), []).append(entry)
    return grouped


def other_epochs(notes: Notes, log: Iterable[Entry]) -> None:
    """Note records of an epoch that the ground truth says nothing of."""
    epochs = sorted({entry.change.epoch for entry in log if entry.change.cluster} - {EPOCH})
    if epochs:
        listed = ", ".join(map(str, epochs))
        notes.unclear.append(f"the log has epoch {listed}, the ground truth is of epoch {EPOCH} only")


def _first(findings: Sequence[str]) -> tuple[str, ...]:
    more = len(findings) - FINDINGS_MAX
    kept = tuple(findings[:FINDINGS_MAX])
    return (*kept, f"and {more} more") if more > 0 else kept
