"""The vocabulary: every record that travels through a topic, as a frozen dataclass.

Each class mirrors one `schemas/*.avsc` field by field (a test compares the two) and knows nothing of bytes,
topics or Kafka. A `resourceVersion` is a decimal string everywhere; the first epoch is 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Name(StrEnum):
    """A string that is one of a few. Enum's own hash is a Python function, which each lookup would call."""

    __hash__ = str.__hash__


class EventType(Name):
    """What a producer saw, or a marker about its own session."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    LISTED = "LISTED"
    RESUMED = "RESUMED"
    PROGRESS = "PROGRESS"
    RELIST_START = "RELIST_START"
    RELIST_END = "RELIST_END"
    RELIST_ABORTED = "RELIST_ABORTED"
    COVERAGE_LOST = "COVERAGE_LOST"


OBJECT_TYPES = frozenset({EventType.ADDED, EventType.MODIFIED, EventType.DELETED, EventType.LISTED})


class Op(Name):
    """What a canonical record says about an object or a stream."""

    CREATED = "CREATED"
    UPDATED = "UPDATED"
    DELETED = "DELETED"
    SNAPSHOT = "SNAPSHOT"
    GAP = "GAP"
    PROGRESS = "PROGRESS"


class Cause(Name):
    """Why history is, or may be, incomplete (design.md, "Gap causes")."""

    RELIST_WINDOW = "RELIST_WINDOW"
    RELIST_INCOMPLETE = "RELIST_INCOMPLETE"
    TRANSPORT_LOSS = "TRANSPORT_LOSS"
    COMPACTED = "COMPACTED"
    GENERATION_JUMP = "GENERATION_JUMP"
    MISSED_CREATE = "MISSED_CREATE"
    RESURRECTED = "RESURRECTED"
    CONFLICT = "CONFLICT"
    AUDIT_DRIFT = "AUDIT_DRIFT"
    EPOCH_CHANGE = "EPOCH_CHANGE"
    COVERAGE_LOST = "COVERAGE_LOST"
    UNDECODABLE = "UNDECODABLE"


@dataclass(frozen=True, slots=True)
class Manager:
    """One `metadata.managedFields` entry without its field set; `time` as the server wrote it."""

    manager: str
    operation: str
    subresource: str
    time: str


# Reasons of ObjectOmitted.
TOO_LARGE = "too-large"
REDACTION_FAILED = "redaction-failed"
COMPACTED_AWAY = "compacted-away"


@dataclass(frozen=True, slots=True)
class ObjectOmitted:
    """The object was too large, could not be redacted, or was compacted away unread; `bytes` is its size as JSON."""

    reason: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Relist:
    """Which list a record belongs to.

    `previous_rv` is the last version read safely before it, `list_rv` the version of the list (None while a
    streamed list has not told it), `expected` the exact number of LISTED records in this partition (RELIST_END).
    `reason` "audit" on an object's record marks drift that an audit found; no list is announced for it.
    """

    id: str
    reason: str
    previous_rv: str | None = None
    list_rv: str | None = None
    expected: int | None = None


@dataclass(frozen=True, slots=True)
class RawEvent:
    """A record of the events topic: an object as LIST or WATCH showed it, or a marker.

    `seq` is contiguous from 0 for each session and partition. Markers have no uid; their `rv` is the version
    they speak of. `digest` covers the content without noise, kind and apiVersion; `paths` is a JSON object from JSON
    pointer to digest, so that a change can be named without keeping objects. `observed_at` is epoch ms.
    """

    cluster: str
    epoch: int
    group: str
    version: str
    resource: str
    scope: str
    type: EventType
    uid: str | None
    namespace: str
    name: str
    rv: str | None
    session: str
    seq: int
    relist: Relist | None
    generation: int | None
    deletion_timestamp: str | None
    managers: tuple[Manager, ...]
    object: str | None
    object_omitted: ObjectOmitted | None
    digest: str
    paths: str
    detail: str
    observed_at: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Why history is incomplete here; `missed_at_least` is a lower bound where one is known."""

    cause: Cause
    missed_at_least: int | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """The raw record that a canonical record comes from."""

    partition: int
    offset: int
    session: str
    seq: int


