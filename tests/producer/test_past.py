"""Guarantees: of the state topic only what lives, in its own stream and epoch, is known, and it is read once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.errors import Unreachable
from kubecdc.records import Progress, UidState
from producer.past import Past, unknown

PODS, MAPS = "c//pods/", "c//configmaps/ns"
STATE = UidState("c", 2, "", "v1", "pods", "", "ns", "n", "u", "7", "7", 1, False, None, "d", "{}", (), (), "")


def record(uid: str, **fields: object) -> tuple[bytes, bytes]:
    return uid.encode(), Codec().encode(replace(STATE, uid=uid, **fields))


def known(*records: tuple[bytes, bytes | None], stream: str = PODS) -> dict[str, str]:
    return dict(Past(lambda: records, Codec(), {PODS: 2, MAPS: 1}).take(stream).live.items())


def test_the_last_version_of_each_live_object_is_known_in_its_stream():
    records = [
        record("a", rv="7"),
        record("a", rv="9"),
        record("m", resource="configmaps", scope="ns", epoch=1),
        record("other", resource="secrets"),
        record("elsewhere", cluster="d"),
        (wire.PROGRESS_KEY, Codec().encode(Progress(4))),
    ]
    assert known(*records) == {"a": "9"}
    assert known(*records, stream=MAPS) == {"m": "7"}


@pytest.mark.parametrize(
    "later", [("a", None), record("a", deleted=True), record("a", epoch=3), ("a", b"no state")], ids=str
)
def test_what_is_dead_of_another_epoch_or_unreadable_is_not_known(later: tuple[bytes | str, bytes | None]):
    key, value = later
    assert known(record("a"), (key.encode() if isinstance(key, str) else key, value)) == {}


def test_it_is_read_once_when_it_is_asked_and_given_away():
    reads: list[int] = []

    def read() -> Iterator[tuple[bytes, bytes | None]]:
        reads.append(1)
        yield record("a")
        yield record("m", resource="configmaps", scope="ns", epoch=1)

    past = Past(read, Codec(), {PODS: 2, MAPS: 1})
    assert reads == []
    assert len(past.take(PODS).live) == 1
    assert len(past.take(PODS).live) == 0
    assert len(past.take(MAPS).live) == 1
    assert reads == [1]
    assert len(unknown().versions) == 0


def test_a_read_that_fails_is_tried_again_by_the_next_who_asks():
    failing = [True]

    def read() -> Iterator[tuple[bytes, bytes | None]]:
        yield record("a")
        if failing.pop():
            raise Unreachable("gone")

    past = Past(read, Codec(), {PODS: 2})
    answer = past.recall(PODS)
    assert (len(answer.versions), answer.why) == (0, "gone")
    failing.append(False)
    answer = past.recall(PODS)
    assert (len(answer.versions), answer.epoch, answer.why) == (1, 2, "")


def test_a_delete_is_known_until_the_workers_forget_it():
    """A list that shows such an object again comes from a server that went back."""
    records = [record("a", rv="12", deleted=True), record("b", rv="9", deleted=True), record("b", rv="15")]
    kept = Past(lambda: records, Codec(), {PODS: 2}).recall(PODS)
    assert (dict(kept.versions.items()), dict(kept.deleted.items())) == ({"b": "15"}, {"a": "12"})
    forgotten = Past(lambda: [*records, (b"a", None)], Codec(), {PODS: 2}).recall(PODS)
    assert dict(forgotten.deleted.items()) == {}
