"""Objects as clients see them, in the version they asked for.

Decides: kind and apiVersion, which list items of built-in kinds lack, the conversion between the two
`events` groups, which share their objects, and what JSON is understood. Deliberately does not convert custom resources
beyond their apiVersion (conversion strategy `None`).
"""

from __future__ import annotations

import json
import math
import re
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
_HALF_PAIR = re.compile("[\ud800-\udfff]")
_INT64_DIGITS = 20  # with its sign


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


def decoded(body: bytes) -> Any:
    """Return the value of a body as the API reads it (sigs.k8s.io/json). Raises ValueError.

    Integers beyond 64 bits become floats and whole floats integers, as Go's maps show them; half of a surrogate pair
    and bytes that are no UTF-8 become U+FFFD; NaN, infinities and numbers beyond a float are refused. All of it can
    be `encoded`: one odd object must not make every list that holds it fail.
    """
    text = body.decode(errors="replace")
    found = json.loads(text, parse_int=_whole, parse_float=_number, parse_constant=_refuse)
    if "\\u" in text:
        shown = json.dumps(found, ensure_ascii=False)
        if _HALF_PAIR.search(shown):
            return json.loads(_HALF_PAIR.sub("\N{REPLACEMENT CHARACTER}", shown))
    return found


def _whole(text: str) -> int | float:
    number = int(text) if len(text) <= _INT64_DIGITS else None
    return number if number is not None and -(2**63) <= number < 2**63 else _finite(text)


def _number(text: str) -> int | float:
    number = _finite(text)
    return int(number) if number.is_integer() and abs(number) < 2**63 else number


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"cannot unmarshal number {text} into Go value of type float64")
    return number


def _refuse(text: str) -> Any:
    raise ValueError(f"invalid character '{text[0]}' looking for beginning of value")
