"""What a worker would have counted, had it never been killed: the events topic folded again by the same rules.

Pure. A killed worker takes its counters along, so a report cannot ask it. The canonical records come out as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from kubecdc.errors import Undecodable
from kubecdc.records import Change, RawEvent
from local.logs import Kept
from processors.partition import Partition


@dataclass(slots=True)
class Recount:
    """Verdict counters as `processors` names them, raw records of objects, and the changes by partition."""

    counters: Counter[str] = field(default_factory=Counter)
    versions: set[tuple[str, str, str, str]] = field(default_factory=set)
    changes: dict[int, list[Change]] = field(default_factory=dict)


def recount(events: Iterable[Kept]) -> Recount:
    """Fold an events topic; records of a partition come in the order of their offsets."""
    done = Recount()
    partitions: dict[int, Partition] = {}
    for kept in events:
        event = kept.record if isinstance(kept.record, RawEvent) else Undecodable(f"it holds {kept.record}")
        partition = partitions.setdefault(kept.partition, Partition(kept.partition))
        # Its own time is "now": what is judged old must not depend on when it is counted again.
        partition.apply(kept.offset, event, kept.timestamp_ms, kept.timestamp_ms)
        if isinstance(event, RawEvent) and event.uid and event.rv:
            done.versions.add((event.group, event.resource, event.uid, event.rv))
    for number, partition in partitions.items():
        batch = partition.drain()
        done.counters.update(batch.counters)
        done.changes[number] = [change for _, change in batch.changes if change is not None]
    return done
