"""What a partition remembers: by UID and by name, the dead until they are forgotten, and nothing twice."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import UidState
from processors.memory import Memory

PODS = ("c", "", "pods")
STREAM = "c//pods/"


def state(uid: str, rv: str = "5", *, name: str = "n", deleted: bool = False) -> UidState:
    return UidState(
        *("c", 1, "", "v1", "pods", "", "ns", name, uid, rv, rv, 1, deleted, None, "", "", (), (), ""),
    )


def test_the_latest_state_of_a_uid_counts():
    memory = Memory()
    memory.put(state("u", "5"))
    memory.put(state("u", "6"))
    assert len(memory) == 1
    assert memory.of(PODS).get("u").rv == "6"
    assert len(memory.of(("c", "apps", "deployments"))) == 0, "resources are apart"


def test_a_name_is_held_by_the_last_that_lives_with_it():
    memory = Memory()
    memory.put(state("old"))
    living = memory.of(PODS)
    assert living.holder("ns", "n", other_than="new") == state("old")
    assert living.holder("ns", "n", other_than="old") is None
    assert living.holder("elsewhere", "n", other_than="new") is None
    memory.put(state("new"))
    memory.put(state("old", deleted=True))
    assert living.holder("ns", "n", other_than="old") == state("new"), "a late delete of the old takes no name"
    memory.put(state("new", deleted=True))
    assert living.holder("ns", "n", other_than="x") is None


def test_the_dead_wait_in_order_until_they_are_forgotten():
    memory = Memory()
    for uid in ("b", "a", "c"):
        memory.put(state(uid, name=uid))
        memory.put(state(uid, name=uid, deleted=True))
    memory.put(state("c", "9", name="c"))
    assert [dead.uid for dead in memory.dead(STREAM, PODS)] == ["a", "b"], "c lives again"
    memory.forget(STREAM, memory.of(PODS).get("a"))
    assert [dead.uid for dead in memory.dead(STREAM, PODS)] == ["b"]
    assert len(memory) == 2
    assert list(memory.dead("c/apps/deployments/", PODS)) == []


def test_the_dead_of_a_scope_wait_for_the_floor_of_that_scope():
    memory = Memory()
    memory.put(replace(state("u", deleted=True), scope="ns"))
    assert list(memory.dead(STREAM, PODS)) == []
    assert [dead.uid for dead in memory.dead("c//pods/ns", PODS)] == ["u"]


def test_what_is_forgotten_while_it_is_gone_through_is_no_trouble():
    memory = Memory()
    for number in range(5):
        memory.put(state(f"u{number}", name=f"n{number}", deleted=True))
    for dead in memory.dead(STREAM, PODS):
        memory.forget(STREAM, dead)
    assert len(memory) == 0


def sealed(memory: Memory, *states: UidState) -> list[bytes]:
    """Seal them all; what is returned grows by each that is decoded."""
    codec, asked = Codec(), []

    def unseal(data: bytes) -> UidState:
        asked.append(data)
        return codec.decode(data)

    for each in states:
        data = codec.encode(each)
        memory.seal(codec.head(data), partial(unseal, data))
    return asked


def test_what_is_sealed_is_decoded_once_when_it_is_asked_for():
    memory = Memory()
    asked = sealed(memory, state("u", "5", name="n"), state("v", "6", name="m"))
    assert (len(memory), asked) == (2, [])
    for _ in range(2):
        assert memory.of(PODS).get("u") == state("u", "5", name="n")
    assert len(asked) == 1
    assert memory.of(PODS).holder("ns", "m", "u") == state("v", "6", name="m")
    assert memory.of(PODS).states() == [state("u", "5", name="n"), state("v", "6", name="m")]
    assert len(asked) == 2


def test_the_sealed_hold_their_names_and_the_dead_wait():
    memory = Memory()
    sealed(memory, state("u", name="n"), state("u", "6", name="n", deleted=True), state("w", name="n"))
    assert memory.of(PODS).holder("ns", "n", "x").uid == "w"
    assert [dead.rv for dead in memory.dead(STREAM, PODS)] == ["6"]
    memory.put(state("u", "7", name="n"))
    assert list(memory.dead(STREAM, PODS)) == []


def test_a_sealed_state_that_is_broken_is_told_when_it_is_asked_for():
    memory, codec = Memory(), Codec()
    data = codec.encode(state("u"))
    memory.seal(codec.head(data), partial(codec.decode, data[:-1]))
    with pytest.raises(Undecodable):
        memory.of(PODS).get("u")
