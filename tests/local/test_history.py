"""The ground truth agrees with the API server's own stream, and never hides a hole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from local import children, etcd
from local.apiserver import ApiServer
from local.errors import HistoryLost, LocalError, NotReady
from local.history import Committed, HistoryRecorder, _Reader, describe, read_history

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CRD = {
    "metadata": {"name": "wheels.history.test"},
    "spec": {
        "group": "history.test",
        "scope": "Cluster",
        "names": {"plural": "wheels", "singular": "wheel", "kind": "Wheel", "listKind": "WheelList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def own_server(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One that tests of this module may restart and compact; each leaves it running."""
    with ApiServer(tmp_path_factory.mktemp("own"), binaries=envtest_folder) as server:
        yield server


def change(server: ApiServer, method: str, path: str, body: Any = None) -> Any:
    content_type = MERGE if method == "PATCH" else "application/json"
    status, answer = server.request(method, path, body, content_type=content_type)
    assert status < 300, answer
    return answer


def churn(server: ApiServer, prefix: str) -> None:
    """Creates, updates, deletes and a name used twice."""
    for number in range(3):
        change(server, "POST", CONFIGMAPS, {"metadata": {"name": f"{prefix}-{number}"}})
    change(server, "PATCH", f"{CONFIGMAPS}/{prefix}-1", {"data": {"a": "b"}})
    change(server, "DELETE", f"{CONFIGMAPS}/{prefix}-0")
    change(server, "POST", CONFIGMAPS, {"metadata": {"name": f"{prefix}-0"}})
    change(server, "DELETE", f"{CONFIGMAPS}/{prefix}-1")


def watched(server: ApiServer, path: str, group: str, resource: str, since: str) -> list[Committed]:
    """What the API server itself streams, in the ground truth's terms."""
    status, text = server.request("GET", f"{path}?watch=1&timeoutSeconds=2&resourceVersion={since}")
    assert status == 200
    # A stream of one event is one JSON document, and arrives parsed.
    lines = text.splitlines() if isinstance(text, str) else [json.dumps(text)]
    found = []
    for event in map(json.loads, lines):
        assert event["type"] != "ERROR", event
        meta = event["object"]["metadata"]
        kind = "DELETE" if event["type"] == "DELETED" else "PUT"
        found.append(
            Committed(
                group,
                resource,
                meta.get("namespace", ""),
                meta["name"],
                meta["uid"],
                meta["resourceVersion"],
                kind,
            )
        )
    return found


def test_records_are_what_the_server_streams(apiserver: ApiServer) -> None:
    since = str(apiserver.revision())
    with HistoryRecorder(apiserver.etcd_url) as recorder:
        churn(apiserver, "history-same")
        recorder.wait_for(apiserver.revision())
        assert recorder.first_revision == 1
        mine = [
            record
            for record in recorder.records_for("", "configmaps")
            if int(record.rv) > int(since) and record.namespace == "default"
        ]
    assert mine == watched(apiserver, CONFIGMAPS, "", "configmaps", since)
    assert len([record for record in mine if record.name.startswith("history-same")]) == 7


def test_custom_resources_and_renamed_resources_have_their_group(apiserver: ApiServer) -> None:
    change(apiserver, "POST", CRDS, CRD)
    wheels = "/apis/history.test/v1/wheels"
    assert children.poll(lambda: apiserver.request("GET", wheels)[0] == 200, 20, every_seconds=0.1)
    # The watch cache of a new kind begins at its first list; what is older is 410.
    since = apiserver.request("GET", wheels)[1]["metadata"]["resourceVersion"]
    wheel = {"apiVersion": "history.test/v1", "kind": "Wheel", "metadata": {"name": "w"}}
    change(apiserver, "POST", wheels, wheel)
    change(apiserver, "DELETE", f"{wheels}/w")
    change(apiserver, "POST", "/api/v1/nodes", {"metadata": {"name": "history-node"}})
    change(apiserver, "DELETE", "/api/v1/nodes/history-node")
    with HistoryRecorder(apiserver.etcd_url) as recorder:
        recorder.wait_for(apiserver.revision())
        for path, group, resource in (
            (wheels, "history.test", "wheels"),
            ("/api/v1/nodes", "", "nodes"),
        ):
            mine = [r for r in recorder.records_for(group, resource) if int(r.rv) > int(since)]
            assert [record.kind for record in mine] == ["PUT", "DELETE"]
            assert mine == watched(apiserver, path, group, resource, since)


def test_recorder_goes_on_after_etcd_was_away(own_server: ApiServer) -> None:
    with HistoryRecorder(own_server.etcd_url) as recorder:
        churn(own_server, "away-before")
        recorder.wait_for(own_server.revision())
        own_server.stop()
        own_server.start()
        churn(own_server, "away-after")
        recorder.wait_for(own_server.revision())
        followed = recorder.records()
    again = read_history(own_server.etcd_url)
    assert followed == tuple(record for record in again if int(record.rv) <= int(followed[-1].rv))
    revisions = [int(record.rv) for record in followed]
    assert revisions == sorted(revisions)


