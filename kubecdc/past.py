"""The state at versions of the past: of each stream, what lived at one version.

Pure: `Past.step` takes the whole log in the order of its partitions. It needs every version between the one asked for
and now: where compaction has taken one, or a delete is only known to lie around the version asked for, it says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubecdc.chain import OBJECT_OPS, Entry
from kubecdc.folding import Resolved, Resource, resource_of
from kubecdc.records import Cause, Change, Op
from kubecdc.versions import not_newer

Stream = tuple[Resource, str]  # the kind, and the scope that its lists and watches have


@dataclass(slots=True)
class Past:
    """Memory of one reading. `bounds` tell the version of each stream; other streams are left out.

    `uncertain`: UIDs whose next change names a gap, or was inferred: it may have happened before. `inside`: streams
    whose version lies inside a gap. `compacted`: UIDs whose version of that time is in the log no more.
    """

    bounds: Mapping[Stream, Resolved]
    objects: dict[str, Change] = field(default_factory=dict)
    uncertain: set[str] = field(default_factory=set)
    compacted: set[str] = field(default_factory=set)
    inside: set[Stream] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    _later: set[str] = field(default_factory=set)

    def step(self, entry: Entry) -> None:
        """Take the next record."""
        change = entry.change
        if change is None:
            self._tombstone(entry.key.decode(errors="replace"))
            return
        stream = resource_of(change), change.scope
        bound = self.bounds.get(stream)
        if bound is None:
            return
        if change.op not in OBJECT_OPS or change.uid is None:
            if change.op is Op.GAP and change.uid is None and _holds(change, bound):
                self.inside.add(stream)
            return
        if _at_or_before(change.epoch, change.rv, bound):
            self._known.add(change.uid)
            if change.op is Op.DELETED:
                self.objects.pop(change.uid, None)
            else:
                self.objects[change.uid] = change
        elif change.uid not in self._later:
            self._later.add(change.uid)
            self._after(change, change.uid)

    def _after(self, change: Change, uid: str) -> None:
        """Judge by the first version after the one asked for whether the one before shows, and it is surely later."""
        if uid not in self._known and change.prev_rv is not None:
            self.compacted.add(uid)
        if change.inferred or change.gap is not None:
            self.uncertain.add(uid)

    def _tombstone(self, uid: str) -> None:
        """It follows a DELETED; where that was compacted away, it was older than every version one may ask for."""
        if uid not in self._later:
            self.objects.pop(uid, None)


def _at_or_before(epoch: int, rv: str | None, bound: Resolved) -> bool:
    return epoch < bound.epoch or (epoch == bound.epoch and not_newer(rv or "", bound.rv))


def _holds(gap: Change, bound: Resolved) -> bool:
    """The version lies in `(after_rv, upto_rv)`; at its end a gap is known, for there a list was read."""
    spans_epochs = gap.gap is not None and gap.gap.cause is Cause.EPOCH_CHANGE
    if gap.epoch != bound.epoch or (not spans_epochs and not_newer(bound.rv, gap.after_rv)):
        return False
    return gap.upto_rv is not None and not not_newer(gap.upto_rv, bound.rv)
