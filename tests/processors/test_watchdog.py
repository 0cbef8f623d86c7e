"""The watchdog: it speaks up when there is work and none is done, and only then."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from processors.watchdog import Look, Watchdog


def looked(watchdog: Watchdog, seen: Look, now: float) -> str | None:
    watchdog.look(seen, now)
    return watchdog.verdict(now)


def test_a_partition_that_stands_while_records_wait_is_named():
    watchdog = Watchdog(10, 5, 100)
    assert looked(watchdog, Look({0: 5, 1: 7}, {0: 3, 1: 3}), 100) is None
    assert looked(watchdog, Look({0: 5, 1: 8}, {0: 3, 1: 2}), 109) is None
    found = looked(watchdog, Look({0: 5, 1: 9}, {0: 3, 1: 1}), 111)
    assert found == "partition 0 stands at 5 for 11 s, 3 records wait"


def test_a_kafka_that_is_away_too_long_is_told():
    watchdog = Watchdog(10, 5, 100)
    assert looked(watchdog, Look({}, None), 100) is None
    assert looked(watchdog, Look({}, None), 109) is None
    assert looked(watchdog, Look({}, None), 111) == "Kafka has not answered for 11 s"
    assert looked(watchdog, Look({}, {}), 112) is None
    assert looked(watchdog, Look({}, None), 121) is None


def test_a_group_that_settles_nothing_is_told_and_a_recovery_that_reads_is_waited_for():
    watchdog = Watchdog(10, 5, 100)
    assert looked(watchdog, Look({}, {}, 0), 101) is None
    assert looked(watchdog, Look({}, {}, 1), 110) is None
    assert looked(watchdog, Look({}, {}, 1), 119) is None
    assert "nothing has been assigned and open for 11 s" in str(looked(watchdog, Look({}, {}, 1), 121))
    assert looked(watchdog, Look({0: 5}, {0: 0}), 122) is None
    assert looked(watchdog, Look({}, {}, 1), 123) is None  # the next rebalance has its own time


def test_a_kafka_that_is_mute_is_what_keeps_a_group_from_settling():
    watchdog = Watchdog(10, 5, 100)
    watchdog.look(Look({}, {}, 0), 100)
    watchdog.look(Look({}, None, 0), 109)
    assert watchdog.verdict(112) == "Kafka has not answered for 12 s"


def test_time_goes_on_between_two_looks():
    """A probe asks for the verdict now."""
    watchdog = Watchdog(10, 5, 100)
    watchdog.look(Look({0: 5}, {0: 3}), 100)
    watchdog.look(Look({0: 5}, {0: 3}), 105)
    assert watchdog.verdict(109) is None
    assert watchdog.verdict(111) == "partition 0 stands at 5 for 11 s, 3 records wait"
    watchdog.look(Look({0: 5}, {0: 0}), 112)
    assert watchdog.verdict(122) is None  # nothing waits


def test_a_look_that_does_not_come_back_is_told():
    """What hangs in Kafka's client may hang there for the watchdog as well."""
    watchdog = Watchdog(10, 20, 100)
    assert watchdog.verdict(120) is None
    assert "has not come back for 21 s" in str(watchdog.verdict(121))
    watchdog.look(Look({}, {}), 122)
    assert watchdog.verdict(142) is None
    assert "has not come back for 21 s" in str(watchdog.verdict(143))


def test_a_look_has_at_least_the_time_that_work_has():
    watchdog = Watchdog(10, 5, 100)
    assert watchdog.verdict(110) is None
    assert "has not come back for 11 s" in str(watchdog.verdict(111))


@given(st.lists(st.tuples(st.floats(0, 5), st.integers(0, 1)), max_size=50))
def test_a_partition_that_moves_or_has_no_work_is_never_stuck(steps):
    watchdog, now, offset = Watchdog(10, 5, 0.0), 0.0, 0
    for seconds, moved in steps:
        now, offset = now + seconds, offset + moved
        assert looked(watchdog, Look({0: offset}, {0: moved}), now) is None or moved
