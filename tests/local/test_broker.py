"""The local Kafka: ready means usable, data outlive a crash, and each failure names its mend."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from local import ports
from local.broker import Broker
from local.errors import FolderUnusable, LocalError, NotReady, PortTaken, ServerDied

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET = {"log_level": 0, "error_cb": lambda _: None}


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One that tests of this module may kill; each leaves it running."""
    with Broker(tmp_path_factory.mktemp("own"), properties={"log.retention.hours": "1"}) as broker:
        yield broker


def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, **QUIET})


def make_topic(broker: Broker, topic: str, partitions: int = 1) -> None:
    client = admin(broker)  # its answers die with it
    for future in client.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result(20)


def produce(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", **QUIET})
    producer.produce(topic, value)
    assert producer.flush(20) == 0


def first_value(broker: Broker, topic: str) -> bytes | None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "test", **QUIET})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        return message.value()
    finally:
        consumer.close()


def test_ready_broker_takes_topics_and_transactions(kafka_broker: Broker) -> None:
    make_topic(kafka_broker, "broker-transactions", partitions=3)
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": "broker-test", **QUIET})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce("broker-transactions", b"in a transaction", partition=0)
    producer.commit_transaction(20)
    assert first_value(kafka_broker, "broker-transactions") == b"in a transaction"


def test_topics_are_never_made_by_accident(kafka_broker: Broker) -> None:
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, **QUIET})
    asked = producer.list_topics("broker-unknown", 20).topics["broker-unknown"]
    assert asked.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert "broker-unknown" not in producer.list_topics(timeout=20).topics


def test_given_properties_reach_the_broker_beside_our_own(own_broker: Broker) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    client = admin(own_broker)
    config = client.describe_configs([resource])[resource].result(20)
    assert config["log.retention.hours"].value == "1"
    assert config["message.max.bytes"].value == str(4 * 1024 * 1024)
    assert config["transaction.state.log.replication.factor"].value == "1"


def test_records_survive_a_crash_and_a_restart(own_broker: Broker) -> None:
    make_topic(own_broker, "broker-survives")
    produce(own_broker, "broker-survives", b"acknowledged")
    address = own_broker.bootstrap
    own_broker.kill()
    assert not own_broker.alive
    assert own_broker.killed
    own_broker.start()
    assert not own_broker.killed
    assert first_value(own_broker, "broker-survives") == b"acknowledged"
    own_broker.restart()
    assert own_broker.bootstrap == address
    assert first_value(own_broker, "broker-survives") == b"acknowledged"


def test_frozen_broker_is_not_ready_until_it_goes_on(own_broker: Broker) -> None:
    own_broker.freeze()
    try:
        with pytest.raises(NotReady, match=r"(?s)did not answer.*broker\.log"):
            own_broker.wait_ready(timeout_seconds=0.1)
        assert own_broker.alive
    finally:
        own_broker.thaw()
    own_broker.wait_ready()


def test_second_start_is_refused(own_broker: Broker) -> None:
    with pytest.raises(LocalError, match="runs already"):
        own_broker.start()


def test_a_folder_on_which_a_broker_runs_is_refused_and_left_as_it_is(own_broker: Broker) -> None:
    folder = own_broker.log.parent
    before = (folder / "server.properties").read_bytes()
    with pytest.raises(FolderUnusable, match="another server runs on"):
        Broker(folder).start()
    assert (folder / "server.properties").read_bytes() == before
    assert own_broker.alive


def test_taken_port_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with socket.create_server((ports.HOST, 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(PortTaken, match=str(port)):
            Broker(tmp_path / "data", port=port).start()
    assert not (tmp_path / "data").exists()


def test_setting_that_kafka_refuses_is_shown(tmp_path: Path) -> None:
    broker = Broker(tmp_path, properties={"num.io.threads": "none"})
    with pytest.raises(ServerDied, match=r"num\.io\.threads"):
        broker.start()
    assert not broker.alive


def test_broker_that_dies_at_its_start_shows_its_log(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "meta.properties").write_text("version=1\ncluster.id=another\nnode.id=7\n")
    with pytest.raises(ServerDied, match=r"(?s)ended at its start.*broker\.log.*node id 7 doesn't"):
        Broker(tmp_path).start()


def test_stop_before_start_does_nothing(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.stop()
    broker.kill()
    assert not broker.alive
    with pytest.raises(LocalError, match="never started"):
        _ = broker.pid
