"""Guarantees: on a real broker records arrive whole and in order, acks come for each, positions newest first.

Wrong topics and absent brokers end with one clear error in seconds, and waiting is bounded.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from kubecdc import kafka, topics, wire
from kubecdc.errors import Misconfigured, Unreachable
from kubecdc.start import BEGINNING
from local.broker import Broker
from producer.errors import SinkFailed
from producer.kafka import KafkaSink
from producer.settings import KafkaSettings


@pytest.fixture
def prefix(kafka_broker: Broker) -> str:
    name = f"t{uuid.uuid4().hex[:8]}"
    kafka.create_topics(kafka_broker.bootstrap, topics.table(name, 3, 1))
    return name


@pytest.fixture
def sink(kafka_broker: Broker, prefix: str) -> Iterator[KafkaSink]:
    made = KafkaSink(KafkaSettings(kafka_broker.bootstrap, prefix))
    yield made
    made.close()


def read_all(bootstrap: str, topic: str) -> list[kafka.Stored]:
    reader = kafka.TopicReader(bootstrap, topic, BEGINNING, follow=False)
    records: list[kafka.Stored] = []
    try:
        while not reader.done:
            records += reader.poll(0.2)
    finally:
        reader.close()
    return records


def test_records_arrive_in_their_partition_and_are_acknowledged_in_order(
    kafka_broker: Broker, prefix: str, sink: KafkaSink
) -> None:
    acked: list[int] = []
    for number in range(3000):
        sink.send(number % 3, b"k%d" % number, b"v" * 500, lambda number=number: acked.append(number))
    sink.send(1, b"k1", None, lambda: acked.append(3000))
    assert sink.flush(20)
    assert sorted(acked) == list(range(3001))
    for partition in range(3):
        order = [number for number in acked if number % 3 == partition and number < 3000]
        assert order == sorted(order)
    records = read_all(kafka_broker.bootstrap, f"{prefix}.events")
    assert len(records) == 3001
    assert [r.key for r in records if r.partition == 1][-1] == b"k1"
    assert [r.value for r in records if r.partition == 1][-1] is None


def test_headers_arrive_with_a_tombstone(kafka_broker: Broker, prefix: str, sink: KafkaSink) -> None:
    sink.send(0, b"k", None, lambda: None, [(wire.DELETED_HEADER, b"told")])
    assert sink.flush(20)
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap, "group.id": "none"})
    consumer.assign([TopicPartition(f"{prefix}.events", 0, 0)])
    try:
        message = consumer.poll(20)
    finally:
        consumer.close()
    assert message is not None
    assert (message.value(), message.headers()) == (None, [("kubecdc.deleted", b"told")])


def test_positions_are_read_back_newest_only(kafka_broker: Broker, prefix: str, sink: KafkaSink) -> None:
    for number in range(50):
        sink.store_position(b"c//pods/", b"p%d" % number)
    sink.store_position(b"c//nodes/", b"n")
    assert sink.flush(20)
    assert dict(sink.positions(None)[0]) == {"c//pods/": b"p49", "c//nodes/": b"n"}
    assert sink.partitions == 3


def test_what_is_stored_now_is_there_when_the_call_returns(kafka_broker: Broker, prefix: str, sink: KafkaSink) -> None:
    sink.store_now(b"__epoch__/c//pods/", b"2")
    assert [r.value for r in read_all(kafka_broker.bootstrap, f"{prefix}.positions")] == [b"2"]
    sink.close()
    with pytest.raises(SinkFailed, match="closed"):
        sink.store_now(b"__epoch__/c//pods/", b"3")


def test_later_reads_of_positions_give_what_others_have_stored_since(
    kafka_broker: Broker, prefix: str, sink: KafkaSink
) -> None:
    """They are looked at all the time, for epochs that another producer has begun; the topic may be long."""
    sink.store_position(b"c//pods/", b"mine")
    assert sink.flush(20)
    found, place = sink.positions(None)
    assert found == [("c//pods/", b"mine")]
    assert sink.positions(place) == ([], place)
    other = KafkaSink(KafkaSettings(kafka_broker.bootstrap, prefix))
    try:
        other.store_position(b"c//pods/", b"theirs")
        assert other.flush(20)
    finally:
        other.close()
    assert sink.positions(place)[0] == [("c//pods/", b"theirs")]
    assert len(sink.positions(None)[0]) == 2


def test_the_state_topic_is_read_as_it_was_committed(kafka_broker: Broker, prefix: str, sink: KafkaSink) -> None:
    worker = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": prefix})
    worker.init_transactions(30)
    for value, committed in ((b"1", True), (b"2", False), (None, True)):
        worker.begin_transaction()
        worker.produce(f"{prefix}.state", key=b"u", value=value, partition=0)
        worker.produce(f"{prefix}.state", key=b"v", value=b"w", partition=1)
        (worker.commit_transaction if committed else worker.abort_transaction)()
    read = list(sink.state())
    assert [value for key, value in read if key == b"u"] == [b"1", None]
    assert (b"v", b"w") in read


def test_wrong_topics_are_refused_with_every_fault(kafka_broker: Broker) -> None:
    with pytest.raises(Misconfigured) as caught:
        KafkaSink(KafkaSettings(kafka_broker.bootstrap, f"absent{uuid.uuid4().hex[:8]}"))
    assert len(caught.value.problems) == 4


def test_an_absent_broker_is_told_within_seconds() -> None:
    started = time.monotonic()
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:9 does not answer"):
        KafkaSink(KafkaSettings("127.0.0.1:9"))
    assert time.monotonic() - started < 12


def test_a_record_over_the_limit_is_an_error_and_no_loss(sink: KafkaSink) -> None:
    with pytest.raises(SinkFailed):
        sink.send(0, b"k", b"v" * (5 * 1024 * 1024), lambda: None)


def test_a_closed_sink_refuses(sink: KafkaSink) -> None:
    sink.close()
    with pytest.raises(SinkFailed):
        sink.send(0, b"k", b"v", lambda: None)


def test_a_frozen_broker_holds_the_sender_back_and_nothing_is_lost(tmp_path_factory: pytest.TempPathFactory) -> None:
    with Broker(tmp_path_factory.mktemp("frozen")) as broker:
        kafka.create_topics(broker.bootstrap, topics.table("f", 1, 1))
        sink = KafkaSink(KafkaSettings(broker.bootstrap, "f", buffer_mb=1))
        acked: list[int] = []
        broker.freeze()
        sender = threading.Thread(
            target=lambda: [sink.send(0, b"k", b"%08d" % n * 2000, lambda n=n: acked.append(n)) for n in range(400)]
        )
        sender.start()
        sender.join(2.0)
        assert sender.is_alive()
        assert acked == []
        broker.thaw()
        sender.join(60.0)
        assert not sender.is_alive()
        assert sink.flush(60)
        assert acked == list(range(400))
        sink.close()
