"""G5: a partial, stale, aborted or forbidden list never produces a delete.

An inferred delete is held to the records of its list that the worker had, and to what really lived at its version.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubecdc.records import Change, EventType, Op, RawEvent
from kubecdc.versions import not_newer, order
from local.history import Committed
from local.verdicts import Notes
from tests.checkers.epochs import stream_epoch
from tests.checkers.history import COMMITTED, History

_List = tuple[int, str]


def check(history: History) -> Notes:
    """Judge each inferred delete."""
    notes = Notes()
    raw = {(r.partition, r.offset): r.record for r in history.raw}
    shown, aborted = _lists(history)
    notes.judged = len(shown)
    for record in history.committed():
        change = record.change
        if change is None or change.op is not Op.DELETED or not change.inferred:
            continue
        notes.judged += 1
        where = f"{change.resource} {change.uid} inferred deleted by {change.upto_rv}"
        source = raw.get((change.source.partition, change.source.offset))
        if not isinstance(source, RawEvent):
            notes.wrong.append(f"{where}: its source is no record of the events topic")
            continue
        if source.type is EventType.RELIST_END and source.relist is not None:
            name = (record.partition, source.relist.id)
            uids = shown.get(name, [])
            if name in aborted:
                notes.wrong.append(f"{where}: list {name[1]} was aborted")
            if len(uids) != source.relist.expected:
                notes.wrong.append(f"{where}: {len(uids)} of {source.relist.expected} items of {name[1]} arrived")
            if change.uid in uids:
                notes.wrong.append(f"{where}: list {name[1]} shows it")
        truth = history.truth.get(stream_epoch(change), ())
        if truth is not None and _lives(change, truth):
            notes.wrong.append(f"{where}: it lived at that version")
    return notes


def _lists(history: History) -> tuple[dict[_List, list[str]], set[_List]]:
    """The items of each list that a worker had, and the lists that were given up."""
    applied = {(b.partition, offset) for b in history.batches if b.status == COMMITTED for offset in b.offsets}
    shown: dict[_List, list[str]] = {}
    aborted: set[_List] = set()
    counted: set[tuple[int, str, int]] = set()
    for each in history.raw:
        record = each.record
        if not isinstance(record, RawEvent) or record.relist is None or (each.partition, each.offset) not in applied:
            continue
        name = (each.partition, record.relist.id)
        place = (each.partition, record.session, record.seq)
        if record.type is EventType.LISTED and place not in counted:
            counted.add(place)
            shown.setdefault(name, []).append(record.uid or "")
        elif record.type is EventType.RELIST_ABORTED:
            aborted.add(name)
    return shown, aborted


def _lives(change: Change, truth: Iterable[Committed]) -> bool:
    own = [c for c in truth if c.uid == change.uid and not_newer(c.rv, change.upto_rv)]
    return bool(own) and max(own, key=lambda c: order(c.rv)).kind == "PUT"
