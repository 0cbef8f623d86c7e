"""How long a partition's task takes to be ready over the state of 250,000 UIDs, and its ratio to a bare consume of it.

The bare loop reads the same state partition and does nothing. Between the two lie decoding and filling the memory,
which is what a rebalance waits for.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kubecdc import topics, wire
from kubecdc.codec import Codec
from kubecdc.records import Manager, Progress, UidState
from local.broker import Broker
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.settings import KafkaSettings, WorkerSettings
from processors.tasks import Tasks

UIDS = 250_000
WRITE = 10_000
TARGET_S = 5.0


def states(count: int) -> list[tuple[bytes, UidState]]:
    """States of Deployment-like objects: a dozen path digests, two managers."""
    noise = random.Random(7)
    managers = (Manager("kubectl", "Apply", "", "t1"), Manager("controller", "Update", "status", "t2"))
    found = []
    for number in range(count):
        paths = ",".join(f'"/spec/field-{n}":"{noise.getrandbits(32):08x}"' for n in range(12))
        uid = f"{noise.getrandbits(128):032x}"
        state = UidState(
            cluster="bench",
            epoch=1,
            group="apps",
            version="v1",
            resource="deployments",
            scope="",
            namespace=f"ns-{number % 500}",
            name=f"name-{number}",
            uid=uid,
            rv=str(10 + number),
            emitted_rv=str(10 + number),
            seq=3,
            deleted=False,
            generation=2,
            digest=f"{number:032x}",
            paths="{" + paths + "}",
            managers=managers,
            listed=(),
            conflict="",
        )
        found.append((uid.encode(), state))
    return found


def fill(settings: KafkaSettings, count: int) -> None:
    """Make the topics and write one partition's state, as a worker would have."""
    admin = AdminClient({"bootstrap.servers": settings.bootstrap})
    wanted = [
        NewTopic(spec.name, spec.partitions, spec.replication, config=spec.config())
        for spec in topics.table(settings.prefix, 1, 1)
    ]
    for future in admin.create_topics(wanted).values():
        future.result()
    writer, codec = Cluster(settings).writer(0), Codec()
    writer.fence()
    records = states(count)
    for start in range(0, count, WRITE):
        writer.write((), ((key, codec.encode(state)) for key, state in records[start : start + WRITE]))
    writer.write((), [(wire.PROGRESS_KEY, codec.encode(Progress(count)))])


def bare(settings: KafkaSettings) -> float:
    """Seconds of a loop that reads the state partition to its end and does nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap,
            "group.id": "bare",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    began = time.monotonic()
    name = topics.TopicNames.under(settings.prefix).state
    consumer.assign([TopicPartition(name, 0, OFFSET_BEGINNING)])
    while True:
        for message in consumer.consume(5000, 0.05):
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                consumer.close()
                return time.monotonic() - began


def main(count: int = UIDS) -> None:
    """Print the seconds, of the best of three, and the ratio."""
    with tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as folder, Broker(Path(folder) / "kafka") as broker:
        settings = KafkaSettings(broker.bootstrap, "recovery", "recovery")
        fill(settings, count)
        limits, seconds, cpu = [], [], []
        for _ in range(3):
            limits.append(bare(settings))
            worker = Tasks(WorkerSettings(settings), Metrics())
            began, used = time.monotonic(), time.process_time()
            worker.adopt(worker.prepare([0])[0])
            seconds.append(time.monotonic() - began)
            cpu.append(time.process_time() - used)
            worker.close()
        best, limit = min(seconds), min(limits)
        print(
            f"recovery of a partition with {count} UIDs: {best:.1f} s ({min(cpu) / count * 1e6:.1f} us CPU a UID),"
            f" {best / limit:.1f} times a bare consume of its state ({limit:.1f} s); target {TARGET_S:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
