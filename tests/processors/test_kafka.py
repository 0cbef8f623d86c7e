"""Reading to the end of what is committed, and writing all or nothing, on a real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from kubecdc.errors import Misconfigured, Unreachable
from local.ports import free_port
from processors import kafka
from processors.errors import Fenced, Stalled
from processors.kafka import Cluster, Layout
from processors.settings import KafkaSettings
from tests.processors.log import Log


@pytest.fixture
def log(kafka_broker):
    return Log(kafka_broker.bootstrap, partitions=2)


def cluster_of(log):
    return Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))


def test_tells_what_the_topics_are_like_or_what_is_wrong(log):
    assert cluster_of(log).layout() == Layout(2, 7 * 24 * 3600 * 1000)
    with pytest.raises(Misconfigured) as told:
        Cluster(KafkaSettings(log.bootstrap, "nowhere")).layout()
    assert len(told.value.problems) == 4
    with pytest.raises(Unreachable, match="does not answer"):
        Cluster(KafkaSettings(f"127.0.0.1:{free_port()}")).layout()


def test_reads_the_latest_of_each_key_although_the_topic_ends_in_control_records(log):
    """The end of a transactional topic is a marker that no reader sees (kafka.md 6.5, no. 7)."""
    cluster = cluster_of(log)
    writer = cluster.writer(1)
    writer.fence()
    writer.write([], [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")])
    writer.write([], [(b"a", b"2"), (b"b", None)])
    assert cluster.committed(log.names.state, 1) == {b"a": b"2", b"c": b"1"}
    assert cluster.committed(log.names.state, 0) == {}
    assert cluster.high_watermarks(log.names.state, [0, 1]) == {0: 0, 1: 7}


def test_a_newer_writer_fences_and_what_the_older_left_open_is_never_seen(log):
    cluster = cluster_of(log)
    older, newer = cluster.writer(0), cluster.writer(0)
    older.fence()
    older.write([(b"k", b"kept")], [])
    older._producer.begin_transaction()
    older._produce(log.names.changes, [(b"k", b"open")])
    older._producer.flush(10)
    newer.fence()
    assert cluster.committed(log.names.changes, 0) == {b"k": b"kept"}
    with pytest.raises(Fenced, match="partition 0: another worker has taken it over"):
        older._repeat("commit", older._producer.commit_transaction, 10)
    assert cluster.committed(log.names.changes, 0) == {b"k": b"kept"}


def test_a_foreign_open_transaction_stalls_recovery_loudly(log, monkeypatch):
    monkeypatch.setattr(kafka, "RECOVERY_SILENCE_S", 1.0)
    cluster = cluster_of(log)
    foreign = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"foreign-{log.prefix}"})
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(log.names.state, b"x", b"x", 0)
    foreign.flush(10)
    with pytest.raises(Stalled, match="stopped at offset 0 of 1"):
        cluster.committed(log.names.state, 0)
    monkeypatch.undo()  # markers follow the answer by a moment
    foreign.abort_transaction(30)
    assert cluster.committed(log.names.state, 0) == {}
