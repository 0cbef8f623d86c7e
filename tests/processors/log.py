"""Topics of one prefix on a real broker, for the tests of tasks and shells: filling, reading back, and the oracle."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kubecdc import topics, wire
from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import Change, EventType, Progress, RawEvent, Relist
from local.children import poll
from processors.kafka import Raw
from processors.partition import Partition
from producer.convert import remnant
from tests.processors.raw import raw

_numbers = itertools.count(1)
Entry = tuple[bytes, Change | None]


@dataclass
class Log:
    """Four topics under a prefix of their own; a session that numbers its records as a producer does."""

    bootstrap: str
    partitions: int = 2
    policy: str = "compact"
    prefix: str = field(default_factory=lambda: f"t{next(_numbers)}-{id(object())}")
    seqs: dict[tuple[str, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.names = topics.TopicNames.under(self.prefix)
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        wanted = [
            NewTopic(spec.name, spec.partitions, 1, config={**spec.config(), "cleanup.policy": self.policy})
            for spec in topics.table(self.prefix, self.partitions, 1)
        ]
        for future in self.admin.create_topics(wanted).values():
            future.result(timeout=30)
        self._producer = Producer(
            {"bootstrap.servers": self.bootstrap, "linger.ms": 5, "enable.idempotence": True, "log_level": 0}
        )
        self._codec = Codec()

    def put(self, kind: EventType, uid: str | None = None, rv: str | None = None, **fields: object) -> None:
        """An object's event into its partition, a marker into all of them."""
        session = str(fields.pop("session", "s1"))
        targets = range(self.partitions) if uid is None else [wire.partition_of(uid, self.partitions)]
        for partition in targets:
            seq = self.seqs.get((session, partition), 0)
            self.seqs[session, partition] = seq + 1
            event = raw(kind, uid, rv, session=session, seq=seq, **fields)
            key = uid.encode() if uid else wire.marker_key("c//configmaps/", f"{kind.value}-{seq}")
            self.put_bytes(partition, key, self._codec.encode(event))

    def put_bytes(self, partition: int, key: bytes, value: bytes | None, headers: Sequence[wire.Header] = ()) -> None:
        self._producer.produce(self.names.events, value, key, partition, headers=list(headers))

    def put_raw(self, topic: str, key: bytes, value: bytes) -> None:
        """Write to partition 0 of a topic past everybody, without a transaction."""
        self._producer.produce(topic, value, key, 0)

    def first_list(self, uids: Iterable[str] = ()) -> None:
        """A complete list at version 10, with these objects."""
        listed = list(uids)
        relist = Relist("r1", "start", None, "10")
        self.put(EventType.RELIST_START, relist=relist)
        counts = dict.fromkeys(range(self.partitions), 0)
        for number, uid in enumerate(listed):
            self.put(EventType.LISTED, uid, str(1 + number % 9), relist=relist)
            counts[wire.partition_of(uid, self.partitions)] += 1
        for partition, count in counts.items():
            seq = self.seqs["s1", partition]
            self.seqs["s1", partition] = seq + 1
            event = raw(EventType.RELIST_END, session="s1", seq=seq, relist=replace(relist, expected=count))
            self.put_bytes(partition, wire.marker_key("c//configmaps/", "end"), self._codec.encode(event))

    def delete(self, uid: str, rv: str, *, unread: bool = False) -> None:
        """A DELETED and its tombstone; `unread`: only the latter, as compaction leaves it."""
        partition = wire.partition_of(uid, self.partitions)
        seq = self.seqs.get(("s1", partition), 0)
        self.seqs["s1", partition] = seq + 1
        event = raw(EventType.DELETED, uid, rv, session="s1", seq=seq)
        if not unread:
            self.put_bytes(partition, uid.encode(), self._codec.encode(event))
        told = self._codec.encode(remnant(event))
        self.put_bytes(partition, uid.encode(), None, [(wire.DELETED_HEADER, told)])

    def history(self, count: int, uids: int = 50, start: int = 11) -> None:
        """`count` versions over `uids` objects with repeats and deletes; PROGRESS at the end."""
        for number in range(start, start + count):
            uid = f"u{number % uids}"
            if number % 97 == 0:
                self.delete(uid, str(number), unread=number % 2 == 0)
                continue
            self.put(EventType.MODIFIED, uid, str(number))
            if number % 10 == 0:
                self.put(EventType.MODIFIED, uid, str(number))
            if number % 31 == 0:
                self.put_bytes(wire.partition_of(uid, self.partitions), uid.encode(), None)
        self.put(EventType.PROGRESS, rv=str(start + count))
        self.flush()

    def flush(self) -> None:
        assert self._producer.flush(30) == 0

    def make_anew(self, topic: str) -> None:
        """Delete a topic and create it empty."""
        self.admin.delete_topics([topic])[topic].result(timeout=30)

        (spec,) = [spec for spec in topics.table(self.prefix, self.partitions, 1) if spec.name == topic]
        wanted = NewTopic(topic, self.partitions, 1, config=spec.config())

        def created() -> bool:
            try:
                self.admin.create_topics([wanted])[topic].result(timeout=30)
            except KafkaException:
                return False  # a deletion takes a moment
            return True

        assert poll(created, 30, 0.1)

    # ------------------------------------------------------------------------------------------------- reading

    def events(self, partition: int, start: int = 0) -> list[Raw]:
        return [record for record in self._read(self.names.events, partition) if record[0] >= start]

    def changes(self, partition: int) -> list[Entry]:
        """The committed canonical log, with the times of processing blanked."""
        return [(key or b"", self._change(value)) for _, _, key, value in self._read(self.names.changes, partition)]

    def state(self, partition: int) -> dict[bytes, object]:
        latest: dict[bytes, object] = {}
        for _, _, key, value in self._read(self.names.state, partition):
            latest.pop(key or b"", None)
            if value is not None:
                latest[key or b""] = self._codec.decode(value)
        return latest

    def progress(self, partition: int) -> int:
        """The last source offset that a worker has committed, -1 for none."""
        stored = self.state(partition).get(wire.PROGRESS_KEY)
        return stored.src_offset if isinstance(stored, Progress) else -1

    def oracle(self, partition: int) -> list[Entry]:
        """What one uninterrupted task would write for the events topic as it is, computed in memory."""
        memory = Partition(partition)
        for offset, timestamp_ms, _, value in self.events(partition):
            event: RawEvent | Undecodable | None = None
            if value is not None:
                try:
                    event = self._codec.decode(value)
                except Undecodable as error:
                    event = error
            memory.apply(offset, event, timestamp_ms, timestamp_ms)
        return [(key, None if change is None else _timeless(change)) for key, change in memory.drain().changes]

    def exact(self) -> bool:
        """Each partition of the canonical log is what the oracle says: nothing lost, twice, or out of order."""
        for partition in range(self.partitions):
            assert self.changes(partition) == self.oracle(partition), f"partition {partition}"
        return True

    def written(self) -> bool:
        """Whether all of the log is there, or more."""
        return all(len(self.changes(p)) >= len(self.oracle(p)) for p in range(self.partitions))

    def _change(self, value: bytes | None) -> Change | None:
        return None if value is None else _timeless(self._codec.decode(value))

    def _read(self, topic: str, partition: int) -> list[Raw]:
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reader",
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
            }
        )
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
        found: list[Raw] = []
        deadline = time.monotonic() + 60
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(1000, 0.1):
                    error = message.error()
                    if error is None:
                        value = wire.told(message.value(), message.headers())
                        found.append((message.offset() or 0, message.timestamp()[1], message.key(), value))
                    elif error.code() == KafkaError._PARTITION_EOF:
                        return found
                    else:
                        raise AssertionError(error.str())
            raise AssertionError(f"{topic} [{partition}] has no end: an open transaction?")
        finally:
            consumer.close()


def _timeless(change: Change) -> Change:
    undecodable = change.cluster == ""
    return replace(change, emitted_at=0, observed_at=0 if undecodable else change.observed_at)
