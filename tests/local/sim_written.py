"""Objects as a write leaves them in storage: what the tests of the rules of writing share."""

from __future__ import annotations

from typing import Any

from local.sim_fields import Writer
from local.sim_kinds import BUILT_IN, Json, Kind, kind_of_crd
from local.sim_objects import Stamp, created, rfc3339, updated

KINDS = {kind.qualified: kind for kind in BUILT_IN}
MAPS, PODS, DEPLOYMENTS = KINDS["configmaps"], KINDS["pods"], KINDS["deployments.apps"]
LEASES = KINDS["leases.coordination.k8s.io"]
CRD: Json = {
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}}],
    },
}
WIDGETS = kind_of_crd(CRD)
NOW = 1_700_000_000
STAMP = Stamp(rfc3339(NOW), "the-uid")
ME = Writer("me", "", "v1")
STATUS = Writer("controller", "status", "v1")


def stored(obj: Json, version: str = "5") -> Json:
    """As it comes back from storage."""
    return obj | {"metadata": obj["metadata"] | {"resourceVersion": version}}


def make(kind: Kind, metadata: Json | None = None, **content: Any) -> Json:
    meta = {"name": "x", "namespace": "n"} | (metadata or {})
    return stored(created(kind, {"metadata": meta} | content, ME, STAMP))


def change(kind: Kind, old: Json, writer: Writer = ME, metadata: Json | None = None, **content: Any) -> Json:
    sent = old | content | {"metadata": old["metadata"] | (metadata or {})}
    return updated(kind, old, sent, writer, Stamp(rfc3339(NOW + 60)))
