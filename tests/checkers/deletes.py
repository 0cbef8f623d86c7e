"""G2: every delete arrives, observed or inferred with bounds that contain it, in every epoch."""

from __future__ import annotations

from local import check_deletes
from local.verdicts import Notes
from tests.checkers.epochs import check_each, ended_later
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the deletes of each epoch."""
    return check_each(history, check_deletes.check, ended_later(history))
