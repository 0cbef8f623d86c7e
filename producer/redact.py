"""What must not leave the producer, and its replacement by a keyed digest, so that a change stays visible.

Pure. Redacted are the values of Secrets, annotations in which clients keep a copy of the whole manifest (of every
kind), what the user's rules name, and annotations that hold a copy of any of it. Equal values get equal replacements
under one key. It fails closed: what cannot be redacted for certain raises, and the caller leaves the object out. It
does not know where the key comes from.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import orjson
from jsonpath_ng.ext.filter import Filter
from jsonpath_ng.ext.parser import parse as parse_path
from jsonpath_ng.jsonpath import (
    Child,
    DatumInContext,
    Descendants,
    Fields,
    Index,
    JSONPath,
    Root,
    Slice,
    Where,
    Wildcard,
)

from kubecdc.errors import Misconfigured
from producer.digests import encode

MARK = "hmac:"
KEY_BYTES_MIN, KEY_BYTES_MAX = 16, 64
# Clients keep the manifest they applied, Secret values and all, in these. Those of kubectl, KubeVela and Kopf, whose
# prefix is the operator's choice, end alike.
MANIFEST_COPIES = frozenset({"kapp.k14s.io/original", "objectset.rio.cattle.io/applied"})
MANIFEST_ENDINGS = ("/last-applied-configuration", "/last-handled-configuration", "/last-applied")
# OpenShift keeps the token of a service account in an annotation of its pull secret.
SECRET_ANNOTATIONS = frozenset({"openshift.io/token-secret.value"})
COPY_CHARACTERS_MIN = 8  # of a value that is looked for inside of others: shorter ones stand in harmless words
_FORBIDDEN = frozenset({"metadata", *(f"metadata.{name}" for name in ("uid", "name", "namespace", "resourceVersion"))})
_PLACES = (Root, Fields, Index, Slice, Wildcard, Filter)
_JOINS = (Child, Descendants, Where)


class RedactionFailed(Exception):  # noqa: N818 - named by what happened
    """The object may still hold what must not leave: leave it out. Carries no content."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A user's rule: every value that `path` finds in objects of `kind` (and `group`; None is any) is replaced."""

    kind: str
    group: str | None
    path: JSONPath

    def covers(self, group: str, kind: str) -> bool:
        """The rule is about this kind."""
        return self.kind in ("*", kind) and self.group in (None, group)


def parse_rules(texts: Iterable[str]) -> tuple[Rule, ...]:
    """Read rules such as `ConfigMap:$.data.password`, `Widget.example.io:$.spec.token`, `*:$.metadata.labels.owner`.

    Raises Misconfigured with every problem found.
    """
    rules, problems = [], []
    for text in texts:
        kind, colon, path = text.partition(":")
        name, dot, group = kind.strip().partition(".")
        if not colon or not name or not path.strip():
            problems.append(f"redaction rule {text!r}: write KIND:JSONPATH, as in `ConfigMap:$.data.password`")
            continue
        try:
            parsed = parse_path(path.strip())
        except Exception as error:  # noqa: BLE001 - the parser raises bare Exceptions of several kinds
            problems.append(f"redaction rule {text!r}: not a JSONPath: {' '.join(str(error).split())}")
            continue
        if not _plain(parsed):
            problems.append(
                f"redaction rule {text!r}: use names, indexes, [*], .. and filters only, and one rule for each path"
            )
            continue
        if isinstance(parsed, Root) or str(parsed).removeprefix("$.") in _FORBIDDEN:
            problems.append(f"redaction rule {text!r}: uid, name, namespace and resourceVersion identify the object")
            continue
        rules.append(Rule(name, group if dot else None, parsed))
    if problems:
        raise Misconfigured(*problems)
    return tuple(rules)


class Redactor:
    """The key and the user's rules. Raises Misconfigured for a key that is too short or too long."""

    def __init__(self, key: bytes, rules: tuple[Rule, ...] = ()) -> None:
        if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
            raise Misconfigured(
                f"the redaction key has {len(key)} bytes: give {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random ones"
            )
        self._key = key
        self._rules = rules

    @property
    def key_id(self) -> str:
        """Eight hex digits that name the key and tell nothing about it."""
        return blake2b(b"key id", digest_size=4, key=self._key).hexdigest()

    def for_kind(self, group: str, kind: str) -> Redaction:
        """Return what applies to one kind; make it once and keep it."""
        paths = tuple(rule.path for rule in self._rules if rule.covers(group, kind))
        return Redaction(self._key, self.key_id, group == "" and kind == "Secret", paths)


