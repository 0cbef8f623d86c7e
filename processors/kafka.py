"""Kafka as a partition task needs it; the only module of the processors that knows confluent_kafka.

It decides nothing about records. Calls that librdkafka calls retriable are repeated here within a deadline; everything
else that goes wrong is ambiguous and becomes `Restart`, or `Fenced` when a newer producer exists (kafka.md 2 and 6.2).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from kubecdc import kafka as library
from kubecdc import topics
from kubecdc.complaints import FORBIDDEN, advised
from kubecdc.errors import Misconfigured
from kubecdc.wire import told
from processors import crash
from processors.errors import Fenced, Restart, Stalled, Stop
from processors.settings import KafkaSettings

log = logging.getLogger(__name__)

ANSWER_S = 8.0
FENCE_S = 30.0
COMMIT_S = 30.0
RECOVERY_SILENCE_S = 30.0
# Readers wait for an open transaction; its end comes with the next owner's fence, and this only where there is none.
TRANSACTION_TIMEOUT_MS = 60_000
READ_RECORDS = 5_000
READ_S = 0.05  # a call waits that long for more, even at the end
BUFFER_KB = 64 * 1024
PARTITION_EOF = KafkaError._PARTITION_EOF
FENCED = frozenset({KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})

# Offset, timestamp (epoch ms), key, value; in place of a tombstone's value what it tells of the DELETED before it.
Raw = tuple[int, int, bytes | None, bytes | None]
Pair = tuple[bytes, bytes | None]


@dataclass(frozen=True, slots=True)
class Layout:
    """What the live topics are like: partitions, and the compaction lag of the events topic."""

    partitions: int
    history_ms: int


def base(settings: KafkaSettings) -> dict[str, Any]:
    """What every client of a worker is told; of librdkafka's own complaints only critical ones are logged."""
    return {
        **library.connection(settings.bootstrap),
        "client.id": f"kubecdc-{settings.app}",
        "log_level": 2,
        **dict(settings.properties),
    }


def text(error: BaseException) -> str:
    """A Kafka error in words."""
    inner = error.args[0] if error.args else error
    return f"{inner.name()}: {inner.str()}" if isinstance(inner, KafkaError) else str(inner) or type(error).__name__


class Cluster:
    """One Kafka under one prefix. Thread-safe."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.names = topics.TopicNames.under(settings.prefix)
        self.answers = 0  # with records, so far: it grows while something is being read
        self._admin = AdminClient(base(settings))

    def layout(self) -> Layout:
        """Check the live topics. Raises Misconfigured with all that is wrong, or Unreachable."""
        settings = self.settings
        live = library.sound_topics(settings.bootstrap, settings.prefix, settings.properties)
        self._group_is_allowed()
        events = live[self.names.events]
        return Layout(events.partitions, int(events.config["min.compaction.lag.ms"]))

    def _group_is_allowed(self) -> None:
        """Raise Misconfigured where the account may not see the consumer group: Faust's client waits in silence."""
        app = self.settings.app
        try:
            self._admin.describe_consumer_groups([app], request_timeout=ANSWER_S)[app].result(2 * ANSWER_S)
        except (KafkaException, TimeoutError) as error:
            inner = library.reported(error)
            if inner is not None and inner.name() in FORBIDDEN:
                raise Misconfigured(f"consumer group {app}: {library.describe(error)}") from error
            log.info("consumer group %s could not be looked at, which joining it will tell: %s", app, text(error))

    def low_watermark(self, topic: str, partition: int) -> int:
        """First offset that the partition still has. Raises Restart."""
        return self._offsets(topic, (partition,), library.FIRST)[partition]

    def high_watermarks(self, topic: str, partitions: Iterable[int]) -> dict[int, int]:
        """The offsets after the last records, open transactions included. Raises Restart."""
        return self._offsets(topic, partitions, library.NEXT)

    def _offsets(self, topic: str, partitions: Iterable[int], edge: Any) -> dict[int, int]:
        try:
            return library.edges(self._admin, topic, partitions, edge)
        except (KafkaException, TimeoutError) as error:
            # An admin client may keep a leader epoch that a restarted broker refuses for ever: get fresh metadata.
            self._admin = AdminClient(base(self.settings))
            raise Restart(f"offsets of {topic} cannot be had: {text(error)}") from error

    def committed(self, topic: str, partition: int, *, first_only: bool = False) -> dict[bytes, bytes]:
        """Read a partition's committed records to the high watermark: the latest value of each key.

        With `first_only` it returns as soon as there is one. Raises Restart, or Stalled when nothing arrives.
        """
        latest: dict[bytes, bytes] = {}
        for _, _, key, value in self.records(topic, partition):
            if value is None:
                latest.pop(key or b"", None)
            else:
                latest[key or b""] = value
                if first_only:
                    break
        return latest

    def records(self, topic: str, partition: int, end: int | None = None) -> Iterator[Raw]:
        """A partition's committed records in order, to `end` or else to the high watermark. Raises as `committed`."""
        last = self.high_watermarks(topic, (partition,))[partition]
        last = last if end is None else min(end, last)
        if last > 0:
            yield from self._from(topic, partition, OFFSET_BEGINNING, last)

    def has_records(self, topic: str, partition: int, start: int) -> bool:
        """Whether there is any record at or after an offset. Raises as `committed`."""
        end = self.high_watermarks(topic, (partition,))[partition]
        return start < end and next(self._from(topic, partition, start, end, at_once=1), None) is not None

    def _from(self, topic: str, partition: int, start: int, end: int, at_once: int = READ_RECORDS) -> Iterator[Raw]:
        consumer = Consumer(
            {
                **base(self.settings),
                "group.id": f"{self.settings.app}-recovery",  # never joined: partitions are assigned by hand
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.message.max.bytes": topics.MAX_MESSAGE_BYTES,
                "queued.max.messages.kbytes": BUFFER_KB,
                **({"queued.min.messages": 1} if at_once == 1 else {}),  # else it fetches ahead what nobody reads
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, start)])
            for found in _read_to(consumer, end, at_once):
                self.answers += 1
                yield from found
        except KafkaException as error:
            raise Restart(f"{topic} [{partition}] cannot be read: {text(error)}") from error
        finally:
            consumer.close()

    def writer(self, partition: int) -> Writer:
        """A transactional producer of one partition; it has fenced nobody yet."""
        return Writer(self.settings, self.names, partition)


