"""What a batch gathers comes out once, in order, and stays in the memory."""

from __future__ import annotations

from dataclasses import replace

from processors import changes
from processors.changes import At
from processors.pending import Pending
from processors.rules import EMITTED, Op
from tests.processors.raw import T, raw

EVENT = raw(T.ADDED, "u", "5")
AT = At(0, 7, EVENT, 1)
CREATED = changes.of_object(AT, None, EMITTED[Op.CREATED], Op.CREATED, 1)
STATE = changes.next_state(frozenset(), None, EVENT, 1, deleted=False)


def test_a_batch_comes_out_once_and_the_memory_stays() -> None:
    pending = Pending()
    pending.change(CREATED, STATE)
    pending.counters["created"] += 1
    assert pending.drain() == ([(b"u", CREATED)], {b"u": STATE}, {"created": 1})
    assert pending.drain() == ([], {}, {})
    assert (pending.memory.of(("c", "", "configmaps")).states(), pending.written) == ([STATE], 1)


def test_a_tombstone_follows_a_delete_and_the_last_state_of_a_key_is_written() -> None:
    pending, dead = Pending(), replace(STATE, rv="9", deleted=True)
    pending.change(CREATED, STATE)
    assert pending.take() == [(b"u", CREATED)]
    pending.change(replace(CREATED, op=Op.DELETED), dead)
    said, state, _ = pending.drain()
    assert [value for _, value in said][-1] is None
    assert state == {b"u": dead}
    pending.forget("c//configmaps/", dead)
    assert pending.drain()[1] == {b"u": None}
    assert pending.memory.of(("c", "", "configmaps")).states() == []


def test_what_is_only_kept_is_no_change() -> None:
    pending = Pending()
    pending.keep(STATE)
    pending.say(b"__gap__/u", CREATED)
    assert pending.drain() == ([(b"__gap__/u", CREATED)], {b"u": STATE}, {})
    assert pending.written == 0
