"""Reading topics whole and following them, and making them: all that `local` needs of Kafka's client.

A judge's eye, independent of the library's reading half: it returns each record as it lies in the log, with its
offset, tombstones left out, and decides nothing. The only module here that imports confluent_kafka.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, Self

import confluent_kafka
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.topics import TopicSpec
from local.errors import LocalError, NotReady

_ADMIN_SECONDS = 30.0
_BATCH = 1000


class Kept(NamedTuple):
    """One record of a topic; `record` is what the codec made of its value, or why it could not."""

    partition: int
    offset: int
    timestamp_ms: int
    record: Any


def create_topics(bootstrap: str, specs: Iterable[TopicSpec]) -> None:
    """Make the topics that do not exist yet. Raises `LocalError`."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication,
            config=spec.config(),
        )
        for spec in specs
    ]
    for name, made in admin.create_topics(wanted, operation_timeout=_ADMIN_SECONDS).items():
        try:
            made.result(_ADMIN_SECONDS)
        except confluent_kafka.KafkaException as error:
            if error.args[0].code() != confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS:
                raise LocalError(f"topic {name} cannot be made on {bootstrap}: {error}") from error


class Topic:
    """Follows all partitions of a topic from their beginning, committed records only; for one thread."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._name = name
        self._codec = Codec()
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "kubecdc-local-reader",  # required by the client; nothing is committed under it
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 100,
                "log_level": 2,  # a broker that ends before its readers is no news here
            }
        )
        metadata = self._consumer.list_topics(name, timeout=_ADMIN_SECONDS).topics[name]
        if metadata.error is not None:
            self._consumer.close()
            raise LocalError(f"topic {name} cannot be read: {metadata.error}")
        self.partitions = len(metadata.partitions)
        beginning = confluent_kafka.OFFSET_BEGINNING
        self._consumer.assign(
            [confluent_kafka.TopicPartition(name, number, beginning) for number in range(self.partitions)]
        )

    def poll(self, timeout_seconds: float = 0.2) -> list[Kept]:
        """Return what has arrived, perhaps nothing. Raises `LocalError` when the topic cannot be read."""
        kept = []
        for message in self._consumer.consume(_BATCH, timeout_seconds):
            error = message.error()
            if error is not None:
                if error.retriable():
                    continue
                raise LocalError(f"topic {self._name} cannot be read: {error}")
            value = message.value()
            if value is not None:
                place = message.partition() or 0, message.offset() or 0
                kept.append(Kept(*place, message.timestamp()[1], self._decoded(value)))
        return kept

    def read_to_end(self, timeout_seconds: float = 60.0) -> Iterator[Kept]:
        """Yield everything up to where the topic ends at the call. Raises `NotReady` when that takes too long."""
        ends = {}
        for number in range(self.partitions):
            place = confluent_kafka.TopicPartition(self._name, number)
            ends[number] = self._consumer.get_watermark_offsets(place, timeout=_ADMIN_SECONDS)[1]
        deadline = time.monotonic() + timeout_seconds
        while not self._reached(ends):
            if time.monotonic() > deadline:
                raise NotReady(f"topic {self._name} was not read to its end within {timeout_seconds:.0f} s")
            yield from self.poll()

    def close(self) -> None:
        """Leave; nothing is stored."""
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _reached(self, ends: dict[int, int]) -> bool:
        places = self._consumer.position([confluent_kafka.TopicPartition(self._name, number) for number in ends])
        return all(place.offset >= ends[place.partition] or ends[place.partition] == 0 for place in places)

    def _decoded(self, value: bytes) -> Any:
        try:
            return self._codec.decode(value)
        except Undecodable as error:
            return error
