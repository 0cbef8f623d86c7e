"""One transaction a batch: nothing is written outside, none is left open, and each has its `__progress__`."""

from __future__ import annotations

from local.verdicts import Notes
from tests.checkers.history import COMMITTED, OPEN, History


def check(history: History) -> Notes:
    """Judge the records of the changes topic, and the transactions."""
    notes = Notes()
    for record in history.log:
        notes.judged += 1
        if record.transaction is None:
            notes.wrong.append(f"{record.partition}:{record.offset} was written outside a transaction")
    reached: dict[int, int] = {}
    for batch in history.batches:
        notes.judged += 1
        where = f"the transaction of partition {batch.partition} after offset {reached.get(batch.partition, -1)}"
        if batch.status == OPEN:
            notes.wrong.append(f"{where} is open")
        if batch.status != COMMITTED:
            continue
        if batch.progress is None:
            notes.wrong.append(f"{where} has no progress")
            continue
        if batch.offsets and batch.progress != batch.offsets[-1]:
            notes.wrong.append(f"{where} says {batch.progress}, its last record is {batch.offsets[-1]}")
        if batch.progress < reached.get(batch.partition, -1):
            notes.wrong.append(f"{where} goes back to {batch.progress}")
        reached[batch.partition] = batch.progress
    return notes
