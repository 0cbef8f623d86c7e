"""Topics are made and described as they are, topics are read to their end, and an absent broker is told in seconds."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

from kubecdc import kafka, topics
from kubecdc.errors import ChainBroken, Misconfigured, Unreachable
from kubecdc.kafka import TopicReader
from kubecdc.start import BEGINNING, END, Start, Where
from local.broker import Broker
from tests.kubecdc.logs import Log
from tests.kubecdc.making import change

NOWHERE = "127.0.0.1:9"


@pytest.fixture
def prefix() -> str:
    return f"k-{uuid.uuid4().hex[:8]}"


def read_all(reader: TopicReader) -> list[kafka.Stored]:
    found = []
    while not reader.done:
        found += reader.poll(0.2)
    reader.close()
    return found


def test_topics_are_made_once_and_pass_the_check(kafka_broker: Broker, prefix: str):
    specs = topics.table(prefix, 3, 1)
    assert sorted(kafka.create_topics(kafka_broker.bootstrap, specs)) == sorted(spec.name for spec in specs)
    assert kafka.create_topics(kafka_broker.bootstrap, specs) == []
    live = kafka.live_topics(kafka_broker.bootstrap, prefix)
    assert topics.check(prefix, live) == []
    for spec in specs:
        topic = live[spec.name]
        assert (topic.partitions, topic.replication) == (3, 1)
        assert spec.config().items() <= topic.config.items()
    assert kafka.require_topics(kafka_broker.bootstrap, prefix) == 3


def test_wrong_topics_are_refused_with_every_fault(kafka_broker: Broker, prefix: str):
    with pytest.raises(Misconfigured) as caught:
        kafka.require_topics(kafka_broker.bootstrap, prefix)
    assert len(caught.value.problems) == 4
    kafka.create_topics(kafka_broker.bootstrap, topics.table(prefix, 2, 1))
    admin = AdminClient(kafka.connection(kafka_broker.bootstrap))
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in (("cleanup.policy", "delete"), ("max.message.bytes", "1000"))
    ]
    wrong = ConfigResource(ResourceType.TOPIC, f"{prefix}.changes", incremental_configs=entries)
    admin.incremental_alter_configs([wrong])[wrong].result(20)
    deadline = time.monotonic() + 20
    problems: list[str] = []
    while len(problems) < 2 and time.monotonic() < deadline:
        problems = topics.check(prefix, kafka.live_topics(kafka_broker.bootstrap, prefix))
    assert len(problems) == 2
    assert "cleanup.policy=delete" in problems[0]
    assert "at most 1000 bytes" in problems[1]


def test_a_topic_that_the_broker_refuses_is_told_with_its_reason(kafka_broker: Broker, prefix: str):
    with pytest.raises(Misconfigured, match=r"cannot be created: .*replication"):
        kafka.create_topics(kafka_broker.bootstrap, topics.table(prefix, 1, 3))


def test_one_broker_counts_as_one(kafka_broker: Broker):
    assert kafka.brokers(kafka_broker.bootstrap) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: kafka.live_topics(NOWHERE, "p"),
        lambda: kafka.create_topics(NOWHERE, topics.table("p", 1, 1)),
        lambda: kafka.brokers(NOWHERE),
        lambda: TopicReader(NOWHERE, "p.changes", BEGINNING, follow=False),
    ],
)
def test_an_absent_broker_is_told_in_seconds(call: Callable[[], object]):
    begun = time.monotonic()
    with pytest.raises(Unreachable, match=NOWHERE):
        call()
    assert time.monotonic() - begun < 15


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"nosuch.prop": "1"}, 'No such configuration property: "nosuch.prop"'),
        ({"security.protocol": "secret"}, 'Invalid value for configuration property "security.protocol"'),
        ({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}, "sasl.username and sasl.password must be"),
        ({"socket.timeout.ms": "9999999"}, r'"socket.timeout.ms" value 9999999 is outside allowed range .*\d$'),
        ({"error_cb": "x"}, "error_cb"),
    ],
)
def test_a_property_that_the_client_refuses_is_named(properties: dict[str, str], told: str):
    given = tuple(properties.items())
    for call in (
        lambda: kafka.live_topics(NOWHERE, "p", given),
        lambda: kafka.create_topics(NOWHERE, topics.table("p", 1, 1), given),
        lambda: TopicReader(NOWHERE, "p.changes", BEGINNING, follow=False, properties=given),
    ):
        with pytest.raises(Misconfigured, match=told) as caught:
            call()
        assert "secret" not in str(caught.value)


def test_a_property_that_only_a_reader_refuses_is_named():
    with pytest.raises(Misconfigured, match=r"fetch\.max\.bytes"):
        TopicReader(NOWHERE, "p.c", BEGINNING, follow=False, properties=(("fetch.max.bytes", "1"),))


def test_a_broker_that_answers_without_an_offset_is_asked_again():
    """Taken for one, -1001 would be the end of a topic that was made anew."""
    answers = iter([-1001, -1, 7])

    class Client:
        def list_offsets(self, asked, **_):
            offset = next(answers)
            futures = {place: Future() for place in asked}
            for future in futures.values():
                future.set_result(SimpleNamespace(offset=offset))
            return futures

    assert kafka.edges(Client(), "t", [3], kafka.NEXT) == {3: 7}
    assert kafka.edges(Client(), "t", [], kafka.NEXT) == {}


def test_reading_ends_at_the_end_and_skips_what_was_aborted(kafka_broker: Broker):
    log = Log(kafka_broker.bootstrap, partitions=3)
    log.write(*[change(uid=f"u{number}") for number in range(50)])
    log.write(change(uid="aborted"), commit=False)
    reader = TopicReader(log.bootstrap, log.names.changes, BEGINNING, follow=False)
    assert reader.partitions == 3
    assert reader.whole == {0, 1, 2}
    found = read_all(reader)
    assert sorted(str(record.key) for record in found) == sorted(str(f"u{n}".encode()) for n in range(50))
    for partition in range(3):
        offsets = [record.offset for record in found if record.partition == partition]
        assert offsets == sorted(set(offsets))
        assert reader.positions[partition] == max(offsets) + 1


def test_where_reading_begins(kafka_broker: Broker):
    log = Log(kafka_broker.bootstrap, partitions=1)
    log.write(*[change(uid=f"u{number}") for number in range(5)], at_ms=1_000_000)
    log.write(change(uid="u5"), at_ms=2_000_000)

    def begun(start: Start) -> list[int]:
        reader = TopicReader(log.bootstrap, log.names.changes, start, follow=False)
        assert reader.whole == ({0} if start == BEGINNING else frozenset())
        return [record.offset for record in read_all(reader)]

    assert begun(BEGINNING) == [0, 1, 2, 3, 4, 6]
    assert begun(END) == []
    assert begun(Start(Where.OFFSETS, 3)) == [3, 4, 6]
    assert begun(Start(Where.OFFSETS, 7)) == []
    assert begun(Start(Where.OFFSETS, 0, {0: 4})) == [4, 6]
    assert begun(Start(Where.TIME, time_ms=1_500_000)) == [6]
    assert begun(Start(Where.TIME, time_ms=int(time.time() * 1000) + 3_600_000)) == []


@pytest.mark.parametrize(
    ("start", "told"),
    [
        (Start(Where.OFFSETS, 99), "ends at offset 4 at the latest, there is no 99"),
        (Start(Where.OFFSETS, 0, {0: 0, 7: 3}), "has no partition 7: it has 2, numbered from 0"),
        (Start(Where.OFFSETS, 0, {0: 99}), "partition 0 ends at offset .*, there is no 99: was the topic made anew"),
    ],
)
def test_places_that_do_not_exist_are_refused(start: Start, told: str, kafka_broker: Broker):
    log = Log(kafka_broker.bootstrap)
    log.write(*[change(uid=uid) for uid in ("u1", "u1", "u1")])
    with pytest.raises(Misconfigured, match=told):
        TopicReader(log.bootstrap, log.names.changes, start, follow=False)


def test_records_deleted_before_they_were_read_are_told_not_jumped_over(kafka_broker: Broker, prefix: str):
    """A compacted topic refuses that; one with another policy, made by somebody else, does not."""
    topic = f"{prefix}.changes"
    admin = AdminClient(kafka.connection(kafka_broker.bootstrap))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)
    producer = Producer(kafka.connection(kafka_broker.bootstrap))
    for number in range(5):
        producer.produce(topic, value=str(number), partition=0)
    assert producer.flush(30) == 0
    reader = TopicReader(kafka_broker.bootstrap, topic, Start(Where.OFFSETS, 5), follow=True)
    place = TopicPartition(topic, 0, 4)
    admin.delete_records([place])[place].result(20)
    reader._consumer.seek(TopicPartition(topic, 0, 1))

    def read_on() -> None:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            reader.poll(0.2)

    with pytest.raises(ChainBroken, match="deleted before they were read"):
        read_on()
    reader.close()


def test_a_broker_that_dies_while_a_topic_is_read_to_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path):
    """It is told, within the time that the reader grants, and never taken for the end."""
    monkeypatch.setattr(kafka, "ANSWER_S", 2.0)
    with Broker(tmp_path / "kafka") as broker:
        log = Log(broker.bootstrap, partitions=1)
        log.write(*[change(uid=f"u{number}") for number in range(5)])
        reader = TopicReader(log.bootstrap, log.names.changes, BEGINNING, follow=False)
        broker.kill()
        with pytest.raises(Unreachable, match="stopped to deliver"):
            read_all(reader)
    reader.close()
