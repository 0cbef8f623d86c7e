"""Guarantees: records are numbered without holes in each partition, deletes are tombstoned, list counts are exact.

A position is stored only when all that was sent before it is acknowledged, in every partition.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.records import EventType, Relist
from producer import convert
from producer.convert import Context
from producer.frames import Item, Object
from producer.metrics import Metrics, StreamMetrics
from producer.publisher import Publisher
from producer.redact import Redactor
from producer.signals import Checkpoint, EpochBegun, Mark, Publish, PublishAbsent
from tests.producer.memory_sink import MemorySink

STREAM = "c//pods/"


def made(sink: MemorySink, clock: list[int] | None = None) -> tuple[Publisher, Metrics]:
    redaction = Redactor(b"k" * 16).for_kind("", "Pod")
    context = Context("c", "", "v1", "pods", "Pod", "", "s", redaction, 1000)
    metrics = Metrics()
    codecs = (Codec("e"), Codec("p"))
    return Publisher(
        context, sink, codecs, StreamMetrics(metrics, "pods", ""), lambda: clock[0] if clock else 7
    ), metrics


def item(uid: str, rv: str = "5", **more: Any) -> Item:
    return Item(uid, rv, {"metadata": {"uid": uid, "name": uid, "resourceVersion": rv}, **more})


@given(st.lists(st.sampled_from(["listed", "deleted", "progress"]), max_size=30))
def test_numbers_have_no_hole_and_counts_are_exact(kinds: list[str]) -> None:
    sink = MemorySink()
    publisher, _ = made(sink)
    relist = Relist("r", "first", None, "9")
    publisher.mark(Mark(EventType.RELIST_START, 1, None, relist))
    for number, kind in enumerate(kinds):
        if kind == "listed":
            publisher.publish(Publish(EventType.LISTED, 1, item(f"u{number}"), relist))
        elif kind == "deleted":
            one = item(f"u{number}")
            publisher.publish(Publish(EventType.DELETED, 1, Object(EventType.DELETED, one.uid, one.rv, one.obj)))
        else:
            publisher.mark(Mark(EventType.PROGRESS, 1, "9"))
    publisher.mark(Mark(EventType.RELIST_END, 1, "9", relist))
    for partition in range(3):
        events = sink.events(partition)
        assert [event.seq for event in events] == list(range(len(events)))
        assert events[-1].relist is not None
        assert events[-1].relist.expected == sum(event.type is EventType.LISTED for event in events)
        assert all(wire.partition_of(event.uid, 3) == partition for event in events if event.uid)
    assert sum(value is None for _, _, value in sink.log) == kinds.count("deleted")


def test_the_tombstone_tells_its_delete_once_more_without_content() -> None:
    """Compaction takes a DELETED as soon as its tombstone is there, and leaves the headers of that (G2)."""
    sink = MemorySink(partitions=1)
    publisher, _ = made(sink)
    one = item("u", "8", data={"a": "secret"}, blob="x" * 500)
    publisher.publish(Publish(EventType.DELETED, 1, Object(EventType.DELETED, one.uid, one.rv, one.obj)))
    publisher.publish_absent(PublishAbsent(1, "v", "9", Relist("a", "audit", None, "9")))
    publisher.mark(Mark(EventType.PROGRESS, 1, "9"))
    assert list(sink.headers) == [1, 3]
    for (place, [(name, content)]), deleted in zip(sink.headers.items(), sink.events(), strict=False):
        told = Codec().decode(content)
        assert (name, sink.log[place][2]) == (wire.DELETED_HEADER, None)
        assert b"secret" not in content
        assert told == convert.remnant(deleted)


def test_an_epoch_is_stored_as_begun_before_anything_of_it_is_sent() -> None:
    sink = MemorySink()
    publisher, _ = made(sink)
    publisher.begin_epoch(EpochBegun(2))
    begun = sink.position(f"__epoch__/{STREAM}")
    assert begun is not None
    assert (begun.epoch, begun.rv, sink.log) == (2, "", [])
    publisher.abandon()
    publisher.begin_epoch(EpochBegun(3))
    assert sink.position(f"__epoch__/{STREAM}") == begun, "who lost the lease begins no epoch"


def test_a_position_waits_for_every_partition() -> None:
    sink = MemorySink()
    publisher, metrics = made(sink)
    sink.hold()
    publisher.mark(Mark(EventType.PROGRESS, 2, "9"))
    publisher.checkpoint(Checkpoint(2, "9"))
    assert not publisher.settled()
    assert sink.stored == {}
    sink.release()
    position = sink.position(STREAM)
    assert position is not None
    assert (position.rv, position.epoch, position.session) == ("9", 2, "s")
    assert publisher.settled()
    assert metrics.value("positions_total", resource="pods") == 1


def test_the_lag_of_the_position_is_the_age_of_what_it_does_not_cover() -> None:
    sink, clock = MemorySink(), [1000]
    publisher, metrics = made(sink, clock)
    assert publisher.lag_s() == 0
    publisher.mark(Mark(EventType.PROGRESS, 1, "9"))
    clock[0] = 4000
    assert metrics.value("position_lag_seconds", resource="pods") == 3
    publisher.checkpoint(Checkpoint(1, "9"))
    assert publisher.lag_s() == 0
    sink.hold()
    publisher.publish(Publish(EventType.LISTED, 1, item("u")))
    publisher.checkpoint(Checkpoint(1, "10"))
    clock[0] = 6000
    publisher.publish(Publish(EventType.LISTED, 1, item("v")))
    clock[0] = 9000
    assert publisher.lag_s() == 5
    sink.release()
    assert publisher.lag_s() == 5
    publisher.checkpoint(Checkpoint(1, "11"))
    assert publisher.lag_s() == 0


def test_redacted_values_are_counted() -> None:
    publisher, metrics = made(MemorySink())
    copies = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    one = item("u")
    one.obj["metadata"]["annotations"] = copies
    publisher.publish(Publish(EventType.LISTED, 1, one))
    publisher.publish(Publish(EventType.LISTED, 1, item("v")))
    assert metrics.value("redacted_total", resource="pods") == 1


def test_abandoned_it_stores_nothing_more() -> None:
    sink = MemorySink()
    publisher, _ = made(sink)
    sink.hold()
    publisher.mark(Mark(EventType.PROGRESS, 1, "9"))
    publisher.checkpoint(Checkpoint(1, "9"))
    publisher.abandon()
    sink.release()
    assert sink.stored == {}
    publisher.mark(Mark(EventType.PROGRESS, 1, "10"))
    assert publisher.lag_s() == 0


def test_what_an_audit_found_and_a_moved_version_are_told() -> None:
    sink = MemorySink()
    publisher, metrics = made(sink)
    publisher.move("v2")
    publisher.publish_absent(PublishAbsent(1, "u", "25", Relist("a", "audit", None, "25")))
    publisher.publish(Publish(EventType.LISTED, 1, item("w", blob="x" * 5000)))
    (deleted, large) = sink.events()
    assert (deleted.type, deleted.uid, deleted.rv, deleted.version) == (EventType.DELETED, "u", "25", "v2")
    assert large.object is None
    assert large.object_omitted is not None
    assert metrics.value("omitted_total", reason="too-large") == 1
