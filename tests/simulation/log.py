"""Kafka in memory: the events topic with what may befall its records, and two topics written in transactions.

It knows what a broker knows: offsets, keys, transactions, producer epochs. Values are held by reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum

from kubecdc.errors import Undecodable
from kubecdc.records import Position, UidHead, UidState


class Ref:
    """A record in place of its bytes."""

    __slots__ = ("record",)

    def __init__(self, record: object) -> None:
        self.record = record

    def __len__(self) -> int:
        return 400


class Codec:
    """Stands where `kubecdc.codec` stands: references instead of bytes; what is broken stays broken."""

    def encode(self, record: object) -> Ref:
        return Ref(record)

    def head(self, value: Ref) -> UidHead | None:
        state = value.record
        if not isinstance(state, UidState):
            return None
        return UidHead(**{field.name: getattr(state, field.name) for field in fields(UidHead)})

    def decode(self, value: Ref) -> object:
        if isinstance(value.record, Undecodable):
            raise value.record
        return value.record


@dataclass(slots=True)
class Event:
    """A record of the events topic; a tombstone's header has `told`. `gone` says what took it away."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    value: Ref | None
    told: Ref | None = None
    gone: str = ""


class Status(StrEnum):
    """Of a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Transaction:
    """`applied` are the source offsets that its batch accounts for, `counters` what it counted.

    `doubtful`: the coordinator has its commit, and carries it out when somebody asks.
    """

    partition: int
    applied: Sequence[int]
    counters: dict[str, int]
    status: Status = Status.OPEN
    doubtful: bool = False
    progress: int | None = None


@dataclass(slots=True)
class Written:
    """A record of the changes or the state topic."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: Ref | None
    transaction: Transaction


@dataclass(slots=True)
class Log:
    """All topics. Offsets of transaction markers are taken too, as brokers do."""

    partitions: int
    events: list[list[Event]] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    changes: list[list[Written]] = field(default_factory=list)
    state: list[list[Written]] = field(default_factory=list)
    positions: dict[str, Position] = field(default_factory=dict)
    epochs: list[int] = field(default_factory=list)
    open: list[Transaction | None] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    read: list[int] = field(default_factory=list)  # how far any worker has ever read the events

    def __post_init__(self) -> None:
        every = range(self.partitions)
        self.events = [[] for _ in every]
        self.changes = [[] for _ in every]
        self.state = [[] for _ in every]
        self.start = [0 for _ in every]
        self.epochs = [0 for _ in every]
        self.read = [0 for _ in every]
        self.open = [None for _ in every]

    # --- events -----------------------------------------------------------------------------------------------------

    def append(self, partition: int, timestamp_ms: int, key: bytes, value: Ref | None, told: Ref | None = None) -> None:
        topic = self.events[partition]
        topic.append(Event(partition, len(topic), timestamp_ms, key, value, told))

    def fetch(self, partition: int, offset: int, count: int) -> list[Event]:
        """At most `count` of the records that are still there."""
        found: list[Event] = []
        topic = self.events[partition]
        while offset < len(topic) and len(found) < count:
            if not topic[offset].gone:
                found.append(topic[offset])
            offset += 1
        return found

    def compact_events(self, partition: int, before_ms: int, *, tombstones: bool) -> int:
        """Take away what a later record of its key replaces, both older than the lag; return how many.

        `tombstones`: they go as well, their retention is over.
        """
        seen: set[bytes] = set()
        removed = 0
        for event in reversed(self.events[partition]):
            if event.gone or event.timestamp_ms >= before_ms:
                continue
            if event.key in seen or (tombstones and event.value is None):
                event.gone = "compacted"
                removed += 1
            seen.add(event.key)
        return removed

    def delete_events(self, partition: int, upto: int) -> int:
        """Cut the topic off below an offset."""
        removed = 0
        for event in self.events[partition][self.start[partition] : upto]:
            removed += not event.gone
            event.gone = event.gone or "cut off"
        self.start[partition] = max(self.start[partition], upto)
        return removed

    # --- transactions -----------------------------------------------------------------------------------------------

    def fence(self, partition: int) -> int:
        """End the open transaction of the partition's producer, shut that one out, and return the new epoch."""
        self.epochs[partition] += 1
        pending = self.open[partition]
        if pending is not None:
            self.end(pending, commit=pending.doubtful)
        return self.epochs[partition]

    def begin(self, transaction: Transaction) -> None:
        self.open[transaction.partition] = transaction
        self.transactions.append(transaction)

    def end(self, transaction: Transaction, *, commit: bool) -> None:
        transaction.status = Status.COMMITTED if commit else Status.ABORTED
        if self.open[transaction.partition] is transaction:
            self.open[transaction.partition] = None

    def write(
        self, topic: list[Written], now_ms: int, pair: tuple[bytes, Ref | None], transaction: Transaction
    ) -> None:
        offset = topic[-1].offset + 1 if topic else 0
        topic.append(Written(offset, now_ms, pair[0], pair[1], transaction))

    def committed(self, topic: list[Written]) -> Iterator[Written]:
        """What readers of committed records get: nothing from an open transaction on."""
        for written in topic:
            if written.transaction.status is Status.OPEN:
                return
            if written.transaction.status is Status.COMMITTED:
                yield written

    def compact_state(self, partition: int) -> int:
        """Keep the newest of each key, as the cleaner does with what is committed or aborted; return how many went."""
        latest: dict[bytes, Written] = {}
        kept_open = [w for w in self.state[partition] if w.transaction.status is Status.OPEN]
        for written in self.committed(self.state[partition]):
            latest.pop(written.key, None)
            latest[written.key] = written
        kept = sorted([*(w for w in latest.values() if w.value is not None), *kept_open], key=lambda w: w.offset)
        removed = len(self.state[partition]) - len(kept)
        self.state[partition][:] = kept
        return removed
