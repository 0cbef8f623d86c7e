"""Patches: merge patch (RFC 7396) and the add, replace and remove of JSON patch (RFC 6902).

Decides: what a patch body makes of an object. Deliberately does not know merge keys: a strategic
merge patch is applied as a merge patch, so that lists are replaced as a whole.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

from local.sim_kinds import Json, Kind
from local.sim_status import bad_request, unsupported_media_type
from local.sim_wire import decoded

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def patcher(kind: Kind, content_type: str, body: bytes) -> Callable[[Json], Json]:
    """Return what a patch request does to an object, leaving its argument as it is.

    Raises Refused: 400 for a body that cannot be read, 415 for an unknown format.
    """
    media = content_type.split(";", maxsplit=1)[0].strip()
    known = (MERGE, JSON_PATCH) if kind.custom else (MERGE, STRATEGIC, JSON_PATCH)
    if media not in known:
        raise unsupported_media_type(kind)
    try:
        patch = decoded(body)
    except ValueError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    if media == JSON_PATCH:
        if not isinstance(patch, list):
            raise bad_request("error decoding patch: a JSON patch is a list of operations")
        return lambda obj: _operated(obj, patch)
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    return lambda obj: merged(obj, patch)


def merged(target: Any, patch: Any) -> Any:
    """Return the RFC 7396 merge of a patch into a value."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _operated(obj: Json, operations: list[Any]) -> Json:
    result = copy.deepcopy(obj)
    for operation in operations:
        try:
            _operate(result, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise bad_request(f"cannot apply {json.dumps(operation)}: {error!r}") from None
    return result


def _operate(obj: Json, operation: Json) -> None:
    name, path = operation["op"], operation["path"]
    *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:]]
    place: Any = obj
    for part in parents:
        place = place[int(part) if isinstance(place, list) else part]
    index: Any = last
    if isinstance(place, list):
        index = len(place) if last == "-" else int(last)
    if name == "remove":
        del place[index]
    elif name == "add" and isinstance(place, list):
        place.insert(index, operation["value"])
    elif name in ("add", "replace"):
        place[index] = operation["value"]
    else:
        raise ValueError(f"operation {name} is not simulated")
