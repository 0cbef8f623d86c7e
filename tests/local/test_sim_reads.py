"""LIST and WATCH parameters mean what they mean in Kubernetes: versions, selectors, contradictions, starts of watches.

Read off a kube-apiserver 1.36 where a text is held. Pages and continue tokens: `test_sim_reads_pages`.
"""

from __future__ import annotations

import pytest

from local.sim_store import SimStore
from tests.local.sim_reader import Reader, everywhere


@pytest.fixture
def store() -> SimStore:
    return SimStore(now=lambda: 1_700_000_000, seed=1)


@pytest.fixture
def maps(store: SimStore) -> Reader:
    return Reader(store, store.kind("", "configmaps"))


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
