"""G1, second half: gaps are true. A gap names something missed, or has a cause that cannot know and that did happen.

A list cannot tell what was between it and the last version read, so its window may be empty: such are counted, not
refused. What claims a loss in transport, a drift or a jump must have had one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubecdc.records import Cause, Change, Op
from kubecdc.versions import newer, not_newer
from local.history import Committed
from local.verdicts import Notes, ObjectId, object_id
from tests.checkers.epochs import stream_epoch
from tests.checkers.history import History, Record

RESTORES = frozenset({"restored", "restored_bumped", "restored_unseen"})
# What must have happened in the world for a cause to be true, where that is known.
ORIGINS: Mapping[Cause, frozenset[str]] = {
    Cause.COVERAGE_LOST: frozenset({"forbidden", "kind_gone", "page_broken"}),
    Cause.EPOCH_CHANGE: RESTORES | {"stale_list"},
    Cause.AUDIT_DRIFT: RESTORES | {"event_withheld"},
}
LOSSES = frozenset({Cause.TRANSPORT_LOSS, Cause.COMPACTED, Cause.RELIST_INCOMPLETE})


def check(history: History) -> Notes:
    """Judge every gap of the log."""
    notes = Notes()
    commits = _commits(history)
    for record in history.committed():
        change = record.change
        if change is None or change.gap is None:
            continue
        notes.judged += 1
        fault = _fault(history, record, change, commits)
        if fault:
            notes.wrong.append(
                f"{change.gap.cause} of {change.resource} {change.uid or ''} ({change.after_rv}, {change.upto_rv}] at"
                f" {record.partition}:{record.offset}: {fault}"
            )
    if not history.committed():
        notes.unclear.append("there is no log")
    notes.judged = notes.judged or len(history.committed())
    return notes


def empty_windows(history: History) -> int:
    """How many gaps of streams hold nothing that was missed: their cause cannot know it."""
    count = 0
    shown = {
        (object_id(r.change), r.change.epoch, r.change.rv) for r in history.committed() if r.change and r.change.uid
    }
    for record in history.committed():
        change = record.change
        if change is None or change.gap is None or change.uid is not None or change.upto_rv is None:
            continue
        truth = history.truth.get(stream_epoch(change)) or ()
        inside = (c for c in truth if newer(c.rv, change.after_rv) and not_newer(c.rv, change.upto_rv))
        count += all((object_id(c), change.epoch, c.rv) in shown for c in inside)
    return count


def _commits(history: History) -> dict[tuple[ObjectId, int], list[Committed]]:
    found: dict[tuple[ObjectId, int], list[Committed]] = {}
    for (_, _, epoch), truth in history.truth.items():
        for commit in truth or ():
            found.setdefault((object_id(commit), epoch), []).append(commit)
    return found


def _fault(
    history: History, record: Record, change: Change, commits: Mapping[tuple[ObjectId, int], Sequence[Committed]]
) -> str:
    gap = change.gap
    if gap is None:
        return ""
    origins = ORIGINS.get(gap.cause)
    drift = gap.cause is Cause.AUDIT_DRIFT and history.lost  # an audit after a restart knows what the log holds
    if origins is not None and not drift and not origins & history.suffered:
        return "nothing of the kind happened"
    if gap.cause in LOSSES and record.partition not in history.lost and not history.withheld:
        return "no record of this partition was lost"
    if change.uid is None or history.truth.get(stream_epoch(change)) is None:
        return ""
    own = commits.get((object_id(change), change.epoch), ())
    if gap.cause is Cause.GENERATION_JUMP:
        between = [c for c in own if newer(c.rv, change.prev_rv) and newer(change.rv or "", c.rv)]
        if len(between) < (gap.missed_at_least or 1):
            return f"{len(between)} versions lie between, {gap.missed_at_least} are claimed"
    # Old servers show a delete at the object's last version, which is then the one that was missed.
    earlier = (c for c in own if newer(change.rv or "", c.rv) or (c.rv == change.rv and change.op is Op.DELETED))
    if gap.cause is Cause.MISSED_CREATE and not any(c.kind == "PUT" for c in earlier):
        return "the object has no earlier version"
    if gap.cause is Cause.CONFLICT:
        return "a version has one content in this epoch"
    return ""
