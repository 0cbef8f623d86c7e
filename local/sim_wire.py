"""Objects as clients see them, in the version they asked for.

Decides: kind and apiVersion, which list items of built-in kinds lack, and the conversion between
the two `events` groups, which share their objects. Deliberately does not convert custom resources
beyond their apiVersion (conversion strategy `None`).
"""

from __future__ import annotations

import json
from typing import Any

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
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
