"""What others have reported of exactly-once on Kafka, in our own words, against both shells (kafka.md 6.5).

Each test names its report. A shell that a report concerns runs as a process on a real broker; the canonical log is
compared with what one uninterrupted task would write.
"""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.records import Cause, EventType, Op
from local.broker import Broker
from local.children import poll
from processors import crash, kafka
from processors.errors import Stop
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.settings import KafkaSettings
from processors.task import PartitionTask
from tests.chaos.kafkas import Kafkas
from tests.processors import workers
from tests.processors.log import Log
from tests.processors.raw import raw

RUNTIMES = pytest.mark.parametrize("runtime", ["plain", "faust"])
HISTORY_MS = 7 * 24 * 3600 * 1000


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    properties = {"group.min.session.timeout.ms": "500", "log.cleaner.backoff.ms": "200"}
    properties["log.initial.task.delay.ms"] = "500"
    running = Broker(tmp_path_factory.mktemp("reports"), properties=properties)
    running.launch()
    try:
        running.wait_ready(600)  # several servers at once may share two cores
        yield running
    finally:
        running.kill()


@pytest.fixture
def log(broker):
    log = Log(broker.bootstrap, partitions=2)
    log.first_list(f"u{n}" for n in range(20))
    log.flush()
    return log


def task_of(log, bootstrap=None):
    cluster = Cluster(KafkaSettings(bootstrap or log.bootstrap, log.prefix, log.prefix))
    return PartitionTask(0, cluster, Metrics(), noise="emit", history_ms=HISTORY_MS)


def committed(log):
    """Offsets of the workers' group, as any tool sees them."""
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": log.prefix})
    try:
        asked = [TopicPartition(log.names.events, partition) for partition in range(log.partitions)]
        return {place.partition: place.offset for place in consumer.committed(asked, timeout=20)}
    finally:
        consumer.close()


@RUNTIMES
def test_1_offsets_committed_past_work_in_flight_lose_nothing(log, tmp_path, runtime):
    """faust#606: one slow message, the later ones acknowledged, kill -9; the group's offset had passed the slow one."""
    log.history(200)
    consumer = Consumer({"bootstrap.servers": log.bootstrap, "group.id": log.prefix, "enable.auto.commit": False})
    ends = [TopicPartition(log.names.events, p, log.events(p)[-1][0] + 1) for p in range(log.partitions)]
    consumer.commit(offsets=ends, asynchronous=False)
    consumer.close()
    workers.finish(log, workers.start(log, tmp_path, runtime))
    assert log.exact()


def in_transactions(log, count):
    """Events by a transactional producer: each commit leaves a mark that takes an offset, the last one at the end."""
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"source-{log.prefix}"})
    producer.init_transactions(30)
    codec = Codec()
    for number in range(count):
        producer.begin_transaction()
        uid = f"u{number % 20}"
        partition = wire.partition_of(uid, log.partitions)
        seq = log.seqs["s1", partition]
        log.seqs["s1", partition] = seq + 1
        event = raw(EventType.MODIFIED, uid, str(100 + number), session="s1", seq=seq)
        producer.produce(log.names.events, codec.encode(event), uid.encode(), partition)
        producer.commit_transaction(30)


@RUNTIMES
def test_2_a_source_with_holes_has_no_lag_and_is_not_read_again(log, tmp_path, runtime):
    """faust#312, robinhood/faust#401: offsets 0, 3, 4, 9 with a mark at the end, a fresh group: commits got stuck.

    Here a worker that has nothing to do must not take the mark at the end for work that is never done, and end.
    """
    in_transactions(log, 12)
    worker = workers.start(log, tmp_path, runtime, stuck_after=8, session_s=2)
    assert poll(lambda: not worker.alive or log.written(), 90, 0.5), worker.tail(40)
    last = {p: log.events(p)[-1][0] + 1 for p in range(log.partitions)}
    assert poll(lambda: committed(log) == last, 30, 0.5)
    assert not poll(lambda: not worker.alive, 20, 0.5), worker.tail(40)
    worker.stop(30)
    again = workers.start(log, tmp_path, runtime)
    assert poll(lambda: again.tail(1000).count("resuming at offset") == log.partitions, 60, 0.3), again.tail(40)
    told = again.tail(1000)
    assert all(f"resuming at offset {log.progress(p) + 1}" in told for p in range(log.partitions))
    workers.finish(log, again)
    assert log.exact()


