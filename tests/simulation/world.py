"""What the API server stores: one etcd with a few kinds, its whole history, compaction, and restores from a backup.

Its history is the ground truth. A restore begins a new era, whose history is that of the backup and what is written
after it; what the old era had beyond the backup is in the old era's history only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import orjson

from local.history import Committed

NAMESPACES = ("alpha", "beta")


@dataclass(frozen=True, slots=True)
class Version:
    """One version of one object; `body` is the object as JSON, `shown` the version that a watch gives it."""

    rv: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    uid: str
    namespace: str
    name: str
    body: bytes
    generation: int
    shown: int

    @property
    def line(self) -> bytes:
        """The frame of a watch."""
        return b'{"type":"%s","object":%s}\n' % (self.type.encode(), self.body)


@dataclass(slots=True)
class Kind:
    """A resource: its living objects by UID, and every version in order."""

    group: str
    version: str
    resource: str
    kind: str
    live: dict[str, Version] = field(default_factory=dict)
    history: list[Version] = field(default_factory=list)
    served: bool = True

    @property
    def key(self) -> tuple[str, str]:
        return self.group, self.resource

    def first_after(self, rv: int) -> int:
        """Index in the history of the first version above `rv`."""
        low, high = 0, len(self.history)
        while low < high:
            middle = (low + high) // 2
            if self.history[middle].rv <= rv:
                low = middle + 1
            else:
                high = middle
        return low

    def at(self, rv: int) -> dict[str, Version]:
        """What lived at a version."""
        if not self.history or self.history[-1].rv <= rv:
            return dict(self.live)
        living: dict[str, Version] = {}
        for version in self.history[: self.first_after(rv)]:
            if version.type == "DELETED":
                living.pop(version.uid, None)
            else:
                living[version.uid] = version
        return living


@dataclass(slots=True)
class Era:
    """The commits of one lineage of the store, by kind; `forked` is the backup's version, `left` where it left off."""

    commits: dict[tuple[str, str], list[Committed]]
    forked: int = 0
    left: int = 0


