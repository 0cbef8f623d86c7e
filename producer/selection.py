"""Which resources are followed, and in which version: a pure choice from what discovery says and the user asks.

One version of each kind that can list and watch. A version in a pattern selects the kind only: which of its versions
is read is our choice, since all of them share one history. It does not know how discovery is read, nor sessions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

VERBS_NEEDED = frozenset({"list", "watch"})
CORE_EVENTS, NEW_EVENTS = ("", "events"), ("events.k8s.io", "events")
# The first are written all the time and say nothing that lasts; the others show objects of another kind once more,
# under the same UIDs (OpenShift's projects are namespaces). They are followed when asked for by name.
OFF_BY_DEFAULT = frozenset(
    {CORE_EVENTS, NEW_EVENTS, ("coordination.k8s.io", "leases")}
    | {("project.openshift.io", "projects"), ("extensions", "ingresses")}
)
_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?", re.ASCII)
_PART = re.compile(r"[A-Za-z0-9*?.-]+", re.ASCII)
_FORMS = "write `pods`, `deployments.apps`, `*.example.io`, `v1/configmaps` or `apps/v1/deployments`"


@dataclass(frozen=True, slots=True)
class ResourceInfo:
    """One resource in one version, as discovery tells it. `group` is empty for the core."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    verbs: frozenset[str]

    @property
    def key(self) -> tuple[str, str]:
        """What the resource is, whatever its version."""
        return self.group, self.resource

    @property
    def name(self) -> str:
        """`pods` or `deployments.apps`."""
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def group_version(self) -> str:
        """`v1` or `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def followable(self) -> bool:
        """It can be listed and watched."""
        return self.verbs >= VERBS_NEEDED

    def path(self, namespace: str = "") -> str:
        """URL path of its lists and watches."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        return f"{root}/namespaces/{namespace}/{self.resource}" if namespace else f"{root}/{self.resource}"


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group's served versions, the preferred one first."""

    group: str
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Discovery:
    """All that was read; `unreadable` are the group versions whose resources could not be."""

    groups: tuple[GroupInfo, ...]
    resources: tuple[ResourceInfo, ...]
    unreadable: frozenset[str] = frozenset()

    @property
    def unread_groups(self) -> frozenset[str]:
        """Groups of which nothing may be said, since a version of theirs could not be read."""
        return frozenset(group_version.rpartition("/")[0] for group_version in self.unreadable)


@dataclass(frozen=True, slots=True)
class Selection:
    """What to follow, sorted by name. `problems` end a start; `awaited` are custom kinds that may be defined later."""

    resources: tuple[ResourceInfo, ...]
    problems: tuple[str, ...] = ()
    awaited: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SelectionDiff:
    """From one selection to the next; a pair in `moved` is the same resource in another version."""

    appeared: tuple[ResourceInfo, ...]
    gone: tuple[ResourceInfo, ...]
    moved: tuple[tuple[ResourceInfo, ResourceInfo], ...]


@dataclass(frozen=True, slots=True)
class _Pattern:
    text: str
    group: str | None
    resource: str

    def fits(self, info: ResourceInfo) -> bool:
        return fnmatchcase(info.resource, self.resource) and (self.group is None or fnmatchcase(info.group, self.group))

    def names(self, info: ResourceInfo) -> bool:
        """It asks for this very kind, so that what is off by default is meant too."""
        return self.fits(info) and (self.resource == info.resource or self.group == info.group != "")


def parse_core(document: object) -> tuple[GroupInfo, ...]:
    """Read the answer of `/api`."""
    versions = _texts(_field(document, "versions"))
    return (GroupInfo("", versions),) if versions else ()


def parse_groups(document: object) -> tuple[GroupInfo, ...]:
    """Read the answer of `/apis`; entries of another shape are left out."""
    groups = []
    for entry in _dicts(_field(document, "groups")):
        name = entry.get("name")
        served = _texts([version.get("version") for version in _dicts(entry.get("versions"))])
        preferred = _field(entry.get("preferredVersion"), "version")
        if isinstance(name, str) and name and served:
            groups.append(GroupInfo(name, tuple(sorted(served, key=lambda version: version != preferred))))
    return tuple(groups)


