"""Following topics while they grow: everything that was ever written, even what is compacted away later.

Unlike the library's reader it never gives up: brokers die here all the time. Values are decoded at once, and objects
replaced by a digest, so that a long run fits into memory and can still be compared byte for byte.
"""

from __future__ import annotations

import hashlib
import threading
import time
from dataclasses import replace
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.records import Change, RawEvent
from kubecdc.wire import told
from local.logs import Kept

POLL_S = 0.2
SILENCE_S = 10.0  # producers speak every second


class Follower:
    """Keeps the records of a topic between `start` and `stop`, in the order of their offsets."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self._bootstrap, self._topic = bootstrap, topic
        self._codec = Codec()
        self._lock = threading.Lock()
        self._kept: list[Kept] = []
        self._reached = dict.fromkeys(range(partitions), 0)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name=f"follower of {topic}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._over.set()
        self._thread.join()

    def position(self, partition: int) -> int:
        """The offset after the last record that it has read."""
        with self._lock:
            return self._reached[partition]

    def kept(self, after: int = 0) -> list[Kept]:
        """What came since, as counted by `after`."""
        with self._lock:
            return self._kept[after:]

    def _follow(self) -> None:
        while not self._over.is_set():
            consumer = self._consumer()
            try:
                self._read(consumer)
            finally:
                consumer.close()

    def _consumer(self) -> Consumer:
        """One that goes on after what was read."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "chaos-follower",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": 4 * 1024 * 1024,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in self._reached.items()])
        return consumer

    def _read(self, consumer: Consumer) -> None:
        """Read until a partition says nothing for long, whatever the others say: a client may have lost a broker."""
        heard = dict.fromkeys(self._reached, time.monotonic())
        while not self._over.is_set() and time.monotonic() - min(heard.values()) < SILENCE_S:
            for message in consumer.consume(500, POLL_S):
                if message.error() is None and message.offset() >= self._reached[message.partition()]:
                    self._keep(message)
                    heard[message.partition()] = time.monotonic()

    def _keep(self, message: Any) -> None:
        value = told(message.value(), message.headers())
        record = None if value is None else light(decoded(self._codec, value))
        with self._lock:
            self._reached[message.partition()] = message.offset() + 1
            if record is not None:
                self._kept.append(Kept(message.partition(), message.offset(), message.timestamp()[1], record))


def decoded(codec: Codec, value: bytes) -> Any:
    try:
        return codec.decode(value)
    except Undecodable as error:
        return error


def light(record: Any) -> Any:
    """The record with a digest in place of its object."""
    if isinstance(record, (Change, RawEvent)) and record.object is not None:
        return replace(record, object=hashlib.blake2b(record.object.encode(), digest_size=8).hexdigest())
    return record
