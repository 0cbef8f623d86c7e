"""Digests that name a content without keeping it: of a whole object, and of its parts by JSON pointer.

Pure. Content is what somebody may care about: without kind and apiVersion (list items lack them) and without the
fields that change on every write. It does not know secrets: redact before.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import orjson

CHILDREN_MAX = 32
KEY_CHARS_MAX = 256
REMEMBERED_BYTES_MAX = 128
_NO_CONTENT = frozenset({"apiVersion", "kind", "metadata"})
# generation follows the spec and the deletion mark, both of which are content themselves.
_NOISE = frozenset({"resourceVersion", "managedFields", "generation", "selfLink"})
# Nothing can change these while a UID lives, so no change needs their name.
_CONSTANT = frozenset({"uid", "name", "namespace", "creationTimestamp", "generateName"})
_DEEPER = ("labels", "annotations")
_SORTED = orjson.OPT_SORT_KEYS


def content(obj: dict[str, Any]) -> dict[str, Any]:
    """Return the part of `obj` that counts as content; a shallow copy, `obj` stays as it is."""
    kept = {key: value for key, value in obj.items() if key not in _NO_CONTENT}
    metadata = obj.get("metadata")
    if isinstance(metadata, dict):
        kept["metadata"] = {key: value for key, value in metadata.items() if key not in _NOISE}
    elif metadata is not None:
        kept["metadata"] = metadata
    return kept


def digest(part: dict[str, Any], key: bytes = b"") -> str:
    """Hex of 16 bytes, equal for equal values whatever the order of their keys."""
    return blake2b(encode(part, sort=True), digest_size=16, key=key).hexdigest()


def paths(part: dict[str, Any]) -> dict[str, str]:
    """JSON pointer to hex of 8 bytes, two levels deep; labels and annotations one deeper.

    A level with too many or too long keys is one entry, that of its parent: the result is bounded.
    """
    found: dict[str, str] = {}
    if not _opens(part):
        return {"": _short(encode(part, sort=True))}
    for top, value in part.items():
        pointer = "/" + _escaped(top)
        if not _opens(value):
            found[pointer] = _of_any(value)
        elif top == "metadata":
            _add_metadata(found, value)
        else:
            _add(found, pointer + "/", value)
    return found


def encode(value: Any, *, sort: bool = False) -> bytes:
    """JSON of any depth; orjson stops at 254 levels though it reads 1,024."""
    try:
        return orjson.dumps(value, option=_SORTED if sort else 0)
    except TypeError:
        return b"".join(_deep(value, sort=sort))


def _add(found: dict[str, str], prefix: str, children: dict[str, Any]) -> None:
    for key, value in children.items():
        name = _escaped(key) if "/" in key or "~" in key else key
        # Most texts repeat within a kind, so they are looked up before they are digested.
        found[prefix + name] = _of_text(value) if type(value) is str and len(value) <= 64 else _of_any(value)


def _add_metadata(found: dict[str, str], metadata: dict[str, Any]) -> None:
    rest = {}
    for name, child in metadata.items():
        if name in _DEEPER and _opens(child):
            _add(found, f"/metadata/{name}/", child)
        elif name not in _CONSTANT:
            rest[name] = child
    _add(found, "/metadata/", rest)


def _short(text: bytes) -> str:
    return blake2b(text, digest_size=8).hexdigest()


_remembered = lru_cache(maxsize=16_384)(_short)


@lru_cache(maxsize=16_384)
def _of_text(text: str) -> str:
    return _short(orjson.dumps(text))


def _of_any(value: Any) -> str:
    try:
        text = orjson.dumps(value, None, _SORTED)
    except TypeError:
        return _short(encode(value, sort=True))
    return _remembered(text) if len(text) <= REMEMBERED_BYTES_MAX else _short(text)


def _opens(value: object) -> bool:
    """The value is shown child by child."""
    return type(value) is dict and 0 < len(value) <= CHILDREN_MAX and max(map(len, value)) <= KEY_CHARS_MAX


def _escaped(name: str) -> str:
    if "~" in name or "/" in name:
        return name.replace("~", "~0").replace("/", "~1")
    return name


def _deep(value: Any, *, sort: bool) -> Iterator[bytes]:
    """Encode without recursion: a stack of iterators, one for each open array or object."""
    stack: list[tuple[Iterator[Any], bytes]] = [(iter(((b"", value),)), b"")]
    first = True
    while stack:
        pending, end = stack[-1]
        entry = next(pending, None)
        if entry is None:
            stack.pop()
            first = False
            yield end
            continue
        prefix, inner = entry
        yield prefix if first else b"," + prefix
        first = isinstance(inner, dict | list)
        if isinstance(inner, dict):
            named = sorted(inner.items()) if sort else inner.items()
            stack.append((((orjson.dumps(key) + b":", child) for key, child in named), b"}"))
            yield b"{"
        elif isinstance(inner, list):
            stack.append((((b"", child) for child in inner), b"]"))
            yield b"["
        else:
            yield orjson.dumps(inner)
