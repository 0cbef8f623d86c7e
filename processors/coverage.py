"""What the changes topic alone proves of one stream's coverage in one partition: floor, epoch, completeness, count.

Pure. `processors.rebuilding` uses it where the state topic is lost. It rests on how `processors.streams` writes: every
rise of a floor leaves a PROGRESS or a GAP that ends there, gaps have keys of their own and so survive compaction, and
of the PROGRESS records the latest does.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer

BEGINS_INSIDE = "the log begins inside a session"  # a gap with this detail starts coverage without a list
# A stream's gap of these causes is written only once a list of the epoch was complete, or by that very list.
AFTER_A_LIST = frozenset({Cause.RELIST_WINDOW, Cause.EPOCH_CHANGE})


@dataclass(slots=True)
class Coverage:
    """Fed with the stream's changes in their order; `place` is the source offset that each of them comes from.

    `count` is never too high: of an interval older than the history window, records may have been compacted away.
    """

    version: str
    epoch: int
    floor: str | None = None
    floor_before: str | None = None
    epoch_before: int = 0
    raised_at: int = -1
    lost: bool = False
    count: int = 0
    _proven: bool = False
    _doubtful: bool = False
    _inside: bool = False

    @property
    def complete(self) -> bool:
        """Whether the epoch's first list has ended, as far as the log tells; at worst it says no.

        The floor of an epoch is set by a complete list, by the log that begins inside a session, or by a gap that
        begins nowhere. Only the last leaves the list incomplete, and it survives compaction.
        """
        return self._proven or (self.floor is not None and not self._doubtful)

    @property
    def before_epoch(self) -> str | None:
        """The floor of the epoch before, until a complete list has closed the step between them."""
        return self.floor_before if self._inside or not self.complete else None

    def begin(self, epoch: int) -> None:
        """Enter a later epoch."""
        if epoch > self.epoch:
            if self.floor is not None:
                self.floor_before, self.epoch_before = self.floor, self.epoch
            self.epoch, self.floor, self.count = epoch, None, 0
            self._proven = self._doubtful = self._inside = False

    def passed(self, epoch: int, rv: str) -> bool:
        """The floor, or that of the epoch before where this one has none yet, lies at or above a version."""
        epoch_now, floor = (
            (self.epoch, self.floor) if self.floor is not None else (self.epoch_before, self.floor_before)
        )
        return floor is not None and (epoch < epoch_now or (epoch == epoch_now and not newer(rv, floor)))

    def prove(self) -> None:
        """A list of this epoch is known to have been complete."""
        self._proven, self._inside = True, False

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
        self._judge(change)
        self.count = 0
        if newer(change.upto_rv, self.floor):
            self.floor, self.raised_at, self.lost = change.upto_rv, place, False

    def _judge(self, change: Change) -> None:
        gap = change.gap
        if gap is None:
            if change.op is Op.PROGRESS and change.after_rv is None:
                self.prove()
        elif gap.cause in AFTER_A_LIST:
            self.prove()
        elif gap.detail == BEGINS_INSIDE:
            self._proven = self._inside = True
        elif change.after_rv is None:
            self._doubtful = True