class World:
    """Writes, and remembers everything. `rng` decides what is written."""

    def __init__(self, rng: Random, kinds: int, start_rv: int, *, old_deletes: bool) -> None:
        self._rng = rng
        self._old_deletes = old_deletes
        self.revision = start_rv
        self.compacted = start_rv
        # After a restore, until it is noticed: nobody writes beyond the one, or changes what exists with the other.
        self.ceiling: int | None = None
        self.only_new = False
        self.kinds = [
            Kind("" if number == 0 else f"g{number}.example.io", "v1", f"things{number}", f"Thing{number}")
            for number in range(kinds)
        ]
        self.eras = [Era({kind.key: [] for kind in self.kinds})]
        self.commits = 0

    @property
    def era(self) -> int:
        """Number of the current era, from 0."""
        return len(self.eras) - 1

    # --- writes -----------------------------------------------------------------------------------------------------

    def write(self) -> bool:
        """One transaction of some client; False when the store takes none now."""
        rng = self._rng
        kind = rng.choice(self.kinds)
        if not kind.served or (self.ceiling is not None and self.revision + 12 >= self.ceiling):
            return False
        choice = 0.0 if self.only_new else rng.random()
        if self.only_new and len(kind.live) >= 60:
            return False
        if len(kind.live) < 5 or (choice < 0.22 and len(kind.live) < 60):
            self.create(kind)
        elif choice < 0.68:
            self.update(kind, rng.choice(sorted(kind.live)), noise=rng.random() < 0.1)
        elif choice < 0.86:
            self.delete(kind, [rng.choice(sorted(kind.live))])
        elif choice < 0.93:
            self.replace(kind, rng.choice(sorted(kind.live)))
        else:
            self.delete(kind, rng.sample(sorted(kind.live), min(3, len(kind.live))))
        return True

    def create(self, kind: Kind, place: tuple[str, str] | None = None) -> str:
        """A new object, in a given place or a new one."""
        rng = self._rng
        digits = f"{rng.getrandbits(128):032x}"
        uid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        namespace, name = place or (rng.choice(NAMESPACES), f"thing-{digits[:6]}")
        self._advance()
        self._put(kind, uid, namespace, name, 1, type_="ADDED")
        return uid

    def update(self, kind: Kind, uid: str, *, noise: bool = False) -> None:
        """A new version; one that is noise changes nothing but who wrote last."""
        before = kind.live[uid]
        self._advance()
        if noise:
            body = orjson.loads(before.body)
            body["metadata"]["managedFields"] = [_manager(self.revision)]
            self._put(kind, uid, before.namespace, before.name, before.generation, type_="MODIFIED", body=body)
        else:
            self._put(kind, uid, before.namespace, before.name, before.generation + 1, type_="MODIFIED")

    def delete(self, kind: Kind, uids: list[str]) -> None:
        """Remove objects in one transaction: all at one version, as expired leases go."""
        self._advance()
        for uid in uids:
            before = kind.live.pop(uid)
            shown = before.rv if self._old_deletes else self.revision
            body = orjson.loads(before.body)
            body["metadata"]["resourceVersion"] = str(shown)
            self._commit(
                kind,
                Version(
                    self.revision, "DELETED", uid, before.namespace, before.name, orjson.dumps(body),
                    before.generation, shown,
                ),
            )  # fmt: skip

    def replace(self, kind: Kind, uid: str) -> None:
        """Delete an object, and give its name to a new one."""
        before = kind.live[uid]
        self.delete(kind, [uid])
        self.create(kind, (before.namespace, before.name))

    def _advance(self) -> None:
        self.revision += self._rng.choice((1, 1, 1, 2, 5))

    def _put(
        self, kind: Kind, uid: str, namespace: str, name: str, generation: int, *,
        type_: Literal["ADDED", "MODIFIED"], body: dict[str, object] | None = None,
    ) -> None:  # fmt: skip
        body = body or {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": uid,
                "labels": {"app": name[-1]},
                "managedFields": [_manager(self.revision)],
            },
            "spec": {"replicas": generation, "seed": self._rng.randrange(1000)},
        }
        metadata = body["metadata"]
        assert isinstance(metadata, dict)
        metadata["generation"] = generation
        metadata["resourceVersion"] = str(self.revision)
        version = Version(
            self.revision, type_, uid, namespace, name, orjson.dumps(body), generation, self.revision
        )  # fmt: skip
        kind.live[uid] = version
        self._commit(kind, version)

    def _commit(self, kind: Kind, version: Version) -> None:
        kind.history.append(version)
        self.eras[-1].commits[kind.key].append(
            Committed(
                kind.group, kind.resource, version.namespace, version.name, version.uid, str(version.rv),
                "DELETE" if version.type == "DELETED" else "PUT",
            )
        )  # fmt: skip
        self.commits += 1

    # --- faults of the store ----------------------------------------------------------------------------------------

    def compact(self, keep: int) -> None:
        """Forget history, but for the last `keep` revisions."""
        self.compacted = max(self.compacted, self.revision - keep)

    def restore(self, back: int, *, bump: bool) -> bool:
        """Go back by `back` revisions; with `bump` versions go on above all that there ever were."""
        left, forked = self.revision, self.revision - back
        if forked <= self.compacted or forked < self.eras[-1].left:
            return False
        commits = {
            key: [commit for commit in past if int(commit.rv) <= forked]
            for key, past in self.eras[-1].commits.items()
        }  # fmt: skip
        for kind in self.kinds:
            kind.live = kind.at(forked)
            kind.history = kind.history[: kind.first_after(forked)]
        self.revision = left + 1000 if bump else forked
        self.compacted = self.revision
        self.eras.append(Era(commits, forked, left))
        return True

    def remove_kind(self, kind: Kind) -> None:
        """A CRD goes, and its objects with it."""
        for uid in sorted(kind.live):
            self.delete(kind, [uid])
        kind.served = False

    # --- ground truth -----------------------------------------------------------------------------------------------

    def truth(self, key: tuple[str, str], scope: str, eras: set[int]) -> list[Committed] | None:
        """The commits that an epoch of a stream spoke of; None where it mixed eras that cannot be told apart."""
        for era in range(min(eras) + 1, max(eras) + 1):
            forked = self.eras[era].forked
            lost = (c for c in self.eras[era - 1].commits[key] if int(c.rv) > forked)
            if any(scope in ("", commit.namespace) for commit in lost):
                return None
        return [c for c in self.eras[max(eras)].commits[key] if scope in ("", c.namespace)]

    def beyond(self, key: tuple[str, str], scope: str, eras: set[int]) -> list[Committed]:
        """Versions of eras that a list given up may have shown under the epoch before."""
        return [
            commit
            for era in sorted(eras)
            for commit in self.eras[era].commits[key]
            if commit.kind == "PUT" and int(commit.rv) > self.eras[era].forked and scope in ("", commit.namespace)
        ]


def _manager(revision: int) -> dict[str, str]:
    return {
        "manager": f"m{revision % 3}",
        "operation": "Update",
        "subresource": "",
        "time": f"2026-01-01T00:00:{revision % 60:02d}Z",
    }


def living(kind: Kind, rv: int, scope: str) -> Iterator[Version]:
    """What a list at `rv` shows, in its order."""
    return iter(
        sorted((v for v in kind.at(rv).values() if scope in ("", v.namespace)), key=lambda v: (v.namespace, v.name))
    )
