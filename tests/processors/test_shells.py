"""What both shells owe alike, as processes on a real broker: what the group, the topics and the probes do to them."""

from __future__ import annotations

import os
import sys
import time
import urllib.error
import urllib.request

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kubecdc.records import Cause
from local.children import poll, spawn
from local.ports import free_port
from tests.processors import workers
from tests.processors.log import Log

RUNTIMES = pytest.mark.parametrize("runtime", ["plain", "faust"])


@pytest.fixture
def log(quick_broker):
    return Log(quick_broker.bootstrap, partitions=2)


def set_policy(log, topic, policy):
    """Change it under a worker, which looks at topics when it starts; `delete_records` needs "delete"."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    for future in log.admin.incremental_alter_configs([asked]).values():
        future.result(timeout=30)


def end_of(log, partition):
    return log.events(partition)[-1][0] + 1


@RUNTIMES
def test_events_that_are_cut_off_while_they_are_read_stop_the_worker_and_become_a_gap(log, tmp_path, runtime):
    """Going on at what is left, in silence, is how records get lost."""
    log.first_list(f"u{n}" for n in range(10))
    log.history(100)
    worker = workers.start(log, tmp_path, runtime, session_s=20)
    assert poll(lambda: not worker.alive or log.written(), 60, 0.3), worker.tail(40)
    worker.freeze()
    time.sleep(2)  # the fetch under way ends empty; else it would bring what is about to be cut
    log.history(50, start=200)
    set_policy(log, log.names.events, "compact,delete")
    cuts = [TopicPartition(log.names.events, p, end_of(log, p)) for p in range(log.partitions)]
    for future in log.admin.delete_records(cuts).values():
        future.result(timeout=30)
    log.history(10, start=300)
    worker.thaw()
    assert poll(lambda: not worker.alive, 60, 0.1)
    assert worker.exit_code == 1
    assert "were cut off below the offset being read: start again" in worker.tail(40)
    set_policy(log, log.names.events, "compact")
    last = {p: end_of(log, p) - 1 for p in range(log.partitions)}
    worker = workers.start(log, tmp_path, runtime)
    assert poll(lambda: all(log.progress(p) == last[p] for p in last), 60, 0.3), worker.tail(40)
    worker.stop(30)
    for partition in range(log.partitions):
        assert Cause.COMPACTED in {c.gap.cause for _, c in log.changes(partition) if c and c.gap}


def recoveries(worker):
    return worker.tail(10_000).count("resuming at offset")


@RUNTIMES
def test_a_static_member_that_restarts_in_time_moves_no_partition(log, tmp_path, runtime):
    """With `--group-instance-id` a restart within the session timeout is no rebalance: nobody recovers but itself."""
    log.first_list(f"u{n}" for n in range(10))
    log.flush()
    first = workers.start(log, tmp_path, runtime, session_s=30, group_instance_id="w-1")
    second = workers.start(log, tmp_path, runtime, session_s=30, group_instance_id="w-2")
    try:
        assert poll(lambda: first.alive and second.alive and owned(log) == {"w-1": 1, "w-2": 1}, 60, 0.3)
        before = owners(log)
        log.history(60)
        assert poll(log.written, 60, 0.3)
        told = recoveries(second)
        for number in range(2):
            first.stop(30) if number else first.kill()
            log.history(60, start=200 + 100 * number)
            first = workers.start(log, tmp_path, runtime, session_s=30, group_instance_id="w-1")
            assert poll(log.written, 25, 0.3), first.tail(40)
        assert recoveries(second) == told
        assert owners(log) == before
    finally:
        first.stop(30)
        second.stop(30)
    assert log.exact()


def test_of_two_plain_workers_with_one_instance_id_the_older_ends_with_the_reason(log, tmp_path):
    """Faust's client sends no instance id with heartbeats: there, whoever writes later is fenced, and ends."""
    log.first_list(["u1"])
    log.flush()
    older = workers.start(log, tmp_path, "plain", session_s=10, group_instance_id="same")
    assert poll(lambda: not older.alive or log.written(), 60, 0.3), older.tail(40)
    (tmp_path / "same.log").rename(tmp_path / "older.log")
    newer = workers.start(log, tmp_path, "plain", session_s=10, group_instance_id="same")
    try:
        assert poll(lambda: not older.alive, 60, 0.3)
        assert older.exit_code == 1
        log.history(60)
        assert poll(lambda: not newer.alive or log.written(), 60, 0.3)
        assert newer.alive, newer.tail(40)
    finally:
        newer.stop(30)
    told = (tmp_path / "older.log").read_text()
    assert "each needs a --group-instance-id of its own" in told
    assert "Traceback" not in told
    assert log.exact()


COORDINATOR_MOVES = (
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
)


def owners(log):
    """The partitions of each static member; none while the group has no coordinator yet."""
    try:
        group = log.admin.describe_consumer_groups([log.prefix])[log.prefix].result(timeout=30)
    except KafkaException as error:
        if error.args[0].code() in COORDINATOR_MOVES:
            return {}
        raise
    return {
        member.group_instance_id: sorted(tp.partition for tp in member.assignment.topic_partitions)
        for member in group.members
    }


def owned(log):
    return {name: len(partitions) for name, partitions in owners(log).items()}


def probe(port, name):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}", timeout=5) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


@RUNTIMES
def test_ready_means_recovered_also_where_nothing_is_assigned(log, tmp_path, runtime):
    log.first_list(["u1"])
    log.flush()
    ports = [free_port() for _ in range(3)]  # one more than there are partitions
    started = [
        workers.start(log, tmp_path, runtime, session_s=10, group_instance_id=f"w{n}", metrics_port=port)
        for n, port in enumerate(ports)
    ]
    try:
        assert poll(lambda: all(probe(port, "readyz") == 200 for port in ports), 60, 0.3)
        assert [probe(port, "healthz") for port in ports] == [200, 200, 200]
    finally:
        for worker in started:
            worker.stop(30)


@RUNTIMES
def test_no_folder_is_left_behind(log, tmp_path, runtime):
    """Faust would make one for tables; there are none."""
    log.first_list(["u1"])
    log.flush()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "here").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = f"cd {tmp_path}/here && exec {sys.executable} -m kubecdc process --runtime {runtime}"
    command += f" --bootstrap {log.bootstrap} --prefix {log.prefix}"
    worker = spawn(["sh", "-c", command], log=tmp_path / "worker.log", env=environment)
    assert poll(lambda: not worker.alive or log.written(), 60, 0.3), worker.tail(40)
    worker.stop(30)
    assert worker.exit_code == 0, worker.tail(40)
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "here").iterdir()) == []
