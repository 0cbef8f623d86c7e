"""A topic is read whole, in order, committed records only; what is unreadable is kept as such."""

from __future__ import annotations

import uuid

import confluent_kafka
import pytest

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.kafka import create_topics
from kubecdc.records import Op, Progress
from kubecdc.topics import table
from local.broker import Broker
from local.errors import LocalError
from local.logs import Kept, entry, read_whole
from local.verdicts import Entry
from tests.local.logs import change


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    prefix = f"read-{uuid.uuid4().hex[:8]}"
    create_topics(kafka_broker.bootstrap, table(prefix, 2, replication=1))
    return f"{prefix}.events"


def test_everything_is_read_in_order_without_tombstones(kafka_broker: Broker, topic: str) -> None:
    encode = Codec().encode
    values = [(number % 2, encode(Progress(number))) for number in range(2500)]
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka_broker.bootstrap})
    for partition, value in [*values, (0, None), (1, b"torn")]:
        producer.produce(topic, value, b"key", partition)
    assert producer.flush(30) == 0
    read = list(read_whole(kafka_broker.bootstrap, topic))
    for partition in range(2):
        mine = [each for each in read if each.partition == partition and isinstance(each.record, Progress)]
        assert [each.record.src_offset for each in mine] == list(range(partition, 2500, 2))
        assert [each.offset for each in mine] == list(range(1250))
    assert len([each for each in read if isinstance(each.record, Undecodable)]) == 1
    assert len(read) == 2501


def test_an_empty_topic_has_an_end(kafka_broker: Broker, topic: str) -> None:
    assert list(read_whole(kafka_broker.bootstrap, topic)) == []


def test_what_was_aborted_is_not_in_the_log(kafka_broker: Broker, topic: str) -> None:
    config = {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": f"id-{topic}"}
    producer = confluent_kafka.Producer(config)
    producer.init_transactions(30)
    for number, commits in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, Codec().encode(Progress(number)), b"key", 0)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    read = read_whole(kafka_broker.bootstrap, topic)
    assert [each.record.src_offset for each in read] == [1, 3]


def test_an_entry_is_a_change_or_an_error() -> None:
    made = change(Op.CREATED, "a", 7, seq=1)
    assert entry(Kept(1, 2, 3, made)) == Entry(1, 2, made)
    with pytest.raises(LocalError, match="changes partition 1 offset 2 holds no change: torn"):
        entry(Kept(1, 2, 3, Undecodable("torn")))
