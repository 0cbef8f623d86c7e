"""Which changes a reader asks for: by cluster, kind, namespace, name, UID or operation.

Pure. What a stream says of itself (GAP, PROGRESS) concerns every object in it, and so passes whatever the namespace,
name or UID asked for; a namespaced stream that cannot hold the namespace does not.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubecdc.records import Change, Op


@dataclass(frozen=True, slots=True)
class Match:
    """What is asked for; None and () ask for everything. `resources` are as `pods`, `deployments.apps`, `*.apps`."""

    cluster: str | None = None
    resources: tuple[str, ...] = ()
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None
    progress: bool = True

    def __call__(self, change: Change) -> bool:
        """Tell whether a change is asked for."""
        if change.op is Op.PROGRESS and not self.progress:
            return False
        if self.cluster is not None and change.cluster != self.cluster:
            return False
        if self.resources and not any(_is(change, wanted) for wanted in self.resources):
            return False
        if change.uid is None:
            return self.namespace is None or change.scope in ("", self.namespace)
        return (
            (self.namespace is None or change.namespace == self.namespace)
            and (self.name is None or change.name == self.name)
            and (self.uid is None or change.uid == self.uid)
        )


def _is(change: Change, wanted: str) -> bool:
    resource, _, group = wanted.partition(".")
    return resource in ("*", change.resource) and group == change.group
