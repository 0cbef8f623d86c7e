"""Discovery documents: whoever picks kinds by them finds each once, in the right version, with what it can do."""

from __future__ import annotations

from typing import Any

import pytest

from local.sim_discovery import VERSION, api_versions, group, group_list, resource_list
from local.sim_kinds import BUILT_IN, Kind, kind_of_crd


def custom(plural: str, *versions: str, status: bool = False, group: str = "example.io", **names: Any) -> Kind:
    part = {"served": True, "subresources": {"status": {}} if status else {}}
    spec = {
        "group": group,
        "scope": names.pop("scope", "Namespaced"),
        "names": {"plural": plural, "kind": plural.rstrip("s").title()} | names,
        "versions": [{"name": name} | part for name in versions],
    }
    return kind_of_crd({"metadata": {"name": f"{plural}.{group}"}, "spec": spec})


def resources(name: str, version: str, *kinds: Kind) -> dict[str, dict[str, Any]]:
    document = resource_list(name, version, (*BUILT_IN, *kinds))
    assert document is not None
    return {entry["name"]: entry for entry in document["resources"]}


def test_core_group_has_its_own_document_and_is_no_group() -> None:
    assert api_versions("127.0.0.1:1")["versions"] == ["v1"]
    groups = [found["name"] for found in group_list(BUILT_IN)["groups"]]
    assert sorted(groups) == ["apiextensions.k8s.io", "apps", "coordination.k8s.io", "events.k8s.io"]
    assert group("", [kind for kind in BUILT_IN if kind.group]) is None


def test_preferred_version_of_a_group_is_the_best_of_all_its_kinds() -> None:
    """Clients take the preferred version for kinds that have it; a kind served elsewhere must not hide it."""
    kinds = [custom("aaas", "v1alpha1"), custom("bbbs", "v1beta1", "v1"), custom("cccs", "v2alpha1")]
    found = group("example.io", kinds)
    assert found is not None
    assert [version["version"] for version in found["versions"]] == ["v1", "v1beta1", "v2alpha1", "v1alpha1"]
    assert found["preferredVersion"] == {"groupVersion": "example.io/v1", "version": "v1"}
    assert group_list([*BUILT_IN, *kinds])["groups"][-1] == {key: found[key] for key in ("name", "versions")} | {
        "preferredVersion": found["preferredVersion"]
    }


def test_kind_is_listed_in_the_versions_that_it_is_served_in_and_no_other() -> None:
    kinds = [custom("aaas", "v1alpha1"), custom("bbbs", "v1beta1", "v1")]
    assert resources("example.io", "v1", *kinds).keys() == {"bbbs"}
    assert resources("example.io", "v1alpha1", *kinds).keys() == {"aaas"}
    assert resource_list("example.io", "v2", kinds) is None
    assert resource_list("none.io", "v1", kinds) is None
    assert group("none.io", kinds) is None


def test_every_kind_can_be_listed_and_watched_and_subresources_cannot() -> None:
    """An exporter takes what has both verbs: a subresource among them would be listed in vain for ever."""
    status = custom("aaas", "v1", status=True)
    for name, version in {(kind.group, kind.versions[0]) for kind in BUILT_IN} | {("example.io", "v1")}:
        for plural, entry in resources(name, version, status).items():
            watched = {"list", "watch"} <= set(entry["verbs"])
            assert watched is ("/" not in plural), plural


def test_status_is_a_subresource_of_the_kinds_that_have_one() -> None:
    found = resources("", "v1")
    assert "pods/status" in found
    assert "configmaps/status" not in found
    assert found["pods/status"]["kind"] == "Pod"
    assert found["pods/status"]["verbs"] == ["get", "patch", "update"]
    assert "aaas/status" in resources("example.io", "v1", custom("aaas", "v1", status=True))
    assert resources("example.io", "v1", custom("aaas", "v1")).keys() == {"aaas"}


def test_scope_and_names_are_those_of_the_definition() -> None:
    kind = custom("aaas", "v1", scope="Cluster", singular="aaa", shortNames=["a"], categories=["all"])
    entry = resources("example.io", "v1", kind)["aaas"]
    assert (entry["namespaced"], entry["singularName"], entry["shortNames"]) == (False, "aaa", ["a"])
    assert (entry["kind"], entry["categories"]) == ("Aaa", ["all"])
    plain = resources("", "v1")
    assert (plain["nodes"]["namespaced"], plain["pods"]["namespaced"]) == (False, True)
    assert (plain["secrets"]["singularName"], "shortNames" in plain["secrets"]) == ("secret", False)


def test_namespaces_cannot_be_deleted_as_a_collection() -> None:
    found = resources("", "v1")
    assert "deletecollection" in found["configmaps"]["verbs"]
    assert "deletecollection" not in found["namespaces"]["verbs"]
    assert "deletecollection" in resources("example.io", "v1", custom("namespaces", "v1"))["namespaces"]["verbs"]


def test_events_are_in_both_groups() -> None:
    assert resources("", "v1")["events"]["kind"] == resources("events.k8s.io", "v1")["events"]["kind"] == "Event"


@pytest.mark.parametrize(("name", "head"), [("", {"groupVersion": "v1"}), ("apps", {"groupVersion": "apps/v1"})])
def test_only_the_document_of_the_core_group_lacks_its_api_version(name: str, head: dict[str, str]) -> None:
    document = resource_list(name, "v1", BUILT_IN)
    assert document is not None
    document.pop("resources")
    assert document == {"kind": "APIResourceList"} | head | ({"apiVersion": "v1"} if name else {})


def test_version_is_one_that_clients_can_compare() -> None:
    assert (int(VERSION["major"]), int(VERSION["minor"])) >= (1, 32)
    assert VERSION["gitVersion"].startswith(f"v{VERSION['major']}.{VERSION['minor']}.")
