"""Who owns which field: `metadata.managedFields` as plain updates keep it.

Decides: which entries exist after a write, for the `Update` operation. Deliberately does not know
schemas, so lists are owned as a whole (except finalizers) where the real server tells items apart
by key, and Apply is not simulated.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

Path = tuple[str, ...]

_UNMANAGED = frozenset(
    {
        "name",
        "generateName",
        "namespace",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "managedFields",
        "selfLink",
    }
)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes: field manager, subresource written through ("" for none), apiVersion spoken."""

    manager: str = "unknown"
    subresource: str = ""
    api_version: str = ""


def owned(old: dict[str, Any] | None, new: dict[str, Any], writer: Writer, time: str) -> list[dict[str, Any]]:
    """Return the managedFields of `new`, given that `writer` turned `old` into it.

    What changed goes to the writer's entry and leaves all others; fields that are gone leave
    every entry; an entry without fields is dropped. `time` is RFC 3339.
    """
    before, after = _nodes(old or {}), _nodes(new)
    changed = {path for path, value in after.items() if before.get(path, _ABSENT) != value}
    entries = []
    for entry in (old or {}).get("metadata", {}).get("managedFields", ()):
        own = _written_by(entry, writer)
        paths = _parse(entry["fieldsV1"])
        kept = ((paths | changed) if own else (paths - changed)) & after.keys()
        if kept:
            entries.append(entry | {"fieldsV1": _render(kept)} | ({"time": time} if own else {}))
    if changed and not any(_written_by(entry, writer) for entry in entries):
        entries.append(_entry(writer, time, changed))
    return entries


_ABSENT = object()
_MAP = object()


def _written_by(entry: dict[str, Any], writer: Writer) -> bool:
    return bool(
        entry["manager"] == writer.manager
        and entry["operation"] == "Update"
        and entry.get("subresource", "") == writer.subresource
        and entry["apiVersion"] == writer.api_version
    )


def _entry(writer: Writer, time: str, paths: set[Path]) -> dict[str, Any]:
    entry = {
        "manager": writer.manager,
        "operation": "Update",
        "apiVersion": writer.api_version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _render(paths),
    }
    return entry | ({"subresource": writer.subresource} if writer.subresource else {})


def _nodes(obj: dict[str, Any]) -> dict[Path, Any]:
    found: dict[Path, Any] = {}
    for key, value in obj.items():
        if key in ("kind", "apiVersion"):
            continue
        if key == "metadata":
            for name, part in value.items():
                if name not in _UNMANAGED:
                    _walk(("f:metadata", f"f:{name}"), part, found)
        else:
            _walk((f"f:{key}",), value, found)
    return found


def _walk(path: Path, value: Any, found: dict[Path, Any]) -> None:
    if isinstance(value, dict):
        found[path] = _MAP
        for key, part in value.items():
            _walk((*path, f"f:{key}"), part, found)
    elif path[-1] == "f:finalizers" and isinstance(value, list):
        found[path] = _MAP
        found.update({(*path, f"v:{json.dumps(item)}"): item for item in value})
    else:
        found[path] = value


def _parse(fields: dict[str, Any], path: Path = ()) -> set[Path]:
    paths = set()
    for key, below in fields.items():
        if key == ".":
            paths.add(path)
        elif below:
            paths |= _parse(below, (*path, key))
        else:
            paths.add((*path, key))
    return paths


def _render(paths: set[Path]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for path in sorted(paths):
        below = fields
        for part in path:
            below = below.setdefault(part, {})
    _mark(fields, paths, ())
    return fields


def _mark(fields: dict[str, Any], paths: set[Path], path: Path) -> None:
    # A node with children is owned itself only if it says so with ".".
    for key, below in fields.items():
        _mark(below, paths, (*path, key))
    if path in paths and fields:
        fields["."] = {}
