"""What one session has shown of its resource: the version of each live UID and of recent deletes, in little memory.

Pure. It answers two questions: does a list prove that the server was restored from a backup, and what did the
server's own stream lose (an audit). It does not decide when to ask them, nor what is sent.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from kubecdc.versions import newer, not_newer
from producer.frames import Item

DELETED_MAX = 10_000
HELD_MAX = 1_000
Key = int | str  # a packed UID
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Older:
    """A listed item at a version below one already shown (`deleted`: that of its delete)."""

    uid: str
    item_rv: str
    known_rv: str
    deleted: bool


class Versions:
    """A compact map from UID to version. A UUID is kept as an integer, which is exact; a version as its bytes."""

    def __init__(self) -> None:
        self._packed: dict[Key, bytes] = {}

    def __len__(self) -> int:
        return len(self._packed)

    def __contains__(self, uid: str) -> bool:
        return pack_uid(uid) in self._packed

    def get(self, uid: str) -> str | None:
        """Version of a UID, or None."""
        return self.at(pack_uid(uid))

    def at(self, key: Key) -> str | None:
        """Version of a packed UID, or None."""
        value = self._packed.get(key)
        return None if value is None else value.decode()

    def put(self, uid: str, rv: str) -> None:
        """Set the version of a UID."""
        self.set(pack_uid(uid), rv)

    def set(self, key: Key, rv: str) -> None:
        """Set the version of a packed UID."""
        self._packed[key] = rv.encode()

    def copy(self, uid: str, rv: str, other: Versions) -> None:
        """Set the version of a UID, sharing memory with `other` where that has the same."""
        key, packed = pack_uid(uid), rv.encode()
        known = other._packed.get(key)
        self._packed[key] = known if known == packed else packed

    def remove(self, uid: str) -> None:
        """Forget a UID, known or not."""
        self.discard(pack_uid(uid))

    def discard(self, key: Key) -> None:
        """Forget a packed UID, known or not."""
        self._packed.pop(key, None)

    def items(self) -> Iterator[tuple[str, str]]:
        """All UIDs with their versions."""
        for key, value in self._packed.items():
            yield unpack_uid(key), value.decode()

    def outside(self, keys: AbstractSet[Key], upto: str) -> list[Key]:
        """Packed UIDs that are not among `keys`, at versions up to `upto`."""
        return [key for key, rv in self._packed.items() if key not in keys and not_newer(rv.decode(), upto)]


def pack_uid(uid: str) -> Key:
    """Return a UID as 128 bits when it is a UUID in the usual spelling, else as it is."""
    return int(uid.replace("-", ""), 16) if _UUID.fullmatch(uid) else uid


def unpack_uid(key: Key) -> str:
    """Undo `pack_uid`."""
    if isinstance(key, str):
        return key
    digits = f"{key:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Published:
    """What was shown of one resource in one scope.

    `since`: the session resumed there, and what was written up to it is unknown; None when a list told everything.
    """

    def __init__(self, since: str | None = None, deleted_max: int = DELETED_MAX) -> None:
        self.since = since
        self._live = Versions()
        self._deleted: OrderedDict[Key, str] = OrderedDict()
        self._deleted_max = deleted_max
        self._forgotten_rv: str | None = None
        self._listed: set[Key] | None = None

    def __len__(self) -> int:
        return len(self._live)

    def live(self) -> Iterator[tuple[str, str]]:
        """Live UIDs with their versions; do not change the map meanwhile."""
        return self._live.items()

    def rv_of(self, uid: str) -> str | None:
        """Version last shown of a live UID."""
        return self._live.get(uid)

    def copy_live(self, item: Item, into: Versions) -> None:
        """Put an item's version `into` another map; of most items it is the one that is known here."""
        into.copy(item.uid, item.rv, self._live)

    def deleted_rv(self, uid: str) -> str | None:
        """Version of a recent delete that nothing has revived."""
        return self._deleted.get(pack_uid(uid))

    def may_have_forgotten(self, rv: str) -> bool:
        """A delete newer than `rv` may have been pushed out of the recent ones."""
        return self._forgotten_rv is not None and newer(self._forgotten_rv, rv)

    def note(self, uid: str, rv: str) -> None:
        """An object was shown alive at `rv`. Not beyond the known version, or below a delete, it changes nothing."""
        self._note(pack_uid(uid), rv)

    def _note(self, key: Key, rv: str) -> None:
        gone = self._deleted.get(key) if self._deleted else None
        if gone is not None:
            if not newer(rv, gone):
                return
            del self._deleted[key]
        if newer(rv, self._live.at(key)):
            self._live.set(key, rv)

    def revive(self, uid: str, rv: str) -> None:
        """A complete list shows an object alive that was shown deleted: it lives, whatever its version."""
        self._deleted.pop(pack_uid(uid), None)
        self.note(uid, rv)

    def deleted(self, uid: str, rv: str) -> None:
        """A delete was shown, at the version of the delete. Below a version that came later it changes nothing."""
        known = self._live.get(uid)
        if known is not None and newer(known, rv):
            return
        key = pack_uid(uid)
        self._bury(key, rv)

    def _bury(self, key: Key, rv: str) -> None:
        self._live.discard(key)
        before = self._deleted.pop(key, None)
        self._deleted[key] = rv if before is None or newer(rv, before) else before
        while len(self._deleted) > self._deleted_max:
            _, pushed = self._deleted.popitem(last=False)
            if newer(pushed, self._forgotten_rv):
                self._forgotten_rv = pushed

    def older_items(self, items: Iterable[Item], list_rv: str, *, below_list: bool = False) -> tuple[Older, ...]:
        """Items below versions that the list must have known. In a list that is not older, one proves a restore.

        With `below_list`, what was shown beyond `list_rv` proves nothing: a delete is shown before it counts as safe.
        """
        found = []
        for item in items:
            known, deleted = self._live.get(item.uid), False
            if known is None:
                known, deleted = self._deleted.get(pack_uid(item.uid)), True
            if known is None or (below_list and newer(known, list_rv)):
                continue
            # Old servers show a delete at the last version: a later list that still has the object proves as much, but
            # not where it may have been read between that version and the delete.
            back = deleted and item.rv == known and newer(list_rv, known) and not below_list
            if newer(known, item.rv) or back:
                found.append(Older(item.uid, item.rv, known, deleted))
        return tuple(found)

    def recall(self, versions: Versions, deleted: Versions) -> None:
        """What was shown before this session began, alive and deleted. Where it knows better, its own word stands."""
        for uid, rv in versions.items():
            self.note(uid, rv)
        for uid, rv in deleted.items():
            if self._live.get(uid) is None:
                self._bury(pack_uid(uid), rv)

    def begin_list(self) -> None:
        """A list begins to be sent; a list under way is forgotten."""
        self._listed = set()

    def listed(self, uid: str, rv: str) -> None:
        """Record that the running list shows this object. Raises RuntimeError when none runs."""
        if self._listed is None:
            raise RuntimeError("no list runs")
        key = pack_uid(uid)  # one object for both, since there may be very many of them
        self._listed.add(key)
        self._deleted.pop(key, None)
        self._note(key, rv)

    def end_list(self, list_rv: str) -> int:
        """The list was complete: forget what it does not show and is not newer. Return how many were forgotten."""
        if self._listed is None:
            raise RuntimeError("no list runs")
        gone = self._live.outside(self._listed, list_rv)
        for key in gone:
            self._bury(key, list_rv)
        self._listed = None
        self.since = None
        return len(gone)

    def abort_list(self) -> None:
        """The list came to nothing; what it showed stays known."""
        self._listed = None

    def new_epoch(self) -> None:
        """Versions count from elsewhere now: forget everything."""
        self.since = None
        self._live = Versions()
        self._deleted.clear()
        self._forgotten_rv = None
        self._listed = None


