"""G8: after the last fault the log's state equals the cluster's: no object missing, none too many, no other content."""

from __future__ import annotations

import orjson

from kubecdc.chain import Entry
from kubecdc.folding import Fold
from kubecdc.records import Change
from local.verdicts import Notes, ObjectId, object_id
from tests.checkers.epochs import last_epochs
from tests.checkers.history import History, Living


def check(history: History) -> Notes:
    """Fold the log as a reader does, and compare."""
    notes = Notes()
    if history.living is None:
        notes.unclear.append("nobody recorded what lives")
        return notes
    fold = Fold(history.partitions)
    for record in history.committed():
        fold.step(Entry(record.partition, record.offset, record.timestamp_ms, record.key, record.change))
    logged = {object_id(change): change for change in fold.objects.values()}
    last = last_epochs(history)
    for name in sorted(logged.keys() | history.living.keys()):
        notes.judged += 1
        change, living = logged.get(name), history.living.get(name)
        difference = _difference(change, living)
        if not difference:
            continue
        told = f"{name.resource} {name.uid}: {difference}"
        if _unknowable(history, name, change, last):
            notes.unclear.append(told)
        else:
            notes.wrong.append(told)
    return notes


def _unknowable(
    history: History, name: ObjectId, change: Change | None, last: dict[tuple[tuple[str, str], str], int]
) -> bool:
    """The object's stream is in an epoch that mixes two lives of the store, of which it could not know."""
    scopes = [scope for resource, scope in last if resource == (name.group, name.resource)]
    if change is not None:
        scopes = [change.scope]
    keys = [((name.group, name.resource), scope) for scope in scopes]
    return any(key in last and history.truth.get((*key, last[key]), ()) is None for key in keys)


def _difference(change: Change | None, living: Living | None) -> str:
    if change is None:
        return f"lives at {living.rv if living else ''}, the log has it dead"
    if living is None:
        return f"is gone, the log has it at {change.epoch}/{change.rv}"
    if change.rv != living.rv:
        return f"lives at {living.rv}, the log has it at {change.epoch}/{change.rv}"
    shown = orjson.loads(change.object or "null")
    real = orjson.loads(living.body)
    if {**real, "kind": "", "apiVersion": ""} != {**(shown or {}), "kind": "", "apiVersion": ""}:
        return "the log has another content"
    return ""
