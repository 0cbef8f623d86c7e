"""The sink on Kafka; the only module of the producer that knows confluent_kafka.

Records are never dropped: the producer is idempotent, waits for all in-sync replicas, and retries for ever. What waits
is bounded, and `send` blocks beyond that. It does not know what it writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kubecdc import kafka, topics
from kubecdc.complaints import Heard
from kubecdc.start import BEGINNING, Start, Where
from kubecdc.wire import Header
from producer.errors import SinkFailed
from producer.settings import KafkaSettings
from producer.sink import Place

log = logging.getLogger(__name__)

MAX_RECORD_BYTES = topics.MAX_MESSAGE_BYTES
BUFFER_RECORDS = 100_000
POLL_S = 0.1
ROOM_S = 0.005


class KafkaSink:
    """A `producer.sink.Sink` on the topics of one prefix.

    Raises Unreachable, or Misconfigured with everything that is wrong with the topics.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._partitions = kafka.require_topics(settings.bootstrap, settings.prefix, settings.properties)
        self._settings = settings
        self._names = topics.TopicNames.under(settings.prefix)
        self._complaints = Heard()
        self._producer = Producer(
            {
                **kafka.connection(settings.bootstrap, settings.properties, self._complaints),
                "client.id": "kubecdc-producer",
                "enable.idempotence": True,
                "acks": "all",
                "compression.type": "zstd",
                "partitioner": "murmur2_random",
                "linger.ms": 5,
                "message.timeout.ms": 0,
                "message.max.bytes": MAX_RECORD_BYTES,
                "queue.buffering.max.kbytes": settings.buffer_mb * 1024,
                "queue.buffering.max.messages": BUFFER_RECORDS,
            }
        )
        self._failure: str | None = None
        self._waiting_positions: dict[bytes, bytes] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._poller = threading.Thread(target=self._poll, name="kafka", daemon=True)
        self._poller.start()

    @property
    def partitions(self) -> int:
        """Partition count of the events topic."""
        return self._partitions

    def positions(self, since: Place | None) -> tuple[list[tuple[str, bytes | None]], Place]:
        """Read the positions topic to its end. Raises Unreachable when that does not get on."""
        settings = self._settings
        begin = BEGINNING if since is None else Start(Where.OFFSETS, offsets=since)
        reader = kafka.TopicReader(
            settings.bootstrap, self._names.positions, begin, follow=False, properties=settings.properties
        )
        found = []
        try:
            while not reader.done:
                found += [
                    ((record.key or b"").decode("utf-8", "replace"), record.value) for record in reader.poll(POLL_S)
                ]
            return found, dict(reader.positions)
        finally:
            reader.close()

    def state(self) -> Iterator[tuple[bytes, bytes | None]]:
        """Read the workers' state topic, what is committed of it, to its end. Raises Unreachable."""
        settings = self._settings
        reader = kafka.TopicReader(
            settings.bootstrap, self._names.state, BEGINNING, follow=False, properties=settings.properties
        )
        try:
            while not reader.done:
                for record in reader.poll(POLL_S):
                    yield record.key or b"", record.value
        finally:
            reader.close()

    def send(
        self,
        partition: int,
        key: bytes,
        value: bytes | None,
        on_ack: Callable[[], None],
        headers: Sequence[Header] = (),
    ) -> None:
        """Append to the events topic, waiting for room. Raises SinkFailed."""
        self._produce(
            self._names.events, on_ack, partition=partition, key=key, value=value, headers=list(headers) or None
        )

    def _produce(self, topic: str, on_ack: Callable[[], None], **record: Any) -> None:
        delivered = partial(self._delivered, on_ack)
        while True:
            self._check()
            try:
                self._producer.produce(topic, on_delivery=delivered, **record)
            except BufferError:
                self._closed.wait(ROOM_S)  # the polling thread makes room
            except KafkaException as error:
                raise SinkFailed(f"Kafka does not take a record for {topic}: {kafka.describe(error)}") from error
            else:
                return

    def store_position(self, key: bytes, value: bytes) -> None:
        """Write to the positions topic from the polling thread, newest only."""
        with self._lock:
            self._waiting_positions[key] = value

    def store_now(self, key: bytes, value: bytes) -> None:
        """Write to the positions topic and wait for the acknowledgement. Raises SinkFailed."""
        stored = threading.Event()
        self._produce(self._names.positions, stored.set, key=key, value=value)
        while not stored.wait(POLL_S):
            self._check()

    def flush(self, timeout_s: float) -> bool:
        """Wait for all acknowledgements, of positions too."""
        deadline = time.monotonic() + timeout_s
        while self.depth() and time.monotonic() < deadline and self._failure is None:
            self._closed.wait(ROOM_S)
        return self.depth() == 0 and self._failure is None

    def check(self) -> None:
        """Raise SinkFailed if Kafka has refused something for good."""
        if self._failure is not None:
            raise SinkFailed(f"Kafka refused a record for good: {self._failure}")

    def complaint(self) -> str:
        """What the client complained of last, with what to do about it where that is known; empty for nothing."""
        return self._complaints.last

    def depth(self) -> int:
        """Records and positions that wait for an acknowledgement."""
        with self._lock:
            return len(self._producer) + len(self._waiting_positions)

    def close(self) -> None:
        """Stop at once; what is not acknowledged is thrown away, which its readers never saw as stored."""
        self._closed.set()
        self._poller.join(5.0)
        self._producer.purge()
        self._producer.flush(1.0)

    def _poll(self) -> None:
        try:
            while not self._closed.is_set():
                self._producer.poll(POLL_S)
                self._send_positions()
        except Exception as error:  # noqa: BLE001 - whatever it is: without this thread the others would wait for ever
            self._failure = kafka.describe(error)
            log.error("kafka: %s", self._failure)  # noqa: TRY400 - librdkafka's fatal errors have no useful traceback

    def _send_positions(self) -> None:
        while True:
            with self._lock:
                key = next(iter(self._waiting_positions), None)
                if key is None:
                    return
                try:
                    self._producer.produce(
                        self._names.positions,
                        key=key,
                        value=self._waiting_positions[key],
                        on_delivery=partial(self._delivered, None),
                    )
                except BufferError:
                    return
                except KafkaException as error:
                    self._failure = kafka.describe(error)
                    return
                del self._waiting_positions[key]

    def _delivered(self, on_ack: Callable[[], None] | None, error: KafkaError | None, message: Message) -> None:
        if self._closed.is_set():
            return
        if error is not None:
            self._failure = f"{message.topic()} partition {message.partition()}: {error.str()}"
            log.error("kafka: %s", self._failure)
        elif on_ack is not None and self._failure is None:
            on_ack()

    def _check(self) -> None:
        if self._closed.is_set():
            raise SinkFailed("the sink is closed")
        self.check()
