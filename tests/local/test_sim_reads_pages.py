"""A list read in pages is one list of one version, and no token makes it anything else.

Read off a kube-apiserver 1.36 where a text or a page boundary is held.
"""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from local.sim_kinds import Json
from local.sim_status import Refused
from local.sim_store import SimStore
from tests.local.sim_reader import Reader, everywhere

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


@pytest.fixture
def maps(store: SimStore) -> Reader:
    return Reader(store, store.kind("", "configmaps"))


def token(**fields: Any) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1"} | fields, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


class Paging(RuleBasedStateMachine):
    """A list read in pages while the world goes on is one version of it, each object once, or it expires."""

    def __init__(self) -> None:
        super().__init__()
        store = SimStore(seed=1)
        self.reader = Reader(store, store.kind("", "configmaps"), "")
        self.page: Json | None = None
        self.expected: list[tuple[str, str]] = []

    @rule(name=st.sampled_from("abcd"), namespace=st.sampled_from(["default", "kube-public"]))
    def write(self, name: str, namespace: str) -> None:
        kind, store = self.reader.scope.kind, self.reader.store
        live = {obj["metadata"]["name"] for key, obj in store.read(kind)[0] if key.startswith(f"{namespace}/")}
        if name in live:
            store.delete(kind, namespace, name)
        else:
            self.reader.make(name, namespace=namespace)

    @rule()
    def compact(self) -> None:
        self.reader.store.compact()

    @rule(limit=st.integers(1, 4))
    def begin(self, limit: int) -> None:
        pairs, self.version = self.reader.store.read(self.reader.scope.kind)
        self.whole = [(o["metadata"]["namespace"], o["metadata"]["name"]) for _, o in pairs]
        self.seen: list[tuple[str, str]] = []
        self.take(self.reader.list(limit=str(limit)))

    @precondition(lambda self: self.page is not None and "continue" in self.page["metadata"])
    @rule(limit=st.integers(0, 4))
    def go_on(self, limit: int) -> None:
        assert self.page is not None
        query = {"limit": str(limit), "continue": self.page["metadata"]["continue"]}
        if self.version < self.reader.store.compacted:
            assert self.reader.refusal(**query)["reason"] == "Expired"
            self.page = None
        else:
            self.take(self.reader.list(**query))

    def take(self, page: Json) -> None:
        self.page = page
        self.seen += [(item["metadata"]["namespace"], item["metadata"]["name"]) for item in page["items"]]
        assert page["metadata"]["resourceVersion"] == str(self.version)
        assert page["metadata"].get("remainingItemCount", 0) == len(self.whole) - len(self.seen)

    @invariant()
    def pages_are_one_list(self) -> None:
        if self.page is not None:
            assert self.seen == self.whole[: len(self.seen)]
            assert ("continue" in self.page["metadata"]) is (len(self.seen) < len(self.whole))


TestPaging = Paging.TestCase
TestPaging.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_custom_list_says_its_end_with_an_empty_token(store: SimStore, maps: Reader) -> None:
    """Present and empty is the end, too: a pager that only looks for the key goes round for ever."""
    store.create(store.kind("apiextensions.k8s.io", "customresourcedefinitions"), CRD)
    widgets = Reader(store, store.kind("example.io", "widgets"))
    widgets.make("a", "b")
    assert widgets.list()["metadata"]["continue"] == ""
    assert widgets.list(limit="2")["metadata"]["continue"] == ""
    assert widgets.list(limit="1")["metadata"]["continue"] != ""
    assert "continue" not in maps.list()["metadata"]


def test_rest_of_an_expired_list_is_of_the_present_and_says_so(maps: Reader) -> None:
    """An inconsistent token: pages before it and after it are of two versions, and no watch covers both."""
    maps.make("a", "b", "c")
    first = maps.list(limit="1")
    maps.make("aa")
    now = maps.drop("c")
    maps.store.compact()
    status = maps.refusal(**{"continue": first["metadata"]["continue"], "limit": "1"})
    rest = maps.list(**{"continue": status["metadata"]["continue"]})
    assert [item["metadata"]["name"] for item in rest["items"]] == ["aa", "b"]
    assert rest["metadata"]["resourceVersion"] == now != first["metadata"]["resourceVersion"]


