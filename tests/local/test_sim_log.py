"""The keyspace keeps etcd's promises, whatever is put, removed, compacted and restored, in any order.

Held: one rising counter; the state of any revision that is not compacted; every event after it, once and in
order; a reader is told when compaction took something from it, and only then; commits are never forgotten.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.sim_log import Event, RevisionLog, Snapshot, Storage

MAPS: Storage = ("", "configmaps")
LEASES: Storage = ("coordination.k8s.io", "leases")
KEYS = ("n/a", "n/b", "n-a/a", "m")

State = dict[tuple[Storage, str], dict[str, Any]]


def obj(key: str, number: int) -> dict[str, Any]:
    namespace, _, name = key.rpartition("/")
    meta = {"name": name, "uid": f"uid of {key}"} | ({"namespace": namespace} if namespace else {})
    return {"metadata": meta, "n": number}


class Model:
    """What a log must be: every state and every event of one line of history, nothing clever."""

    def __init__(self) -> None:
        self.states: dict[int, State] = {1: {}}
        self.events: list[tuple[Storage, Event]] = []
        self.revision, self.compacted = 1, 0

    def copy(self) -> Model:
        other = Model()
        other.states, other.events = dict(self.states), list(self.events)
        other.revision, other.compacted = self.revision, self.compacted
        return other


class Log(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log, self.model = RevisionLog(), Model()
        self.backups: list[tuple[Snapshot, Model]] = []
        self.committed: list[tuple[int, str, str, int]] = []
        self.epoch, self.number = 1, 0

    @rule(storage=st.sampled_from([MAPS, LEASES]), key=st.sampled_from(KEYS))
    def put(self, storage: Storage, key: str) -> None:
        self.number += 1
        before = self.model.states[self.model.revision].get((storage, key))
        stored = self.log.put(storage, key, obj(key, self.number))
        assert (stored["n"], stored["metadata"]["uid"]) == (self.number, f"uid of {key}")
        self.commit([(storage, key, "ADDED" if before is None else "MODIFIED", stored, before)])

    @precondition(lambda self: any(found for found in self.model.states[self.model.revision]))
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        state = self.model.states[self.model.revision]
        storage = data.draw(st.sampled_from(sorted({storage for storage, _ in state})))
        live = sorted(key for found, key in state if found == storage)
        keys = data.draw(st.lists(st.sampled_from(live), min_size=1, unique=True))
        revision = str(self.log.remove(storage, keys))
        changes = []
        for key in sorted(keys):
            before = state[storage, key]
            dead = before | {"metadata": before["metadata"] | {"resourceVersion": revision}}
            changes.append((storage, key, "DELETED", dead, before))
        self.commit(changes)

    def commit(self, changes: list[tuple[Storage, str, Any, dict[str, Any], dict[str, Any] | None]]) -> None:
        model = self.model
        model.revision += 1
        state = dict(model.states[model.revision - 1])
        for storage, key, change, shown, before in changes:
            assert shown["metadata"]["resourceVersion"] == str(model.revision)
            model.events.append((storage, Event(model.revision, change, key, shown, before)))
            state.pop((storage, key), None)
            if change != "DELETED":
                state[storage, key] = shown
            put = "DELETE" if change == "DELETED" else "PUT"
            self.committed.append((model.revision, put, shown["metadata"]["uid"], self.epoch))
        model.states[model.revision] = state

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        self.model.compacted = data.draw(st.integers(self.model.compacted, self.model.revision))
        self.log.compact(self.model.compacted)

    @rule()
    def back_up(self) -> None:
        self.backups.append((self.log.snapshot(), self.model.copy()))

    @precondition(lambda self: self.backups)
    @rule(data=st.data(), bump=st.none() | st.integers(1, 50))
    def restore(self, data: st.DataObject, bump: int | None) -> None:
        backup, model = data.draw(st.sampled_from(self.backups))
        self.log.restore(backup, bump)
        self.model = model.copy()
        self.epoch += 1
        if bump is not None:
            state = self.model.states[self.model.revision]
            self.model.revision += bump
            self.model.compacted = self.model.revision
            self.model.states[self.model.revision] = state

    @invariant()
    def every_readable_state_is_what_it_was(self) -> None:
        model = self.model
        assert (self.log.revision, self.log.compacted, self.log.epoch) == (model.revision, model.compacted, self.epoch)
        for revision in range(model.compacted, model.revision + 1):
            state = model.states.get(revision, {})
            for storage in (MAPS, LEASES):
                expected = sorted((key, value) for (found, key), value in state.items() if found == storage)
                assert self.log.at(storage, revision) == expected
        live = {(s, key): value for s in (MAPS, LEASES) for key, value in self.log.current(s).items()}
        assert live == model.states[model.revision]

    @invariant()
    def a_reader_gets_every_event_or_is_told(self) -> None:
        for storage in (MAPS, LEASES):
            for after in range(self.model.revision + 1):
                missed = [event for s, event in self.model.events if s == storage and event.revision > after]
                kept = [event for event in missed if event.revision > self.model.compacted]
                assert self.log.after(storage, after) == kept
                assert self.log.lost(storage, after) is (kept != missed)

    @invariant()
    def commits_are_never_forgotten(self) -> None:
        assert [(c.revision, c.kind, c.uid, c.epoch) for c in self.log.commits] == self.committed


TestLog = Log.TestCase


@pytest.mark.parametrize("revision", [2, 5])
def test_compaction_out_of_range_is_refused_with_the_range(revision: int) -> None:
    log = RevisionLog()
    for number in range(3):
        log.put(MAPS, "n/a", obj("n/a", number))
    log.compact(3)
    with pytest.raises(ValueError, match=r"give a revision between 3 \(already compacted\) and 4"):
        log.compact(revision)
    assert log.at(MAPS, 3) == [("n/a", log.at(MAPS, 3)[0][1])]


def test_keys_of_one_namespace_are_one_stretch_in_etcds_order() -> None:
    """Bytes, in which a hyphen and a dot sort before the slash that ends a namespace."""
    log = RevisionLog()
    for key in ("n/b", "n-a/z", "n.b/z", "n0/a", "n/a", "N/a"):
        log.put(MAPS, key, obj(key, 0))
    assert [key for key, _ in log.at(MAPS, log.revision)] == ["N/a", "n-a/z", "n.b/z", "n/a", "n/b", "n0/a"]


def test_what_was_handed_out_never_changes() -> None:
    log = RevisionLog()
    first = log.put(MAPS, "n/a", obj("n/a", 1))
    listed, backup = log.at(MAPS, log.revision), log.snapshot()
    log.put(MAPS, "n/a", obj("n/a", 2))
    log.remove(MAPS, ["n/a"])
    assert listed == [("n/a", first)]
    assert (first["n"], first["metadata"]["resourceVersion"]) == (1, "2")
    log.restore(backup, None)
    assert log.get(MAPS, "n/a") is first


def test_commit_names_the_object_as_a_checker_needs_it() -> None:
    log = RevisionLog()
    log.put(LEASES, "n/a", obj("n/a", 1))
    log.put(("", "nodes"), "m", obj("m", 1))
    found = [(c.group, c.resource, c.namespace, c.name) for c in log.commits]
    assert found == [("coordination.k8s.io", "leases", "n", "a"), ("", "nodes", "", "m")]


def test_revision_that_is_given_out_again_is_read_anew() -> None:
    """What the pages of one list share must not outlive a restore: the number is the same, the state is not."""
    log = RevisionLog()
    backup = log.snapshot()
    lost = log.put(MAPS, "n/a", obj("n/a", 1))
    assert log.at(MAPS, log.revision) == [("n/a", lost)]
    log.restore(backup, None)
    found = log.put(MAPS, "n/b", obj("n/b", 2))
    assert found["metadata"]["resourceVersion"] == lost["metadata"]["resourceVersion"]
    assert log.at(MAPS, log.revision) == [("n/b", found)]