@RUNTIMES
def test_3_what_nobody_can_read_is_named_and_the_partition_goes_on(log, tmp_path, runtime):
    """faust#527, #315, robinhood/faust#604: an exception on one message acknowledged it, and it was lost."""
    log.history(30)
    uids = {wire.partition_of(f"u{n}", 2): f"u{n}".encode() for n in range(20)}
    log.put_bytes(0, uids[0], b"\xc3\x01 poison")
    log.put_bytes(1, uids[1], b"")
    log.history(30, start=100)
    workers.finish(log, workers.start(log, tmp_path, runtime))
    assert log.exact()
    for partition in range(log.partitions):
        poisoned = [offset for offset, _, _, value in log.events(partition) if value in (b"\xc3\x01 poison", b"")]
        gaps = [change.gap for _, change in log.changes(partition) if change and change.op is Op.GAP and change.gap]
        assert [gap.cause for gap in gaps] == [Cause.UNDECODABLE]
        assert f"offset {poisoned[0]}:" in gaps[0].detail


def test_3_an_event_that_cannot_be_handled_is_never_skipped(log):
    """What is sound by the schema and breaks a rule of ours ends the worker with its place, at each start again."""
    records = log.events(0)
    broken = [(records[0][0], None, records[0][2], records[0][3])]  # a time that cannot be
    for _ in range(2):
        task = task_of(log)
        assert task.open() == 0
        with pytest.raises(Stop, match=r"partition 0, offsets 0 to 0"):
            task.process(broken)
    good = task_of(log)
    good.open()
    good.process(records)
    assert log.changes(0) == log.oracle(0)


