"""Refusals are in the shapes of a real API server: clients decide by code, reason and details, people by the words.

The texts were read off a kube-apiserver 1.36.
"""

from __future__ import annotations

from typing import Any

import pytest

from local import sim_status
from local.sim_kinds import BUILT_IN, kind_of_crd
from local.sim_status import Refused

KINDS = {kind.qualified: kind for kind in BUILT_IN}
MAPS, DEPLOYMENTS, LEASES = KINDS["configmaps"], KINDS["deployments.apps"], KINDS["leases.coordination.k8s.io"]
WIDGETS = kind_of_crd(
    {
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True}],
        }
    }
)
CAUSE = ("FieldValueInvalid", "metadata.uid", 'Invalid value: "5": field is immutable')
BAD = "Invalid value: 0: must be specified for an update"

ALL = [
    sim_status.bad_request("m"),
    sim_status.unauthorized(),
    sim_status.forbidden(MAPS, "list", "n", "me", ""),
    sim_status.forbidden(None, "get", "", "me", "/apis"),
    sim_status.not_found(MAPS, "x"),
    sim_status.unknown_resource(),
    sim_status.method_not_allowed(),
    sim_status.not_acceptable(),
    sim_status.already_exists(MAPS, "x"),
    sim_status.modified(MAPS, "x"),
    sim_status.expired("too old"),
    sim_status.expired("too old", "token"),
    sim_status.unsupported_media_type(MAPS),
    sim_status.unsupported_media_type(WIDGETS),
    sim_status.invalid(MAPS, "x", [CAUSE]),
    sim_status.invalid_options("ListOptions", [CAUSE]),
    sim_status.version_missing(WIDGETS, "x"),
    sim_status.throttled(3),
    sim_status.server_error("m"),
    sim_status.version_too_large(9, 5),
]


@pytest.mark.parametrize("refused", ALL, ids=lambda refused: f"{refused.code} {refused.status['message'][:20]}")
def test_every_refusal_is_a_failure_that_a_client_can_read(refused: Refused) -> None:
    status = refused.status
    head = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": refused.code}
    assert status.items() >= head.items()
    assert status["message"] == str(refused) != ""
    assert 400 <= refused.code <= 504
    assert {"kind", "apiVersion", "metadata", "status", "message", "code"} <= status.keys()
    assert status.keys() <= {"kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code"}
    assert "" not in status.get("details", {}).values()


@pytest.mark.parametrize(
    ("refused", "code", "reason", "message", "details"),
    [
        (
            sim_status.not_found(DEPLOYMENTS, "x"),
            404,
            "NotFound",
            'deployments.apps "x" not found',
            {"name": "x", "group": "apps", "kind": "deployments"},
        ),
        (
            sim_status.already_exists(MAPS, "x"),
            409,
            "AlreadyExists",
            'configmaps "x" already exists',
            {"name": "x", "kind": "configmaps"},
        ),
        (
            sim_status.modified(DEPLOYMENTS, "x"),
            409,
            "Conflict",
            (
                'Operation cannot be fulfilled on deployments.apps "x": the object has been modified; please apply '
                "your changes to the latest version and try again"
            ),
            {"name": "x", "group": "apps", "kind": "deployments"},
        ),
        (
            sim_status.conflict(DEPLOYMENTS, "x", "why", as_kind=True),
            409,
            "Conflict",
            'Operation cannot be fulfilled on Deployment.apps "x": why',
            {"name": "x", "group": "apps", "kind": "Deployment"},
        ),
        (
            sim_status.forbidden(MAPS, "list", "n", "me", "/"),
            403,
            "Forbidden",
            'configmaps is forbidden: User "me" cannot list resource "configmaps" in API group "" in the namespace "n"',
            {"kind": "configmaps"},
        ),
        (
            sim_status.forbidden(DEPLOYMENTS, "watch", "", "me", "/"),
            403,
            "Forbidden",
            (
                'deployments.apps is forbidden: User "me" cannot watch resource "deployments" in API group "apps" '
                "at the cluster scope"
            ),
            {"group": "apps", "kind": "deployments"},
        ),
        (
            sim_status.version_too_large(99, 7),
            504,
            "Timeout",
            "Timeout: Too large resource version: 99, current: 7",
            {
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            },
        ),
    ],
)
def test_words_and_details(refused: Refused, code: int, reason: str, message: str, details: dict[str, Any]) -> None:
    assert (refused.code, refused.status["reason"], refused.status["message"]) == (code, reason, message)
    assert refused.status["details"] == details


