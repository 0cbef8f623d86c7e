"""Each kind is followed once, in one version; what is asked for and does not exist is told; changes are told apart."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.selection import (
    Discovery,
    GroupInfo,
    ResourceInfo,
    Selection,
    check_patterns,
    choose,
    diff,
    parse_core,
    parse_groups,
    parse_resources,
    unserved,
    vanished,
)

ALL = frozenset({"get", "list", "watch"})


def info(
    name: str, version: str = "v1", kind: str = "", verbs: Iterable[str] = ALL, namespaced: bool = True
) -> ResourceInfo:
    resource, _, group = name.partition(".")
    return ResourceInfo(group, version, resource, kind or resource.rstrip("s").title(), namespaced, frozenset(verbs))


def discovery(*infos: ResourceInfo, unreadable: Iterable[str] = ()) -> Discovery:
    versions: dict[str, dict[str, None]] = {}
    for one in infos:
        versions.setdefault(one.group, {})[one.version] = None
    return Discovery(tuple(GroupInfo(g, tuple(v)) for g, v in versions.items()), infos, frozenset(unreadable))


CLUSTER = discovery(
    info("pods"),
    info("configmaps", kind="ConfigMap"),
    info("nodes", namespaced=False),
    info("events"),
    info("componentstatuses", verbs=["get", "list"]),
    info("tokenreviews.authentication.k8s.io", verbs=["create"]),
    info("deployments.apps"),
    info("leases.coordination.k8s.io"),
    info("events.events.k8s.io"),
    info("pods.metrics.k8s.io", "v1beta1", verbs=["get", "list"]),
    info("widgets.example.io", "v1"),
    info("widgets.example.io", "v1beta1"),
    info("gadgets.example.io", "v1beta1"),
)


def names(selection: Selection) -> list[str]:
    return [f"{one.group_version}/{one.resource}" for one in selection.resources]


def test_by_default_everything_but_events_and_leases() -> None:
    chosen = choose(CLUSTER)
    assert names(chosen) == [
        "v1/configmaps",
        "apps/v1/deployments",
        "example.io/v1beta1/gadgets",
        "v1/nodes",
        "v1/pods",
        "example.io/v1/widgets",
    ]
    assert (chosen.problems, chosen.awaited) == ((), ())


@pytest.mark.parametrize(
    ("include", "expected"),
    [
        (["pods"], ["v1/pods"]),
        (["v1/configmaps"], ["v1/configmaps"]),
        (["deployments.apps"], ["apps/v1/deployments"]),
        (["apps/v1/deployments"], ["apps/v1/deployments"]),
        (["deployments"], ["apps/v1/deployments"]),
        (["*.example.io"], ["example.io/v1beta1/gadgets", "example.io/v1/widgets"]),
        (["example.io/v1beta1/widgets"], ["example.io/v1/widgets"]),
        (["example.io/v2/widgets"], ["example.io/v1/widgets"]),
        (["events"], ["v1/events"]),
        (["v1/events"], ["v1/events"]),
        (["events.events.k8s.io"], ["events.k8s.io/v1/events"]),
        (["*.events.k8s.io"], ["events.k8s.io/v1/events"]),
        (["v1/events", "events.k8s.io/v1/events"], ["v1/events"]),
        (["leases", "pods"], ["coordination.k8s.io/v1/leases", "v1/pods"]),
        (["v1/*"], ["v1/configmaps", "v1/nodes", "v1/pods"]),
    ],
)
def test_patterns_choose_kinds_and_never_versions(include: list[str], expected: list[str]) -> None:
    chosen = choose(CLUSTER, include)
    assert names(chosen) == expected
    assert (chosen.problems, chosen.awaited) == ((), ())


def test_exclude_outweighs_include() -> None:
    assert names(choose(CLUSTER, ["pods", "deployments.apps"], ["*.apps"])) == ["v1/pods"]
    assert "v1/pods" not in names(choose(CLUSTER, [], ["pods"]))
    assert names(choose(CLUSTER, ["events"], ["v1/events"])) == ["events.k8s.io/v1/events"]


def test_the_preferred_version_is_taken_if_it_can_be_followed_else_the_next_that_can() -> None:
    poor = discovery(
        info("widgets.example.io", "v3", verbs=["list"]),
        info("widgets.example.io", "v2"),
        info("widgets.example.io", "v1"),
    )
    assert names(choose(poor, ["widgets"])) == ["example.io/v2/widgets"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("pod", "v1/pods"),
        ("podss", "pods"),
        ("Deployment", "deployments.apps"),
        ("dep_loy", "cannot be read"),
        ("deployment", "deployments.apps"),
        ("deploymets.apps", "deployments.apps"),
        ("configmap", "configmaps"),
        ("v1/pods/status", "pods"),
        ("lease.coordination.k8s.io", "not served"),
        ("componentstatuses", "lacks watch"),
        ("pods.metrics.k8s.io", "lacks watch"),
        ("apps/deployments", "write `pods`"),
        ("a/b/c/d", "write `pods`"),
        ("", "write `pods`"),
        ("pods.", "write `pods`"),
        (".apps", "write `pods`"),
    ],
)
def test_an_unknown_name_is_a_problem_that_helps(pattern: str, expected: str) -> None:
    problems = choose(CLUSTER, [pattern]).problems
    assert len(problems) == 1
    assert repr(pattern) in problems[0]
    assert expected.rpartition("/")[2] in problems[0]


def test_all_problems_come_at_once() -> None:
    chosen = choose(CLUSTER, ["podz", "apps/deployments", "pods"], ["x/y/z/w"])
    assert len(chosen.problems) == 3
    assert check_patterns(["podz", "apps/deployments", "x/y/z/w"]) == [
        problem for problem in chosen.problems if "cannot be read" in problem or "no version" in problem
    ]


@pytest.mark.parametrize("pattern", ["example.io/v1/gizmos", "things.other.io", "grpcroutes.gateway.networking.k8s.io"])
def test_a_custom_kind_may_be_defined_later(pattern: str) -> None:
    chosen = choose(CLUSTER, ["pods", pattern])
    assert (names(chosen), chosen.problems) == (["v1/pods"], ())
    assert len(chosen.awaited) == 1
    assert repr(pattern) in chosen.awaited[0]
    assert "did you mean" not in chosen.awaited[0]
    assert choose(CLUSTER, [pattern]).problems == ()


def test_a_misspelt_custom_kind_is_awaited_with_a_hint() -> None:
    assert "did you mean widgets.example.io" in choose(CLUSTER, ["widgts.example.io"]).awaited[0]


def test_an_unreadable_group_makes_no_name_wrong() -> None:
    partial = discovery(info("pods"), unreadable=["apps/v1"])
    for pattern in ("deployments.apps", "deployments", "apps/v1/deployments"):
        chosen = choose(partial, [pattern])
        assert chosen.problems == ()
        assert len(chosen.awaited) == 1


def test_a_pattern_that_cannot_be_read_does_not_widen_the_choice() -> None:
    assert choose(CLUSTER, ["apps/deployments"]).resources == ()


def test_nothing_left_is_a_problem() -> None:
    assert len(choose(CLUSTER, ["pods"], ["pods"]).problems) == 1
    assert len(choose(CLUSTER, [], ["*"]).problems) == 1


def test_kinds_appear_go_and_move() -> None:
    before = choose(discovery(info("pods"), info("widgets.example.io", "v1"), info("gone.other.io")))
    now = discovery(info("pods"), info("widgets.example.io", "v2"), info("new.other.io"))
    found = diff(before, choose(now), now)
    assert [one.name for one in found.appeared] == ["new.other.io"]
    assert [one.name for one in found.gone] == ["gone.other.io"]
    assert [(old.version, new.version) for old, new in found.moved] == [("v1", "v2")]
    same = diff(choose(now), choose(now), now)
    assert (same.appeared, same.gone, same.moved) == ((), (), ())


def test_what_vanished_is_told_apart_from_what_could_not_be_read() -> None:
    """A server that has just started leaves out whole groups for a moment; a second look is to be had then."""
    before = discovery(info("pods"), info("deployments.apps"))
    assert vanished(before, discovery(info("pods")))
    assert not vanished(before, before)
    assert not vanished(before, discovery(info("pods"), info("deployments.apps", "v2"), info("jobs.batch")))
    assert not vanished(before, discovery(info("pods"), unreadable=["apps/v1"]))


def test_what_cannot_be_read_is_neither_gone_nor_moved() -> None:
    before = choose(discovery(info("pods"), info("widgets.example.io", "v1"), info("gadgets.example.io", "v1")))
    now = discovery(info("pods"), info("widgets.example.io", "v1beta1"), unreadable=["example.io/v1"])
    found = diff(before, choose(now), now)
    assert (found.appeared, found.gone, found.moved) == ((), (), ())


def test_a_kind_made_again_with_another_scope_is_another_kind() -> None:
    before = choose(discovery(info("widgets.example.io")))
    now = discovery(info("widgets.example.io", namespaced=False))
    found = diff(before, choose(now), now)
    assert (len(found.appeared), len(found.gone), found.moved) == (1, 1, ())


def test_paths_of_requests() -> None:
    assert info("pods").path() == "/api/v1/pods"
    assert info("pods").path("ns") == "/api/v1/namespaces/ns/pods"
    assert info("deployments.apps").path("ns") == "/apis/apps/v1/namespaces/ns/deployments"
    assert info("deployments.apps").group_version == "apps/v1"


def test_discovery_documents_are_read() -> None:
    assert parse_core({"kind": "APIVersions", "versions": ["v1"]}) == (GroupInfo("", ("v1",)),)
    groups = {
        "groups": [
            {
                "name": "example.io",
                "versions": [
                    {"groupVersion": "example.io/v1", "version": "v1"},
                    {"version": "v2"},
                    {"version": "v1beta1"},
                ],
                "preferredVersion": {"version": "v2"},
            },
            {"name": "apps", "versions": [{"version": "v1"}]},
        ]
    }
    assert parse_groups(groups) == (GroupInfo("example.io", ("v2", "v1", "v1beta1")), GroupInfo("apps", ("v1",)))
    resources = {
        "groupVersion": "apps/v1",
        "resources": [
            {"name": "deployments", "kind": "Deployment", "namespaced": True, "verbs": ["list", "watch", "get"]},
            {"name": "deployments/status", "kind": "Deployment", "namespaced": True, "verbs": ["get"]},
        ],
    }
    assert parse_resources("apps/v1", resources) == (
        ResourceInfo(
            "apps", "v1", "deployments", "Deployment", namespaced=True, verbs=frozenset({"list", "watch", "get"})
        ),
    )
    assert parse_resources("v1", resources)[0].group == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["pods", "v1", "list", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["groups", "versions", "version", "resources", "name", "kind", "verbs"]), inner
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_no_document_crashes_it(document: Any) -> None:
    found = Discovery((*parse_core(document), *parse_groups(document)), parse_resources("v1", document))
    choose(found, ["pods"], ["*"])


@given(st.text(max_size=20))
def test_no_pattern_crashes_it(pattern: str) -> None:
    chosen = choose(CLUSTER, [pattern], [])
    assert chosen.resources or chosen.problems or chosen.awaited


def test_unserved_are_kinds_without_any_version_that_can_be_followed() -> None:
    lone = info("things.example.io", verbs=["list"])
    found = discovery(info("pods"), lone, unreadable=["broken.io/v1"])
    kinds = [("", "pods"), lone.key, ("", "gone"), ("broken.io", "things")]
    assert unserved(found, kinds) == {lone.key, ("", "gone")}
