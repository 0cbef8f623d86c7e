"""The log says which kinds are followed, which are not and why, and which flag changes it, however many there are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from producer.following import statement
from producer.selection import Discovery, GroupInfo, ResourceInfo, choose
from producer.settings import WatchSettings

BOTH = frozenset({"list", "watch"})


def kind(group: str, resource: str, *, namespaced: bool = True, verbs: frozenset[str] = BOTH) -> ResourceInfo:
    return ResourceInfo(group, "v1", resource, resource.title(), namespaced, verbs)


SERVED = (
    kind("", "pods"),
    kind("", "secrets"),
    kind("", "nodes", namespaced=False),
    kind("", "events"),
    kind("", "bindings", verbs=frozenset({"create"})),
    kind("apps", "deployments"),
    kind("events.k8s.io", "events"),
    kind("coordination.k8s.io", "leases"),
)


def served(*kinds: ResourceInfo) -> Discovery:
    groups = dict.fromkeys(info.group for info in kinds)
    return Discovery(tuple(GroupInfo(group, ("v1",)) for group in groups), kinds)


def said(discovery: Discovery = served(*SERVED), **watch: Any) -> str:  # noqa: B008 - a value
    settings = WatchSettings(**watch)
    return statement(discovery, choose(discovery, settings.resources, settings.exclude), settings)


def test_by_default_what_is_off_is_named_with_the_flag_that_changes_it() -> None:
    assert said() == (
        "following 4 kinds: deployments.apps, nodes, pods, secrets;"
        " not following 2 kinds: events, leases.coordination.k8s.io"
        " (off by default: name what you want, as in --resources '*' --resources events);"
        " 1 kind: events.events.k8s.io (the objects of events once more);"
        " 1 kind: bindings (the server offers no list and watch of them)"
    )


def test_the_flag_that_is_named_does_what_is_said() -> None:
    chosen = choose(served(*SERVED), ("*", "events"))
    assert [info.name for info in chosen.resources] == ["deployments.apps", "events", "nodes", "pods", "secrets"]


def test_what_is_followed_after_all_is_not_among_what_is_off() -> None:
    assert "not following 1 kind: events (off by default" in said(resources=("*", "leases"))
    assert said(resources=("*", "leases")).startswith("following 5 kinds: deployments.apps, leases.coordination.k8s.io")


def test_flags_that_leave_something_out_are_named() -> None:
    assert "; 1 kind: secrets (--exclude)" in said(exclude=("secrets",))
    only = said(resources=("pods",))
    assert only.startswith("following 1 kind: pods; not following ")
    assert "3 kinds: deployments.apps, nodes, secrets (not named by --resources)" in only
    assert "(off by default: name what you want, as in --resources events)" in only
    confined = said(namespaces=("a", "b"))
    assert confined.startswith("following 3 kinds: deployments.apps, pods, secrets in the 2 namespaces a, b; ")
    assert "1 kind: nodes (without namespaces, and --namespace is given)" in confined


def test_what_is_awaited_and_what_could_not_be_read_is_told() -> None:
    waiting = said(resources=("pods", "widgets.example.io"))
    assert "1 of --resources that the server does not serve yet" in waiting
    unread = replace(served(*SERVED), unreadable=frozenset({"metrics.k8s.io/v1beta1"}))
    assert "what is in metrics.k8s.io/v1beta1 (the server cannot tell at present what that is)" in said(unread)


NAMES = st.text("abcdefghij.", min_size=1, max_size=250)


@given(st.lists(NAMES, max_size=300, unique=True), st.lists(NAMES, max_size=50))
def test_it_is_bounded_whatever_a_server_serves(names: list[str], namespaces: list[str]) -> None:
    discovery = served(*(kind("example.io", name) for name in names))
    assert len(said(discovery, namespaces=tuple(namespaces))) < 3000
