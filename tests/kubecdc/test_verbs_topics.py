"""`kubecdc topics` on a real broker: made once, shown as they are, and every fault told with the way to mend it."""

from __future__ import annotations

import json
import uuid

import pytest

from kubecdc import kafka, topics
from kubecdc.cli import main
from local.broker import Broker


@pytest.fixture
def where(kafka_broker: Broker) -> list[str]:
    return ["--bootstrap", kafka_broker.bootstrap, "--prefix", f"v-{uuid.uuid4().hex[:8]}"]


def test_topics_are_made_checked_and_shown(where: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["topics", "check", *where]) == 2
    told = capsys.readouterr().err
    assert told.count(f"run `kubecdc topics init --prefix {where[-1]}`") == 4
    assert main(["topics", "init", *where, "--partitions", "2", "--history", "2h"]) == 0
    assert capsys.readouterr().out.count("made, 2 partitions, replication 1") == 4
    assert main(["topics", "init", *where]) == 0
    assert capsys.readouterr().out.count("is there already") == 4
    assert main(["topics", "check", *where]) == 0
    assert capsys.readouterr().out == "all topics are as they must be\n"
    assert main(["topics", "show", *where, "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [topic["topic"].rpartition(".")[2] for topic in shown] == ["events", "changes", "state", "positions"]
    assert [topic["min.compaction.lag.ms"] for topic in shown] == ["7200000", "7200000", "0", "0"]
    assert {topic["partitions"] for topic in shown} == {2}


def test_wrong_topics_are_not_mended_in_silence(where: list[str], capsys: pytest.CaptureFixture[str]):
    specs = topics.table(where[-1], 2, 1)
    uneven = [topics.TopicSpec(spec.name, 3 if "state" in spec.name else 2, 1, 1, 0) for spec in specs]
    kafka.create_topics(where[1], uneven)
    assert main(["topics", "init", *where]) == 2
    told = capsys.readouterr().err.splitlines()
    assert sum("min.compaction.lag.ms=0" in line for line in told) == 2
    assert sum("partition counts differ" in line for line in told) == 1


def test_what_is_asked_for_and_not_there_is_told_and_nothing_is_made(
    where: list[str], capsys: pytest.CaptureFixture[str]
):
    specs = topics.table(where[-1], 1, 1)
    kafka.create_topics(where[1], specs[:3])
    before = kafka.live_topics(where[1], where[-1])
    assert main(["topics", "init", *where, "--partitions", "12", "--history", "1h"]) == 2
    told = capsys.readouterr().err.splitlines()
    assert sum("12 partitions were asked for" in line for line in told) == 1
    assert sum("min.compaction.lag.ms=604800000: to keep it" in line for line in told) == 2
    assert kafka.live_topics(where[1], where[-1]) == before
    assert main(["topics", "init", *where, "--partitions", "1", "--replication", "1", "--history", "7d"]) == 0
    assert capsys.readouterr().out.count("is there already") == 3


def test_a_topic_that_was_lost_comes_back_with_the_partitions_of_the_others(where: list[str]):
    kafka.create_topics(where[1], topics.table(where[-1], 2, 1)[:2])
    assert main(["topics", "init", *where]) == 0
    assert {topic.partitions for topic in kafka.live_topics(where[1], where[-1]).values()} == {2}


@pytest.mark.parametrize("history", ["0", "59m", "36501d", "9" * 400])
def test_a_history_that_cannot_be_makes_no_topics(where: list[str], capsys: pytest.CaptureFixture[str], history: str):
    assert main(["topics", "init", *where, "--history", history]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "s: must be from 1h, or versions vanish before they are read, to 36500d" in told
    assert kafka.live_topics(where[1], where[-1]) == {}


def test_nothing_to_show_is_told(where: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["topics", "show", *where]) == 2
    assert "does not exist" in capsys.readouterr().err


def test_all_faults_of_flags_at_once(capsys: pytest.CaptureFixture[str]):
    assert main(["topics", "init", "--bootstrap", "x", "--partitions", "0", "--history", "ever"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 3
