"""Kinds from definitions: versions in the server's order of preference, and what keeps one from service."""

from __future__ import annotations

from typing import Any

import pytest

from local.sim_kinds import BUILT_IN, crd_problem, kind_of_crd


def crd(**spec: Any) -> dict[str, Any]:
    whole = {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    }
    return {"metadata": {"name": "widgets.example.io"}, "spec": whole | spec}


def test_preferred_version_comes_first() -> None:
    names = ["v1alpha1", "v2beta3", "foo", "v2", "v10", "v2beta10", "v1"]
    versions = [{"name": name, "served": True, "storage": name == "v1"} for name in names]
    kind = kind_of_crd(crd(versions=versions))
    assert kind.versions == ("v10", "v2", "v1", "v2beta10", "v2beta3", "v1alpha1", "foo")


def test_version_that_is_not_served_is_left_out() -> None:
    versions = [{"name": "v1", "served": True, "storage": True}, {"name": "v2", "served": False, "storage": False}]
    assert kind_of_crd(crd(versions=versions)).versions == ("v1",)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"group": ""}, "spec.group"),
        ({"scope": "World"}, "spec.scope"),
        ({"names": {"plural": "widgets"}}, "spec.names"),
        ({"versions": [{"name": "v1", "served": True}]}, "spec.versions"),
        ({"names": {"plural": "gadgets", "kind": "Gadget"}}, "metadata.name"),
    ],
)
def test_definition_that_cannot_be_served_names_the_field(spec: dict[str, Any], field: str) -> None:
    problem = crd_problem(crd(**spec))
    assert problem is not None
    assert problem[0] == field


def test_sound_definition_has_no_problem() -> None:
    assert crd_problem(crd()) is None


def test_cohabiting_kinds_share_their_storage() -> None:
    events = [kind.storage for kind in BUILT_IN if kind.plural == "events"]
    assert events == [("", "events")] * 2