def parse_resources(group_version: str, document: object) -> tuple[ResourceInfo, ...]:
    """Read an APIResourceList, without subresources."""
    group, _, version = group_version.rpartition("/")
    found = []
    for entry in _dicts(_field(document, "resources")):
        name, kind, namespaced = entry.get("name"), entry.get("kind"), entry.get("namespaced")
        if isinstance(name, str) and name and "/" not in name and isinstance(kind, str):
            verbs = frozenset(_texts(entry.get("verbs")))
            found.append(ResourceInfo(group, version, name, kind, namespaced is True, verbs))
    return tuple(found)


def check_patterns(patterns: Iterable[str]) -> list[str]:
    """What is wrong with the spelling of patterns alone, one sentence each."""
    return [parsed for parsed in map(_parse, patterns) if isinstance(parsed, str)]


def choose(discovery: Discovery, include: Iterable[str] = (), exclude: Iterable[str] = ()) -> Selection:
    """Choose what to follow. Without `include` it is everything but Events and Leases.

    A misspelt or unknown name is a problem that lists close matches; an unreadable group is no reason for one.
    """
    wanted, unwanted = [*map(_parse, include)], [*map(_parse, exclude)]
    problems = [parsed for parsed in (*wanted, *unwanted) if isinstance(parsed, str)]
    includes = [pattern for pattern in wanted if isinstance(pattern, _Pattern)]
    excludes = [pattern for pattern in unwanted if isinstance(pattern, _Pattern)]
    best = _one_version_each(discovery)
    # A pattern that cannot be read must not widen the choice to everything.
    everything = not wanted
    chosen = {
        key: info
        for key, info in best.items()
        if _included(info, includes, everything=everything) and not _fits(info, excludes)
    }
    if CORE_EVENTS in chosen:
        chosen.pop(NEW_EVENTS, None)
    awaited: list[str] = []
    for pattern in includes:
        if not any(pattern.fits(info) for info in best.values()):
            sentence, fatal = _unknown(pattern, discovery, best)
            (problems if fatal else awaited).append(sentence)
    if not chosen and not problems and not awaited:
        problems.append(
            "nothing is left to follow: the patterns exclude everything that this server can list and watch"
        )
    return Selection(tuple(sorted(chosen.values(), key=lambda info: info.name)), tuple(problems), tuple(awaited))


def fitting(info: ResourceInfo, patterns: Iterable[str]) -> bool:
    """Whether one of these patterns, as they were given, fits the kind."""
    return _fits(info, [pattern for pattern in map(_parse, patterns) if isinstance(pattern, _Pattern)])


def vanished(before: Discovery, now: Discovery) -> bool:
    """Something is not served any more, which a server that has just started says of whole groups for a moment."""
    unread = now.unread_groups
    served = {info.key for info in now.resources}
    return any(info.key not in served and info.group not in unread for info in before.resources)