@dataclass(frozen=True, slots=True)
class Drift:
    """What an audit found that the stream has not shown although it has passed the list's version.

    `missing` live for us, not in the list; `newer` and `unknown` in the list at versions never shown; `older` proves
    a restore; `unheld` newer or unknown items beyond what is kept: audit again.
    """

    missing: tuple[str, ...] = ()
    newer: tuple[Item, ...] = ()
    unknown: tuple[Item, ...] = ()
    older: tuple[Older, ...] = ()
    unheld: int = 0

    def __bool__(self) -> bool:
        return bool(self.missing or self.newer or self.unknown or self.older or self.unheld)


class AuditRun:
    """One complete list, compared with what was published.

    Objects are kept only where they differ, and at most `held_max` of them.
    """

    def __init__(self, list_rv: str, held_max: int = HELD_MAX) -> None:
        self.list_rv = list_rv
        self._held_max = held_max
        self._listed = Versions()
        self._held: list[Item] = []
        self._unheld = 0

    def page(self, items: Iterable[Item], published: Published) -> None:
        """Take in one page. What the stream has not shown yet is kept, to be judged when it has passed the list."""
        for item in items:
            published.copy_live(item, self._listed)
            if self._known(item, published):
                continue
            if len(self._held) < self._held_max:
                self._held.append(item)
            else:
                self._unheld += 1

    def judge(self, published: Published, safe_rv: str) -> Drift | None:
        """Return the drift, or None while the stream's safe version has not reached the list's.

        Only after the last page. It changes nothing in `published` but that items written before `since` become known.
        """
        if newer(self.list_rv, safe_rv):
            return None
        self._adopt(published)
        changed: list[Item] = []
        unknown: list[Item] = []
        for item in self._held:
            if self._known(item, published):
                continue
            (unknown if published.rv_of(item.uid) is None else changed).append(item)
        missing, older = self._against(published)
        return Drift(missing, tuple(changed), tuple(unknown), older, self._unheld)

    def _known(self, item: Item, published: Published) -> bool:
        """Nothing to tell: shown at this version or later, deleted since, or too old for us to know."""
        known = published.rv_of(item.uid)
        if known is not None:
            return not newer(item.rv, known)
        gone = published.deleted_rv(item.uid)
        if gone is not None:
            return newer(gone, self.list_rv)
        return published.may_have_forgotten(self.list_rv) or not_newer(item.rv, published.since)

    def _adopt(self, published: Published) -> None:
        since = published.since
        if since is None or newer(since, self.list_rv) or published.may_have_forgotten(self.list_rv):
            return
        for uid, rv in self._listed.items():
            if not_newer(rv, since) and published.rv_of(uid) is None and published.deleted_rv(uid) is None:
                published.note(uid, rv)
        published.since = None

    def _against(self, published: Published) -> tuple[tuple[str, ...], tuple[Older, ...]]:
        missing, older = [], []
        for uid, rv in published.live():
            if newer(rv, self.list_rv):
                continue
            listed = self._listed.get(uid)
            if listed is None:
                missing.append(uid)
            elif newer(rv, listed):
                older.append(Older(uid, listed, rv, deleted=False))
        return tuple(missing), tuple(older)
