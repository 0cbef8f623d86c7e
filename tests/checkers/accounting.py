"""No drop is invisible: every raw record is accounted for by exactly one verdict, in exactly one transaction."""

from __future__ import annotations

from kubecdc.records import OBJECT_TYPES, RawEvent
from local.verdicts import Notes
from tests.checkers.history import COMMITTED, History

VERDICTS = (
    "emitted", "duplicate", "stale", "conflict", "noise_dropped", "tombstone", "marker", "repeated", "undecodable",
)  # fmt: skip
OF_OBJECTS = ("emitted", "duplicate", "stale", "conflict", "noise_dropped")


def check(history: History) -> Notes:
    """Judge the committed transactions against the raw records."""
    notes = Notes()
    applied: dict[int, set[int]] = {partition: set() for partition in range(history.partitions)}
    records = {(r.partition, r.offset): r.record for r in history.raw}
    for batch in history.batches:
        if batch.status != COMMITTED:
            continue
        notes.judged += len(batch.offsets)
        told = sum(batch.counters.get(name, 0) for name in VERDICTS)
        where = f"partition {batch.partition}, offsets {batch.offsets[:1]} to {batch.offsets[-1:]}"
        if told != len(batch.offsets):
            notes.wrong.append(f"{where}: {len(batch.offsets)} records, {told} verdicts")
        objects = [records.get((batch.partition, offset)) for offset in batch.offsets]
        most = sum(1 for r in objects if isinstance(r, RawEvent) and r.type in OBJECT_TYPES)
        if sum(batch.counters.get(name, 0) for name in OF_OBJECTS) > most:
            notes.wrong.append(f"{where}: more verdicts on objects than the {most} records of objects")
        seen = applied[batch.partition]
        notes.wrong += [f"{where}: offset {o} was accounted for before" for o in batch.offsets if o in seen]
        seen.update(batch.offsets)
    for raw in history.raw:
        if not raw.gone and raw.offset not in applied[raw.partition]:
            notes.wrong.append(f"partition {raw.partition}, offset {raw.offset} was never accounted for")
    return notes
