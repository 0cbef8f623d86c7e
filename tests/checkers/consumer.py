"""What a reader is told: the product's own chain check finds no break, in the full log and in a compacted one."""

from __future__ import annotations

from collections.abc import Sequence

from kubecdc.chain import Chain, Entry
from local.verdicts import Notes
from tests.checkers.history import History, Record


def check(history: History) -> Notes:
    """Read the log whole, and then as compaction may leave it: all of the second half, the last of each key before."""
    notes = Notes()
    records = history.committed()
    notes.judged = len(records)
    everything = range(history.partitions)
    chain = Chain(everything)
    for record in records:
        notes.wrong += [str(found) for found in chain.step(_entry(record), 0)]
    if records:
        horizon = sorted(record.timestamp_ms for record in records)[len(records) // 2]
        chain = Chain(everything)
        for record in compacted(records, horizon):
            notes.wrong += [f"after compaction: {found}" for found in chain.step(_entry(record), horizon)]
    return notes


def compacted(records: Sequence[Record], horizon_ms: int) -> list[Record]:
    """Without what a later record of its key replaced before the horizon; younger records replace nothing yet."""
    seen: set[tuple[int, bytes]] = set()
    kept = []
    for record in reversed(records):
        name = (record.partition, record.key)
        if record.timestamp_ms >= horizon_ms:
            kept.append(record)
        elif name not in seen:
            kept.append(record)
            seen.add(name)
    return kept[::-1]


def _entry(record: Record) -> Entry:
    return Entry(record.partition, record.offset, record.timestamp_ms, record.key, record.change)
