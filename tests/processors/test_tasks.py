"""The watchdog: it speaks up when there is work and none is done, and only then."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.errors import Misconfigured
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


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 1)), max_size=50))
def test_a_partition_that_moves_or_has_no_work_is_never_stuck(steps):
    watchdog, now, offset = Watchdog(10), 0.0, 0
    for seconds, moved in steps:
        now, offset = now + seconds, offset + moved
        assert watchdog.look({0: offset}, {0: moved}, now) is None or moved


def test_wrong_topics_are_refused_before_any_work(kafka_broker):
    log = Log(kafka_broker.bootstrap, partitions=1, policy="compact,delete")
    with pytest.raises(Misconfigured) as told:
        Tasks(WorkerSettings(KafkaSettings(log.bootstrap, log.prefix, log.prefix)), Metrics())
    assert len(told.value.problems) == 4
    with pytest.raises(Misconfigured, match="run `kubecdc topics init"):
        Tasks(WorkerSettings(KafkaSettings(log.bootstrap, "nowhere", "nowhere")), Metrics())
