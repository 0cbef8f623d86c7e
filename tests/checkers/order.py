"""G3: per UID, (epoch, version) strictly increases, each once, and `seq` is 1, 2, 3… within a life."""

from __future__ import annotations

from local import check_order
from local.verdicts import Entry, Evidence, Notes, object_id
from tests.checkers.epochs import untold
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the whole log at once: order holds across epochs too, and needs no ground truth.

    Of objects that came back by a restore of which nobody could know, or did not know yet, nothing can be said.
    """
    entries = [Entry(r.partition, r.offset, r.change) for r in history.committed() if r.change is not None]
    mixed = {object_id(e.change) for e in entries if e.change.uid is not None and untold(history, e.change)}
    clear = [entry for entry in entries if object_id(entry.change) not in mixed]
    notes = check_order.check(Evidence(None, clear, history.partitions))
    if mixed:
        unclear = [entry for entry in entries if object_id(entry.change) in mixed]
        notes.unclear += check_order.check(Evidence(None, unclear, history.partitions)).wrong
    return notes
