"""Speed of a worker, plain and Faust, over 2 KB events on a real Kafka, and its ratio to a bare consume loop.

Both are measured in one run on the same topic: figures differ between machines, ratios far less. The rate is taken from
the worker's own metrics, between its first committed batch and its last, so that the start does not count.
"""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kubecdc import topics, wire
from kubecdc.codec import Codec
from kubecdc.records import EventType, Manager, RawEvent, Relist
from local.broker import Broker
from local.ports import free_port

EVENTS = 160_000
UIDS = 4_000
PARTITIONS = 4
LOOK_S = 0.2  # a metrics page costs the worker some milliseconds
BYTES = 2_000
TARGETS = {"plain": 15_000, "faust": 10_000}


@dataclass(frozen=True)
class Speed:
    """What a worker did: events per second, CPU microseconds for each event, seconds until the first batch."""

    rate: float
    cpu_us: float
    start_s: float


def template() -> RawEvent:
    """An update of a Deployment-like object whose JSON has 2 KB."""
    noise = random.Random(7)  # compresses about as well as real objects do
    labels = ",".join(f'"label-{n}":"{noise.getrandbits(48):012x}"' for n in range(BYTES // 28))
    paths = ",".join(f'"/spec/field-{n}":"{noise.getrandbits(32):08x}"' for n in range(6))
    return RawEvent(
        *("bench", 1, "apps", "v1", "deployments", "", EventType.MODIFIED, "", "default", "", "", "s1", 0, None, 1),
        *(None, (Manager("kubectl", "Apply", "", "t1"), Manager("controller", "Update", "status", "t2"))),
        *('{"metadata":{"labels":{' + labels + "}}}", None, "", "{" + paths + "}", "", 1),
    )


def fill(bootstrap: str, prefix: str, events: int) -> int:
    """Make the topics and write a first list, `events` updates and a PROGRESS; returns the number of records."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(spec.name, spec.partitions, spec.replication, config=spec.config())
        for spec in topics.table(prefix, PARTITIONS, 1)
    ]
    for future in admin.create_topics(wanted).values():
        future.result()
    producer = Producer({"bootstrap.servers": bootstrap, "compression.type": "zstd", "linger.ms": 20})
    codec, base, seqs = Codec(), template(), [0] * PARTITIONS
    name = topics.TopicNames.under(prefix).events

    def put(partition: int, key: bytes, event: RawEvent) -> None:
        value = codec.encode(replace(event, seq=seqs[partition]))
        seqs[partition] += 1
        while True:
            try:
                producer.produce(name, value, key, partition)
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def mark(kind: EventType, rv: str | None, relist: Relist | None) -> None:
        marker = replace(base, type=kind, uid=None, rv=rv, relist=relist, object=None, paths="{}", managers=())
        for partition in range(PARTITIONS):
            put(partition, wire.marker_key("bench/apps/deployments/", kind.value), marker)

    mark(EventType.RELIST_START, None, Relist("r1", "start", None, "5"))
    mark(EventType.RELIST_END, None, Relist("r1", "start", None, "5", 0))
    for number in range(events):
        uid = f"uid-{number % UIDS}"
        kind = EventType.ADDED if number < UIDS else EventType.MODIFIED
        event = replace(base, type=kind, uid=uid, name=uid, rv=str(10 + number), digest=f"{number:032x}")
        put(wire.partition_of(uid, PARTITIONS), uid.encode(), event)
    mark(EventType.PROGRESS, str(10 + events), None)
    producer.flush()
    return sum(seqs)


def bare(bootstrap: str, prefix: str, records: int) -> float:
    """Records per second of a loop that consumes and does nothing."""
    settings = {"bootstrap.servers": bootstrap, "group.id": "bare", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    name = topics.TopicNames.under(prefix).events
    consumer.assign([TopicPartition(name, partition, 0) for partition in range(PARTITIONS)])
    seen = len(consumer.consume(1, 10))
    began = time.monotonic()
    while seen < records:
        seen += len(consumer.consume(2000, 1))
    consumer.close()
    return records / (time.monotonic() - began)


def work(bootstrap: str, prefix: str, runtime: str, records: int, log: Path) -> Speed:
    """Run one worker over the whole topic, from its own start to its graceful end."""
    port = free_port()
    command = [sys.executable, "-m", "kubecdc", "process", "--runtime", runtime]
    command += ["--bootstrap", bootstrap, "--prefix", prefix, "--metrics-port", str(port), "--log-level", "warning"]
    began = time.monotonic()
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, env={**os.environ})
    first: tuple[float, float, float] | None = None
    try:
        while True:
            if process.poll() is not None or time.monotonic() - began > 180:
                raise SystemExit(f"the {runtime} worker did not finish: {log.read_text()[-3000:]}")
            done = offsets(port)
            if done and first is None:
                first = (time.monotonic(), done, _cpu(process.pid))
            if done >= records and first is not None:
                seconds, count = time.monotonic() - first[0], records - first[1]
                cpu = (_cpu(process.pid) - first[2]) / count * 1e6
                return Speed(count / seconds, cpu, first[0] - began)
            time.sleep(LOOK_S)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def offsets(port: int) -> float:
    """Sum of the source offsets that the worker reports; 0 while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=2) as answer:
            page = answer.read().decode()
    except OSError:
        return 0
    return sum(
        float(value) for value in re.findall(r"^kubecdc_processor_source_offset\{.*\} (\S+)$", page, re.MULTILINE)
    )


def _cpu(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def main(events: int = EVENTS, runtimes: tuple[str, ...] = ("plain", "faust"), rounds: int = 3) -> None:
    """Print the rates and the ratios, several times: a shared machine has fast and slow minutes."""
    with tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as folder, Broker(Path(folder) / "kafka") as broker:
        for number, runtime in ((number, runtime) for number in range(rounds) for runtime in runtimes):
            prefix = f"{runtime}{number}"
            records = fill(broker.bootstrap, prefix, events)
            limit = bare(broker.bootstrap, prefix, records)
            speed = work(broker.bootstrap, prefix, runtime, records, Path(folder) / f"{prefix}.log")
            print(
                f"{runtime} worker, {events} events of {BYTES} bytes: {speed.rate:.0f}/s"
                f" ({speed.cpu_us:.0f} us CPU each, first batch after {speed.start_s:.1f} s),"
                f" {speed.rate / limit:.3f} of a bare consume loop ({limit:.0f}/s); target {TARGETS[runtime]}/s",
                flush=True,
            )


if __name__ == "__main__":
    main(runtimes=tuple(sys.argv[1:]) or ("plain", "faust"))
