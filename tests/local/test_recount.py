"""The events topic folded again gives the counters that killed workers took along, and the same canonical records."""

from __future__ import annotations

from dataclasses import replace

from kubecdc.errors import Undecodable
from kubecdc.records import EventType, Op, RawEvent, Relist
from local.logs import Kept
from local.recount import recount

EVENT = RawEvent(
    cluster="here",
    epoch=1,
    group="",
    version="v1",
    resource="pods",
    scope="",
    type=EventType.ADDED,
    uid="a",
    namespace="default",
    name="a",
    rv="12",
    session="s",
    seq=0,
    relist=None,
    generation=None,
    deletion_timestamp=None,
    managers=(),
    object=None,
    object_omitted=None,
    digest="d",
    paths="{}",
    detail="",
    observed_at=0,
)
LIST = Relist("r", "start", None, "10", 0)


def topic(*events: RawEvent | Undecodable, partition: int = 0) -> list[Kept]:
    numbered = [replace(each, seq=seq) if isinstance(each, RawEvent) else each for seq, each in enumerate(events)]
    return [Kept(partition, offset, 1000, each) for offset, each in enumerate(numbered)]


def listed() -> tuple[RawEvent, RawEvent]:
    marker = replace(EVENT, uid=None, rv=None, digest="", relist=LIST)
    return replace(marker, type=EventType.RELIST_START), replace(marker, type=EventType.RELIST_END)


def test_repeats_are_counted_as_the_processor_counts_them() -> None:
    newer = replace(EVENT, rv="13", type=EventType.MODIFIED, digest="e")
    done = recount(topic(*listed(), EVENT, EVENT, newer, EVENT))
    assert (done.counters["duplicate"], done.counters["stale"]) == (1, 1)
    assert done.versions == {("", "pods", "a", "12"), ("", "pods", "a", "13")}
    assert [change.op for change in done.changes[0] if change.uid] == [Op.CREATED, Op.UPDATED]


def test_partitions_are_counted_apart_and_what_nobody_can_read_is_counted() -> None:
    one = topic(*listed(), EVENT)
    two = topic(*listed(), EVENT, Undecodable("torn"), partition=1)
    done = recount([*one, *two])
    assert done.counters["duplicate"] == 0
    assert done.counters["undecodable"] == 1
    assert set(done.changes) == {0, 1}
