"""A topic is read whole, in order, committed records only; what is missing or unreadable is said."""

from __future__ import annotations

import uuid

import confluent_kafka
import pytest

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import Progress
from kubecdc.topics import table
from local.broker import Broker
from local.errors import LocalError
from local.kafka import Topic, create_topics


@pytest.fixture
def topic(kafka_broker: Broker) -> str:
    prefix = f"read-{uuid.uuid4().hex[:8]}"
    create_topics(kafka_broker.bootstrap, table(prefix, 2, replication=1))
    create_topics(kafka_broker.bootstrap, table(prefix, 2, replication=1))  # they exist: nothing to do
    return f"{prefix}.events"


def write(bootstrap: str, topic: str, values: list[tuple[int, bytes | None]], **config: object) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, **config})
    for partition, value in values:
        producer.produce(topic, value, b"key", partition)
    assert producer.flush(30) == 0


def test_everything_is_read_in_order_without_tombstones(kafka_broker: Broker, topic: str) -> None:
    encode = Codec().encode
    values = [(number % 2, encode(Progress(number))) for number in range(2500)]
    write(kafka_broker.bootstrap, topic, [*values, (0, None), (1, b"torn")])
    with Topic(kafka_broker.bootstrap, topic) as reader:
        assert reader.partitions == 2
        kept = list(reader.read_to_end())
    for partition in range(2):
        mine = [each for each in kept if each.partition == partition and isinstance(each.record, Progress)]
        assert [each.record.src_offset for each in mine] == list(range(partition, 2500, 2))
        assert [each.offset for each in mine] == sorted(each.offset for each in mine)
    assert len([each for each in kept if isinstance(each.record, Undecodable)]) == 1


def test_an_empty_topic_has_an_end(kafka_broker: Broker, topic: str) -> None:
    with Topic(kafka_broker.bootstrap, topic) as reader:
        assert list(reader.read_to_end()) == []


def test_what_was_aborted_is_not_in_the_log(kafka_broker: Broker, topic: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": f"id-{topic}"}
    )
    producer.init_transactions(30)
    for number, commits in ((1, True), (2, False), (3, True)):
        producer.begin_transaction()
        producer.produce(topic, Codec().encode(Progress(number)), b"key", 0)
        if commits:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    with Topic(kafka_broker.bootstrap, topic) as reader:
        assert [kept.record.src_offset for kept in reader.read_to_end()] == [1, 3]


def test_a_topic_that_is_missing_is_named(kafka_broker: Broker) -> None:
    with pytest.raises(LocalError, match="no-such-topic cannot be read"):
        Topic(kafka_broker.bootstrap, "no-such-topic")


def test_a_topic_that_cannot_be_made_is_named(kafka_broker: Broker) -> None:
    with pytest.raises(LocalError, match=r"topic too-many\.events cannot be made"):
        create_topics(kafka_broker.bootstrap, table("too-many", 1, replication=9))
