"""Guarantees: order is kept, what the server sends is bounded, orders never wait, and nobody waits for ever."""

from __future__ import annotations

import threading
import time

from producer.mailbox import Mailbox


def test_everything_comes_once_and_in_order() -> None:
    mailbox: Mailbox[int] = Mailbox(100)
    writer = threading.Thread(target=lambda: [mailbox.post(n, 10) for n in range(1000)])
    writer.start()
    taken: list[int] = []
    while len(taken) < 1000:
        batch = mailbox.take(5.0)
        assert len(batch) <= 10
        taken += batch
    writer.join()
    assert taken == list(range(1000))


def test_a_full_mailbox_holds_the_writer_back_but_no_order() -> None:
    mailbox: Mailbox[str] = Mailbox(10)
    mailbox.post("frame", 10)
    writer = threading.Thread(target=mailbox.post, args=("next", 1), daemon=True)
    writer.start()
    mailbox.post("stop")
    writer.join(0.2)
    assert writer.is_alive()
    assert mailbox.take(1.0) == ["frame", "stop"]
    assert mailbox.take(5.0) == ["next"]
    writer.join(5)
    assert not writer.is_alive()


def test_an_item_over_the_limit_is_taken_when_there_is_nothing_else() -> None:
    mailbox: Mailbox[str] = Mailbox(10)
    mailbox.post("huge", 1000)
    assert mailbox.take(0.0) == ["huge"]


def test_close_releases_a_waiting_writer() -> None:
    mailbox: Mailbox[str] = Mailbox(10)
    mailbox.post("frame", 10)
    writer = threading.Thread(target=mailbox.post, args=("next", 1), daemon=True)
    writer.start()
    mailbox.close()
    writer.join(5)
    assert not writer.is_alive()
    assert mailbox.take(0.0) == []


def test_take_waits_no_longer_than_it_is_told_and_is_idle_meanwhile() -> None:
    mailbox: Mailbox[str] = Mailbox(10)
    assert not mailbox.idle()
    started = time.monotonic()
    reader = threading.Thread(target=mailbox.take, args=(0.3,))
    reader.start()
    while not mailbox.idle():
        assert time.monotonic() - started < 5
    reader.join(5)
    assert not reader.is_alive()
    assert not mailbox.idle()