@dataclass(frozen=True, slots=True, repr=False)
class Redaction:
    """Redaction of one kind. It has no repr of its own, since it holds the key."""

    key: bytes
    key_id: str
    secret: bool
    paths: tuple[JSONPath, ...]

    def apply(self, obj: dict[str, Any]) -> tuple[dict[str, Any], int]:
        """Return the object without what must not leave, and how many values were replaced.

        `obj` itself is not changed; what needs no change is shared. Raises RedactionFailed.
        """
        try:
            return self._apply(obj)
        except Exception:  # noqa: BLE001 - whatever went wrong, its text may hold content
            failed = RedactionFailed("a redaction rule could not be applied")
        raise failed

    def replacement(self, value: Any) -> str:
        """Keyed digest of a value: of a string's own bytes, of anything else's JSON."""
        text = b"s" + value.encode() if isinstance(value, str) else b"j" + encode(value, sort=True)
        return MARK + blake2b(text, digest_size=16, key=self.key).hexdigest()

    def _apply(self, obj: dict[str, Any]) -> tuple[dict[str, Any], int]:
        count = 0
        metadata = obj.get("metadata")
        if isinstance(metadata, dict) and "annotations" in metadata:
            annotations, count = self._annotations(metadata["annotations"])
            if count:
                obj = {**obj, "metadata": {**metadata, "annotations": annotations}}
        hidden: list[Any] = []
        if self.secret:
            for field in ("data", "stringData"):
                values = obj.get(field)
                if values is not None:
                    replaced, more = self._values(values)
                    obj = {**obj, field: replaced}
                    count += more
                    hidden += values.values() if isinstance(values, dict) else ()
            hidden += [text for value in hidden if (text := _decoded(value))]
        if self.paths:
            obj, found = self._by_rules(obj)
            count += len(found)
            hidden += found
        if hidden:
            obj, more = self._copies(obj, hidden)
            count += more
        return obj, count

    def _annotations(self, annotations: Any) -> tuple[Any, int]:
        if not isinstance(annotations, dict):
            return (annotations, 0) if annotations is None else (self.replacement(annotations), 1)
        held = {key: self.replacement(value) for key, value in annotations.items() if self._is_copy(key)}
        return {**annotations, **held} if held else annotations, len(held)

    def _is_copy(self, key: str) -> bool:
        whole = key in MANIFEST_COPIES or key.endswith(MANIFEST_ENDINGS)
        return whole or (self.secret and key in SECRET_ANNOTATIONS)

    def _copies(self, obj: dict[str, Any], hidden: list[Any]) -> tuple[dict[str, Any], int]:
        """Replace annotations that are, or hold, a value that was hidden."""
        metadata = obj.get("metadata")
        annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
        if not isinstance(annotations, dict) or not isinstance(metadata, dict):
            return obj, 0
        texts = {text for text in hidden if isinstance(text, str) and text}
        parts = [
            part for text in texts if len(text) >= COPY_CHARACTERS_MIN for part in (text, encode(text).decode()[1:-1])
        ]
        held = {
            key: self.replacement(value)
            for key, value in annotations.items()
            if isinstance(value, str) and (value in texts or any(part in value for part in parts))
        }
        return ({**obj, "metadata": {**metadata, "annotations": {**annotations, **held}}} if held else obj), len(held)

    def _values(self, values: Any) -> tuple[Any, int]:
        if isinstance(values, dict):
            return {key: self.replacement(value) for key, value in values.items()}, len(values)
        return self.replacement(values), 1

    def _by_rules(self, obj: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
        copy = orjson.loads(encode(obj))
        hidden: list[Any] = []

        made: set[str] = set()
        for path in self.paths:
            for match in path.find(copy):
                if isinstance(match.value, str) and match.value in made:
                    continue
                hidden.append(match.value)
                made.add(replaced := self.replacement(match.value))
                _replace(match, replaced)
            if not all(isinstance(match.value, str) and match.value in made for match in path.find(copy)):
                raise RedactionFailed
        if hidden:
            _forget_in_managed_fields(copy.get("metadata"), hidden)
        return copy, hidden


def _decoded(value: Any) -> str | None:
    """The text that a value of a Secret stands for, if it is one."""
    try:
        return b64decode(value, validate=True).decode()
    except (ValueError, TypeError):  # a UnicodeDecodeError is a ValueError
        return None


def _plain(path: JSONPath) -> bool:
    """The path leads to places in the object, not to values that are computed from it, and to one kind of place."""
    if isinstance(path, _JOINS):
        return _plain(path.left) and _plain(path.right)
    return isinstance(path, _PLACES)


def _replace(match: DatumInContext, value: str) -> None:
    """Put `value` where a find found something. The library's own `update` passes over what a filter finds last."""
    place, around = match.path, match.context
    if around is not None and isinstance(place, Fields) and len(place.fields) == 1:
        around.value[place.fields[0]] = value
    elif around is not None and isinstance(place, Index) and len(place.indices) == 1:
        around.value[place.indices[0]] = value
    else:
        raise RedactionFailed


def _forget_in_managed_fields(metadata: Any, hidden: list[Any]) -> None:
    """Field sets name map keys, and members of lists by value (`v:"x"`, `k:{"name":"x"}`): drop those that tell."""
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    if not isinstance(entries, list):
        return
    compound = any(isinstance(value, dict | list) for value in hidden)
    for entry in entries:
        if isinstance(entry, dict) and (compound or _shows(entry.get("fieldsV1"), hidden)):
            entry["fieldsV1"] = {}


def _shows(fields: Any, hidden: list[Any]) -> bool:
    stack = [fields]
    while stack:
        inner = stack.pop()
        if not isinstance(inner, dict):
            continue
        for key, below in inner.items():
            stack.append(below)
            if key.startswith(("v:", "k:")) and _tells(orjson.loads(key[2:]), hidden):
                return True
    return False


def _tells(named: Any, hidden: list[Any]) -> bool:
    for leaf in named.values() if isinstance(named, dict) else (named,):
        for value in hidden:
            if leaf == value or (isinstance(leaf, str) and isinstance(value, str) and value and value in leaf):
                return True
    return False
