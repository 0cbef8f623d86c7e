"""What a write makes of an object is what Kubernetes makes of it: identity, generation, status, finalizers, grace.

A consumer of changes relies on each: an identity that moves, a mark that is taken back, or a delete that comes
too early would be told as another history than the one that a cluster had.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sim_fields import Writer
from local.sim_kinds import CRDS, NAMESPACES, Json, Kind
from local.sim_objects import (
    DeleteOptions,
    created,
    established,
    marked,
    rfc3339,
    seconds_of,
    terminating,
    updated,
)
from local.sim_status import Refused
from tests.local.sim_written import (
    CRD,
    DEPLOYMENTS,
    LEASES,
    MAPS,
    ME,
    NOW,
    PODS,
    STAMP,
    STATUS,
    WIDGETS,
    change,
    make,
    stored,
)


def refusal(kind: Kind, old: Json | None, metadata: Json, **content: Any) -> Json:
    try:
        if old is None:
            created(kind, {"metadata": metadata} | content, ME, STAMP)
        else:
            change(kind, old, metadata=metadata, **content)
    except Refused as refused:
        return refused.status
    raise AssertionError("it was taken")


BOUND: Json = {"spec": {"nodeName": "n"}}
HELD = {"finalizers": ["a.io/f"]}


@pytest.mark.parametrize(
    ("kind", "metadata", "content", "asked", "ends"),
    [
        (MAPS, {}, {}, None, (None, True)),  # no mark: just gone
        (MAPS, HELD, {}, None, (0, False)),
        (MAPS, HELD, {}, 30, (0, False)),
        (PODS, {}, BOUND, None, (30, False)),
        (PODS, {}, {"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 7}}, None, (7, False)),
        (PODS, {}, BOUND, 5, (5, False)),
        (PODS, {}, BOUND, -1, (1, False)),
        (PODS, {}, BOUND, 0, (0, True)),
        (PODS, HELD, BOUND, 0, (0, False)),
        (PODS, {}, {"spec": {}}, None, (0, True)),  # runs nowhere
        (PODS, HELD, {"spec": {}}, 60, (0, False)),
        (DEPLOYMENTS, HELD, {"spec": {}}, None, (0, False)),
    ],
)
def test_delete_is_marked_and_done_as_the_kind_asks(
    kind: Kind, metadata: Json, content: Json, asked: int | None, ends: tuple[int | None, bool]
) -> None:
    """A graceful kind is marked even when it goes at once: watchers see that version, then the end."""
    old = make(kind, metadata, **content)
    new, went = marked(kind, old, DeleteOptions(asked), NOW)
    grace, gone = ends
    assert went is gone
    if grace is None:
        assert new is old
        return
    meta = new["metadata"]
    assert (meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"]) == (grace, rfc3339(NOW + grace))
    assert meta.get("generation", 0) == (old["metadata"]["generation"] + 1 if "generation" in old["metadata"] else 0)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pod_that_has_ended_need_not_be_waited_for(phase: str) -> None:
    pod = stored(change(PODS, make(PODS, **BOUND), STATUS, status={"phase": phase}))
    assert marked(PODS, pod, DeleteOptions(), NOW)[1]


@pytest.mark.parametrize(
    ("asked", "grace", "gone"), [(None, 30, False), (60, 30, False), (30, 30, False), (10, 10, False), (0, 0, True)]
)
def test_second_delete_only_ever_shortens_the_grace_from_its_beginning(
    asked: int | None, grace: int, gone: bool
) -> None:
    """And makes no version when it changes nothing (TestDeletionResponseMatrix)."""
    pod = stored(marked(PODS, make(PODS, **BOUND), DeleteOptions(), NOW)[0])
    new, went = marked(PODS, pod, DeleteOptions(asked), NOW + 4)
    assert (went, new is pod) == (gone, grace == 30)
    assert new["metadata"]["deletionTimestamp"] == rfc3339(NOW + grace)
    assert new["metadata"]["generation"] == pod["metadata"]["generation"]


@pytest.mark.parametrize(
    ("options", "named"),
    [(DeleteOptions(uid="other"), "UID in the precondition"), (DeleteOptions(version="4"), "ResourceVersion in the")],
)
def test_failed_precondition_changes_nothing_and_names_the_kind(options: DeleteOptions, named: str) -> None:
    with pytest.raises(Refused, match=named) as refused:
        marked(DEPLOYMENTS, make(DEPLOYMENTS), options, NOW)
    assert (refused.value.code, refused.value.status["details"]["kind"]) == (409, "Deployment")
    right = DeleteOptions(uid="the-uid", version="5")
    assert marked(DEPLOYMENTS, make(DEPLOYMENTS), right, NOW)[1]


def test_terminating_object_takes_no_new_finalizer_with_or_without_an_old_one() -> None:
    held = stored(marked(MAPS, make(MAPS, HELD), DeleteOptions(), NOW)[0])
    graceful = stored(marked(PODS, make(PODS, **BOUND), DeleteOptions(), NOW)[0])
    for kind, obj in ((MAPS, held), (PODS, graceful)):
        status = refusal(kind, obj, {"finalizers": ["b.io/f", "a.io/f"]})
        new = '"b.io/f"' if kind is MAPS else '"a.io/f", "b.io/f"'
        assert status["code"] == 422
        assert status["message"].endswith(f"found new finalizers []string{{{new}}}")


def test_mark_of_deletion_cannot_be_made_by_an_update_nor_moved_nor_taken_back() -> None:
    assert refusal(MAPS, make(MAPS), {"deletionTimestamp": rfc3339(NOW)})["code"] == 422
    held = stored(marked(MAPS, make(MAPS, HELD), DeleteOptions(), NOW)[0])
    for sent in (rfc3339(NOW + 100), None):  # ignored, not refused
        new = change(MAPS, held, metadata={"deletionTimestamp": sent, "labels": {"l": "1"}})
        assert new["metadata"]["deletionTimestamp"] == rfc3339(NOW)
        assert new["metadata"]["labels"] == {"l": "1"}
    assert refusal(MAPS, held, {"deletionGracePeriodSeconds": 7})["code"] == 422


def test_creation_takes_from_the_client_only_what_is_its_own() -> None:
    ours = {
        "uid": "mine",
        "creationTimestamp": "2000-01-01T00:00:00Z",
        "deletionTimestamp": "2000-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 5,
        "selfLink": "/x",
        "managedFields": [{"manager": "mine"}],
        "generation": 9,
    }
    made = make(PODS, ours, spec={"n": 1}, status={"phase": "Running"})
    meta = made["metadata"]
    assert (meta["uid"], meta["creationTimestamp"], meta["generation"]) == ("the-uid", rfc3339(NOW), 1)
    assert not {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"} & meta.keys()
    assert [entry["manager"] for entry in meta["managedFields"]] == ["me"]
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


@pytest.mark.parametrize("kind", [MAPS, WIDGETS], ids=["built-in", "custom"])
def test_empty_metadata_is_absent_whoever_wrote_it(kind: Kind) -> None:
    """Stored forms are compared: {} beside nothing would be a change that no cluster has."""
    empty: Json = {"labels": {}, "annotations": {}, "finalizers": [], "ownerReferences": None}
    made = make(kind, empty)
    assert not empty.keys() & made["metadata"].keys()
    assert change(kind, made, metadata=empty) is made


def test_update_that_changes_nothing_is_the_old_object_and_has_no_new_owner() -> None:
    made = make(WIDGETS, {"labels": {"l": "1"}}, spec={"n": 1})
    assert change(WIDGETS, made, Writer("other", "", "v1"), status={"ignored": 1}) is made
    assert change(WIDGETS, made, STATUS, spec={"ignored": 1}) is made
    assert change(WIDGETS, made, metadata={"generation": 99, "creationTimestamp": None}) is made


@pytest.mark.parametrize(
    ("kind", "kept"),
    [(WIDGETS, {"labels", "annotations", "ownerReferences"}), (DEPLOYMENTS, {"labels"}), (PODS, {"ownerReferences"})],
    ids=["custom", "deployment", "pod"],
)
def test_each_endpoint_changes_its_half(kind: Kind, kept: set[str]) -> None:
    """Spec through the main one, status through /status, and there only the metadata that the kind lets it."""
    sent: dict[str, Any] = {"labels": {"l": "1"}, "annotations": {"a": "1"}, "ownerReferences": [{"name": "o"}]}
    made = make(kind, spec={"n": 1})
    main = change(kind, made, metadata=sent, spec={"n": 2}, status={"s": 1})
    assert (main["spec"], main.get("status"), main["metadata"]["generation"]) == ({"n": 2}, made.get("status"), 2)
    through = change(kind, made, STATUS, metadata=sent, spec={"n": 2}, status={"s": 1})
    assert (through["spec"], through["status"], through["metadata"]["generation"]) == ({"n": 1}, {"s": 1}, 1)
    assert sent.keys() - through["metadata"].keys() == kept


def test_generation_of_a_custom_object_rises_with_its_content_and_nothing_else() -> None:
    made = make(WIDGETS, spec={"n": 1})
    rises = {
        "content": change(WIDGETS, made, extra={"n": 1}),
        "spec": change(WIDGETS, made, spec={"n": 2}),
        "labels": change(WIDGETS, made, metadata={"labels": {"l": "1"}}),
        "annotations": change(WIDGETS, made, metadata={"annotations": {"a": "1"}}),
        "status": change(WIDGETS, made, STATUS, status={"s": 1}),
    }
    found = {name: obj["metadata"]["generation"] for name, obj in rises.items()}
    assert found == {"content": 2, "spec": 2, "labels": 1, "annotations": 1, "status": 1}


@pytest.mark.parametrize(("kind", "needed"), [(MAPS, False), (LEASES, True), (WIDGETS, True), (CRDS, True)])
def test_version_of_an_update_is_checked_and_needed_by_some_kinds(kind: Kind, needed: bool) -> None:
    old = make(kind, CRD["metadata"] if kind is CRDS else {}, spec=CRD["spec"] if kind is CRDS else {"n": 1})
    stale = refusal(kind, old, {"resourceVersion": "4", "labels": {"l": "1"}})
    assert (stale["code"], stale["reason"]) == (409, "Conflict")
    if needed:
        missing = refusal(kind, old, {"resourceVersion": None, "labels": {"l": "1"}})
        assert "must be specified for an update" in missing["message"]
    else:
        assert change(kind, old, metadata={"resourceVersion": None, "labels": {"l": "1"}}) is not old
    assert change(kind, old, metadata={"labels": {"l": "1"}})["metadata"]["labels"] == {"l": "1"}


def test_uid_is_immutable_and_a_new_object_has_no_version() -> None:
    assert "field is immutable" in refusal(MAPS, make(MAPS), {"uid": "other"})["message"]
    status = refusal(MAPS, None, {"name": "x", "resourceVersion": "5"})
    assert (status["code"], "reason" in status) == (500, False)


SUBDOMAIN = "a lowercase RFC 1123 subdomain must consist of"


@pytest.mark.parametrize(
    ("kind", "name", "texts"),
    [
        (MAPS, "a.b-c", []),
        (MAPS, "x" * 253, []),
        (MAPS, "x" * 254, ["must be no more than 253 characters"]),
        (MAPS, "A_B", [SUBDOMAIN]),
        (MAPS, "X" * 254, ["must be no more than 253 characters", SUBDOMAIN]),
        (MAPS, "-a", [SUBDOMAIN]),
        (MAPS, "a..b", [SUBDOMAIN]),
        (MAPS, "a\n", [SUBDOMAIN]),
        (WIDGETS, "A_B", [SUBDOMAIN]),
        (NAMESPACES, "x" * 63, []),
        (NAMESPACES, "x" * 64, ["must be no more than 63 characters"]),
        (NAMESPACES, "a.b", ["must not contain dots"]),
        (NAMESPACES, "A_B", ["a lowercase RFC 1123 label must consist of"]),
    ],
)
def test_names_are_those_that_kubernetes_takes(kind: Kind, name: str, texts: list[str]) -> None:
    if not texts:
        assert created(kind, {"metadata": {"name": name}}, ME, STAMP)["metadata"]["name"] == name
        return
    status = refusal(kind, None, {"name": name})
    assert status["details"]["kind"] == kind.kind
    causes = [cause["message"] for cause in status["details"]["causes"]]
    assert [cause.startswith(f'Invalid value: "{name}": {text}') for cause, text in zip(causes, texts, strict=True)]
    assert all(text in cause for cause, text in zip(causes, texts, strict=True))


def test_name_is_needed() -> None:
    assert "name or generateName is required" in refusal(MAPS, None, {"name": ""})["message"]


def test_finalizer_of_a_built_in_kind_is_a_standard_one_or_qualified() -> None:
    status = refusal(MAPS, None, {"name": "x", "finalizers": ["orphan", "bad", "a.io/f"]})
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.finalizers[1]"]
    assert make(WIDGETS, {"finalizers": ["bad"]})["metadata"]["finalizers"] == ["bad"]


def test_namespace_keeps_the_label_of_its_name_and_the_finalizer_of_its_content() -> None:
    space = stored(created(NAMESPACES, {"metadata": {"name": "n"}}, ME, STAMP))
    assert space["spec"] == {"finalizers": ["kubernetes"]}
    bare = updated(NAMESPACES, space, {"metadata": {"name": "n"}}, ME, STAMP)
    assert bare is space
    labels = {"labels": {"kubernetes.io/metadata.name": "other", "l": "1"}}
    new = change(NAMESPACES, space, metadata=labels, spec={"finalizers": []})
    assert new["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n", "l": "1"}
    assert new["spec"] == {"finalizers": ["kubernetes"]}
    ended = terminating(new, NOW)
    assert (ended["status"], ended["metadata"]["deletionTimestamp"]) == ({"phase": "Terminating"}, rfc3339(NOW))
    assert new["status"] == {"phase": "Active"}


def fields(obj: Json) -> dict[tuple[str, str], Json]:
    return {(e["manager"], e.get("subresource", "")): e["fieldsV1"] for e in obj["metadata"].get("managedFields", ())}


def test_what_the_server_fills_in_belongs_to_nobody_until_somebody_writes_it() -> None:
    pod = make(PODS, spec={"nodeName": "n"})
    assert fields(pod) == {("me", ""): {"f:spec": {".": {}, "f:nodeName": {}}}}
    run = stored(change(PODS, pod, STATUS, status={"phase": "Running", "qosClass": "BestEffort"}))
    assert fields(run)["controller", "status"] == {"f:status": {"f:phase": {}}}
    space = created(NAMESPACES, {"metadata": {"name": "n"}}, ME, STAMP)
    name = {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}
    assert fields(space) == {("me", ""): {"f:metadata": name}}


def test_definition_is_stored_unserved_and_then_established() -> None:
    crd = stored(created(CRDS, CRD, ME, STAMP))
    assert crd["status"]["storedVersions"] == ["v1"]
    assert not crd["status"]["conditions"]
    served = established(crd, rfc3339(NOW))
    states = {c["type"]: (c["status"], c["lastTransitionTime"]) for c in served["status"]["conditions"]}
    assert states == dict.fromkeys(("NamesAccepted", "Established"), ("True", rfc3339(NOW)))
    assert served["status"]["acceptedNames"]["listKind"] == "WidgetList"
    assert served["status"]["storedVersions"] == ["v1"]
    assert not crd["status"]["conditions"]
    ended, gone = marked(CRDS, stored(served), DeleteOptions(), NOW)
    assert gone
    assert ended["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]


@given(st.floats(0, 4_000_000_000))
def test_times_are_whole_seconds_of_utc(seconds: float) -> None:
    text = rfc3339(seconds)
    assert (len(text), text[-1]) == (20, "Z")
    assert seconds_of(text) == int(seconds)
