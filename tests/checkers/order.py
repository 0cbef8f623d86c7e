"""G3: per UID, (epoch, version) strictly increases, each once, and `seq` is 1, 2, 3… within a life."""

from __future__ import annotations

from local import check_order
from local.verdicts import Entry, Evidence, Notes
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the whole log at once: order holds across epochs too, and needs no ground truth."""
    entries = [Entry(r.partition, r.offset, r.change) for r in history.committed() if r.change is not None]
    return check_order.check(Evidence(None, entries, history.partitions))