def unserved(discovery: Discovery, kinds: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Which of these kinds have no version that can be followed. Groups that could not be read tell nothing."""
    unread = discovery.unread_groups
    served = _one_version_each(discovery).keys()
    return frozenset(key for key in kinds if key not in served and key[0] not in unread)


def diff(old: Selection, new: Selection, discovery: Discovery) -> SelectionDiff:
    """Compare two selections. What belongs to a group that could not be read is neither gone nor moved."""
    before = {info.key: info for info in old.resources}
    after = {info.key: info for info in new.resources}
    unread = discovery.unread_groups
    replaced = {key for key in before.keys() & after.keys() if before[key].namespaced is not after[key].namespaced}
    return SelectionDiff(
        tuple(info for key, info in after.items() if key not in before or key in replaced),
        tuple(
            info for key, info in before.items() if key in replaced or (key not in after and info.group not in unread)
        ),
        tuple(
            (info, after[key])
            for key, info in before.items()
            if key in after and key not in replaced and info.version != after[key].version and info.group not in unread
        ),
    )


def _one_version_each(discovery: Discovery) -> dict[tuple[str, str], ResourceInfo]:
    """The preferred version of each kind if it can be followed, else the first in the server's order that can."""
    rank = {(group.group, version): place for group in discovery.groups for place, version in enumerate(group.versions)}
    best: dict[tuple[str, str], ResourceInfo] = {}
    for info in sorted(discovery.resources, key=lambda one: rank.get((one.group, one.version), len(rank))):
        if info.followable:
            best.setdefault(info.key, info)
    return best


def _included(info: ResourceInfo, includes: list[_Pattern], *, everything: bool) -> bool:
    if info.key in OFF_BY_DEFAULT:
        return any(pattern.names(info) for pattern in includes)
    return everything or _fits(info, includes)


def _fits(info: ResourceInfo, patterns: list[_Pattern]) -> bool:
    return any(pattern.fits(info) for pattern in patterns)


def _parse(text: str) -> _Pattern | str:
    """Read a pattern, or return the sentence that says what is wrong with it."""
    parts = text.split("/")
    if not all(_PART.fullmatch(part) for part in parts) or len(parts) > 3:
        return f"resource pattern {text!r} cannot be read: {_FORMS}"
    if len(parts) == 3:
        return _Pattern(text, parts[0], parts[2])
    if len(parts) == 2:
        if _VERSION.fullmatch(parts[0]):
            return _Pattern(text, "", parts[1])
        return f"resource pattern {text!r} has no version before its resource: {_FORMS}"
    resource, dot, group = text.partition(".")
    if not resource or (dot and not group):
        return f"resource pattern {text!r} cannot be read: {_FORMS}"
    return _Pattern(text, group if dot else None, resource)


def _unknown(pattern: _Pattern, discovery: Discovery, best: dict[tuple[str, str], ResourceInfo]) -> tuple[str, bool]:
    """Say why a pattern fits nothing, and whether that must end the start."""
    served = [info for info in discovery.resources if pattern.fits(info)]
    if served:
        lacking = ", ".join(sorted(VERBS_NEEDED - frozenset[str]().union(*(info.verbs for info in served))))
        why = f"has no version with both list and watch (it lacks {lacking})" if lacking else "cannot list and watch"
        return f"resource {pattern.text!r} {why}", True
    unread = discovery.unread_groups
    if any(pattern.group is None or fnmatchcase(group, pattern.group) for group in unread):
        return f"resource {pattern.text!r} is not known yet: its API group could not be read", False
    close = _close(pattern, best.values())
    hint = f"; did you mean {', '.join(close)}?" if close else ""
    built_in = pattern.group in {group.group for group in discovery.groups} and str(pattern.group).endswith(".k8s.io")
    if pattern.group is not None and "." in pattern.group and not built_in:
        return f"resource {pattern.text!r} is not served yet{hint}", False
    return f"resource {pattern.text!r} is not served{hint or '; `kubectl api-resources` lists what is'}", True


def _close(pattern: _Pattern, known: Iterable[ResourceInfo]) -> list[str]:
    spellings: dict[str, str] = {}
    for info in known:
        for spelling in (info.name, info.resource, info.kind.lower()):
            spellings.setdefault(spelling, info.name)
    resource = pattern.resource.lower()
    # With a group of its own only the whole name tells: every group has some resource that looks alike.
    asked, cutoff = (f"{resource}.{pattern.group}", 0.8) if pattern.group else (resource, 0.6)
    found = get_close_matches(asked, spellings, n=3, cutoff=cutoff)
    return list(dict.fromkeys(spellings[spelling] for spelling in found))[:3]


def _field(document: object, name: str) -> object:
    return document.get(name) if isinstance(document, dict) else None


def _dicts(value: object) -> list[dict[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _texts(value: object) -> tuple[str, ...]:
    return tuple(entry for entry in value if isinstance(entry, str) and entry) if isinstance(value, list) else ()