def test_compaction_costs_a_recorder_nothing_and_a_late_reader_its_past(
    own_server: ApiServer,
) -> None:
    uid = change(own_server, "POST", CONFIGMAPS, {"metadata": {"name": "old"}})["metadata"]["uid"]
    with HistoryRecorder(own_server.etcd_url) as recorder:
        compacted = own_server.revision()
        recorder.wait_for(compacted)
        own_server.compact(compacted)
        change(own_server, "DELETE", f"{CONFIGMAPS}/old")
        recorder.wait_for(own_server.revision())
        lives = [record.kind for record in recorder.records() if record.uid == uid]
    assert lives == ["PUT", "DELETE"]
    with HistoryRecorder(own_server.etcd_url) as late:
        late.wait_for(own_server.revision())
        assert late.first_revision == compacted + 1
        kinds = [record.kind for record in late.records() if record.uid == uid]
    assert kinds == ["DELETE"]


def test_revision_that_never_comes_is_reported(own_server: ApiServer) -> None:
    with HistoryRecorder(own_server.etcd_url) as recorder, pytest.raises(NotReady, match="not to"):
        recorder.wait_for(10**12, timeout_seconds=0.2)


def event(key: str, revision: int, value: object = None) -> dict[str, Any]:
    kv = {"key": etcd.encode(key.encode()), "mod_revision": str(revision)}
    if value is None:
        return {"type": "DELETE", "kv": kv}
    return {"kv": {**kv, "value": etcd.encode(json.dumps(value).encode())}}


def stored(name: str, api_version: str = "v1", namespace: str | None = "ns") -> dict[str, Any]:
    metadata = {"name": name, "uid": f"uid-{name}", "namespace": namespace}
    if namespace is None:
        del metadata["namespace"]
    return {"apiVersion": api_version, "metadata": metadata}


def test_reader_with_a_hole_refuses_to_go_on() -> None:
    reader = _Reader()
    reader.read({"events": [event("/registry/pods/ns/a", 7, stored("a"))]})
    with pytest.raises(HistoryLost, match="compacted its history up to revision 9"):
        reader.read({"canceled": True, "compact_revision": "9"})


def test_reader_that_was_not_touched_by_a_compaction_goes_on() -> None:
    reader = _Reader()
    reader.read({"events": [event("/registry/pods/ns/a", 7, stored("a"))]})
    reader.read({"canceled": True, "compact_revision": "7"})
    assert reader.next_revision == 8
    assert reader.first_revision == 1


def test_deletes_at_one_revision_are_all_recorded() -> None:
    reader = _Reader()
    keys = [f"/registry/events/ns/{name}" for name in "abc"]
    reader.read({"events": [event(key, 5 + at, stored(key[-1])) for at, key in enumerate(keys)]})
    gone = reader.read({"events": [event(key, 9) for key in keys]})
    assert [(record.uid, record.rv) for record in gone] == [(f"uid-{n}", "9") for n in "abc"]


def test_delete_of_something_unknown_is_not_guessed() -> None:
    with pytest.raises(HistoryLost, match="no longer tells"):
        _Reader().read({"events": [event("/registry/pods/ns/a", 7)]})


def test_bookkeeping_of_the_server_is_no_resource() -> None:
    reader = _Reader()
    keys = ("compact_rev_key", "/registry/ranges/serviceips", "/registry/masterleases/10.0.0.1")
    events = [event(key, 5 + at, {"kind": "RangeAllocation"}) for at, key in enumerate(keys)]
    assert reader.read({"events": events}) == []
    assert reader.next_revision == 8


@pytest.mark.parametrize(
    ("path", "value", "group", "resource"),
    [
        ("pods/ns/a", stored("a"), "", "pods"),
        ("deployments/ns/a", stored("a", "apps/v1"), "apps", "deployments"),
        ("services/specs/ns/a", stored("a"), "", "services"),
        ("services/endpoints/ns/a", stored("a"), "", "endpoints"),
        ("minions/a", stored("a", namespace=None), "", "nodes"),
        ("namespaces/a", stored("a", namespace=None), "", "namespaces"),
        ("ingress/ns/a", stored("a", "networking.k8s.io/v1"), "networking.k8s.io", "ingresses"),
        ("example.com/wheels/ns/a", stored("a", "example.com/v1"), "example.com", "wheels"),
        ("example.com/pods/a", stored("a", "example.com/v1", None), "example.com", "pods"),
        ("clusterroles/system:x", stored("system:x", "r/v1", None), "r", "clusterroles"),
    ],
)
def test_key_and_value_tell_the_resource(path: str, value: dict[str, Any], group: str, resource: str) -> None:
    record = describe(path, json.dumps(value).encode(), "3")
    assert (record.group, record.resource) == (group, resource)
    assert (record.namespace, record.name) == (
        value["metadata"].get("namespace", ""),
        value["metadata"]["name"],
    )


def test_protobuf_is_refused_with_the_flag_that_avoids_it() -> None:
    with pytest.raises(LocalError, match="storage-media-type=application/json"):
        describe("pods/ns/a", b"k8s\x00\n\x09\n\x02v1", "3")
