"""G4: what a list showed is labelled as such, and never overwrites what is newer."""

from __future__ import annotations

from kubecdc.records import Cause, EventType, Op, RawEvent
from kubecdc.versions import order
from local.verdicts import OBJECT_OPS, Notes, ObjectId, object_id
from tests.checkers.epochs import untold
from tests.checkers.history import History

LABELS = frozenset({Cause.RELIST_WINDOW, Cause.RESURRECTED, Cause.AUDIT_DRIFT, Cause.EPOCH_CHANGE})


def check(history: History) -> Notes:
    """Judge each object's record by the raw record that it comes from."""
    notes = Notes()
    raw = {(r.partition, r.offset): r.record for r in history.raw}
    newest: dict[ObjectId, tuple[int, tuple[int, str]]] = {}
    for record in history.committed():
        change = record.change
        if change is None or change.op not in OBJECT_OPS or change.rv is None:
            continue
        notes.judged += 1
        where = f"{change.resource} {change.uid} at {record.partition}:{record.offset}"
        source = raw.get((change.source.partition, change.source.offset))
        if not isinstance(source, RawEvent):
            notes.wrong.append(f"{where}: its source is no record of the events topic")
            continue
        labelled = change.op is Op.SNAPSHOT or (change.gap is not None and change.gap.cause in LABELS)
        if source.type is EventType.LISTED and not labelled:
            notes.wrong.append(f"{where}: {change.op} from a list, without a label")
        if change.op is Op.SNAPSHOT and source.type is not EventType.LISTED:
            notes.wrong.append(f"{where}: SNAPSHOT from {source.type}")
        version = (change.epoch, order(change.rv))
        if source.type is EventType.LISTED and version < newest.get(object_id(change), version):
            found = notes.unclear if untold(history, change) else notes.wrong
            found.append(f"{where}: a list's {version} overwrites {newest[object_id(change)]}")
        newest[object_id(change)] = max(version, newest.get(object_id(change), version))
    return notes
