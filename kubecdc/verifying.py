"""The log's state at a version against what the API server lists at that version: the differences.

Pure. Objects are compared by version, and at equal versions by the producer's digest of their content, since what is
redacted makes the text differ. Digests under different redaction keys tell nothing, and are only counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kubecdc.folding import Resource
from kubecdc.records import Change
from kubecdc.versions import newer


@dataclass(frozen=True, slots=True)
class Listed:
    """An object as a list of the API server shows it. `digest` as the producer makes it."""

    uid: str
    namespace: str
    name: str
    rv: str
    digest: str


class Kind(StrEnum):
    """How the log differs from the server."""

    MISSING = "missing"
    EXTRA = "extra"
    OLDER = "older"
    NEWER = "newer"
    CONTENT = "content"


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that is not the same in both; a version is None where it is not at all."""

    kind: Kind
    resource: Resource
    namespace: str
    name: str
    uid: str
    log_rv: str | None
    server_rv: str | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two states have in common: `equal` objects, `unlike_keys` whose digests cannot be compared."""

    differences: tuple[Difference, ...]
    equal: int
    unlike_keys: int


def compare(
    resource: Resource, logged: Mapping[str, Change], listed: Iterable[Listed], *, noise_dropped: bool = False
) -> Comparison:
    """Compare by UID. With `noise_dropped` an older version in the log with the same content is no difference."""
    found: list[Difference] = []
    equal = unlike = 0
    seen = set()
    for item in listed:
        seen.add(item.uid)
        change = logged.get(item.uid)
        kind = _kind(change, item, noise_dropped=noise_dropped)
        if kind is not None:
            log_rv = change.rv if change else None
            found.append(Difference(kind, resource, item.namespace, item.name, item.uid, log_rv, item.rv))
            continue
        equal += 1
        unlike += change is not None and not _comparable(change.digest, item.digest)
    for uid, change in logged.items():
        if uid not in seen:
            found.append(Difference(Kind.EXTRA, resource, change.namespace, change.name, uid, change.rv, None))
    return Comparison(tuple(sorted(found, key=lambda d: (d.namespace, d.name, d.uid))), equal, unlike)


def _kind(change: Change | None, item: Listed, *, noise_dropped: bool) -> Kind | None:
    if change is None:
        return Kind.MISSING
    same = change.digest == item.digest
    if change.rv == item.rv:
        return Kind.CONTENT if not same and _comparable(change.digest, item.digest) else None
    if newer(change.rv or "", item.rv):
        return Kind.NEWER
    return None if noise_dropped and same else Kind.OLDER


def _comparable(one: str, other: str) -> bool:
    """Digests of redacted content end in `@<key>`; one that is empty was not made."""
    return bool(one) and bool(other) and one.partition("@")[2] == other.partition("@")[2]
