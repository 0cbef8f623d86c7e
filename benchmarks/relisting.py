"""What a relist of unchanged objects costs: in full, or as references to what the log holds already.

Both go through the producer's own page reader, codec and Kafka sink, and are folded by the processor's own rules
afterwards. A reference is a LISTED record of UID and version without content, under a key of its own. ARCHITECTURE.md
says which of the two is built, and why.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from benchmarks.objects import config_map
from kubecdc import kafka, topics, wire
from kubecdc.codec import Codec
from kubecdc.records import EventType, ObjectOmitted, RawEvent, Relist
from local.broker import Broker
from processors.partition import Partition
from producer import convert, frames
from producer.kafka import KafkaSink
from producer.redact import Redactor
from producer.settings import KafkaSettings

OBJECTS = 20_000
BYTES = 2_000
PAGE = 500
PARTITIONS = 4
Build = Callable[[convert.Context, frames.Item, int, Relist], RawEvent]


@dataclass(frozen=True)
class Cost:
    """Of one list: seconds and CPU seconds of the producer, bytes handed to Kafka and kept by it, CPU of the fold."""

    seconds: float
    cpu_s: float
    raw_mb: float
    kept_mb: float
    fold_cpu_s: float


def in_full(context: convert.Context, item: frames.Item, seq: int, relist: Relist) -> RawEvent:
    event, _ = convert.to_event(context, item, EventType.LISTED, epoch=1, seq=seq, observed_at=1, relist=relist)
    return event


def as_reference(context: convert.Context, item: frames.Item, seq: int, relist: Relist) -> RawEvent:
    bare = convert.marker(context, EventType.LISTED, epoch=1, seq=seq, observed_at=1, rv=item.rv, relist=relist)
    metadata = item.obj["metadata"]
    return replace(
        bare,
        uid=item.uid,
        namespace=metadata["namespace"],
        name=metadata["name"],
        object_omitted=ObjectOmitted("unchanged", 0),
    )


def pages(objects: int) -> Iterator[bytes]:
    """Bodies of a list as the API server sends it."""
    for start in range(0, objects, PAGE):
        items = [config_map(number, BYTES) for number in range(start, min(objects, start + PAGE))]
        yield orjson.dumps({"metadata": {"resourceVersion": str(objects + 1)}, "items": items})


class Session:
    """One session that lists twice."""

    def __init__(self, sink: KafkaSink) -> None:
        redaction = Redactor(b"k" * 16).for_kind("", "ConfigMap")
        self.context = convert.Context("bench", "", "v1", "configmaps", "ConfigMap", "", "s", redaction, 1_000_000)
        self.sink, self.codec, self.sent = sink, Codec(), 0
        self.seqs = [0] * sink.partitions

    def put(self, partition: int, key: bytes, event: RawEvent) -> None:
        """Send a record."""
        value = self.codec.encode(event)
        self.seqs[partition] += 1
        self.sent += len(key) + len(value)
        self.sink.send(partition, key, value, lambda: None)

    def mark(self, kind: EventType, relist: Relist, expected: list[int]) -> None:
        """Send a marker to all partitions."""
        for partition, seq in enumerate(self.seqs):
            counted = replace(relist, expected=expected[partition])
            event = convert.marker(self.context, kind, epoch=1, seq=seq, observed_at=1, rv="9", relist=counted)
            self.put(partition, wire.marker_key("bench//configmaps/", kind), event)

    def list(self, bodies: list[bytes], number: int, build: Build) -> None:
        """Send a whole list."""
        relist = Relist(f"r{number}", "expired", None, str(OBJECTS + number))
        expected = [0] * len(self.seqs)
        self.mark(EventType.RELIST_START, relist, expected)
        for body in bodies:
            page = frames.page(body)
            assert isinstance(page, frames.Page)
            for item in page.items:
                partition = wire.partition_of(item.uid, len(self.seqs))
                event = build(self.context, item, self.seqs[partition], relist)
                key = item.uid.encode()
                if event.object is None:
                    key = f"__listed__/bench//configmaps/{expected[partition]}".encode()
                expected[partition] += 1
                self.put(partition, key, event)
        self.mark(EventType.RELIST_END, relist, expected)


def kept_mb(folder: Path, topic: str) -> float:
    return sum(f.stat().st_size for f in folder.rglob("*.log") if f.parent.name.startswith(f"{topic}-")) / 1e6


def measure(broker: Broker, folder: Path, name: str, bodies: list[bytes], build: Build) -> Cost:
    kafka.create_topics(broker.bootstrap, topics.table(name, PARTITIONS, 1))
    sink = KafkaSink(KafkaSettings(broker.bootstrap, name))
    session = Session(sink)
    session.list(bodies, 1, in_full)
    assert sink.flush(60)
    session.sent, before = 0, kept_mb(folder, f"{name}.events")
    began, cpu = time.monotonic(), time.process_time()
    session.list(bodies, 2, build)
    assert sink.flush(60)
    seconds, cpu_s = time.monotonic() - began, time.process_time() - cpu
    sink.close()
    kept = kept_mb(folder, f"{name}.events") - before
    return Cost(seconds, cpu_s, session.sent / 1e6, kept, fold(broker, name))


def fold(broker: Broker, name: str) -> float:
    """CPU seconds of decoding and folding the second list, which changes nothing."""
    partitions = [Partition(number) for number in range(PARTITIONS)]
    spent = 0.0
    codec, began = Codec(), time.process_time()
    reader = kafka.TopicReader(broker.bootstrap, f"{name}.events", kafka.Start(kafka.Where.BEGINNING), follow=False)
    second = [False] * PARTITIONS
    while not reader.done:
        for stored in reader.poll(0.5):
            assert stored.value is not None
            began = time.process_time()
            event = codec.decode(stored.value)
            partitions[stored.partition].apply(stored.offset, event, 0, 0)
            second[stored.partition] |= event.relist is not None and event.relist.id == "r2"
            if second[stored.partition]:
                spent += time.process_time() - began
    reader.close()
    counters = [partition.drain().counters for partition in partitions]
    assert sum(counted.get("duplicate", 0) for counted in counters) == OBJECTS, counters
    assert not any(counted.get("inferred_deletes") for counted in counters), counters
    return spent


def main() -> None:
    """Print both costs and their ratio."""
    bodies = list(pages(OBJECTS))
    with tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as name, Broker(Path(name) / "kafka") as broker:
        costs = {
            how: measure(broker, Path(name), how, bodies, build)
            for how, build in (("full", in_full), ("reference", as_reference))
        }
    for how, cost in costs.items():
        print(
            f"relist of {OBJECTS} unchanged objects of {BYTES} bytes, {how}: {cost.seconds:.2f} s,"
            f" {cost.cpu_s:.2f} s CPU, {cost.raw_mb:.1f} MB to Kafka, {cost.kept_mb:.1f} MB as Kafka keeps it,"
            f" {cost.fold_cpu_s:.2f} s CPU to fold"
        )


if __name__ == "__main__":
    sys.exit(main())