def uncommitted(log, topic, partition):
    """Records that lie in the log, whatever became of their transaction."""
    settings = {"bootstrap.servers": log.bootstrap, "group.id": "peek", "isolation.level": "read_uncommitted"}
    consumer = Consumer({**settings, "enable.partition.eof": True, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    count = 0
    try:
        while True:
            for message in consumer.consume(500, 1):
                error = message.error()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return count
                count += error is None
    finally:
        consumer.close()


@RUNTIMES
def test_4_what_a_killed_worker_had_written_is_in_its_transaction_and_never_seen(log, tmp_path, runtime):
    """faust#517, #177: outputs went outside of the transaction, and were there twice after a kill."""
    log.history(60)
    worker = workers.start(log, tmp_path, runtime, crash_at="before_commit")
    assert poll(lambda: not worker.alive, 60, 0.05), worker.tail(40)
    assert any(uncommitted(log, log.names.changes, p) for p in range(log.partitions))
    workers.finish(log, workers.start(log, tmp_path, runtime))
    assert log.exact()


@RUNTIMES
def test_5_a_worker_that_wakes_up_late_is_fenced_and_writes_nothing(log, tmp_path, runtime):
    """aiokafka#844, faust#323: a member that was paused commits after its partition has gone to another."""
    log.history(60)
    sleeper = workers.start(log, tmp_path, runtime, session_s=2, app=log.prefix)
    assert poll(lambda: not sleeper.alive or log.written(), 60, 0.3), sleeper.tail(40)
    sleeper.freeze()
    (tmp_path / f"{runtime}.log").rename(tmp_path / "sleeper.log")
    log.history(60, start=200)
    other = workers.start(log, tmp_path, runtime, session_s=2)
    assert poll(lambda: not other.alive or log.written(), 90, 0.3), other.tail(40)
    sleeper.thaw()
    log.history(60, start=400)
    assert poll(log.written, 60, 0.3)
    sleeper.stop(30)
    other.stop(30)
    assert log.exact()


@RUNTIMES
def test_6_state_written_before_the_commit_is_not_believed_after_it_failed(log, tmp_path, runtime):
    """KAFKA-9891: state ahead of the output made a replayed event a duplicate, and its output was lost."""
    for number, point in enumerate(("after_produce", "before_commit")):
        log.history(40, start=11 + 100 * number)
        worker = workers.start(log, tmp_path, runtime, crash_at=point)
        assert poll(lambda worker=worker: not worker.alive, 60, 0.05), worker.tail(40)
    workers.finish(log, workers.start(log, tmp_path, runtime))
    assert log.exact()


def test_6_a_partition_that_goes_away_and_comes_back_is_read_anew(log):
    """KAFKA-14172: its former owner had kept a memory of it that others had outdated."""
    records = log.events(0)
    first, second = task_of(log), task_of(log)
    first.open()
    first.process(records[:1])
    first.close()
    assert second.open() == 1
    second.process(records[:2])
    second.close()
    assert first.open() == 2
    first.process(records)
    assert log.changes(0) == log.oracle(0)


def test_7_recovery_ends_although_the_end_of_the_state_is_no_record(log):
    """quix-streams#1017, aiokafka#911: the last offset was a mark, or compacted away, and recovery waited for it."""
    settings = {"segment.ms": "500", "min.cleanable.dirty.ratio": "0.01", "delete.retention.ms": "100"}
    entries = [ConfigEntry(n, v, incremental_operation=AlterConfigOpType.SET) for n, v in settings.items()]
    asked = ConfigResource(ResourceType.TOPIC, log.names.state, incremental_configs=entries)
    for future in log.admin.incremental_alter_configs([asked]).values():
        future.result(timeout=30)
    records = log.events(0)
    task = task_of(log)
    task.open()
    for record in records:
        task.process([record])
    cluster = Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))
    before = uncommitted(log, log.names.state, 0)

    def cleaned():
        log.put(EventType.MODIFIED, "u1", str(1000 + log.seqs["s1", wire.partition_of("u1", 2)]))
        log.flush()
        task.process(log.events(0))
        return uncommitted(log, log.names.state, 0) < before

    assert poll(cleaned, 60, 1)
    other = task_of(log)
    with_recovery = threading.Thread(target=other.open)
    with_recovery.start()
    with_recovery.join(15)
    assert not with_recovery.is_alive()
    assert other.next_offset == log.progress(0) + 1
    assert cluster.high_watermarks(log.names.state, (0,))[0] > uncommitted(log, log.names.state, 0)


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "swallowed"])
def test_9_a_commit_whose_reply_is_lost_is_neither_repeated_nor_taken_back(tmp_path, monkeypatch, cut):
    """librdkafka#4558, #5423, Jepsen's Bufstream: the commit times out although it is done."""
    monkeypatch.setattr(kafka, "COMMIT_S", 3.0)
    kafkas = Kafkas(tmp_path, 1)
    kafkas.start()
    try:
        log = Log(kafkas.bootstrap, partitions=1)
        log.first_list(f"u{n}" for n in range(20))
        log.history(120)
        records = log.events(0)
        task = task_of(log, kafkas.clients)
        task.open()
        half = len(records) // 2
        task.process(records[:half])
        kafkas.relays[0].lose_end_txn(cut=cut)
        assert task.process(records[half:]) == records[-1][0] + 1
        assert kafkas.relays[0].lost == 1
        assert log.exact()
    finally:
        kafkas.stop()


def test_every_crash_point_is_known_to_the_reports():
    """A point that is renamed would make a test above kill nothing."""
    assert {"after_produce", "before_commit"} <= set(crash.POINTS)
