"""Which kinds the simulated API server serves, and what is peculiar to each of them.

Decides: names, scope, versions and write rules of the built-in kinds, and how a
CustomResourceDefinition turns into a kind. Deliberately does not know schemas: any field of any
type is accepted, and nothing is defaulted except `status` at creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Generation = Literal["never", "spec", "spec+annotations", "content"]

_ALL_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")


@dataclass(frozen=True, slots=True)
class Kind:
    """A served kind, as the server's own registry would describe it.

    `versions` are the served ones, the preferred first. `generation` says which part of the object
    makes `metadata.generation` rise. `status_keeps` names the metadata that a write to the status
    subresource cannot change. `stored_as` is the group that owns the storage, which differs from
    `group` for cohabiting kinds.
    """

    group: str
    plural: str
    kind: str
    versions: tuple[str, ...] = ("v1",)
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    custom: bool = False
    generation: Generation = "never"
    has_status: bool = False
    status_keeps: tuple[str, ...] = ()
    initial_status: Json | None = field(default=None, hash=False)
    graceful: bool = False
    returns_deleted: bool = False
    needs_version_on_update: bool = False
    creates_on_update: bool = False
    cached: bool = True
    stored_as: str | None = None

    @property
    def storage(self) -> tuple[str, str]:
        """(group, plural) under which the objects are stored; shared by cohabiting kinds."""
        return (self.group if self.stored_as is None else self.stored_as, self.plural)

    @property
    def qualified(self) -> str:
        """The name used in messages: `deployments.apps`, `pods`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def api_version(self, version: str) -> str:
        """Return the `apiVersion` of objects of this kind in a version."""
        return f"{self.group}/{version}" if self.group else version


def _core(plural: str, kind: str, short: str = "", **rules: Any) -> Kind:
    return Kind("", plural, kind, short_names=(short,) if short else (), **rules)


def _apps(plural: str, kind: str, short: str, **rules: Any) -> Kind:
    return Kind("apps", plural, kind, short_names=(short,), categories=("all",), has_status=True, **rules)


CRDS = Kind(
    "apiextensions.k8s.io",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    namespaced=False,
    short_names=("crd", "crds"),
    categories=("api-extensions",),
    generation="spec",
    has_status=True,
    status_keeps=_ALL_METADATA,
    initial_status={
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": None,
    },
    needs_version_on_update=True,
)

NAMESPACES = _core(
    "namespaces",
    "Namespace",
    "ns",
    namespaced=False,
    has_status=True,
    initial_status={"phase": "Active"},
)

NODES = _core("nodes", "Node", "no", namespaced=False, has_status=True)

BUILT_IN: tuple[Kind, ...] = (
    _core("configmaps", "ConfigMap", "cm"),
    _core("events", "Event", "ev", cached=False, creates_on_update=True),
    NAMESPACES,
    NODES,
    _core(
        "pods",
        "Pod",
        "po",
        categories=("all",),
        generation="spec",
        has_status=True,
        status_keeps=("ownerReferences",),
        initial_status={"phase": "Pending", "qosClass": "BestEffort"},
        graceful=True,
        returns_deleted=True,
    ),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", "sa", returns_deleted=True),
    _core(
        "services",
        "Service",
        "svc",
        categories=("all",),
        has_status=True,
        initial_status={"loadBalancer": {}},
        returns_deleted=True,
        creates_on_update=True,
    ),
    CRDS,
    _apps(
        "deployments",
        "Deployment",
        "deploy",
        generation="spec+annotations",
        status_keeps=("labels",),
        initial_status={},
    ),
    _apps("replicasets", "ReplicaSet", "rs", generation="spec", initial_status={"replicas": 0}),
    Kind(
        "coordination.k8s.io",
        "leases",
        "Lease",
        needs_version_on_update=True,
        creates_on_update=True,
    ),
    Kind(
        "events.k8s.io",
        "events",
        "Event",
        short_names=("ev",),
        cached=False,
        creates_on_update=True,
        stored_as="",
    ),
)


def kind_of_crd(crd: Json) -> Kind:
    """Return the kind that a CustomResourceDefinition asks for.

    Raises KeyError or TypeError when fields are missing that the real server requires; see
    `crd_problem` for the check that comes first.
    """
    spec = crd["spec"]
    names = spec["names"]
    served = [v for v in spec["versions"] if v.get("served")]
    # Real discovery prefers GA over beta over alpha, and the higher number within each.
    ordered = sorted((str(v["name"]) for v in served), key=version_rank)
    has_status = any("status" in (v.get("subresources") or {}) for v in served)
    return Kind(
        spec["group"],
        names["plural"],
        names["kind"],
        versions=tuple(ordered),
        namespaced=spec["scope"] == "Namespaced",
        singular=names.get("singular") or names["kind"].lower(),
        list_kind=names.get("listKind") or names["kind"] + "List",
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        custom=True,
        generation="content",
        has_status=has_status,
        status_keeps=_ALL_METADATA,
        needs_version_on_update=True,
    )


def served_kinds(crds: Iterable[Json], known: Mapping[tuple[str, str], Kind]) -> dict[tuple[str, str], Kind]:
    """Return the kinds served, by group and plural, given the stored definitions.

    A kind that is `known` with the same description stays the same object: watches end when it does not.
    """
    kinds = {(kind.group, kind.plural): kind for kind in BUILT_IN}
    for crd in crds:
        if "deletionTimestamp" not in crd["metadata"] and crd["status"].get("conditions"):
            kind = kind_of_crd(crd)
            name = (kind.group, kind.plural)
            kinds[name] = known[name] if known.get(name) == kind else kind
    return kinds


def crd_problem(crd: Json) -> tuple[str, str] | None:
    """Return (field, message) of what keeps a CRD from being served, or None."""
    spec = crd.get("spec")
    if not isinstance(spec, dict):
        return "spec", "Required value"
    names = spec.get("names")
    if not isinstance(names, dict) or not names.get("plural") or not names.get("kind"):
        return "spec.names", "Required value: plural and kind must be given"
    if not spec.get("group"):
        return "spec.group", "Required value"
    if spec.get("scope") not in ("Namespaced", "Cluster"):
        return "spec.scope", 'Required value: must be "Namespaced" or "Cluster"'
    versions = spec.get("versions")
    if not isinstance(versions, list) or sum(bool(v.get("storage")) for v in versions) != 1:
        return "spec.versions", "Invalid value: must have exactly one version marked as storage"
    name = crd.get("metadata", {}).get("name")
    wanted = f"{names['plural']}.{spec['group']}"
    if name != wanted:
        rule = 'must be spec.names.plural+"."+spec.group'
        return "metadata.name", f'Invalid value: "{name}": {rule}'
    return None


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Return what versions are sorted by: GA, beta, alpha, the higher numbers first, then all others by name."""
    head, stage, number = version, 0, 0
    for rank, word in ((1, "beta"), (2, "alpha")):
        if word in version:
            head, _, tail = version.partition(word)
            stage, number = rank, int(tail) if tail.isdigit() else 0
    major = head[1:]
    if not head.startswith("v") or not major.isdigit():
        return 3, 0, 0, version
    return stage, -int(major), -number, version
