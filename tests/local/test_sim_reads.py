"""LIST and WATCH parameters mean what they mean in Kubernetes: versions, pages, tokens, selectors, starts of watches.

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

from local.sim_kinds import Json, Kind
from local.sim_reads import ReadOptions, Scope, Watch, list_page, read_options, start_watch, validate, with_defaults
from local.sim_status import Refused
from local.sim_store import SimStore

CRD = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}


class Reader:
    """One kind of a store, read as the API reads it."""

    def __init__(self, store: SimStore, kind: Kind, namespace: str = "default") -> None:
        self.store, self.scope = store, Scope(kind, kind.versions[0], namespace)

    def options(self, watchlist: bool = True, **query: str) -> ReadOptions:
        options = with_defaults(read_options(query, self.scope), watchlist=watchlist)
        validate(options, watchlist=watchlist)
        return options

    def list(self, **query: str) -> Json:
        return list_page(self.store, self.scope, self.options(**query), 0)

    def names(self, **query: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.list(**query)["items"]]

    def watch(self, watchlist: bool = True, **query: str) -> Watch:
        return start_watch(self.store, self.scope, self.options(watchlist, **{"watch": "1"} | query), 0)

    def make(self, *names: str, namespace: str = "default") -> str:
        for name in names:
            self.store.create(self.scope.kind, {"metadata": {"name": name}}, namespace=namespace)
        return str(self.store.revision)

    def drop(self, name: str) -> str:
        self.store.delete(self.scope.kind, self.scope.namespace, name)
        return str(self.store.revision)

    def refusal(self, **query: str) -> Json:
        with pytest.raises(Refused) as refused:
            self.watch(**query) if "watch" in query else self.list(**query)
        return refused.value.status


@pytest.fixture
def store() -> SimStore:
    return SimStore(now=lambda: 1_700_000_000, seed=1)


@pytest.fixture
def maps(store: SimStore) -> Reader:
    return Reader(store, store.kind("", "configmaps"))


def everywhere(reader: Reader) -> Reader:
    return Reader(reader.store, reader.scope.kind, "")


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


def test_list_is_of_the_version_that_its_parameters_name(maps: Reader) -> None:
    """A version alone is a lower bound; with Exact, or with a limit and no match, it is the version itself."""
    then = maps.make("a", "b")
    now = maps.drop("a")
    expected = [
        ({}, ["b"], now),
        ({"resourceVersion": "0"}, ["b"], now),
        ({"resourceVersion": then}, ["b"], now),
        ({"resourceVersion": then, "resourceVersionMatch": "NotOlderThan"}, ["b"], now),
        ({"resourceVersion": then, "resourceVersionMatch": "NotOlderThan", "limit": "9"}, ["b"], now),
        ({"resourceVersion": then, "resourceVersionMatch": "Exact"}, ["a", "b"], then),
        ({"resourceVersion": then, "limit": "9"}, ["a", "b"], then),
    ]
    for query, names, version in expected:
        page = maps.list(**query)
        assert [item["metadata"]["name"] for item in page["items"]] == names, query
        assert page["metadata"]["resourceVersion"] == version, query


def test_version_of_a_list_is_the_clusters_not_that_of_its_last_item(maps: Reader) -> None:
    maps.make("a")
    secrets = Reader(maps.store, maps.store.kind("", "secrets"))
    now = secrets.make("s")
    assert maps.list()["metadata"]["resourceVersion"] == now
    assert int(maps.list()["items"][0]["metadata"]["resourceVersion"]) < int(now)


def test_only_a_cached_kind_ignores_the_limit_at_version_zero(store: SimStore, maps: Reader) -> None:
    """Events have no watch cache: their lists at "0" are paged, which tells a client that it is off."""
    events = Reader(store, store.kind("", "events"))
    maps.make("a", "b")
    events.make("a", "b")
    assert maps.names(resourceVersion="0", limit="1") == ["a", "b"]
    page = events.list(resourceVersion="0", limit="1")
    assert (len(page["items"]), "continue" in page["metadata"]) == (1, True)


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
    ("selector", "everywhere_too", "names"),
    [
        ("metadata.name=b", False, ["b"]),
        ("metadata.name==b", False, ["b"]),
        ("metadata.name!=b", False, ["a", "c"]),
        ("metadata.name=b,metadata.namespace=default", False, ["b"]),
        ("metadata.name=b,metadata.name=c", False, []),
        ("metadata.namespace=kube-public", False, []),
        ("metadata.namespace=kube-public", True, ["b"]),
        ("metadata.name=b", True, ["b", "b"]),
        ("metadata.namespace!=default", True, ["b"]),
        (",", False, ["a", "b", "c"]),
        ("metadata.name=", False, []),
    ],
)
def test_field_selector_chooses_in_lists_and_watches_alike(
    maps: Reader, selector: str, everywhere_too: bool, names: list[str]
) -> None:
    maps.make("a", "b", "c")
    maps.make("b", namespace="kube-public")
    reader = everywhere(maps) if everywhere_too else maps
    assert reader.names(fieldSelector=selector) == names
    initial = reader.watch(fieldSelector=selector).initial
    assert [obj["metadata"]["name"] for obj in initial] == names


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


@pytest.mark.parametrize(
    ("plural", "selector", "message"),
    [
        ("configmaps", "metadata.name", "invalid selector: 'metadata.name'; can't understand 'metadata.name'"),
        (
            "configmaps",
            "data.k=v",
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("nodes", "metadata.namespace=x", "field label not supported: metadata.namespace"),
    ],
)
def test_selector_that_is_not_understood_is_refused(store: SimStore, plural: str, selector: str, message: str) -> None:
    status = Reader(store, store.kind("", plural), "").refusal(fieldSelector=selector)
    assert (status["code"], status["message"]) == (400, message)


def test_label_selector_is_refused_and_never_ignored(maps: Reader) -> None:
    for query in ({"labelSelector": "a=b"}, {"labelSelector": "a=b", "watch": "1"}):
        assert maps.refusal(**query)["code"] == 400


@pytest.mark.parametrize(
    ("query", "causes"),
    [
        ({"resourceVersionMatch": "Exact"}, ["resourceVersionMatch is forbidden unless resourceVersion is provided"]),
        ({"resourceVersionMatch": "Exact", "resourceVersion": "0"}, ['"exact" is forbidden for resourceVersion "0"']),
        ({"resourceVersionMatch": "Some", "resourceVersion": "5"}, ['supported values: "Exact", "NotOlderThan", ""']),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5", "continue": "x"},
            ["is forbidden when continue is provided"],
        ),
        ({"sendInitialEvents": "true"}, ["sendInitialEvents is forbidden for list"]),
        ({"watch": "1", "resourceVersionMatch": "NotOlderThan"}, ["unless sendInitialEvents is provided"]),
        ({"watch": "1", "sendInitialEvents": "true"}, ["requires setting resourceVersionMatch to NotOlderThan"]),
        (
            {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            ["requires setting resourceVersionMatch to NotOlderThan", 'supported values: "NotOlderThan"'],
        ),
        ({"watch": "1", "continue": "x"}, ["is forbidden when continue is provided"]),
    ],
)
def test_parameters_that_contradict_are_each_named(maps: Reader, query: dict[str, str], causes: list[str]) -> None:
    status = maps.refusal(**query)
    assert (status["code"], status["details"]["kind"]) == (422, "ListOptions")
    found = [cause["message"] for cause in status["details"]["causes"]]
    assert len(found) == len(causes)
    assert all(expected in text for expected, text in zip(causes, found, strict=True))


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ({"limit": "abc"}, 400, 'strconv.ParseInt: parsing "abc": invalid syntax'),
        ({"limit": "9" * 23}, 400, "value out of range"),
        ({"timeoutSeconds": "1.5"}, 400, "invalid syntax"),
        ({"resourceVersion": "-1"}, 400, 'strconv.ParseUint: parsing "-1": invalid syntax'),
        ({"resourceVersion": "18446744073709551616"}, 400, "value out of range"),
        ({"resourceVersion": "18446744073709551615"}, 504, "Too large resource version: 18446744073709551615"),
        ({"watch": "1", "resourceVersion": "abc"}, 500, 'resourceVersion: Invalid value: "abc"'),
        ({"watch": "1", "resourceVersion": "9" * 23}, 500, "value out of range"),
        ({"continue": "x", "resourceVersion": "5"}, 400, "not allowed when using continue"),
    ],
)
def test_numbers_are_64_bits_wide(maps: Reader, query: dict[str, str], code: int, text: str) -> None:
    status = maps.refusal(**query)
    assert status["code"] == code
    assert text in status["message"]


def test_watch_begins_after_the_version_it_names(maps: Reader) -> None:
    """Exclusive: what has that version is known already, and must not come again."""
    then = maps.make("a")
    maps.make("b")
    watch = maps.watch(resourceVersion=then)
    assert (watch.start, watch.initial, watch.refusal, watch.ends_initial) == (int(then), (), None, False)


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
def test_watch_from_nowhere_shows_the_state_first(maps: Reader, query: dict[str, str]) -> None:
    """By storage key, not by version; its end is marked where WatchList is served and bookmarks are taken."""
    maps.make("c", "a")
    now = int(maps.make("b"))
    watch = maps.watch(**query)
    assert [obj["metadata"]["name"] for obj in watch.initial] == ["a", "b", "c"]
    assert (watch.start, watch.ends_initial) == (now, False)
    assert maps.watch(allowWatchBookmarks="true", **query).ends_initial
    assert not maps.watch(watchlist=False, allowWatchBookmarks="true", **query).ends_initial


def test_watch_list_from_a_version_is_of_the_present_and_reaches_it(maps: Reader) -> None:
    then = maps.make("a")
    now = maps.make("b")
    follow = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    watch = maps.watch(resourceVersion=then, **follow)
    assert ([obj["metadata"]["name"] for obj in watch.initial], watch.start) == (["a", "b"], int(now))
    ahead = maps.watch(resourceVersion=str(int(now) + 1), **follow)
    assert ahead.refusal is not None
    assert (ahead.refusal["code"], ahead.refusal["details"]["causes"][0]["reason"]) == (504, "ResourceVersionTooLarge")


def test_watch_without_initial_events_is_of_what_comes(maps: Reader) -> None:
    now = maps.make("a")
    watch = maps.watch(sendInitialEvents="false", resourceVersionMatch="NotOlderThan")
    assert (watch.start, watch.initial) == (int(now), ())


def test_watch_of_a_compacted_version_is_refused_in_its_stream_and_one_at_the_edge_is_not(maps: Reader) -> None:
    """Compaction at X keeps what came after X: a reader of X has missed nothing."""
    then = maps.make("a")
    edge = maps.make("b")
    maps.make("c")
    maps.store.compact(int(edge))
    refused = maps.watch(resourceVersion=then)
    assert refused.refusal is not None
    assert (refused.refusal["code"], refused.refusal["reason"]) == (410, "Expired")
    assert refused.refusal["message"] == f"too old resource version: {then} ({int(edge) + 1})"
    kept = maps.watch(resourceVersion=edge)
    assert (kept.refusal, kept.start) == (None, int(edge))


def test_watch_ahead_of_the_present_is_accepted_in_silence(maps: Reader) -> None:
    """k8s#107457: after a restore that took versions back, a client loses what happens until they are reached."""
    ahead = str(maps.store.revision + 1000)
    watch = maps.watch(resourceVersion=ahead)
    assert (watch.refusal, watch.start) == (None, int(ahead))


def test_namespace_is_not_the_beginning_of_another_ones_name(store: SimStore) -> None:
    maps = store.kind("", "configmaps")
    for namespace in ("n", "n-a", "na"):
        store.create(store.kind("", "namespaces"), {"metadata": {"name": namespace}})
        store.create(maps, {"metadata": {"name": f"in-{namespace}"}}, namespace=namespace)
    reader = Reader(store, maps, "n")
    assert reader.names() == ["in-n"]
    assert [obj["metadata"]["name"] for obj in reader.watch().initial] == ["in-n"]
    assert everywhere(reader).names() == ["in-n-a", "in-n", "in-na"]  # etcd's order: "-" < "/" < "a"