@pytest.mark.parametrize(
    ("refused", "called", "details"),
    [
        (sim_status.invalid(MAPS, "x", [CAUSE]), "ConfigMap", {"kind": "ConfigMap"}),
        (sim_status.invalid(DEPLOYMENTS, "x", [CAUSE]), "Deployment.apps", {"kind": "Deployment", "group": "apps"}),
        (sim_status.invalid(WIDGETS, "x", [CAUSE]), "Widget.example.io", {"kind": "Widget", "group": "example.io"}),
    ],
)
def test_invalid_object_is_named_by_its_kind(refused: Refused, called: str, details: dict[str, Any]) -> None:
    assert refused.status["message"] == f'{called} "x" is invalid: metadata.uid: {CAUSE[2]}'
    causes = [{"reason": CAUSE[0], "message": CAUSE[2], "field": CAUSE[1]}]
    assert refused.status["details"] == {"name": "x"} | details | {"causes": causes}


@pytest.mark.parametrize(
    ("kind", "called", "plural"),
    [(LEASES, "leases.coordination.k8s.io", "leases"), (WIDGETS, "widgets.example.io", "widgets")],
)
def test_update_without_a_version_is_named_by_its_resource(kind: Any, called: str, plural: str) -> None:
    status = sim_status.version_missing(kind, "x").status
    assert status["message"] == f'{called} "x" is invalid: metadata.resourceVersion: {BAD}'
    assert (status["details"]["kind"], status["details"]["causes"][0]["field"]) == (plural, "metadata.resourceVersion")


def test_several_causes_stand_in_brackets_and_a_repeated_one_is_said_once() -> None:
    other = ("FieldValueForbidden", "metadata.finalizers", "Forbidden: no")
    one = sim_status.invalid(MAPS, "x", [CAUSE, CAUSE]).status
    assert one["message"] == f'ConfigMap "x" is invalid: metadata.uid: {CAUSE[2]}'
    assert len(one["details"]["causes"]) == 2
    two = sim_status.invalid(MAPS, "x", [CAUSE, other]).status
    assert two["message"] == f'ConfigMap "x" is invalid: [metadata.uid: {CAUSE[2]}, metadata.finalizers: Forbidden: no]'


def test_options_are_of_the_meta_group_and_have_no_name() -> None:
    status = sim_status.invalid_options("ListOptions", [CAUSE]).status
    assert status["message"].startswith('ListOptions.meta.k8s.io "" is invalid: ')
    assert (status["details"]["group"], status["details"]["kind"]) == ("meta.k8s.io", "ListOptions")
    assert "name" not in status["details"]


def test_expired_list_offers_its_inconsistent_rest_only_where_there_is_one() -> None:
    """The token is in metadata, where a pager looks for it; a watch or a list from the start has none."""
    assert sim_status.expired("too old").status["metadata"] == {}
    offered = sim_status.expired("too old", "rest").status
    assert (offered["code"], offered["reason"]) == (410, "Expired")
    assert offered["metadata"] == {"continue": "rest"}
    assert "results in an inconsistent list" in offered["message"]


@pytest.mark.parametrize(
    ("refused", "seconds"), [(sim_status.throttled(7), 7), (sim_status.version_too_large(9, 5), 1)]
)
def test_wait_is_said_in_the_header_and_in_the_body(refused: Refused, seconds: int) -> None:
    assert refused.headers == {"Retry-After": str(seconds)}
    assert refused.status["details"]["retryAfterSeconds"] == seconds


def test_plain_server_error_has_no_reason() -> None:
    assert "reason" not in sim_status.server_error("etcdserver: leader changed").status
    assert sim_status.server_error("m", "InternalError").status["reason"] == "InternalError"
