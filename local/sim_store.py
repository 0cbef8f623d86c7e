"""The store of the simulated API server: create, update, delete, read, under one lock.

Decides: in which order the rules of `sim_objects` become revisions of `sim_log`, and which kinds
are served right now. Deliberately does not know HTTP, API versions of requests, or faults. What
controllers do on a real cluster is not simulated, with two exceptions that nothing works without:
a CustomResourceDefinition is established at once, and deleting a namespace or a
CustomResourceDefinition deletes what it holds.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from local import sim_objects, sim_status
from local.sim_fields import Writer
from local.sim_kinds import CRDS, NAMESPACES, Json, Kind, kind_of_crd, served_kinds
from local.sim_log import Commit, Event, RevisionLog, Snapshot
from local.sim_objects import DeleteOptions, Stamp, rfc3339

__all__ = ["Commit", "DeleteOptions", "Event", "SimStore", "Snapshot", "Writer"]

_FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"
_GENERATED_BASE = 58  # with the suffix 63, the length of a label


@dataclass(frozen=True, slots=True)
class Reading:
    """Events after a version, complete up to `revision`.

    `broken`: the kind is no longer served as it was, or history is missing: a stream ends here.
    """

    events: list[Event]
    revision: int
    epoch: int
    broken: bool


class Pulse:
    """A count that can be waited for."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._ticks = 0

    def beat(self) -> None:
        """Count on, and wake everyone who waits."""
        with self._changed:
            self._ticks += 1
            self._changed.notify_all()

    def wait(self, ticks: int, timeout_s: float) -> int:
        """Wait, at most so long, until the count is another than the one given; return it."""
        with self._changed:
            self._changed.wait_for(lambda: self._ticks != ticks, timeout_s)
            return self._ticks


