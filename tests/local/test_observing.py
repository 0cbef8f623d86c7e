"""The observer keeps every canonical record, also those that arrive later, and says why it cannot go on."""

from __future__ import annotations

import uuid

import confluent_kafka
import pytest

from kubecdc.codec import Codec
from kubecdc.kafka import create_topics
from kubecdc.records import Op, Progress
from kubecdc.topics import table
from local.broker import Broker
from local.children import poll
from local.errors import LocalError
from local.observing import Observer, counts, objects_only
from local.verdicts import Entry
from tests.local.logs import change, progress


def test_it_follows_and_then_says_what_is_no_change(kafka_broker: Broker) -> None:
    prefix = f"observe-{uuid.uuid4().hex[:8]}"
    create_topics(kafka_broker.bootstrap, table(prefix, 1, replication=1))
    topic = f"{prefix}.changes"
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap})

    def write(record: object) -> None:
        producer.produce(topic, Codec().encode(record), b"key")
        assert producer.flush(30) == 0

    observer = Observer(kafka_broker.bootstrap, topic).start()
    try:
        for number in (1, 2):
            write(change(Op.CREATED, f"uid{number}", number, seq=1))
            assert poll(lambda seen=number: len(observer.entries()) >= seen, 30, every_seconds=0.02)
            assert [each.change.uid for each in observer.entries()] == ["uid1", "uid2"][:number]
        write(Progress(1))
        assert poll(lambda: not observer._thread.is_alive(), 30, every_seconds=0.02)
        with pytest.raises(LocalError, match="holds no change"):
            observer.entries()
    finally:
        observer.stop()


def test_counts_and_what_concerns_objects() -> None:
    log = [Entry(0, 0, change(Op.CREATED, "a", 1, seq=1)), Entry(0, 1, progress(None, 3))]
    assert counts(log) == {"CREATED": 1, "PROGRESS": 1}
    assert objects_only(log) == log[:1]
