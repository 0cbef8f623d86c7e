"""`kubecdc rebuild-state` on a real broker: the log goes on exactly as if the state topic had never been lost."""

from __future__ import annotations

import pytest

from kubecdc import wire
from kubecdc.cli import main
from kubecdc.records import EventType
from local.children import poll
from processors.errors import Fenced, Stop
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.rebuild import Rebuilder
from processors.settings import KafkaSettings
from processors.task import PartitionTask
from tests.processors import workers
from tests.processors.log import Log

HISTORY_MS = 7 * 24 * 3600 * 1000


@pytest.fixture
def log(quick_broker):
    log = Log(quick_broker.bootstrap, partitions=2)
    log.first_list(f"u{n}" for n in range(20))
    log.history(300)
    return log


def opened(log, partition):
    cluster = Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))
    task = PartitionTask(partition, cluster, Metrics(), noise="emit", history_ms=HISTORY_MS)
    task.open()
    return task


def half_done(log):
    for partition in range(log.partitions):
        records = log.events(partition)
        opened(log, partition).process(records[: len(records) // 2])


def finished(log):
    for partition in range(log.partitions):
        opened(log, partition).process(log.events(partition))
    return log.exact()


def run(log, *flags):
    return main(["rebuild-state", "--bootstrap", log.bootstrap, "--prefix", log.prefix, *flags])


@pytest.mark.parametrize("lost", ["emptied", "absent"])
def test_a_lost_state_topic_is_made_anew_and_the_log_goes_on_exactly(log, capsys, lost):
    half_done(log)
    before = [log.state(partition) for partition in range(2)]
    if lost == "emptied":
        log.make_anew(log.names.state)
        with pytest.raises(Stop, match="going on would write changes twice"):
            opened(log, 0)
    else:
        log.admin.delete_topics([log.names.state])[log.names.state].result(timeout=30)
        assert poll(lambda: log.names.state not in log.admin.list_topics(timeout=10).topics, 30, 0.1)
        assert main(["process", "--bootstrap", log.bootstrap, "--prefix", log.prefix]) == 2
        assert "kubecdc rebuild-state" in capsys.readouterr().err
    assert run(log) == 0
    told = capsys.readouterr().out
    assert "partition 0: can be rebuilt" in told
    assert told.endswith("nothing was written: stop all workers, then run this again with --yes\n")
    if lost == "emptied":
        assert log.state(0) == {}
    assert run(log, "--yes") == 0
    assert "partition 1: written" in capsys.readouterr().out
    for partition in range(2):
        state = log.state(partition)
        resumed, stood = state.pop(wire.PROGRESS_KEY), before[partition].pop(wire.PROGRESS_KEY)
        assert resumed.src_offset <= stood.src_offset
        assert state.keys() == before[partition].keys()
    assert finished(log)


def test_what_is_there_is_left_alone_and_what_was_never_processed_needs_nothing(log, capsys):
    opened(log, 0).process(log.events(0))
    before = log.state(0)
    assert run(log, "--yes") == 0
    assert capsys.readouterr().out.splitlines() == [
        "partition 0: its state is there, nothing to do",
        "partition 1: never processed, nothing to rebuild",
    ]
    assert log.state(0) == before
    assert finished(log)


def test_a_worker_that_still_runs_is_shut_out_first(log):
    """Else it could add changes after they were read."""
    half_done(log)
    task = opened(log, 0)
    log.make_anew(log.names.state)
    Rebuilder(KafkaSettings(log.bootstrap, log.prefix, log.prefix), "emit").write(0)
    with pytest.raises(Fenced):
        task.process(log.events(0))
    Rebuilder(KafkaSettings(log.bootstrap, log.prefix, log.prefix), "emit").write(1)
    assert finished(log)


def test_a_worker_that_comes_meanwhile_ends_the_rebuilding_with_nothing_usable_written(log, monkeypatch):
    half_done(log)
    log.make_anew(log.names.state)
    rebuilder = Rebuilder(KafkaSettings(log.bootstrap, log.prefix, log.prefix), "emit")
    real = rebuilder.find

    def find(partition):
        found = real(partition)
        Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix)).writer(partition).fence()
        return found

    monkeypatch.setattr(rebuilder, "find", find)
    with pytest.raises(Fenced):
        rebuilder.write(0)
    assert wire.PROGRESS_KEY not in log.state(0)


def test_leftovers_of_a_damaged_state_are_taken_away(log):
    half_done(log)
    cluster = Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))
    writer = cluster.writer(0)
    writer.fence()
    writer.write((), [(wire.PROGRESS_KEY, None), (b"of-nobody", b"rubbish")])
    assert run(log, "--yes") == 0
    assert b"of-nobody" not in cluster.committed(log.names.state, 0)
    assert finished(log)


def test_whole_workers_refuse_and_go_on_after_it(log, tmp_path):
    worker = workers.start(log, tmp_path, "plain")
    workers.finish(log, worker)
    log.make_anew(log.names.state)
    worker = workers.start(log, tmp_path, "plain")
    assert poll(lambda: not worker.alive, 60, 0.1)
    assert worker.exit_code == 1
    assert run(log, "--yes") == 0
    log.put(EventType.MODIFIED, "u1", "900")
    log.history(60, start=1000)
    workers.finish(log, workers.start(log, tmp_path, "plain"))
    assert log.exact()