class SimStore:
    """A cluster's state with its history. Safe to use from several threads.

    `now` gives seconds since 1970; `seed` makes uids and generated names repeatable. Objects that
    are handed out are shared: treat them as read-only. `pulse` beats with every commit. Writes
    raise `sim_status.Refused`.
    """

    def __init__(self, *, now: Callable[[], float] = time.time, seed: int | None = None) -> None:
        self._now = now
        self._random = random.Random(seed)  # noqa: S311 - names, not secrets
        self._log = RevisionLog()
        self._lock = threading.RLock()
        self.pulse = Pulse()
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._serve()
        for name in _FIRST_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})

    @property
    def revision(self) -> int:
        """The version of the last commit."""
        return self._log.revision

    @property
    def compacted(self) -> int:
        """The lowest version that can be read from."""
        return self._log.compacted

    @property
    def epoch(self) -> int:
        """1, and one more for each restore."""
        return self._log.epoch

    def kinds(self) -> tuple[Kind, ...]:
        """Return the kinds that are served now."""
        return tuple(self._kinds.values())

    def kind(self, group: str, plural: str) -> Kind:
        """Return a served kind. Raises KeyError when there is none."""
        return self._kinds[group, plural]

    def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return an object; Refused (404) when there is none."""
        with self._lock:
            found = self._log.get(kind.storage, _key(namespace, name))
        if found is None:
            raise sim_status.not_found(kind, name)
        return found

    def read(self, kind: Kind, revision: int | None = None) -> tuple[list[tuple[str, Json]], int]:
        """Return (sorted (key, object) pairs, the version they are of), by default the latest.

        A key is `namespace/name`, or the name of a cluster-wide object. The version must lie in
        [compacted, revision]; ValueError otherwise.
        """
        with self._lock:
            log = self._log
            wanted = log.revision if revision is None else revision
            if not log.compacted <= wanted <= log.revision:
                raise ValueError(f"version {wanted} is not in {log.compacted}..{log.revision}")
            return log.at(kind.storage, wanted), wanted

    def follow(self, kind: Kind, after: int) -> Reading:
        """Return what happened to a kind after a version."""
        with self._lock:
            log = self._log
            served = self._kinds.get((kind.group, kind.plural)) is kind
            broken = not served or log.lost(kind.storage, after)
            return Reading(log.after(kind.storage, after), log.revision, log.epoch, broken)

    def create(self, kind: Kind, obj: Json, *, namespace: str = "", writer: Writer | None = None) -> Json:
        """Store a new object and return it. Refused: 404 (namespace), 409, 422, 500."""
        with self._lock:
            if kind.namespaced and self._log.get(NAMESPACES.storage, namespace) is None:
                raise sim_status.not_found(NAMESPACES, namespace)
            stamp = self._stamp()
            sent = _named(obj, namespace, "".join(self._random.choices(_SUFFIX, k=5)))
            new = sim_objects.created(kind, sent, _spoken(kind, writer), stamp)
            key = _key(namespace, new["metadata"]["name"])
            there = self._log.get(kind.storage, key)
            if there is not None:
                raise _exists(kind, there)
            stored = self._put(kind, key, new)
            if kind is CRDS:
                self._put(kind, key, sim_objects.established(stored, stamp.time))
            return stored

    def modify(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        change: Callable[[Json], Json],
        *,
        writer: Writer | None = None,
    ) -> Json:
        """Replace an object by what `change` makes of it, and return what the server answers.

        `change` must not alter its argument. No revision is made when nothing changes; an update
        that takes the last finalizer of a terminating object deletes it and is itself not stored.
        """
        with self._lock:
            old = self.get(kind, namespace, name)
            key = _key(namespace, name)
            spoken = _spoken(kind, writer)
            new = sim_objects.updated(kind, old, change(old), spoken, self._stamp())
            if new is old:
                return old
            if sim_objects.deleted_by_update(new):
                self._remove(kind, [key])
                return new
            return self._put(kind, key, new)

    def update(self, kind: Kind, obj: Json, *, namespace: str = "", writer: Writer | None = None) -> Json:
        """Replace the object of that name, checking resourceVersion and uid where it has them."""
        name = obj["metadata"]["name"]
        return self.modify(kind, namespace, name, lambda old: _checked_uid(kind, obj, old), writer=writer)

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions | None = None) -> tuple[Json, bool]:
        """Ask for an object's end; return (what it looks like, whether it is gone)."""
        with self._lock:
            old = self.get(kind, namespace, name)
            key = _key(namespace, name)
            marked, gone = sim_objects.marked(kind, old, options or DeleteOptions(), self._now())
            if kind is NAMESPACES:
                marked, gone = self._terminate_namespace(old), True
            elif marked is not old:
                marked = self._put(kind, key, marked)
            if kind is CRDS:
                crd = kind_of_crd(old)
                for instance in sorted(self._log.current(crd.storage)):
                    self._remove(crd, [instance])
            if not gone:
                return marked, False
            revision = self._remove(kind, [key])
            if kind is CRDS:  # deleted later, by a controller: the answer is the mark
                return marked, True
            return marked | {"metadata": marked["metadata"] | {"resourceVersion": str(revision)}}, True

    def expire(self, kind: Kind, objects: Sequence[tuple[str, str]]) -> int:
        """Remove (namespace, name) pairs at ONE version, as a lease's expiry does; return it."""
        with self._lock:
            for namespace, name in objects:
                self.get(kind, namespace, name)
            return self._remove(kind, list({_key(*pair) for pair in objects}))

    def compact(self, revision: int | None = None) -> int:
        """Forget history below a version (default: the current one); return that version."""
        with self._lock:
            at = self._log.revision if revision is None else revision
            self._log.compact(at)
            self.pulse.beat()
            return at

    def snapshot(self) -> Snapshot:
        """Return a backup."""
        with self._lock:
            return self._log.snapshot()

    def restore(self, backup: Snapshot, bump: int | None = None) -> None:
        """Go back to a backup (see `RevisionLog.restore`); open watches end."""
        with self._lock:
            self._log.restore(backup, bump)
            self._serve()
            self.pulse.beat()

    def history(self, after: int = 0) -> list[Commit]:
        """Return all commits after the first `after` ones: the ground truth, never compacted."""
        with self._lock:
            return self._log.commits[after:]

    def _stamp(self) -> Stamp:
        uid = uuid.UUID(int=self._random.getrandbits(128), version=4)
        return Stamp(rfc3339(self._now()), str(uid))

    def _put(self, kind: Kind, key: str, obj: Json) -> Json:
        stored = self._log.put(kind.storage, key, obj)
        self._committed(kind)
        return stored

    def _remove(self, kind: Kind, keys: list[str]) -> int:
        revision = self._log.remove(kind.storage, keys)
        self._committed(kind)
        return revision

    def _committed(self, kind: Kind) -> None:
        if kind is CRDS:
            self._serve()
        self.pulse.beat()

    def _terminate_namespace(self, namespace: Json) -> Json:
        name = namespace["metadata"]["name"]
        stored = self._put(NAMESPACES, name, sim_objects.terminating(namespace, self._now()))
        # Cohabiting kinds share a storage, which must be emptied only once.
        for kind in {kind.storage: kind for kind in self._kinds.values()}.values():
            for key in sorted(self._log.current(kind.storage)):
                if key.startswith(f"{name}/"):
                    self._remove(kind, [key])
        return stored

    def _serve(self) -> None:
        self._kinds = served_kinds(self._log.current(CRDS.storage).values(), self._kinds)


def _key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


def _named(obj: Json, namespace: str, suffix: str) -> Json:
    meta = dict(obj.get("metadata") or {})
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = meta["generateName"][:_GENERATED_BASE] + suffix
    return obj | {"metadata": meta | ({"namespace": namespace} if namespace else {})}


def _spoken(kind: Kind, writer: Writer | None) -> Writer:
    writer = writer or Writer()
    version = writer.api_version or kind.api_version(kind.versions[0])
    return Writer(writer.manager, writer.subresource, version)


def _exists(kind: Kind, there: Json) -> sim_status.Refused:
    refused = sim_status.already_exists(kind, there["metadata"]["name"])
    if "deletionTimestamp" in there["metadata"]:
        refused.status["message"] = f"object is being deleted: {refused.status['message']}"
    return refused


def _checked_uid(kind: Kind, sent: Json, old: Json) -> Json:
    meta, uid = old["metadata"], sent["metadata"].get("uid")
    if not uid or uid == meta["uid"]:
        return sent
    key = f"/registry/{kind.plural}/{_key(meta.get('namespace', ''), meta['name'])}"
    why = (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
        f"AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, "
        f"UID in object meta: {meta['uid']}"
    )
    raise sim_status.conflict(kind, meta["name"], why)
