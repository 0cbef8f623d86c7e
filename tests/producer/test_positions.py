"""A position is stored only when everything before it is acknowledged, and the newest such one is not held back."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from producer.positions import Tracker

PARTITIONS = 3


class AckMachine(RuleBasedStateMachine):
    """The tracker against a plain list of what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.tracker: Tracker[int] = Tracker(PARTITIONS)
        self.log: list[int | None] = []
        self.unacked: list[list[int]] = [[] for _ in range(PARTITIONS)]
        self.stored: int | None = None
        self.made = 0

    def first_open(self) -> int:
        return min((queue[0] for queue in self.unacked if queue), default=len(self.log))

    def storable(self) -> int | None:
        marks = [mark for mark in self.log[: self.first_open()] if mark is not None]
        return marks[-1] if marks else None

    def store(self, position: int | None) -> None:
        if position is not None:
            assert self.stored is None or position > self.stored
            self.stored = position

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def produce(self, partition: int) -> None:
        self.tracker.produced(partition)
        self.unacked[partition].append(len(self.log))
        self.log.append(None)

    @rule()
    def checkpoint(self) -> None:
        self.made += 1
        self.log.append(self.made)
        self.store(self.tracker.checkpoint(self.made))

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def ack(self, partition: int, count: int) -> None:
        if count > len(self.unacked[partition]):
            with pytest.raises(ValueError, match="ack of record"):
                self.tracker.acked(partition, count)
            return
        del self.unacked[partition][:count]
        self.store(self.tracker.acked(partition, count))

    @invariant()
    def newest_storable_is_stored(self) -> None:
        assert self.stored == self.storable()
        assert self.tracker.outstanding == sum(map(len, self.unacked))
        assert self.tracker.pending <= self.log[self.first_open() :].count(None)


TestAcks = AckMachine.TestCase


def test_checkpoints_without_records_between_them_are_one() -> None:
    tracker: Tracker[str] = Tracker(2)
    tracker.produced(0)
    for n in range(1000):
        assert tracker.checkpoint(str(n)) is None
    assert tracker.pending == 1
    assert tracker.acked(0) == "999"
    assert tracker.checkpoint("more") == "more"


@pytest.mark.parametrize("count", [0, -1, 2])
def test_an_ack_of_nothing_is_refused_and_changes_nothing(count: int) -> None:
    tracker: Tracker[str] = Tracker(1)
    tracker.produced(0)
    with pytest.raises(ValueError, match="ack of record"):
        tracker.acked(0, count)
    assert tracker.outstanding == 1


def test_there_is_a_partition() -> None:
    with pytest.raises(ValueError, match="0 partitions"):
        Tracker[str](0)
