"""G2: every delete arrives, observed or inferred with bounds that contain it, in every epoch."""

from __future__ import annotations

from kubecdc.records import Cause
from local import check_deletes
from local.verdicts import Notes, ObjectId, object_id
from tests.checkers.epochs import check_each, ended_later, stream_epoch
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the deletes of each epoch."""
    return check_each(history, check_deletes.check, ended_later(history) | _brought_back(history))


def _brought_back(history: History) -> frozenset[ObjectId]:
    """What pages of a list that was given up showed alive in a restored store: the next epoch tells its fate."""
    return frozenset(
        object_id(record.change)
        for record in history.committed()
        if record.change is not None
        and record.change.uid is not None
        and record.change.gap is not None
        and record.change.gap.cause is Cause.RESURRECTED
        and history.loose.get(stream_epoch(record.change))
    )
