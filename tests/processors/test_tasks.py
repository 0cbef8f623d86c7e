"""The watchdog: it speaks up when there is work and none is done, and only then."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.errors import Misconfigured
from local.children import poll
from processors import tasks
from processors.errors import Stop
from processors.metrics import Metrics
from processors.settings import KafkaSettings, WorkerSettings
from processors.tasks import Tasks, Watchdog
from tests.processors.log import Log


def test_a_partition_that_stands_while_records_wait_is_named():
    watchdog = Watchdog(10)
    assert watchdog.look({0: 5, 1: 7}, {0: 3, 1: 3}, 100) is None
    assert watchdog.look({0: 5, 1: 8}, {0: 3, 1: 2}, 109) is None
    assert watchdog.look({0: 5, 1: 9}, {0: 3, 1: 1}, 111) == "partition 0 stands at 5 for 11 s, 3 records wait"


def test_a_kafka_that_is_away_too_long_is_told():
    watchdog = Watchdog(10)
    assert watchdog.look({}, None, 100) is None
    assert watchdog.look({}, None, 109) is None
    assert watchdog.look({}, None, 111) == "Kafka has not answered for 11 s"
    assert watchdog.look({}, {}, 112) is None
    assert watchdog.look({}, None, 121) is None


def test_time_goes_on_between_two_looks():
    """A probe asks for the verdict now: a watchdog whose look hangs does not keep it at what was seen last."""
    watchdog = Watchdog(10)
    watchdog.look({0: 5}, {0: 3}, 100)
    assert watchdog.verdict(109) is None
    assert watchdog.verdict(111) == "partition 0 stands at 5 for 11 s, 3 records wait"
    watchdog.look({0: 5}, {0: 0}, 112)
    assert watchdog.verdict(1000) is None  # nothing waits
    watchdog.look({0: 5}, None, 1001)
    assert watchdog.verdict(1010) == "Kafka has not answered for 898 s"


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 1)), max_size=50))
def test_a_partition_that_moves_or_has_no_work_is_never_stuck(steps):
    watchdog, now, offset = Watchdog(10), 0.0, 0
    for seconds, moved in steps:
        now, offset = now + seconds, offset + moved
        assert watchdog.look({0: offset}, {0: moved}, now) is None or moved


def tasks_of(log, stuck_after_s=1.0):
    settings = WorkerSettings(KafkaSettings(log.bootstrap, log.prefix, log.prefix), stuck_after_s=stuck_after_s)
    return Tasks(settings, Metrics())


def test_health_fails_when_a_task_stands_before_records_that_wait(kafka_broker, monkeypatch):
    monkeypatch.setattr(tasks, "LOOK_S", 0.1)
    log = Log(kafka_broker.bootstrap, partitions=1)
    worker, stop, told = tasks_of(log), threading.Event(), []
    assert worker.healthy()
    opened, _ = worker.prepare([0])
    worker.adopt(opened)
    worker.watch(stop, told.append)
    assert poll(lambda: worker._looked_at is not None, 10, 0.01)
    assert worker.healthy()
    log.first_list(["u1"])
    log.flush()
    assert poll(lambda: not worker.healthy(), 10, 0.05)
    assert poll(lambda: told != [], 10, 0.05)
    assert "partition 0 stands at 0" in str(told[0])
    stop.set()
    worker.close()


def test_health_fails_when_the_watchdog_itself_hangs(kafka_broker, monkeypatch):
    log = Log(kafka_broker.bootstrap, partitions=1)
    monkeypatch.setattr(tasks, "LOOK_S", 0.05)
    worker, stop = tasks_of(log, stuck_after_s=0.5), threading.Event()
    monkeypatch.setattr(worker, "_lag", lambda positions: stop.wait())
    worker.watch(stop, lambda _: None)
    assert worker.healthy()
    assert poll(lambda: not worker.healthy(), 10, 0.05)
    stop.set()


def test_ready_from_recovery_to_the_next_rebalance(kafka_broker):
    log = Log(kafka_broker.bootstrap, partitions=2)
    worker = tasks_of(log)
    assert not worker.ready()
    opened, _ = worker.prepare([0, 1])
    assert not worker.ready()
    worker.adopt(opened)
    assert worker.ready()
    worker.close([0])
    assert worker.ready()
    worker.close()
    assert not worker.ready()
    worker.adopt({})
    assert worker.ready()


def test_wrong_topics_are_refused_before_any_work(kafka_broker):
    log = Log(kafka_broker.bootstrap, partitions=1, policy="compact,delete")
    with pytest.raises(Misconfigured) as told:
        Tasks(WorkerSettings(KafkaSettings(log.bootstrap, log.prefix, log.prefix)), Metrics())
    assert len(told.value.problems) == 4
    with pytest.raises(Misconfigured, match="run `kubecdc topics init"):
        Tasks(WorkerSettings(KafkaSettings(log.bootstrap, "nowhere", "nowhere")), Metrics())


def test_a_partition_count_that_grows_stops_workers_and_is_refused_at_the_next_start(kafka_broker):
    """UIDs would change their partition: two tasks would order the versions of one object."""
    log = Log(kafka_broker.bootstrap, partitions=2)
    log.first_list(f"u{n}" for n in range(40))
    log.flush()
    worker = tasks_of(log)
    grown = [NewPartitions(name, 4) for name in (log.names.events, log.names.changes, log.names.state)]
    for future in log.admin.create_partitions(grown).values():
        future.result(timeout=30)
    with pytest.raises(Stop, match="has got partitions"):
        worker.prepare([2, 3])
    with pytest.raises(Misconfigured, match="run `kubecdc topics init --prefix NEW") as told:
        tasks_of(log)
    assert len(told.value.problems) == 1
    assert "has 4 partitions, but holds UID" in told.value.problems[0]


def test_a_mark_of_a_transaction_at_the_end_is_no_work_that_waits(kafka_broker, monkeypatch):
    """Else a worker that has read everything would be taken for stuck, and end, again and again."""
    monkeypatch.setattr(tasks, "LOOK_S", 0.1)
    log = Log(kafka_broker.bootstrap, partitions=1)
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": f"source-{log.prefix}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(log.names.events, b"rubbish", b"u1", 0)
    producer.commit_transaction(30)
    worker, stop, told = tasks_of(log), threading.Event(), []
    opened, _ = worker.prepare([0])
    worker.adopt(opened)
    assert worker.process({0: log.events(0)}, worker.owned()) == {0: 1}
    worker.watch(stop, told.append)
    assert poll(lambda: worker._lag({0: 1}) == {0: 0}, 20, 0.1)
    assert not poll(lambda: told != [], 3, 0.1)
    assert worker.healthy()
    producer.begin_transaction()
    producer.produce(log.names.events, b"more rubbish", b"u1", 0)
    producer.commit_transaction(30)
    assert poll(lambda: "stands at 1" in str(told), 20, 0.1)
    stop.set()
    worker.close()
