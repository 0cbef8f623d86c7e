"""Which changes a reader asks for: by cluster, kind, namespace, name, UID or operation.

Pure. What a stream says of itself (GAP, PROGRESS) concerns every object in it, and so passes whatever the namespace,
name or UID asked for; a namespaced stream that cannot hold the namespace does not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from kubecdc.errors import Misconfigured
from kubecdc.folding import Resource
from kubecdc.records import Change, Op


@dataclass(frozen=True, slots=True)
class Match:
    """What is asked for; None and () ask for everything.

    `resources` are as `deployments` of any group, `deployments.apps`, `*.apps`, and `pods.` of the group without a
    name. Raises Misconfigured when they are a text, which would be read letter by letter.
    """

    cluster: str | None = None
    resources: tuple[str, ...] = ()
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        given: object = self.resources
        if isinstance(given, str):
            raise Misconfigured(f"resources must be a tuple of kinds, such as ({given!r},)")

    def absent(self, known: Collection[Resource]) -> tuple[str, ...]:
        """A sentence for the cluster, or for each kind, that is asked for and is not among those that were read."""
        if not known:
            return ()
        clusters = {each.cluster for each in known}
        if self.cluster is not None and self.cluster not in clusters:
            return (f"no cluster {self.cluster} in what was read, only {', '.join(sorted(clusters))}",)
        here = [each for each in known if self.cluster in (None, each.cluster)]
        has = ", ".join(sorted({str(each) for each in here}))
        return tuple(
            f"no kind {wanted} in what was read, only {has}"
            for wanted in self.resources
            if not any(_is(each.resource, each.group, wanted) for each in here)
        )

    def __call__(self, change: Change) -> bool:
        """Tell whether a change is asked for."""
        if change.op is Op.PROGRESS and not self.progress:
            return False
        if self.cluster is not None and change.cluster != self.cluster:
            return False
        if self.resources and not any(_is(change.resource, change.group, each) for each in self.resources):
            return False
        if change.uid is None:
            return self.namespace is None or change.scope in ("", self.namespace)
        return (
            (self.namespace is None or change.namespace == self.namespace)
            and (self.name is None or change.name == self.name)
            and (self.uid is None or change.uid == self.uid)
        )


def _is(resource: str, group: str, wanted: str) -> bool:
    name, dot, of = wanted.partition(".")
    return name in ("*", resource) and (not dot or of == group)
