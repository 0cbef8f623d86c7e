"""The API's answers, where no real kube-apiserver is at hand to compare with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.sim_api import Answer, Request, SimApi
from local.sim_reads import Watch
from local.sim_status import NoSuchPath, Refused
from local.sim_store import SimStore

PATH = "/api/v1/namespaces/default/configmaps"


class Caller:
    def __init__(self) -> None:
        self.store = SimStore(seed=1)
        self._api = SimApi(self.store, watchlist=True, wait_s=0)

    def __call__(self, method: str, path: str, body: Any = None, content_type: str = "", **query: str) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, query, {"content-type": content_type}, data)
        answer = self._api.handle(request, self._api.target(request))
        return answer.body if isinstance(answer, Answer) else answer

    def make(self, *names: str, path: str = PATH) -> None:
        for name in names:
            self("POST", path, {"metadata": {"name": name}})

    def names(self, path: str = PATH, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in self("GET", path, **query)["items"]]


@pytest.fixture
def api() -> Caller:
    return Caller()


def refusal(api: Caller, *arguments: Any, **query: str) -> dict[str, Any]:
    with pytest.raises(Refused) as refused:
        api(*arguments, **query)
    return dict(refused.value.status)


def test_pages_are_of_one_version_whatever_happens_between(api: Caller) -> None:
    api.make(*"abcde")
    first = api("GET", PATH, limit="2")
    assert first["metadata"]["remainingItemCount"] == 3
    api("DELETE", f"{PATH}/d")
    api.make("bb")
    second = api("GET", PATH, **{"limit": "2", "continue": first["metadata"]["continue"]})
    third = api("GET", PATH, **{"continue": second["metadata"]["continue"]})
    pages = [first, second, third]
    assert [item["metadata"]["name"] for page in pages for item in page["items"]] == list("abcde")
    assert len({page["metadata"]["resourceVersion"] for page in pages}) == 1
    assert "continue" not in third["metadata"]


def test_token_of_a_compacted_version_expires_and_offers_an_inconsistent_one(api: Caller) -> None:
    api.make(*"abc")
    token = api("GET", PATH, limit="1")["metadata"]["continue"]
    api("DELETE", f"{PATH}/b")
    api.store.compact()
    status = refusal(api, "GET", PATH, **{"continue": token})
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert api.names(**{"continue": status["metadata"]["continue"]}) == ["c"]


def test_list_at_a_version(api: Caller) -> None:
    api.make("a")
    then = str(api.store.revision)
    api.make("b")
    assert api.names(resourceVersion=then, resourceVersionMatch="Exact") == ["a"]
    assert api.names(resourceVersion=then, limit="9") == ["a"]
    assert api.names(resourceVersion=then) == ["a", "b"]
    assert refusal(api, "GET", PATH, resourceVersion="999")["details"]["causes"][0]["reason"] == (
        "ResourceVersionTooLarge"
    )


def test_items_of_built_in_kinds_lack_their_kind(api: Caller) -> None:
    api.make("a")
    (item,) = api("GET", PATH)["items"]
    assert not {"kind", "apiVersion"} & item.keys()
    assert api("GET", f"{PATH}/a")["kind"] == "ConfigMap"


def test_keys_sort_as_in_etcd(api: Caller) -> None:
    for namespace in ("n", "n-a"):
        api.make(namespace, path="/api/v1/namespaces")
        api.make("x", path=f"/api/v1/namespaces/{namespace}/configmaps")
    items = api("GET", "/api/v1/configmaps")["items"]
    assert [item["metadata"]["namespace"] for item in items] == ["n-a", "n"]


def test_field_selector_confines_lists_and_watches(api: Caller) -> None:
    api.make("a", "b")
    assert api.names(fieldSelector="metadata.name=b") == ["b"]
    assert api.names(fieldSelector="metadata.name!=b,metadata.namespace=default") == ["a"]
    watch = api("GET", PATH, watch="1", fieldSelector="metadata.name=b")
    assert isinstance(watch, Watch)
    assert [obj["metadata"]["name"] for obj in watch.initial] == ["b"]


def test_what_is_not_simulated_is_refused_not_ignored(api: Caller) -> None:
    assert "no label selectors" in refusal(api, "GET", PATH, labelSelector="a=b")["message"]


def test_watch_of_a_compacted_version_is_told_in_the_stream(api: Caller) -> None:
    api.make("a")
    then = str(api.store.revision - 1)
    api.store.compact()
    watch = api("GET", PATH, watch="1", resourceVersion=then)
    assert isinstance(watch, Watch)
    assert watch.refusal is not None
    assert watch.refusal["code"] == 410


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"resourceVersionMatch": "Exact"}, 422),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, 422),
        ({"sendInitialEvents": "true"}, 422),
        ({"watch": "1", "sendInitialEvents": "true"}, 422),
        ({"watch": "1", "resourceVersion": "x"}, 500),
        ({"resourceVersion": "x"}, 400),
        ({"limit": "x"}, 400),
        ({"continue": "x"}, 400),
    ],
)
def test_parameters_that_contradict_are_refused(api: Caller, query: dict[str, str], code: int) -> None:
    assert refusal(api, "GET", PATH, **query)["code"] == code


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", f"{PATH}/none", 404),
        ("GET", "/apis/apps/v9", 404),
        ("PUT", PATH, 405),
        ("POST", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/namespaces/default/nodes", 404),
        ("GET", f"{PATH}/none/status", 404),
    ],
)
def test_wrong_paths_and_methods_get_a_status(api: Caller, method: str, path: str, code: int) -> None:
    assert refusal(api, method, path, {})["code"] == code


@pytest.mark.parametrize("path", ["/foo", "/apis/none.io", "/apis/none.io/v1/things"])
def test_unknown_paths_are_no_part_of_the_api(api: Caller, path: str) -> None:
    with pytest.raises(NoSuchPath):
        api("GET", path)


def test_events_are_the_same_objects_in_both_groups(api: Caller) -> None:
    core, new = "/api/v1/namespaces/default/events", "/apis/events.k8s.io/v1/namespaces/default/events"
    api("POST", core, {"metadata": {"name": "e"}, "message": "hello", "involvedObject": {"name": "x"}})
    found = api("GET", f"{new}/e")
    assert (found["note"], found["regarding"], found["apiVersion"]) == ("hello", {"name": "x"}, "events.k8s.io/v1")
    api("PATCH", f"{new}/e", {"note": "changed"}, "application/merge-patch+json")
    assert api("GET", f"{core}/e")["message"] == "changed"


def test_writer_is_named_in_managed_fields(api: Caller) -> None:
    made = api("POST", PATH, {"metadata": {"name": "a"}, "data": {"k": "v"}}, fieldManager="me")
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["me"]


def test_lease_is_created_by_an_update(api: Caller) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    assert api("PUT", path, {"metadata": {"name": "l"}, "spec": {}})["metadata"]["uid"]
    status = refusal(api, "PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "x"}})
    assert "must be specified for an update" in status["message"]
