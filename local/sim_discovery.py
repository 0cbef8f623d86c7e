"""The discovery documents of the simulated API server, and its version.

Decides: `/api`, `/apis`, `/apis/<group>` and the resource list of each group and version.
Deliberately does not know aggregated discovery: a client that asks for it gets the plain documents,
as from servers before 1.27. Only the kinds of `sim_kinds` and of CRDs are listed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from local.sim_kinds import Json, Kind, version_rank

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_STATUS_VERBS = ("get", "patch", "update")

VERSION: Json = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0-kubecdc-sim",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "simulated",
}


def api_versions(address: str) -> Json:
    """Return `/api`."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    }


def group_list(kinds: Iterable[Kind]) -> Json:
    """Return `/apis`."""
    found = tuple(kinds)
    names = dict.fromkeys(kind.group for kind in found if kind.group)
    groups = [_group(name, found) for name in names]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(name: str, kinds: Iterable[Kind]) -> Json | None:
    """Return `/apis/<group>`, None when nothing of that group is served."""
    found = tuple(kinds)
    if not any(kind.group == name for kind in found):
        return None
    return {"kind": "APIGroup", "apiVersion": "v1"} | _group(name, found)


def resource_list(name: str, version: str, kinds: Iterable[Kind]) -> Json | None:
    """Return `/api/v1` or `/apis/<group>/<version>`, None when that version is not served."""
    found = [kind for kind in kinds if kind.group == name and version in kind.versions]
    if not found:
        return None
    resources = [entry for kind in found for entry in _resources(kind)]
    head: dict[str, Any] = {"kind": "APIResourceList"}
    if name:
        head["apiVersion"] = "v1"
    return head | {"groupVersion": found[0].api_version(version), "resources": resources}


def _group(name: str, kinds: tuple[Kind, ...]) -> Json:
    # Of all kinds together: the first is what clients take for the group's own.
    versions = sorted({v for kind in kinds if kind.group == name for v in kind.versions}, key=version_rank)
    listed = [{"groupVersion": f"{name}/{v}", "version": v} for v in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resources(kind: Kind) -> list[Json]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular or kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_VERBS),
    }
    if kind.plural == "namespaces" and not kind.group:
        entry["verbs"].remove("deletecollection")
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if not kind.has_status:
        return [entry]
    status = {
        "name": f"{kind.plural}/status",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(_STATUS_VERBS),
    }
    return [entry, status]
