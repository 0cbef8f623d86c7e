"""One object through its versions: what differs between two of them, and who set each field, when.

Pure. Fields are named by JSON pointers (RFC 6901) of their leaves: values that are no object and no list, and empty
ones. Who set a field is what the API server says in `metadata.managedFields`; when, is the first version in the log
that has its present value. What was there before the log begins, or changed inside a gap, may be older than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from kubecdc.records import Change, Op

ABSENT = object()
HIDDEN = "/metadata/managedFields"


@dataclass(frozen=True, slots=True)
class Field:
    """A leaf that differs: its JSON value before and after, None where it is not."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Blame:
    """Who set a field. `since_rv` and `since_ms` are of the version that brought its value; `exact`: not an older one.

    `managers` are those that own the field now, of which those that wrote in that version come alone if there are any.
    """

    path: str
    value: str
    managers: tuple[str, ...]
    since_rv: str
    since_ms: int
    exact: bool


def leaves(text: str | None) -> dict[str, str]:
    """JSON values of an object's leaves by pointer, without `managedFields`, which every write changes."""
    if text is None:
        return {}
    return {
        path: orjson.dumps(value).decode()
        for path, value in _walk("", orjson.loads(text))
        if not (path == HIDDEN or path.startswith(f"{HIDDEN}/"))
    }


def diff(before: str | None, after: str | None) -> tuple[Field, ...]:
    """The leaves that differ between two texts of an object, by pointer."""
    old, new = leaves(before), leaves(after)
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    return tuple(Field(path, old.get(path), new.get(path)) for path in paths)


def blame(versions: Sequence[Change]) -> tuple[Blame, ...]:
    """Blame each field of the latest version; `versions` are one life of an object, oldest first.

    Versions without their object (too large, or not redactable) tell nothing; a field is then blamed on the next one.
    """
    since: dict[str, tuple[str, Change, bool]] = {}
    text = None
    unsure = True  # the first version may bring what is older
    for change in versions:
        if change.object is None:
            unsure = unsure or change.object_omitted is not None
            continue
        exact = change.op is Op.CREATED and change.gap is None if unsure else change.gap is None
        now = leaves(change.object)
        since = {
            path: since[path] if path in since and since[path][0] == value else (value, change, exact)
            for path, value in now.items()
        }
        text, unsure = change.object, False
    owners = _owners(text)
    return tuple(
        Blame(path, value, _setters(change, owners.get(path, ())), change.rv or "", change.observed_at, exact)
        for path, (value, change, exact) in sorted(since.items())
    )


def _setters(change: Change, owners: Sequence[str]) -> tuple[str, ...]:
    wrote = {manager.manager for manager in change.changed_by}
    both = tuple(owner for owner in owners if owner in wrote)
    return both or tuple(owners)


def _walk(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    items = _children(value)
    if not items:
        yield path, value
    for name, child in items:
        yield from _walk(f"{path}/{name.replace('~', '~0').replace('/', '~1')}", child)


def _children(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return list(value.items())
    return [(str(number), item) for number, item in enumerate(value)] if isinstance(value, list) else []


def _owners(text: str | None) -> dict[str, list[str]]:
    """Managers by pointer, as `managedFields` of this version has them."""
    found: dict[str, list[str]] = {}
    whole = orjson.loads(text) if text is not None else {}
    metadata = whole.get("metadata") if isinstance(whole, dict) else None
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and isinstance(entry.get("fieldsV1"), dict):
            for path in _owned("", whole, entry["fieldsV1"]):
                names = found.setdefault(path, [])
                if entry.get("manager") not in names:
                    names.append(str(entry.get("manager")))
    return found


def _owned(path: str, value: Any, fields: Mapping[str, Any]) -> Iterable[str]:
    """Pointers of the leaves of a field set: `f:` is a field, `k:` an item by keys, `v:` by value, `i:` by place."""
    deeper = {name: inner for name, inner in fields.items() if name != "."}
    if not deeper:
        yield from (found for found, _ in _walk(path, value))
    for name, inner in deeper.items():
        for step, child in _children(value):
            if _named(name, step, child, in_list=isinstance(value, list)):
                escaped = step.replace("~", "~0").replace("/", "~1")
                yield from _owned(f"{path}/{escaped}", child, inner if isinstance(inner, dict) else {})


def _named(name: str, step: str, child: Any, *, in_list: bool) -> bool:
    kind, _, rest = name.partition(":")
    if kind in ("f", "i"):
        return rest == step and in_list == (kind == "i")
    try:
        wanted = orjson.loads(rest)
    except orjson.JSONDecodeError:
        return False
    if kind == "k":
        both = isinstance(child, dict) and isinstance(wanted, dict)
        return both and all(child.get(key) == value for key, value in wanted.items())
    return kind == "v" and in_list and bool(child == wanted)
