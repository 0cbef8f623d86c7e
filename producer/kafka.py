"""The sink on Kafka; the only module of the producer that knows confluent_kafka.

Records are never dropped: the producer is idempotent, waits for all in-sync replicas, and retries for ever. What waits
is bounded, and `send` blocks beyond that. It does not know what it writes.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # documented, but not in the stubs' __all__
    AdminClient,
    ConfigResource,
    ResourceType,
)

from kubecdc import errors, topics
from producer.errors import SinkFailed
from producer.settings import KafkaSettings

log = logging.getLogger(__name__)

ANSWER_S = 8.0
POSITIONS_S = 30.0
MAX_RECORD_BYTES = topics.MAX_MESSAGE_BYTES
BUFFER_RECORDS = 100_000
POLL_S = 0.1
PARTITION_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - its public name, underscore and all
ROOM_S = 0.005


def _base(settings: KafkaSettings) -> dict[str, Any]:
    return {
        "bootstrap.servers": settings.bootstrap,
        "client.id": "kubecdc-producer",
        "socket.connection.setup.timeout.ms": int(ANSWER_S * 1000),
        "logger": logging.getLogger("producer.kafka.client"),
        "error_cb": lambda error: log.debug("kafka: %s", error),
        **dict(settings.properties),
    }


def live_topics(settings: KafkaSettings) -> dict[str, topics.LiveTopic]:
    """Our topics as the broker describes them. Raises Unreachable when it does not answer in seconds."""
    admin = AdminClient(_base(settings))
    names = topics.TopicNames.under(settings.prefix)
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
        wanted = [name for name in (names.events, names.changes, names.state, names.positions) if name in known]
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
        answers = admin.describe_configs(asked, request_timeout=ANSWER_S) if asked else {}
        configs = {resource.name: future.result(timeout=ANSWER_S) for resource, future in answers.items()}
    except (KafkaException, TimeoutError) as error:
        raise errors.Unreachable(
            f"Kafka at {settings.bootstrap} does not answer ({_text(error)}): check --bootstrap and the broker"
        ) from error
    return {
        name: topics.LiveTopic(
            name,
            len(known[name].partitions),
            min(len(partition.replicas) for partition in known[name].partitions.values()),
            {key: str(entry.value) for key, entry in configs[name].items() if entry.value is not None},
        )
        for name in wanted
    }


class KafkaSink:
    """A `producer.sink.Sink` on the topics of one prefix.

    Raises Unreachable, or Misconfigured with everything that is wrong with the topics.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        live = live_topics(settings)
        problems = topics.check(settings.prefix, live)
        if problems:
            raise errors.Misconfigured(*problems)
        self._settings = settings
        self._names = topics.TopicNames.under(settings.prefix)
        self._partitions = live[self._names.events].partitions
        self._position_partitions = live[self._names.positions].partitions
        self._producer = Producer(
            {
                **_base(settings),
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

    def positions(self) -> Mapping[str, bytes]:
        """Read the positions topic to its end. Raises Unreachable when that does not get on."""
        consumer = Consumer(
            {
                **_base(self._settings),
                "group.id": "kubecdc-producer-positions",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "enable.partition.eof": True,
            }
        )
        found: dict[str, bytes] = {}
        unfinished = set(range(self._position_partitions))
        try:
            consumer.assign([TopicPartition(self._names.positions, partition, 0) for partition in unfinished])
            deadline = time.monotonic() + POSITIONS_S
            while unfinished:
                messages = consumer.consume(1000, timeout=1.0)
                if not messages and time.monotonic() > deadline:
                    raise errors.Unreachable(f"Kafka at {self._settings.bootstrap} does not deliver its positions")
                if messages:
                    deadline = time.monotonic() + POSITIONS_S
                for message in messages:
                    _read_position(message, found, unfinished)
        finally:
            consumer.close()
        return found

    def send(self, partition: int, key: bytes, value: bytes | None, on_ack: Callable[[], None]) -> None:
        """Append to the events topic, waiting for room. Raises SinkFailed."""
        delivered = partial(self._delivered, on_ack)
        while True:
            self._check()
            try:
                self._producer.produce(
                    self._names.events, key=key, value=value, partition=partition, on_delivery=delivered
                )
            except BufferError:
                self._closed.wait(ROOM_S)  # the polling thread makes room
            except KafkaException as error:
                raise SinkFailed(f"Kafka does not take a record for {self._names.events}: {_text(error)}") from error
            else:
                return

    def store_position(self, key: bytes, value: bytes) -> None:
        """Write to the positions topic from the polling thread, newest only."""
        with self._lock:
            self._waiting_positions[key] = value

    def flush(self, timeout_s: float) -> bool:
        """Wait for all acknowledgements, of positions too."""
        deadline = time.monotonic() + timeout_s
        while self.depth() and time.monotonic() < deadline and self._failure is None:
            self._closed.wait(ROOM_S)
        return self.depth() == 0 and self._failure is None

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
        while not self._closed.is_set():
            self._producer.poll(POLL_S)
            self._send_positions()

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
                    self._failure = _text(error)
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
        if self._failure is not None:
            raise SinkFailed(f"Kafka refused a record for good: {self._failure}")


def _read_position(message: Message, found: dict[str, bytes], unfinished: set[int]) -> None:
    error = message.error()
    if error is not None:
        if error.code() != PARTITION_EOF:
            raise errors.Unreachable(f"the positions topic cannot be read: {error.str()}")
        unfinished.discard(message.partition() or 0)
        return
    key, value = message.key(), message.value()
    if key is None:
        return
    name = key.decode("utf-8", "replace")
    if value is None:
        found.pop(name, None)
    else:
        found[name] = value


def _text(error: Exception) -> str:
    cause = error.args[0] if error.args else error
    return str(cause.str() if isinstance(cause, KafkaError) else cause or type(error).__name__)