def test_list_at_a_compacted_version_expires_without_a_token(maps: Reader) -> None:
    then = maps.make("a")
    maps.make("b")
    maps.store.compact()
    for query in ({"resourceVersionMatch": "Exact"}, {"limit": "1"}):
        status = maps.refusal(resourceVersion=then, **query)
        assert (status["code"], status["reason"], status["metadata"]) == (410, "Expired", {})
    assert maps.names(resourceVersion=then) == ["a", "b"]  # not older than: the present will do


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"rv": 0, "start": "/a\0"}, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ({"start": "/a\0"}, "incorrect encoded start resourceVersion (version meta.k8s.io/v1)"),
        ({"rv": 5, "start": ""}, "encoded start key empty (version meta.k8s.io/v1)"),
        (
            {"v": "meta.k8s.io/v2", "rv": 5, "start": "a"},
            "server does not recognize this encoded version meta.k8s.io/v2",
        ),
        ({"rv": -1, "start": "../../b\0"}, "../../b\0"),
        ({"rv": -1, "start": "//b"}, "//b"),
    ],
)
def test_token_that_no_server_gave_is_refused_with_its_fault(maps: Reader, fields: dict[str, Any], text: str) -> None:
    status = maps.refusal(**{"continue": token(**fields)})
    assert status["code"] == 400
    assert status["message"] == f"invalid continue token: continue key is not valid: {text}"


@given(
    st.binary(max_size=40).map(lambda data: base64.urlsafe_b64encode(data).decode())
    | st.text(max_size=20)
    | st.recursive(st.none() | st.integers() | st.floats() | st.text(max_size=3), st.lists).map(
        lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode()
    )
    | st.fixed_dictionaries(
        {},
        optional={name: st.none() | st.integers() | st.floats() | st.text(max_size=3) for name in ("v", "rv", "start")},
    ).map(lambda fields: token(**fields))
)
def test_any_token_is_a_page_or_one_clear_refusal(text: str) -> None:
    store = SimStore(seed=1)
    reader = Reader(store, store.kind("", "configmaps"))
    try:
        found = reader.names(**{"continue": text})
    except Refused as refused:
        found = [refused.code]
    assert found in ([], [400], [504])  # 504: a version that is yet to come


@pytest.mark.parametrize(
    ("selector", "limit", "names", "goes_on"),
    [
        ("metadata.name!=c", "2", ["a", "b"], True),  # c is left, which will not be shown
        ("metadata.name!=a", "2", ["b", "c"], False),
        ("metadata.name!=c", "3", ["a", "b"], False),  # the page was never full
        ("metadata.name=a", "1", ["a"], False),  # read by its name
    ],
)
def test_page_of_a_selection_goes_on_while_there_are_objects(
    maps: Reader, selector: str, limit: str, names: list[str], goes_on: bool
) -> None:
    """A selector is applied to what a page reads: the last page may be empty, and nobody knows how many remain."""
    maps.make("a", "b", "c")
    page = maps.list(fieldSelector=selector, limit=limit)
    assert [item["metadata"]["name"] for item in page["items"]] == names
    assert ("continue" in page["metadata"]) is goes_on
    assert "remainingItemCount" not in page["metadata"]
    if goes_on:
        rest = maps.list(**{"fieldSelector": selector, "continue": page["metadata"]["continue"]})
        assert (rest["items"], "continue" in rest["metadata"]) == ([], False)


def test_page_of_a_name_in_all_namespaces_is_a_search(maps: Reader) -> None:
    maps.make("a", "b")
    everywhere_ = everywhere(maps)
    assert "continue" in everywhere_.list(fieldSelector="metadata.name=a", limit="1")["metadata"]
    one = everywhere_.list(fieldSelector="metadata.name=a,metadata.namespace=default", limit="1")
    assert "continue" not in one["metadata"]
