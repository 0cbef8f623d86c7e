"""Canonical logs on a real broker for the tests of the reading half: topics of their own, written in transactions."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka import Producer

from kubecdc import kafka, topics, wire
from kubecdc.codec import Codec, SchemaIds
from kubecdc.records import Change, Op

HOUR_MS = 3_600_000
_numbers = itertools.count()


@dataclass
class Log:
    """A fresh changes topic; `write` commits what it is given, in order."""

    bootstrap: str
    partitions: int = 2
    lag_ms: int = topics.HISTORY_MS
    registry: SchemaIds | None = None
    prefix: str = field(default_factory=lambda: f"t{next(_numbers)}-{uuid.uuid4().hex[:8]}")

    def __post_init__(self) -> None:
        self.names = topics.TopicNames.under(self.prefix)
        kafka.create_topics(self.bootstrap, topics.table(self.prefix, self.partitions, 1, self.lag_ms))
        self._codec = Codec(self.names.changes, self.registry)
        self._producer = Producer(
            {**kafka.connection(self.bootstrap), "transactional.id": self.prefix, "message.timeout.ms": 30_000}
        )
        self._producer.init_transactions(30)

    def write(self, *items: Change | bytes | tuple[str, None], commit: bool = True, at_ms: int = 0) -> None:
        """One transaction: changes, raw values, or tombstones as (uid, None). Stream records go to each partition."""
        self._producer.begin_transaction()
        for item in items:
            for partition, key, value in self._records(item):
                self._producer.produce(
                    self.names.changes, key=key, value=value, partition=partition, timestamp=at_ms or 0
                )
        if commit:
            self._producer.commit_transaction(30)
        else:
            self._producer.abort_transaction(30)

    def _records(self, item: Change | bytes | tuple[str, None]) -> Iterable[tuple[int, bytes, bytes | None]]:
        if isinstance(item, tuple):
            return [(wire.partition_of(item[0], self.partitions), item[0].encode(), None)]
        if isinstance(item, bytes):
            return [(0, b"__raw__", item)]
        value = self._codec.encode(item)
        if item.uid is not None and item.op is not Op.GAP:
            return [(wire.partition_of(item.uid, self.partitions), item.uid.encode(), value)]
        stream = wire.stream_of(item)
        key = wire.progress_key(stream) if item.op is Op.PROGRESS else wire.gap_key(stream, "x", next(_numbers))
        return [(partition, key, value) for partition in range(self.partitions)]
