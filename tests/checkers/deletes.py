"""G2: every delete arrives, observed or inferred with bounds that contain it, in every epoch."""

from __future__ import annotations

from kubecdc import wire
from kubecdc.records import Cause, Op
from local import check_deletes
from local.check_coverage import Interval
from local.verdicts import Entry, Notes, ObjectId, object_id
from tests.checkers.epochs import check_each, ended_later, excused, given_up, last_epochs, streams
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the deletes of each epoch."""
    without = ended_later(history) | _brought_back(history) | _overtaken(history)
    return check_each(history, check_deletes.check, without)


def _overtaken(history: History) -> frozenset[ObjectId]:
    """Deletes that only a next list or audit of their epoch would have shown, and there was none: the store went back.

    Those lie in a gap of their epoch, or the server had left them out of its stream.
    """
    last, found = last_epochs(history), set()
    for key, entries in streams(history).items():
        resource, scope, epoch = key
        if epoch == last[resource, scope]:
            continue
        withheld = excused(history, resource)
        ends = {object_id(entry.change): entry.change.op for entry in entries if entry.change.uid is not None}
        for commit in history.truth.get(key) or ():
            name = object_id(commit)
            if commit.kind == "DELETE" and ends.get(name, Op.DELETED) is not Op.DELETED:
                partition = wire.partition_of(commit.uid, history.partitions)
                if (name, commit.rv) in withheld or _in_gap(entries, partition, commit.rv):
                    found.add(name)
    return frozenset(found)


def _in_gap(entries: list[Entry], partition: int, rv: str) -> bool:
    """A gap of the stream, within its epoch, has bounds that contain the version."""
    return any(
        Interval(entry.change.after_rv, entry.change.upto_rv, entry.offset).contains(rv)
        for entry in entries
        if entry.partition == partition and entry.change.uid is None and entry.change.op is Op.GAP
        and entry.change.gap is not None and entry.change.gap.cause is not Cause.EPOCH_CHANGE
    )  # fmt: skip


def _brought_back(history: History) -> frozenset[ObjectId]:
    """What pages of a list that was given up showed alive in a restored store: the next epoch tells its fate."""
    return frozenset(
        object_id(record.change)
        for record in history.committed()
        if record.change is not None and record.change.uid is not None and given_up(history, record.change)
    )
