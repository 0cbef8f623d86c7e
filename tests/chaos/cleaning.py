"""Forced compaction of the events topic while no worker runs: versions are gone before anybody has read them.

The lag that protects history is taken away for the time of the outage, as somebody's wrong setting would, and put back.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kubecdc.codec import Codec
from kubecdc.records import Progress
from kubecdc.topics import HISTORY_MS
from kubecdc.wire import PROGRESS_KEY
from processors.errors import ProcessorError
from processors.kafka import Cluster
from processors.settings import KafkaSettings
from tests.chaos.crew import Crew
from tests.chaos.harm import alone, pause
from tests.chaos.kafkas import NAMES, PARTITIONS, PREFIX

OUTAGE_S = 12.0
TRANSACTION_S = 90.0
CLEANED_S = 25.0
LOOK_S = 0.5
HASTE = {"min.compaction.lag.ms": "0", "segment.ms": "1000", "min.cleanable.dirty.ratio": "0.01"}
PATIENCE = {"min.compaction.lag.ms": str(HISTORY_MS), "segment.ms": "604800000", "min.cleanable.dirty.ratio": "0.5"}

_under_way = threading.Lock()


@dataclass(frozen=True, slots=True)
class Outage:
    """`done` is the next offset of each partition when the workers had stopped; `removed` records were never read."""

    done: Mapping[int, int]
    removed: int


def compact_events(bootstrap: str, crew: Crew) -> Outage | None:
    """Stop all workers, let events gather, compact them, start the workers again.

    None when the workers or Kafka did not allow it just then; nothing was compacted in that case.
    """
    with alone(_under_way) as free:
        if not free:
            return None
        try:
            return _compacted(bootstrap) if crew.pause("worker") else None
        except (ProcessorError, KafkaException, TimeoutError):
            return None
        finally:
            crew.resume("worker")


def _compacted(bootstrap: str) -> Outage:
    done = {partition: offset + 1 for partition, offset in _known_positions(bootstrap).items()}
    pause(OUTAGE_S)
    ends = _ends(bootstrap)
    removed = 0
    try:
        with suppress(KafkaException, TimeoutError):  # it may have been taken all the same
            _alter(bootstrap, HASTE)
            waiting = sum(ends[partition] - offset for partition, offset in done.items())
            removed = _removed(bootstrap, done, ends, waiting)
    finally:
        _alter(bootstrap, PATIENCE)
    return Outage(done, removed)


def _known_positions(bootstrap: str) -> dict[int, int]:
    """The positions, once no transaction of a killed worker hides them: the broker ends those after a minute."""
    until = time.monotonic() + TRANSACTION_S
    while True:
        try:
            return positions(bootstrap)
        except ProcessorError:
            if time.monotonic() > until:
                raise
            pause(LOOK_S)


def _removed(bootstrap: str, done: Mapping[int, int], ends: Mapping[int, int], waiting: int) -> int:
    """Wait until some of the records that wait are gone; returns how many."""
    until = time.monotonic() + CLEANED_S
    removed = 0
    while not removed and time.monotonic() < until:
        pause(LOOK_S)
        with suppress(KafkaException):
            _append(bootstrap)
            removed = waiting - sum(_count(bootstrap, p, done[p], ends[p]) for p in done)
    return removed


def positions(bootstrap: str) -> dict[int, int]:
    """The last source offset whose effects are committed, by partition. Raises ProcessorError."""
    cluster = Cluster(KafkaSettings(bootstrap, PREFIX, PREFIX))
    codec = Codec()
    found = {}
    for partition in range(PARTITIONS):
        value = cluster.committed(NAMES.state, partition).get(PROGRESS_KEY)
        record = codec.decode(value) if value is not None else None
        found[partition] = record.src_offset if isinstance(record, Progress) else -1
    return found


def _alter(bootstrap: str, settings: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in settings.items()]
    resource = ConfigResource(ResourceType.TOPIC, NAMES.events, incremental_configs=entries)
    for attempt in range(30):
        try:
            admin.incremental_alter_configs([resource])[resource].result(10)
        except (KafkaException, TimeoutError):
            if attempt == 29:
                raise
            pause(1.0)
        else:
            return


def _ends(bootstrap: str) -> dict[int, int]:
    consumer = _consumer(bootstrap)
    try:
        return {p: consumer.get_watermark_offsets(TopicPartition(NAMES.events, p), 10)[1] for p in range(PARTITIONS)}
    finally:
        consumer.close()


def _append(bootstrap: str) -> None:
    """Write a tombstone of nothing to each partition: the cleaner spares the newest segment, and only writes end it."""
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5000, "log_level": 0})
    for partition in range(PARTITIONS):
        producer.produce(NAMES.events, None, b"__chaos__", partition)
    producer.flush(5)


def _count(bootstrap: str, partition: int, begin: int, end: int) -> int:
    """How many records there are in `[begin, end)`."""
    if begin >= end:
        return 0
    consumer = _consumer(bootstrap)
    try:
        consumer.assign([TopicPartition(NAMES.events, partition, begin)])
        count = 0
        until = time.monotonic() + 10
        while time.monotonic() < until:
            for message in consumer.consume(500, 0.2):
                offset = message.offset() or 0
                if offset >= end or message.error() is not None:
                    return count
                count += 1
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
    finally:
        consumer.close()


def _consumer(bootstrap: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "chaos-count",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
