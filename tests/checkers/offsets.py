"""Exactly once: canonical records come in the order of the raw records, and no raw record is answered twice.

Several records may have one source (a list's end deletes many); then they are of one transaction.
"""

from __future__ import annotations

from local.verdicts import Notes
from tests.checkers.history import History


def check(history: History) -> Notes:
    """Judge the source offsets of each partition."""
    notes = Notes()
    before: dict[int, tuple[int, int | None]] = {}
    keys: set[tuple[int, int, bytes, str]] = set()
    for record in history.committed():
        change = record.change
        if change is None:
            continue
        notes.judged += 1
        where = f"{record.partition}:{record.offset}"
        offset = change.source.offset
        last, transaction = before.get(record.partition, (-1, None))
        if change.source.partition != record.partition:
            notes.wrong.append(f"{where}: its source is of partition {change.source.partition}")
        if offset < last:
            notes.wrong.append(f"{where}: source offset {offset} comes after {last}")
        if offset == last and record.transaction != transaction:
            notes.wrong.append(f"{where}: source offset {offset} is answered by two transactions")
        name = (record.partition, offset, record.key, change.op.value)
        if name in keys and change.uid is not None:
            notes.wrong.append(f"{where}: source offset {offset} is answered twice by {change.op} of {change.uid}")
        keys.add(name)
        before[record.partition] = (offset, record.transaction)
    return notes
