"""The store keeps etcd's promises: one counter, history until compaction, and what a restore does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sim_fields import Writer
from local.sim_kinds import Json
from local.sim_log import RevisionLog
from local.sim_status import Refused
from local.sim_store import DeleteOptions, SimStore

CRD = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


@pytest.fixture
def store() -> SimStore:
    return SimStore(now=lambda: 1_700_000_000, seed=1)


def make(store: SimStore, name: str, group: str = "", plural: str = "configmaps", **content: Any) -> Json:
    meta = {"name": name} | content.pop("metadata", {})
    return store.create(store.kind(group, plural), {"metadata": meta} | content, namespace="default")


def version(obj: Json) -> int:
    return int(obj["metadata"]["resourceVersion"])


def events(store: SimStore, plural: str, after: int) -> list[tuple[str, str, int]]:
    found = store.follow(store.kind("", plural), after).events
    return [(event.type, event.object["metadata"]["name"], event.revision) for event in found]


def test_every_resource_shares_one_counter(store: SimStore) -> None:
    first = make(store, "a")
    second = make(store, "b", plural="secrets")
    assert version(second) == version(first) + 1 == store.revision


def test_deleted_carries_the_old_object_at_the_revision_of_the_delete(store: SimStore) -> None:
    made = make(store, "a", data={"k": "1"})
    store.delete(store.kind("", "configmaps"), "default", "a")
    (event,) = store.follow(store.kind("", "configmaps"), version(made)).events
    assert event.type == "DELETED"
    assert event.object["data"] == {"k": "1"}
    assert version(event.object) == event.revision == store.revision > version(made)


def test_reused_name_is_another_object(store: SimStore) -> None:
    first = make(store, "a")
    store.delete(store.kind("", "configmaps"), "default", "a")
    assert make(store, "a")["metadata"]["uid"] != first["metadata"]["uid"]


def test_write_without_change_makes_no_revision(store: SimStore) -> None:
    made = make(store, "a", data={"k": "1"})
    kind = store.kind("", "configmaps")
    again = store.modify(kind, "default", "a", lambda old: old | {"data": {"k": "1"}}, writer=Writer("other"))
    assert again == made
    assert store.revision == version(made)


def test_stale_version_is_a_conflict(store: SimStore) -> None:
    made = make(store, "a")
    kind = store.kind("", "configmaps")
    store.modify(kind, "default", "a", lambda old: old | {"data": {"k": "1"}})
    with pytest.raises(Refused, match="has been modified") as refused:
        store.update(kind, made | {"data": {"k": "2"}}, namespace="default")
    assert refused.value.code == 409


def test_update_that_takes_the_last_finalizer_is_never_stored(store: SimStore) -> None:
    make(store, "a", metadata={"finalizers": ["x.io/f"]}, data={"k": "kept"})
    kind = store.kind("", "configmaps")
    marked, gone = store.delete(kind, "default", "a")
    assert not gone

    def free(old: Json) -> Json:
        return {"metadata": {"name": "a", "finalizers": []}, "data": {"k": "lost"}}

    store.modify(kind, "default", "a", free)
    (event,) = store.follow(kind, version(marked)).events
    assert event.type == "DELETED"
    assert event.object["metadata"]["finalizers"] == ["x.io/f"]
    assert event.object["data"] == {"k": "kept"}


def test_graceful_delete_is_marked_then_gone(store: SimStore) -> None:
    made = make(store, "p", plural="pods", spec={"nodeName": "n"})
    pods = store.kind("", "pods")
    marked, gone = store.delete(pods, "default", "p")
    assert (gone, marked["metadata"]["deletionGracePeriodSeconds"], marked["metadata"]["generation"]) == (False, 30, 2)
    assert store.delete(pods, "default", "p")[0] is marked
    _, gone = store.delete(pods, "default", "p", DeleteOptions(grace=0))
    assert gone
    assert [event[0] for event in events(store, "pods", version(made))] == ["MODIFIED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    ("group", "plural", "expected"),
    [("", "configmaps", [None] * 4), ("", "pods", [1, 2, 2, 2]), ("apps", "deployments", [1, 2, 2, 3])],
)
def test_generation_follows_the_kind(store: SimStore, group: str, plural: str, expected: list[int | None]) -> None:
    kind = store.kind(group, plural)
    objects = [make(store, "a", group, plural, spec={"n": 1})]
    for change in ({"spec": {"n": 2}}, {"labels": {"l": "1"}}, {"annotations": {"a": "1"}}):
        meta = {key: value for key, value in change.items() if key != "spec"}
        spec = {"spec": change["spec"]} if "spec" in change else {}
        objects.append(
            store.modify(kind, "default", "a", lambda old, m=meta, s=spec: old | s | {"metadata": old["metadata"] | m})
        )
    assert [obj["metadata"].get("generation") for obj in objects] == expected


def test_managers_own_what_they_changed_last(store: SimStore) -> None:
    kind = store.kind("apps", "deployments")
    meta = {"metadata": {"name": "d"}}
    store.create(kind, meta | {"spec": {"replicas": 1, "paused": True}}, namespace="default", writer=Writer("one"))
    store.modify(
        kind, "default", "d", lambda old: old | {"spec": {"replicas": 2, "paused": True}}, writer=Writer("two")
    )
    changed = store.modify(
        kind, "default", "d", lambda old: old | {"status": {"replicas": 2}}, writer=Writer("three", "status")
    )
    owners = {
        (entry["manager"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in changed["metadata"]["managedFields"]
    }
    assert "f:replicas" not in owners["one", ""]["f:spec"]
    assert owners["two", ""] == {"f:spec": {"f:replicas": {}}}
    assert owners["three", "status"] == {"f:status": {"f:replicas": {}}}


def test_expiry_deletes_many_at_one_revision(store: SimStore) -> None:
    for name in "abc":
        make(store, name, plural="events")
    before = store.revision
    at = store.expire(store.kind("", "events"), [("default", "c"), ("default", "a")])
    assert at == before + 1
    assert events(store, "events", before) == [("DELETED", "a", at), ("DELETED", "c", at)]
    with pytest.raises(Refused, match="not found"):
        store.expire(store.kind("", "events"), [("default", "b"), ("default", "none")])
    assert store.revision == at


def test_both_event_groups_show_the_same_objects(store: SimStore) -> None:
    made = make(store, "e", plural="events")
    assert store.get(store.kind("events.k8s.io", "events"), "default", "e") is made


def test_compaction_drops_history_and_keeps_the_present(store: SimStore) -> None:
    kind = store.kind("", "configmaps")
    first = version(make(store, "a"))
    make(store, "b")
    at = store.compact()
    make(store, "c")
    with pytest.raises(ValueError, match="is not in"):
        store.read(kind, first)
    assert [key for key, _ in store.read(kind, at)[0]] == ["default/a", "default/b"]
    assert store.follow(kind, first).broken
    assert not store.follow(kind, at).broken
    with pytest.raises(ValueError, match="cannot compact"):
        store.compact(at - 1)
    assert [commit.name for commit in store.history() if commit.resource == "configmaps"] == ["a", "b", "c"]


def test_stream_that_missed_nothing_survives_compaction(store: SimStore) -> None:
    position = version(make(store, "a"))
    make(store, "s", plural="secrets")
    store.compact()
    assert not store.follow(store.kind("", "configmaps"), position).broken


def test_restore_without_bump_gives_revisions_out_again(store: SimStore) -> None:
    make(store, "a")
    backup = store.snapshot()
    lost = make(store, "b")
    store.restore(backup)
    again = make(store, "c")
    assert version(again) == version(lost)
    assert store.epoch == 2
    names = [(commit.name, commit.epoch) for commit in store.history() if commit.revision == version(lost)]
    assert names == [("b", 1), ("c", 2)]


def test_restore_with_bump_brings_objects_back_at_their_old_versions(store: SimStore) -> None:
    made = make(store, "a")
    backup = store.snapshot()
    store.delete(store.kind("", "configmaps"), "default", "a")
    store.restore(backup, bump=1000)
    assert store.get(store.kind("", "configmaps"), "default", "a") == made
    assert store.revision == store.compacted == backup.revision + 1000
    assert version(make(store, "b")) == store.revision


def test_custom_kind_is_served_with_its_definition_and_goes_with_it(store: SimStore) -> None:
    crds = store.kind("apiextensions.k8s.io", "customresourcedefinitions")
    store.create(crds, CRD)
    widgets = store.kind("example.io", "widgets")
    before = version(make(store, "w", "example.io", "widgets"))
    store.delete(crds, "", "widgets.example.io")
    with pytest.raises(KeyError):
        store.kind("example.io", "widgets")
    reading = store.follow(widgets, before)
    assert [event.type for event in reading.events] == ["DELETED"]
    assert reading.broken


def test_definition_that_cannot_be_served_is_refused(store: SimStore) -> None:
    crds = store.kind("apiextensions.k8s.io", "customresourcedefinitions")
    with pytest.raises(Refused, match=r"must be spec[.]names[.]plural"):
        store.create(crds, CRD | {"metadata": {"name": "gadgets.example.io"}})


def test_namespace_takes_its_objects_along(store: SimStore) -> None:
    namespaces = store.kind("", "namespaces")
    store.create(namespaces, {"metadata": {"name": "n"}})
    store.create(store.kind("", "configmaps"), {"metadata": {"name": "a"}}, namespace="n")
    store.delete(namespaces, "", "n")
    assert [(c.kind, c.resource, c.name) for c in store.history()[-2:]] == [
        ("DELETE", "configmaps", "a"),
        ("DELETE", "namespaces", "n"),
    ]
    with pytest.raises(Refused, match='namespaces "n" not found'):
        store.create(store.kind("", "configmaps"), {"metadata": {"name": "a"}}, namespace="n")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=30))
def test_any_revision_can_be_read_back(steps: list[tuple[str, bool]]) -> None:
    """State at a revision, rebuilt backwards, is what it was when that revision was the latest."""
    log, storage = RevisionLog(), ("", "configmaps")
    seen = {log.revision: log.at(storage, log.revision)}
    for key, keep in steps:
        if keep or log.get(storage, key) is None:
            log.put(storage, key, {"metadata": {"name": key, "uid": key}, "n": log.revision})
        else:
            log.remove(storage, [key])
        seen[log.revision] = log.at(storage, log.revision)
    assert {revision: log.at(storage, revision) for revision in seen} == seen
