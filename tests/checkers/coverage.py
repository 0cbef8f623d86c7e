"""G1, first half: no silent gap. Every epoch of every stream is held to the commits that it spoke of.

The walk over bounds, claims and gaps is the product's own (`local.check_coverage`); this adds the borders of epochs.
"""

from __future__ import annotations

from kubecdc.records import Cause
from kubecdc.versions import newer
from local import check_coverage
from local.verdicts import Notes
from tests.checkers.epochs import check_each
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge every interval, and that an epoch begins where coverage of the one before has ended."""
    notes = check_each(history, check_coverage.check)
    upto: dict[tuple[object, ...], dict[int, str]] = {}
    for record in history.committed():
        change = record.change
        if change is None or change.uid is not None or not change.cluster or change.upto_rv is None:
            continue
        stream = (change.group, change.resource, change.scope, record.partition)
        reached = upto.setdefault(stream, {})
        if change.gap is not None and change.gap.cause is Cause.EPOCH_CHANGE and change.after_rv is not None:
            before = max((epoch for epoch in reached if epoch < change.epoch), default=None)
            if before is not None and newer(change.after_rv, reached[before]):
                notes.wrong.append(
                    f"{stream}: epoch {change.epoch} begins after {change.after_rv}, epoch {before} was covered up to"
                    f" {reached[before]}"
                )
        if newer(change.upto_rv, reached.get(change.epoch)):
            reached[change.epoch] = change.upto_rv
    return notes
