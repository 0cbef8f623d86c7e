"""A small history in which every guarantee holds, and the means to spoil it in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kubecdc.records import Cause, Change, EventType, Op, RawEvent, Relist, Source
from local.history import Committed
from local.verdicts import Notes, ObjectId, Status, judge
from tests.checkers.history import Applied, History, Living, Raw, Record, StreamEpoch
from tests.local.logs import change, delete, gap, inferred, progress, put
from tests.processors.raw import raw

PODS = ("", "pods")
STREAM: StreamEpoch = (PODS, "", 1)
BODY = b'{"metadata":{"uid":"a","resourceVersion":"12"},"spec":{"n":2}}'
RELIST = Relist("s1.1", "first", None, "10")
AGAIN = Relist("s1.2", "expired", "13", "20")


def event(kind: EventType, uid: str | None, rv: str | None, seq: int, relist: Relist | None = None) -> RawEvent:
    """A raw record of pods, in session s1."""
    return replace(raw(kind, uid, rv, session="s1", seq=seq, relist=relist), cluster="here", resource="pods")


T = EventType
EVENTS: Sequence[RawEvent] = (
    event(T.RELIST_START, None, None, 0, RELIST),
    event(T.LISTED, "a", "9", 1, RELIST),
    event(T.LISTED, "b", "8", 2, RELIST),
    event(T.RELIST_END, None, "10", 3, replace(RELIST, expected=2)),
    event(T.MODIFIED, "a", "12", 4),
    event(T.ADDED, "c", "13", 5),
    event(T.PROGRESS, None, "13", 6),
    event(T.RELIST_START, None, "13", 7, AGAIN),
    event(T.LISTED, "a", "12", 8, AGAIN),
    event(T.LISTED, "c", "13", 9, AGAIN),
    event(T.RELIST_END, None, "20", 10, replace(AGAIN, expected=2)),
    event(T.DELETED, "c", "21", 11),
    event(T.PROGRESS, None, "22", 12),
)
TRUTH = (put("a", 9), put("b", 8), put("a", 12), put("c", 13), delete("b", 17), delete("c", 21))


def at(offset: int, made: Change) -> Change:
    """A change whose source is the raw record at an offset."""
    return replace(made, source=Source(0, offset, "s1", offset))


CHANGES: Sequence[Change] = (
    at(1, change(Op.SNAPSHOT, "a", 9, seq=1)),
    at(2, change(Op.SNAPSHOT, "b", 8, seq=1)),
    at(3, progress(None, 10)),
    at(4, replace(change(Op.UPDATED, "a", 12, seq=2, prev=9), object=BODY.decode())),
    at(5, change(Op.CREATED, "c", 13, seq=1)),
    at(6, progress(10, 13)),
    at(10, inferred("b", 8, 20, seq=2)),
    at(10, gap(13, 20)),
    at(11, change(Op.DELETED, "c", 21, seq=2, prev=13)),
    at(12, progress(20, 22)),
)
COUNTERS = {"emitted": 5, "marker": 6, "duplicate": 2}


def records(changes: Sequence[Change]) -> tuple[Record, ...]:
    """As the changes topic has them, all in the first transaction."""
    return tuple(
        Record(0, offset, offset, (made.uid or f"__{offset}").encode(), made) for offset, made in enumerate(changes)
    )


def history(**fields: object) -> History:
    """The sound history, with some fields replaced."""
    sound = History(
        partitions=1,
        truth={STREAM: TRUTH},
        expected=((PODS, ""),),
        raw=tuple(Raw(0, offset, each) for offset, each in enumerate(EVENTS)),
        log=records(CHANGES),
        batches=(Applied(0, tuple(range(len(EVENTS))), COUNTERS, len(EVENTS) - 1),),
        living={ObjectId("", "pods", "a"): Living("12", BODY, "default")},
    )
    return replace(sound, **fields)  # type: ignore[arg-type]  # names are checked by replace itself


def without(position: int) -> tuple[Record, ...]:
    """The log with one record left out."""
    return records([made for number, made in enumerate(CHANGES) if number != position])


def changed(position: int, **fields: object) -> tuple[Record, ...]:
    """The log with one record changed."""
    spoiled = list(CHANGES)
    spoiled[position] = replace(spoiled[position], **fields)  # type: ignore[arg-type]  # checked by replace
    return records(spoiled)


__all__ = [
    "AGAIN", "CHANGES", "COUNTERS", "EVENTS", "PODS", "STREAM", "TRUTH", "Applied", "Cause", "Committed", "Notes",
    "ObjectId", "Raw", "Status", "at", "changed", "event", "history", "judge", "records", "without",
]  # fmt: skip
