"""A partition task on a real broker: whatever happens, the canonical log is what one uninterrupted task would write."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import pytest
from confluent_kafka import TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.codec import Codec
from kubecdc.records import TOO_LARGE, Cause, EventType, Op
from kubecdc.wire import DELETED_HEADER
from local.broker import Broker
from processors import fitting, kafka, task
from processors.errors import Fenced, Stop, Stuck
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.settings import KafkaSettings
from processors.task import PartitionTask, cut
from producer.convert import remnant
from tests.processors.log import Log
from tests.processors.raw import raw

HISTORY_MS = 7 * 24 * 3600 * 1000


@pytest.fixture
def log(kafka_broker):
    return Log(kafka_broker.bootstrap, partitions=1)


def made(log, metrics=None):
    cluster = Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))
    return PartitionTask(0, cluster, metrics or Metrics(), noise="emit", history_ms=HISTORY_MS)


def filled(log, count=300):
    log.first_list(f"u{n}" for n in range(20))
    log.history(count)
    return log.events(0)


def test_writes_what_the_pure_part_decides_and_says_how_far_it_is(log):
    records = filled(log)
    metrics = Metrics()
    worker = made(log, metrics)
    assert not worker.recovered
    assert worker.open() == 0
    assert worker.recovered
    assert worker.process(records) == worker.next_offset == records[-1][0] + 1
    assert log.exact()
    assert metrics.value("changes_total", op="snapshot") == 20
    assert metrics.value("verdicts_total", verdict="duplicate") > 0
    assert metrics.value("source_offset", partition="0") == records[-1][0] + 1


def test_a_new_task_resumes_after_what_is_committed_and_ignores_repeats(log):
    records = filled(log)
    first = made(log)
    first.open()
    first.process(records[:150])
    second = made(log)
    assert second.open() == records[149][0] + 1
    second.process(records[100:])
    assert log.exact()


def test_what_a_closed_task_knew_goes_without_the_garbage_collector(log):
    """After a recovery all is frozen: what only a collector could free would stay with each rebalance (G6)."""
    records = filled(log)
    first = made(log)
    first.open()
    first.process(records)
    first.close()
    second = made(log)
    second.open()
    gone = weakref.ref(second)
    gc.disable()
    try:
        second.close()
        del second
        assert gone() is None
    finally:
        gc.enable()


def test_a_zombie_is_fenced_and_none_of_its_records_is_seen(log):
    records = filled(log)
    zombie, owner = made(log), made(log)
    zombie.open()
    zombie.process(records[:100])
    assert owner.open() == records[99][0] + 1
    with pytest.raises(Fenced, match="taken it over"):
        zombie.process(records[100:200])
    assert not zombie.recovered
    owner.process(records[100:])
    assert log.exact()


def test_an_open_transaction_of_a_dead_owner_ends_with_the_fence(log):
    """Otherwise readers would wait for its timeout, and recovery with them."""
    records = filled(log)
    dead = made(log)
    dead.open()
    dead._writer._producer.begin_transaction()
    dead._writer._produce(log.names.changes, [(b"u1", b"never committed")])
    dead._writer._produce(log.names.state, [(b"u1", b"never committed")])
    dead._writer._producer.flush(10)
    owner = made(log)
    began = time.monotonic()
    assert owner.open() == 0
    assert time.monotonic() - began < 20
    owner.process(records)
    assert log.exact()


def test_an_outage_in_the_middle_leaves_no_trace(tmp_path, monkeypatch):
    """A commit that is not answered is neither taken for done nor for undone: the task starts again from the fence."""
    monkeypatch.setattr(kafka, "COMMIT_S", 1.0)
    with Broker(tmp_path / "kafka") as broker:
        log = Log(broker.bootstrap, partitions=1)
        records = filled(log)
        metrics = Metrics()
        worker = made(log, metrics)
        worker.open()
        worker.process(records[:50])
        broker.freeze()
        thaw = threading.Timer(4.0, broker.thaw)
        thaw.start()
        worker.process(records[50:])
        thaw.join()
        assert metrics.value("restarts_total") >= 1
        assert log.exact()


def test_attempts_are_bounded(tmp_path, monkeypatch):
    with Broker(tmp_path / "kafka") as broker:
        log = Log(broker.bootstrap, partitions=1)
        records = filled(log)
        worker = made(log)
        worker.open()
        for name in ("COMMIT_S", "FENCE_S"):
            monkeypatch.setattr(kafka, name, 0.5)
        monkeypatch.setattr(task, "BACKOFF_S", 0.01)
        broker.kill()
        with pytest.raises(Stuck, match="partition 0 could not be taken over in 6 attempts: fencing"):
            worker.process(records)


def test_a_record_that_does_not_decode_is_recorded_and_the_partition_goes_on(log):
    log.first_list(["u1"])
    log.put_bytes(0, b"u1", b"\xc3\x01garbage")
    log.put(EventType.MODIFIED, "u1", "12")
    log.flush()
    worker = made(log)
    worker.open()
    worker.process(log.events(0))
    gaps = [change.gap for _, change in log.changes(0) if change and change.op is Op.GAP and change.gap]
    assert [gap.cause for gap in gaps] == [Cause.UNDECODABLE]
    assert "offset 3" in gaps[0].detail
    assert log.exact()


def test_a_change_too_large_for_its_topic_goes_out_without_the_object_and_is_counted(log):
    """Else the worker would end at it again and again (G6)."""
    event = raw(EventType.ADDED, "u1", "12", session="s1", object='{"a":"' + "x" * fitting.LIMIT_BYTES + '"}')
    metrics = Metrics()
    worker = made(log, metrics)
    worker.open()
    worker.process([(0, 1, b"u1", Codec().encode(event))])
    (change,) = [change for _, change in log.changes(0) if change and change.uid == "u1"]
    assert (change.rv, change.object) == ("12", None)
    assert change.object_omitted.reason == TOO_LARGE
    assert metrics.value("verdicts_total", verdict=fitting.COUNTER) == 1


def test_a_tombstone_tells_of_its_delete_that_was_compacted_away(log):
    """In its headers, which the worker must read where there is no value (G2)."""
    log.first_list(["u1", "u2"])
    seq = log.seqs["s1", 0]
    for uid, skipped in (("u1", 0), ("u2", 1)):
        deleted = raw(EventType.DELETED, uid, f"2{skipped}", session="s1", seq=seq + skipped)
        log.put_bytes(0, uid.encode(), None, [(DELETED_HEADER, Codec().encode(remnant(deleted)))])
    log.put_bytes(0, b"u1", None, [("other", b"header")])
    log.flush()
    worker = made(log)
    worker.open()
    worker.process(log.events(0))
    gone = [(change.uid, change.op, change.rv) for _, change in log.changes(0) if change and change.op is Op.DELETED]
    assert gone == [("u1", Op.DELETED, "20"), ("u2", Op.DELETED, "21")]
    assert log.exact()


def test_a_tombstone_whose_header_does_not_decode_is_recorded(log):
    log.first_list(["u1"])
    log.put_bytes(0, b"u1", None, [(DELETED_HEADER, b"rubbish")])
    log.flush()
    worker = made(log)
    worker.open()
    worker.process(log.events(0))
    causes = [change.gap.cause for _, change in log.changes(0) if change and change.gap]
    assert causes == [Cause.UNDECODABLE]


def test_a_worker_of_another_group_is_fenced_off_not_doubled(log):
    """A renamed --app in a rolling update: both groups own every partition, and one of them must write (G3)."""
    records = filled(log)
    old = made(log)
    old.open()
    old.process(records[:100])
    settings = KafkaSettings(log.bootstrap, log.prefix, "renamed")
    new = PartitionTask(0, Cluster(settings), Metrics(), noise="emit", history_ms=HISTORY_MS)
    new.open()
    with pytest.raises(Fenced):
        old.process(records[100:])
    new.process(records)
    assert log.exact()


def test_an_events_topic_that_was_made_anew_is_refused(log):
    """Its offsets mean other records: up to the old position all would be taken for done, in silence (G8)."""
    worker = made(log)
    worker.open()
    worker.process(filled(log))
    worker.close()
    log.make_anew(log.names.events)
    with pytest.raises(Stop, match=r"ends at offset 0, and was processed up to \d+: it was made anew"):
        made(log).open()


def test_events_in_the_framing_of_a_registry_end_a_worker_without_one(log):
    """Taken for undecodable they would be gaps for ever, because of a forgotten setting."""
    log.first_list(["u1"])
    log.flush()
    framed = [(offset, at, key, b"\0\0\0\0\7" + value[10:]) for offset, at, key, value in log.events(0)]
    worker = made(log)
    worker.open()
    with pytest.raises(Stop, match="Schema Registry id 7: set --schema-registry to read it"):
        worker.process(framed)
    assert made(log).open() == 0


def test_state_that_was_made_anew_is_refused(log):
    records = filled(log)
    worker = made(log)
    worker.open()
    worker.process(records)
    log.make_anew(log.names.state)
    with pytest.raises(Stop, match="would write changes twice"):
        made(log).open()


@pytest.mark.parametrize("kept", [5, -1], ids=["unreadable from its beginning", "cut at its end"])
def test_a_damaged_state_stops_the_worker_before_it_writes_anything_of_that_object(log, kept):
    """Whose state it is can be read in the second case: the rest is decoded when the object changes."""
    records = filled(log, 60)
    worker = made(log)
    worker.open()
    worker.process(records)
    before = log.changes(0)
    state = Codec().encode(log.state(0)[b"u3"])
    log.put_raw(log.names.state, b"u3", state[:kept])
    log.put(EventType.MODIFIED, "u3", "500")
    log.flush()
    other = made(log)

    def take_over() -> None:
        other.open()
        other.process(log.events(0, records[-1][0] + 1))

    with pytest.raises(Stop, match=r"key b'u3'.*the state topic is damaged"):
        take_over()
    assert log.changes(0) == before


def test_events_that_are_gone_before_they_were_read_are_a_gap(kafka_broker):
    log = Log(kafka_broker.bootstrap, partitions=1, policy="compact,delete")
    records = filled(log, 100)
    worker = made(log)
    worker.open()
    worker.process(records[:40])
    cutoff = TopicPartition(log.names.events, 0, 80)
    log.admin.delete_records([cutoff])[cutoff].result(timeout=30)
    other = made(log)
    assert other.open() == 80
    other.process(log.events(0, 80))
    causes = {change.gap.cause for _, change in log.changes(0) if change and change.gap}
    assert Cause.COMPACTED in causes


def test_a_fault_in_the_pure_part_stops_and_names_the_offset(log):
    records = filled(log)
    worker = made(log)
    worker.open()
    with pytest.raises(Stop, match="partition 0, offsets 0 to 0: TypeError"):
        worker.process([(records[0][0], None, b"k", records[0][3])])  # a timestamp that cannot be


@given(st.lists(st.integers(0, 30)), st.integers(1, 5), st.integers(1, 40))
def test_batches_keep_order_and_respect_both_limits(sizes, count, size):
    records = [(n, 0, b"k", b"x" * length) for n, length in enumerate(sizes)]
    batches = list(cut(records, count, size))
    assert [record for batch in batches for record in batch] == records
    for batch in batches:
        assert 1 <= len(batch) <= count
        assert len(batch) == 1 or sum(len(value) for _, _, _, value in batch) <= size
