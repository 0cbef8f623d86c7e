"""What both shells do with the tasks: readiness, lag, the watchdog over a real Kafka, refusals."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions

from kubecdc.errors import Misconfigured
from local.children import poll
from processors import tasks
from processors.errors import Stop
from processors.metrics import Metrics
from processors.settings import KafkaSettings, WorkerSettings
from processors.tasks import Tasks
from tests.processors.log import Log


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
    assert worker.healthy()
    log.first_list(["u1"])
    log.flush()
    assert poll(lambda: not worker.healthy(), 10, 0.05)
    assert poll(lambda: told != [], 10, 0.05)
    assert "partition 0 stands at 0" in str(told[0])
    stop.set()
    worker.close()


@pytest.fixture
def watch(kafka_broker, monkeypatch):
    """Start to watch a worker without partitions, and return it and what it is told."""
    monkeypatch.setattr(tasks, "LOOK_S", 0.05)
    stop = threading.Event()

    def begin(stuck_after_s=1.0, lag=None):
        worker, told = tasks_of(Log(kafka_broker.bootstrap, partitions=1), stuck_after_s), []
        if lag is not None:
            monkeypatch.setattr(worker, "_lag", lambda positions: lag(stop))
        worker.watch(stop, told.append)
        return worker, told

    yield begin
    stop.set()


def test_a_look_that_hangs_ends_the_worker_too(watch, monkeypatch):
    """The calls that ask Kafka for the lag are librdkafka's, like those whose hanging they are to find."""
    monkeypatch.setattr(tasks, "LOOK_MAX_S", 0.5)
    worker, told = watch(stuck_after_s=0.5, lag=threading.Event.wait)
    assert worker.healthy()
    assert poll(lambda: told != [], 10, 0.05)
    assert "has not come back" in str(told[0])
    assert not worker.healthy()


def test_a_group_that_gives_nothing_ends_the_worker(watch):
    """A worker that the group forgot has no partition that could stand, and its partitions stand all the same."""
    worker, told = watch()
    worker.told([])
    assert not poll(lambda: told != [], 2, 0.05)
    worker.told([0])
    assert poll(lambda: told != [], 10, 0.05)
    assert "nothing has been assigned and open" in str(told[0])
    assert not worker.healthy()


def test_a_recovery_that_reads_is_no_recovery_that_hangs(watch):
    """However long it takes: a large partition must not be given up each time it is nearly read."""
    worker, told = watch()
    for _ in range(30):
        worker._cluster.answers += 1
        assert not poll(lambda: told != [], 0.1, 0.05)
    assert poll(lambda: told != [], 10, 0.05)


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
    worker.told([])
    assert worker.ready()
    worker.told([1])
    assert not worker.ready()


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
