"""Objects as clients see them, in the version they asked for.

Decides: kind and apiVersion, which list items of built-in kinds lack, and the conversion between
the two `events` groups, which share their objects. Deliberately does not convert custom resources
beyond their apiVersion (conversion strategy `None`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from local.sim_kinds import Json, Kind

# core/v1 -> events.k8s.io/v1; pkg/apis/events/v1/conversion.go
_EVENT_FIELDS = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_STORED_FIELDS = {new: old for old, new in _EVENT_FIELDS.items()}


# What an empty object of a kind looks like: the real server sends it as a bookmark.
_TEMPLATE: Json = {"metadata": {}, "spec": {"containers": None}}
_REPLICAS: Json = {"replicas": 0, "selector": None, "template": _TEMPLATE}
_NAMES: Json = {"plural": "", "kind": ""}
_NO_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)
_EMPTY: Mapping[tuple[str, str], Json] = {
    ("", "Namespace"): {"spec": {}, "status": {}},
    ("", "Node"): {
        "spec": {},
        "status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": _NO_NODE_INFO},
    },
    ("", "Pod"): {"spec": {"containers": None}, "status": {}},
    ("", "Service"): {"spec": {}, "status": {"loadBalancer": {}}},
    ("", "Event"): {"involvedObject": {}, "source": {}, "reportingComponent": "", "reportingInstance": ""}
    | dict.fromkeys(("firstTimestamp", "lastTimestamp", "eventTime")),
    ("apps", "Deployment"): {"spec": _REPLICAS | {"strategy": {}}, "status": {}},
    ("apps", "ReplicaSet"): {"spec": _REPLICAS, "status": {"replicas": 0}},
    ("coordination.k8s.io", "Lease"): {"spec": {}},
    ("events.k8s.io", "Event"): {"regarding": {}, "deprecatedSource": {}}
    | dict.fromkeys(("eventTime", "deprecatedFirstTimestamp", "deprecatedLastTimestamp")),
    ("apiextensions.k8s.io", "CustomResourceDefinition"): {
        "spec": {"group": "", "names": _NAMES, "scope": "", "versions": None},
        "status": {"conditions": None, "acceptedNames": _NAMES, "storedVersions": None},
    },
}


def bookmark(kind: Kind, version: str, revision: int, annotations: Mapping[str, str]) -> Json:
    """Return the object of a bookmark: nothing but a version, and the kind's empty fields."""
    meta: Json = {"resourceVersion": str(revision)}
    if annotations:
        meta["annotations"] = dict(annotations)
    empty = {} if kind.custom else _EMPTY.get((kind.group, kind.kind), {})
    return {"kind": kind.kind, "apiVersion": kind.api_version(version), "metadata": meta} | empty


def shown(kind: Kind, version: str, obj: Json, *, listed: bool = False) -> Json:
    """Return a stored object as it is sent; `listed`: as an item of a list."""
    if kind.stored_as is not None:
        obj = {_EVENT_FIELDS.get(key, key): value for key, value in obj.items()}
    if listed and not kind.custom:
        return obj
    return {"kind": kind.kind, "apiVersion": kind.api_version(version)} | obj


def stored(kind: Kind, obj: Json) -> Json:
    """Return a sent object under the names in which it is stored."""
    if kind.stored_as is not None:
        return {_STORED_FIELDS.get(key, key): value for key, value in obj.items()}
    return obj


def encoded(body: Any) -> bytes:
    """Return JSON as the API writes it: compact UTF-8, a line of its own."""
    return orjson.dumps(body) + b"\n"
