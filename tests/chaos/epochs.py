"""A log that spans a restore, told apart by epochs, so that each is judged against its own history.

Pure. Checkers know one epoch, whose first record of a stream is its first list. So the EPOCH_CHANGE gap, which says
"after this version of the old epoch nothing is known, and the new one begins with this list", becomes what it means
for each side: an open gap for the old epoch, and for the new one the claim of its first list.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kubecdc.records import Cause, Gap, Op
from local.history import Committed
from local.verdicts import EPOCH, Entry, object_id


def of_epoch(log: Iterable[Entry], epoch: int) -> list[Entry]:
    """The entries of one epoch as if it were the first."""
    return list(_told(log, epoch))


def _told(log: Iterable[Entry], epoch: int) -> Iterator[Entry]:
    for entry in log:
        change = entry.change
        begins = change.op is Op.GAP and change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE
        if begins and change.epoch == epoch + 1:
            lost = replace(change, epoch=EPOCH, upto_rv=None, gap=Gap(Cause.COVERAGE_LOST))
            yield Entry(entry.partition, entry.offset, lost)
        elif begins and change.epoch == epoch:
            listed = replace(change, epoch=EPOCH, op=Op.PROGRESS, after_rv=None, gap=None)
            yield Entry(entry.partition, entry.offset, listed)
        elif change.epoch == epoch:
            yield Entry(entry.partition, entry.offset, replace(change, epoch=EPOCH))


def without_rolled_back(log: Sequence[Entry], before: Sequence[Committed], now: Sequence[Committed]) -> list[Entry]:
    """Leave out deletes of what the restore took away: objects of the epoch before that this one never had.

    No commit of this epoch deleted them, so no checker of deletes can know them; whether all of them came is what
    comparing the final state with the server's finds out.
    """
    gone = {object_id(commit) for commit in before} - {object_id(commit) for commit in now}
    return [entry for entry in log if not (_is_delete(entry) and object_id(entry.change) in gone)]


def _is_delete(entry: Entry) -> bool:
    return entry.change.op is Op.DELETED and entry.change.inferred
