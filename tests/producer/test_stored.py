"""Of what several producers have stored, the position that reaches furthest counts, whoever wrote last."""

from __future__ import annotations

import logging

import pytest

from kubecdc.codec import Codec
from kubecdc.records import Position, Progress
from producer.signals import Overtaken, Start
from producer.sink import Place
from producer.stored import StoredPositions

CODEC = Codec()


def at(epoch: int, rv: str) -> bytes:
    return CODEC.encode(Position("c", "", "pods", "", epoch, rv, "v1", "s", 1))


def reach(found: Position | None) -> tuple[int, str] | None:
    return found and (found.epoch, found.rv)


def test_the_furthest_of_the_last_epoch_counts_over_all_reads() -> None:
    news = [
        [("s", at(1, "900")), ("s", at(2, "99")), ("s", at(2, "100"))],
        [("s", at(2, "98")), ("s", at(1, "1000"))],
        [],
    ]
    stored = StoredPositions(lambda _: (news.pop(0), {}), CODEC)
    assert stored.of("s") is None
    for _ in range(3):
        stored.refresh()
        assert reach(stored.of("s")) == (2, "100")
    assert stored.epochs() == {"s": 2}
    assert stored.of("other") is None


def test_an_epoch_that_has_only_begun_counts_until_it_has_a_position() -> None:
    """It has a key of its own: who has not noticed the restore goes on to store positions of the epoch before."""
    news = [[("__epoch__/s", at(2, "")), ("s", at(1, "1000"))], [("s", at(2, "5"))]]
    stored = StoredPositions(lambda _: (news.pop(0), {}), CODEC)
    stored.refresh()
    assert reach(stored.of("s")) == (2, "")
    stored.refresh()
    assert reach(stored.of("s")) == (2, "5")


def test_a_session_begins_after_its_position_or_with_a_list_and_follows_later_epochs_only() -> None:
    kept = [("s", at(2, "7")), ("__epoch__/t", at(3, "")), ("t", at(2, "5"))]
    stored = StoredPositions(lambda _: (kept, {}), CODEC)
    stored.refresh()
    assert [stored.start(name) for name in ("s", "t", "new")] == [Start("7", 2), Start(None, 3), Start(None, 1)]
    assert [stored.overtaken("s", epoch) for epoch in (1, 2, 3)] == [Overtaken("7", 2), None, None]
    assert (stored.overtaken("t", 2), stored.overtaken("new", 1)) == (Overtaken(None, 3), None)


def test_a_position_that_was_taken_back_counts_no_more() -> None:
    stored = StoredPositions(lambda _: ([("s", at(3, "5")), ("s", None), ("s", at(1, "7"))], {}), CODEC)
    stored.refresh()
    assert reach(stored.of("s")) == (1, "7")


def test_a_position_that_is_taken_back_leaves_the_epoch_that_has_begun() -> None:
    """In an epoch before it, all that a producer says would be stale."""
    kept = [("__epoch__/s", at(2, "")), ("s", at(2, "5")), ("s", None)]
    stored = StoredPositions(lambda _: (kept, {}), CODEC)
    stored.refresh()
    assert (reach(stored.of("s")), stored.epochs()) == ((2, ""), {"s": 2})


@pytest.mark.parametrize("bad", [b"", b"damaged", CODEC.encode(Progress(1)), at(9, "007"), at(9, "")])
def test_what_is_no_position_is_told_and_does_not_count(bad: bytes, caplog: pytest.LogCaptureFixture) -> None:
    stored = StoredPositions(lambda _: ([("s", at(1, "5")), ("s", bad)], {}), CODEC)
    with caplog.at_level(logging.WARNING):
        stored.refresh()
    assert reach(stored.of("s")) == (1, "5")
    assert "a stored position of s does not count" in caplog.text


def test_each_reading_goes_on_where_its_own_last_one_ended() -> None:
    """A second term of office reads what its first one had read: it begins with its own eyes."""
    log = [("s", at(2, "5")), ("s", at(2, "7")), ("t", at(1, "3"))]

    def read(since: Place | None) -> tuple[list[tuple[str, bytes]], Place]:
        begin = since[0] if since else 0
        return log[begin : begin + 2], {0: min(begin + 2, len(log))}

    for _ in range(2):
        stored = StoredPositions(read, CODEC)
        stored.refresh()
        assert (reach(stored.of("s")), stored.of("t")) == ((2, "7"), None)
        stored.refresh()
        assert {name: reach(position) for name, position in stored.all().items()} == {"s": (2, "7"), "t": (1, "3")}
