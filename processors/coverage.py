"""What the changes topic alone proves of one stream's coverage in one partition: floor, epoch, completeness, count.

Pure. `processors.rebuilding` uses it where the state topic is lost. It rests on how `processors.streams` writes: every
rise of a floor leaves a PROGRESS or a GAP that ends there, gaps have keys of their own and so survive compaction, and
of the PROGRESS records the latest does.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer

BEGINS_INSIDE = "the log begins inside a session"  # a gap with this detail starts coverage without a list
# A stream's gap of these causes is written only once a list of the epoch was complete, or by that very list.
AFTER_A_LIST = frozenset({Cause.RELIST_WINDOW, Cause.EPOCH_CHANGE})


@dataclass(frozen=True, slots=True)
class Reached:
    """How far an epoch has come: its floor, where that rose last, and since where its first list was complete."""

    epoch: int
    floor: str
    raised_at: int
    complete_since: int | None

    def buries(self, epoch: int, rv: str, place: int) -> bool:
        """A delete of this version, written at this place, was forgotten by a worker when the floor rose."""
        passed = epoch < self.epoch or (epoch == self.epoch and not newer(rv, self.floor))
        return passed and self.complete_since is not None and self.raised_at >= max(place, self.complete_since)


@dataclass(slots=True)
class Coverage:
    """Fed with the stream's changes in their order; `place` is the source offset that each of them comes from.

    `count` is never too high: of an interval older than the history window, records may have been compacted away.
    """

    version: str
    epoch: int
    floor: str | None = None
    lost: bool = False
    count: int = 0
    _before: list[Reached] = field(default_factory=list)
    _raised_at: int = -1
    _proven_at: int | None = None
    _doubtful: bool = False
    _inside: bool = False

    @property
    def complete(self) -> bool:
        """Whether the epoch's first list has ended, as far as the log tells; at worst it says no.

        The floor of an epoch is set by a complete list, by the log that begins inside a session, or by a gap that
        begins nowhere. Only the last leaves the list incomplete, and it survives compaction.
        """
        return self._proven_at is not None or (self.floor is not None and not self._doubtful)

    @property
    def before_epoch(self) -> str | None:
        """The floor of the epoch before, until a complete list has closed the step between them."""
        return self._before[-1].floor if self._before and (self._inside or not self.complete) else None

    def begin(self, epoch: int) -> None:
        """Enter a later epoch."""
        if epoch > self.epoch:
            self._before += self._reached()
            self.epoch, self.floor, self.count = epoch, None, 0
            self._proven_at, self._doubtful, self._inside = None, False, False

    def buries(self, epoch: int, rv: str, place: int) -> bool:
        """A delete of this version, written at this place, was forgotten when a floor rose: that of any epoch."""
        return any(reached.buries(epoch, rv, place) for reached in (*self._before, *self._reached()))

    def prove(self, place: int) -> None:
        """A list of this epoch is known to have been complete by the record at `place`."""
        self._proven_at = place if self._proven_at is None else min(place, self._proven_at)
        self._inside = False

    def _reached(self) -> list[Reached]:
        if self.floor is None:
            return []
        since = self._proven_at if self._doubtful else -1
        return [Reached(self.epoch, self.floor, self._raised_at, since)]

    def object(self, change: Change) -> None:
        """An object's record."""
        self.begin(change.epoch)
        self.count += 1

    def stream(self, change: Change, place: int) -> None:
        """A PROGRESS or GAP of the stream itself."""
        self.begin(change.epoch)
        self.version = change.version
        if change.upto_rv is None:
            self.lost = True
            return
        self._judge(change, place)
        self.count = 0
        if newer(change.upto_rv, self.floor):
            self.floor, self._raised_at, self.lost = change.upto_rv, place, False

    def _judge(self, change: Change, place: int) -> None:
        gap = change.gap
        if gap is None:
            if change.op is Op.PROGRESS and change.after_rv is None:
                self.prove(place)
        elif gap.cause in AFTER_A_LIST:
            self.prove(place)
        elif gap.detail == BEGINS_INSIDE:
            self._proven_at, self._inside = place, True
        elif change.after_rv is None:
            self._doubtful = True
