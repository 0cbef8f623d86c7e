"""The topic table, and the sentences about live topics: each fault is found, and each sentence says how to mend it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubecdc.topics import HISTORY_MS, SETTINGS, LiveTopic, TopicNames, check, differing, moved, planned, table
from kubecdc.wire import partition_of

NAMES = TopicNames.under("k")


def live(partitions: int = 3, replication: int = 1) -> dict[str, LiveTopic]:
    return {
        spec.name: LiveTopic(spec.name, spec.partitions, spec.replication, spec.config())
        for spec in table("k", partitions, replication)
    }


def with_setting(name: str, setting: str, value: str, replication: int = 1) -> dict[str, LiveTopic]:
    found = live(replication=replication)
    found[name] = replace(found[name], config={**found[name].config, setting: value})
    return found


@pytest.mark.parametrize("replication", [1, 2, 3, 5])
def test_what_the_table_says_passes_the_check(replication: int):
    assert check("k", live(replication=replication)) == []


def test_the_four_topics():
    specs = {spec.name: spec for spec in table("k", 6, 3, history_ms=7_200_000)}
    assert list(specs) == ["k.events", "k.changes", "k.state", "k.positions"]
    assert [spec.min_compaction_lag_ms for spec in specs.values()] == [7_200_000, 7_200_000, 0, 0]
    assert {spec.min_insync for spec in specs.values()} == {2}
    assert {spec.min_insync for spec in table("k", 6, 2)} == {1}
    assert all(set(spec.config()) >= set(SETTINGS) for spec in specs.values())
    kept = {name: spec.config().get("delete.retention.ms") for name, spec in specs.items()}
    assert kept == {"k.events": "7200000", "k.changes": "7200000", "k.state": None, "k.positions": None}
    cleaned = [name for name, spec in specs.items() if "segment.ms" in spec.config()]
    assert cleaned == ["k.state", "k.positions"], "what is read whole at each start must be compacted soon"


def test_a_topic_that_is_missing():
    found = live()
    del found[NAMES.state]
    (problem,) = check("k", found)
    assert problem.startswith("topic k.state does not exist: if the partitions were processed before, stop all workers")
    assert "`kubecdc rebuild-state --prefix k`" in problem
    del found[NAMES.changes]
    assert check("k", found) == [
        f"topic k.{name} does not exist: run `kubecdc topics init --prefix k`" for name in ("changes", "state")
    ]
    assert len(check("k", {})) == 4


@pytest.mark.parametrize(
    ("topic", "setting", "value", "told", "mend"),
    [
        (NAMES.events, "cleanup.policy", "delete", "deletes the last state", "cleanup.policy=compact"),
        (NAMES.state, "cleanup.policy", "compact,delete", "deletes the last state", "cleanup.policy=compact"),
        (NAMES.changes, "min.compaction.lag.ms", "0", "versions may", f"min.compaction.lag.ms={HISTORY_MS}"),
        (NAMES.positions, "max.message.bytes", "1048588", "at most 1048588 bytes", "max.message.bytes=4194304"),
        (NAMES.events, "min.insync.replicas", "2", "no write can succeed", "min.insync.replicas=1"),
    ],
)
def test_a_wrong_setting(topic: str, setting: str, value: str, told: str, mend: str):
    (problem,) = check("k", with_setting(topic, setting, value))
    assert told in problem
    assert f"kafka-configs --alter --topic {topic} --add-config {mend}" in problem


def test_acknowledged_records_must_survive_one_broker():
    (problem,) = check("k", with_setting(NAMES.changes, "min.insync.replicas", "1", replication=3))
    assert "one broker's loss" in problem


@pytest.mark.parametrize("topic", [NAMES.state, NAMES.positions])
def test_state_may_be_compacted_at_once(topic: str):
    assert check("k", with_setting(topic, "min.compaction.lag.ms", "0")) == []


def test_partition_counts_must_be_equal_but_for_positions():
    found = live()
    found[NAMES.positions] = replace(found[NAMES.positions], partitions=1)
    assert check("k", found) == []
    found[NAMES.changes] = replace(found[NAMES.changes], partitions=4)
    (problem,) = check("k", found)
    assert "k.events 3, k.changes 4, k.state 3" in problem
    assert "must lie in one partition" in problem
    assert "`kubecdc topics init --prefix NEW --partitions N`" in problem


def test_what_is_planned_is_what_is_there_and_what_will_be_made():
    found = live(partitions=2)
    del found[NAMES.state]
    plan = planned(table("k", 5, 1), found)
    assert {name: topic.partitions for name, topic in plan.items()} == {
        "k.events": 2,
        "k.changes": 2,
        "k.state": 5,
        "k.positions": 2,
    }
    assert check("k", planned(table("k", 3, 3), {})) == []


def test_only_what_was_asked_for_can_differ():
    found = live()
    assert differing("k", found) == []
    assert differing("k", found, partitions=3, replication=1, history_ms=HISTORY_MS) == []
    assert differing("k", {}, partitions=9, replication=9, history_ms=9) == []
    count, copies, events, changes = differing("k", found, partitions=4, replication=3, history_ms=3_600_000)
    assert "4 partitions were asked for" in count
    assert "k.events 3, k.changes 3, k.state 3, k.positions 3" in count
    assert "`kubecdc topics init --prefix NEW --partitions N`" in count
    assert "`kafka-reassign-partitions`" in copies
    assert "--topic k.events --add-config min.compaction.lag.ms=3600000,delete.retention.ms=3600000" in events
    assert "--topic k.changes" in changes


def test_a_partition_count_that_was_changed_shows_in_where_uids_lie():
    """All topics changed alike pass every other check, and would split the history of half of the objects."""
    keys = [(partition_of(f"u{n}", 3), f"u{n}".encode()) for n in range(50)]
    keys += [(0, b"__marker__/x"), (1, None)]
    assert moved("k", 3, keys) == []
    (problem,) = moved("k", 6, keys)
    assert problem.startswith("k.events has 6 partitions, but holds UID u")
    assert "`kubecdc topics init --prefix NEW --partitions N`" in problem


def test_every_fault_is_told_at_once():
    found = {name: replace(topic, config={}) for name, topic in live().items()}
    assert len(check("k", found)) == 4 + 2 + 4, "policy and size of each, the lag of two"