@dataclass(frozen=True, slots=True)
class Change:
    """A record of the canonical change log.

    `prev_rv` is the version of this UID's previous record, `seq` counts 1, 2, 3… within a life (None on GAP and
    PROGRESS). PROGRESS: this partition holds everything of the resource in `(after_rv, upto_rv]`, `count` changes;
    `after_rv` None means from the first list on. GAP: `(after_rv, upto_rv]` is incomplete, `upto_rv` None is open.
    `count` counts object records written since the stream's previous PROGRESS or closed GAP.
    """

    cluster: str
    epoch: int
    group: str
    version: str
    resource: str
    scope: str
    namespace: str
    name: str
    uid: str | None
    op: Op
    rv: str | None
    prev_rv: str | None
    seq: int | None
    inferred: bool
    after_rv: str | None
    upto_rv: str | None
    gap: Gap | None
    noise: bool
    changed: tuple[str, ...]
    changed_by: tuple[Manager, ...]
    object: str | None
    object_omitted: ObjectOmitted | None
    digest: str
    count: int | None
    observed_at: int
    emitted_at: int
    source: Source


@dataclass(frozen=True, slots=True)
class UidState:
    """What a processor remembers of one UID; gone once the floor has passed its delete.

    `emitted_rv` is the last version in the log, lower than `rv` only where noise is dropped; `listed` names the running
    relists that have shown it; `conflict` the digest already reported as CONFLICT.
    """

    cluster: str
    epoch: int
    group: str
    version: str
    resource: str
    scope: str
    namespace: str
    name: str
    uid: str
    rv: str
    emitted_rv: str
    seq: int
    deleted: bool
    generation: int | None
    digest: str
    paths: str
    managers: tuple[Manager, ...]
    listed: tuple[str, ...]
    conflict: str


@dataclass(frozen=True, slots=True)
class UidHead:
    """Whose UidState it is, and whether its object lives: what a worker must know of each before it needs the rest."""

    cluster: str
    group: str
    resource: str
    scope: str
    namespace: str
    name: str
    uid: str
    deleted: bool


@dataclass(frozen=True, slots=True)
class SessionState:
    """One producer session as a partition saw it: `start_rv` is where its unbroken coverage begins.

    Of a holed one it is a version that nothing of what is missing lies above, None while that is unknown.
    """

    id: str
    next_seq: int
    start_rv: str | None
    holed: bool


@dataclass(frozen=True, slots=True)
class RelistState:
    """A relist under way: `seen` LISTED records so far in this partition."""

    id: str
    session: str
    reason: str
    epoch: int
    list_rv: str | None
    seen: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """Coverage of one (cluster, group/resource, scope) in one partition.

    `floor` is the version up to which coverage is proven or named as a gap; `complete` tells that the first list of
    the epoch has ended; `lost` that an open COVERAGE_LOST stands; `count` changes since the last PROGRESS.
    """

    cluster: str
    group: str
    resource: str
    scope: str
    version: str
    epoch: int
    floor: str | None
    complete: bool
    lost: bool
    count: int
    before_epoch: str | None
    sessions: tuple[SessionState, ...]
    relists: tuple[RelistState, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a partition task stands: the last source offset whose effects are committed (-1: none)."""

    src_offset: int


@dataclass(frozen=True, slots=True)
class Position:
    """The version from which a producer may watch: everything up to it is acknowledged by Kafka.

    `rv` is empty where it tells only that `epoch` has begun.
    """

    cluster: str
    group: str
    resource: str
    scope: str
    epoch: int
    rv: str
    version: str
    session: str
    stored_at: int