def _raw(message: Message) -> Raw:
    value = message.value()
    if value is None:
        headers = message.headers()
        value = told(None, headers.items() if isinstance(headers, dict) else headers)
    return message.offset() or 0, message.timestamp()[1], message.key(), value


def _read_to(consumer: Consumer, end: int, at_once: int) -> Iterator[list[Raw]]:
    position, moved_at = 0, time.monotonic()
    while position < end:
        found = []
        for message in consumer.consume(at_once, READ_S):
            error = message.error()
            offset = message.offset() or 0
            if error is None:
                if offset < end:
                    found.append(_raw(message))
                position, moved_at = offset + 1, time.monotonic()
            elif error.code() == PARTITION_EOF:
                # Control records and holes move the end of the partition without a record.
                moved_at = moved_at if offset <= position else time.monotonic()
                position = max(position, offset)
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:  # the client looks for a group it never uses
                raise KafkaException(error)
        if found:
            yield found
        if time.monotonic() - moved_at > RECOVERY_SILENCE_S:
            raise Stalled(
                f"reading stopped at offset {position} of {end} and did not move for {RECOVERY_SILENCE_S:.0f} s: an"
                " open transaction of another application, or a broker that does not deliver"
            )


class Writer:
    """The transactional producer of one partition. After any error it must be thrown away with `discard`."""

    def __init__(self, settings: KafkaSettings, names: topics.TopicNames, partition: int) -> None:
        self._names = names
        self._partition = partition
        self._producer = Producer(
            {
                **base(settings),
                # Of the topics, not of the group: with one --app beside another, both would write everything.
                "transactional.id": f"{settings.prefix}-{partition}",
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "compression.type": "zstd",
                "message.max.bytes": topics.MAX_MESSAGE_BYTES,
                "queue.buffering.max.kbytes": BUFFER_KB,
                "linger.ms": 5,
            }
        )

    def fence(self) -> None:
        """Shut out every older producer of this partition and end its open transaction. Raises Restart, Fenced."""
        self._repeat("fencing", self._producer.init_transactions, FENCE_S)

    def write(self, changes: Iterable[Pair], state: Iterable[Pair]) -> None:
        """Write all or nothing, in order, and return when it is committed. Raises Restart, Fenced."""
        self._repeat("poll", lambda _: self._producer.poll(0), COMMIT_S)
        self._repeat("begin", lambda _: self._producer.begin_transaction(), COMMIT_S)
        crash.point("after_begin")
        self._produce(self._names.changes, changes)
        self._produce(self._names.state, state)
        crash.point("after_produce")
        if crash.due("before_commit"):
            self._producer.flush(COMMIT_S)
            crash.die()
        if crash.due("commit_sent_no_reply"):
            self._producer.flush(COMMIT_S)
            try:
                self._producer.commit_transaction(0.001)
            except KafkaException as error:
                log.debug("commit without waiting: %s", text(error))
            crash.die()
        self._repeat("commit", self._producer.commit_transaction, COMMIT_S)
        crash.point("after_commit")

    def discard(self) -> None:
        """Forget what is queued. An open transaction stays open until the next fence."""
        self._producer.purge()

    def _produce(self, topic: str, pairs: Iterable[Pair]) -> None:
        produce, partition = self._producer.produce, self._partition
        try:
            for key, value in pairs:
                try:
                    produce(topic, value, key, partition)
                except BufferError:
                    self._wait_and_produce(topic, key, value)
        except KafkaException as error:
            raise self._wrapped("produce", error) from error

    def _wait_and_produce(self, topic: str, key: bytes, value: bytes | None) -> None:
        deadline = time.monotonic() + COMMIT_S
        while time.monotonic() < deadline:
            self._producer.poll(0.05)
            try:
                self._producer.produce(topic, value, key, self._partition)
            except BufferError:
                continue
            return
        raise Restart(f"the queue to {topic} stayed full for {COMMIT_S:.0f} s")

    def _fatal(self, error: KafkaException) -> KafkaException:
        """What made the producer unusable: produce says only that something did, a transaction call says what."""
        try:
            self._producer.begin_transaction()
        except KafkaException as told:
            return told
        return error

    def _repeat(self, what: str, call: Callable[[float], object], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                call(max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise self._wrapped(what, error) from error
                time.sleep(0.05)
            else:
                return

    def _wrapped(self, what: str, error: KafkaException) -> Restart | Stop:
        if error.args[0].code() == KafkaError._FATAL:
            error = self._fatal(error)
        if error.args[0].code() in FENCED:
            return Fenced(
                f"partition {self._partition}: another worker has taken it over, or the transaction timed out"
                f" ({what}: {text(error)})"
            )
        if error.args[0].name() in FORBIDDEN:
            return Stop(f"partition {self._partition}: {what}: {advised(text(error), error.args[0].name())}")
        return Restart(f"{what}: {text(error)}")


class Source:
    """The events topic as a member of the consumer group, for the plain loop. Not thread-safe.

    `on_assign` gets partitions and returns where each begins; `on_revoke` gets those that are lost. Both are called
    inside `poll`, and what they raise ends the loop there.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        on_assign: Callable[[list[int]], dict[int, int]],
        on_revoke: Callable[[list[int]], None],
    ) -> None:
        self._topic = topics.TopicNames.under(settings.prefix).events
        self._on_assign, self._on_revoke = on_assign, on_revoke
        self._failure: BaseException | None = None
        self._consumer = Consumer(
            {
                **base(settings),
                "group.id": settings.app,
                **({"group.instance.id": settings.group_instance_id} if settings.group_instance_id else {}),
                "session.timeout.ms": int(settings.session_timeout_s * 1000),
                "heartbeat.interval.ms": int(settings.session_timeout_s * 1000 / 4),
                "partition.assignment.strategy": "range",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",  # below the low watermark the task must know
                "isolation.level": "read_uncommitted",  # producers write without transactions
                "fetch.message.max.bytes": topics.MAX_MESSAGE_BYTES,
                "queued.max.messages.kbytes": BUFFER_KB,
            }
        )
        self._consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )

    def poll(self, count: int, seconds: float) -> tuple[dict[int, list[Raw]], set[int]]:
        """Records by partition, and the partitions whose position no longer exists.

        Raises what the callbacks raised, Restart, or Stop when the group has shut this member out.
        """
        batches: dict[int, list[Raw]] = {}
        out_of_range: set[int] = set()
        try:
            messages = self._consumer.consume(count, seconds)
        except KafkaException as error:
            raise self._failure or Restart(f"consume: {text(error)}") from error
        if self._failure is not None:
            raise self._failure
        for message in messages:
            fault = message.error()
            partition = message.partition() or 0
            if fault is None:
                batches.setdefault(partition, []).append(_raw(message))
            elif fault.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):
                out_of_range.add(partition)
            elif fault.code() == KafkaError._FATAL or fault.fatal():  # the client sets the first only
                raise Stop(
                    f"the group has shut this worker out ({fault.str()}): of living workers, each needs a"
                    " --group-instance-id of its own"
                )
            elif fault.name() in FORBIDDEN:
                raise Stop(advised(fault.str(), fault.name()))
            elif not fault.retriable():
                log.warning("events: %s", fault.str())
        return batches, out_of_range

    def seek(self, offsets: dict[int, int]) -> None:
        """Go on at these offsets."""
        for partition, offset in offsets.items():
            self._consumer.seek(TopicPartition(self._topic, partition, offset))

    def commit(self, offsets: dict[int, int]) -> None:
        """Tell the group how far we are: for monitoring only, so failures are no matter."""
        told = [TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()]
        try:
            if told:
                self._consumer.commit(offsets=told, asynchronous=True)
        except KafkaException as error:
            log.debug("offsets not committed: %s", text(error))

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assigned(self, consumer: Consumer, assigned: list[TopicPartition]) -> None:
        try:
            offsets = self._on_assign([tp.partition for tp in assigned])
        except BaseException as error:  # noqa: BLE001 - poll raises it; librdkafka's thread must not see it
            self._failure = error
            offsets = {}
        consumer.assign([TopicPartition(self._topic, partition, offset) for partition, offset in offsets.items()])

    def _revoked(self, consumer: Consumer, revoked: list[TopicPartition]) -> None:
        try:
            self._on_revoke([tp.partition for tp in revoked])
        except BaseException as error:  # noqa: BLE001 - as above
            self._failure = error
        consumer.unassign()
