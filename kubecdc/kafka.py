"""Kafka as the library needs it: describing and creating topics, and reading a topic; the one home of confluent_kafka.

It decides nothing about records. Every call ends in seconds when the broker does not answer, with Unreachable.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported without saying so
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from kubecdc import complaints
from kubecdc.complaints import Heard
from kubecdc.errors import ChainBroken, Misconfigured, Unreachable
from kubecdc.start import BEGINNING, Start, Where
from kubecdc.topics import LiveTopic, TopicNames, TopicSpec, check, moved

ANSWER_S = 8.0
READ_S = 1.0
SAMPLE = 100  # records of a partition; a changed count would move most of them
T = TypeVar("T")
FIRST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]  # upstream has no types
NEXT: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # as above
_PASSING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._NOENT,  # "no leaders found"
    }
)
Properties = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Stored:
    """A record as the topic holds it; `timestamp_ms` is the broker's or the writer's, epoch ms."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


# Offsets out of range are an error: starting anew in silence is how readers lose records.
_READER = {
    "group.id": "kubecdc-reader",  # required by the client; nothing is committed under it
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 4 * 1024 * 1024,
    "queued.max.messages.kbytes": 32 * 1024,
}


def connection(bootstrap: str, properties: Properties = (), heard: Heard | None = None) -> dict[str, Any]:
    """What every client is told. Its complaints are seldom lines of the log, and `heard` takes those that it tells."""
    return {
        "bootstrap.servers": bootstrap,
        "socket.connection.setup.timeout.ms": int(ANSWER_S * 1000),
        "logger": complaints.LOG,
        "error_cb": heard or Heard(),
        **dict(properties),
    }


def reported(error: BaseException) -> KafkaError | None:
    """What Kafka reported, where the exception holds it."""
    inner = error.args[0] if error.args else None
    return inner if isinstance(inner, KafkaError) else None


def describe(error: BaseException) -> str:
    """A Kafka error in words, with advice where there is some."""
    inner = reported(error)
    if inner is not None:
        return complaints.advised(str(inner.str()), inner.name())
    return str(error.args[0] if error.args else error)


def _made(client: Callable[[dict[str, Any]], T], told: dict[str, Any]) -> T:
    """A client. Raises Misconfigured with the property that librdkafka refuses; values may be secrets."""
    try:
        return client(told)
    except (KafkaException, TypeError, ValueError, AttributeError) as error:
        reason = re.sub('^Failed to create .*?: |(?<=Invalid value )".*" (?=for )', "", describe(error)).strip()
        raise Misconfigured(f"Kafka's client cannot be made, check --kafka-property: {reason}") from error


class _Admin:
    """An admin client, and what it complains of."""

    def __init__(self, bootstrap: str, properties: Properties) -> None:
        self._bootstrap, self._heard = bootstrap, Heard()
        told = connection(bootstrap, properties, self._heard)
        told["logger"] = complaints.SILENT
        self.client = _made(AdminClient, told)

    def unreachable(self, error: BaseException) -> Unreachable:
        """Why a call of it ended with an error."""
        self.client.poll(0)  # hands out its complaints
        inner = reported(error)
        if inner is not None:
            self._heard(inner)
        reason = self._heard.reason()
        if reason is not None:
            return Unreachable(f"Kafka at {self._bootstrap} cannot be used: {reason}")
        return Unreachable(
            f"Kafka at {self._bootstrap} does not answer ({describe(error)}): check --bootstrap, and that the broker"
            " runs"
        )


def live_topics(bootstrap: str, prefix: str, properties: Properties = ()) -> dict[str, LiveTopic]:
    """Our topics as the broker describes them. Raises Unreachable."""
    asking = _Admin(bootstrap, properties)
    admin, names = asking.client, TopicNames.under(prefix)
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
        wanted = [name for name in (names.events, names.changes, names.state, names.positions) if name in known]
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in wanted]
        answers = admin.describe_configs(asked, request_timeout=ANSWER_S) if asked else {}
        configs = {resource.name: future.result(timeout=ANSWER_S) for resource, future in answers.items()}
    except (KafkaException, TimeoutError) as error:
        raise asking.unreachable(error) from error
    return {
        name: LiveTopic(
            name,
            len(known[name].partitions),
            min((len(partition.replicas) for partition in known[name].partitions.values()), default=0),
            {key: str(entry.value) for key, entry in configs[name].items() if entry.value is not None},
        )
        for name in wanted
    }


def patiently(call: Callable[[], T]) -> T:
    """The answer to `call`, asked again while the broker says that it may soon answer: leaders move, topics are new."""
    deadline = time.monotonic() + ANSWER_S
    while True:
        try:
            return call()
        except KafkaException as error:
            if error.args[0].code() not in _PASSING or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def edges(client: AdminClient, topic: str, partitions: Iterable[int], edge: OffsetSpec) -> dict[int, int]:
    """The first (`FIRST`) or next (`NEXT`) offset by partition, uncommitted records counted.

    What a commit that has just returned wrote may be among them for a moment, and must not be missed. Raises
    KafkaException or TimeoutError.
    """
    asked = {TopicPartition(topic, partition): edge for partition in partitions}
    level = IsolationLevel.READ_UNCOMMITTED

    def answers() -> dict[int, int]:
        futures = client.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S) if asked else {}
        return {place.partition: _told(future.result(2 * ANSWER_S).offset) for place, future in futures.items()}

    return patiently(answers)


def _told(offset: int) -> int:
    """The offset, if there is one: a broker that has just become the leader may answer without, and is asked again."""
    if offset < 0:
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE))
    return offset


def brokers(bootstrap: str, properties: Properties = ()) -> int:
    """How many brokers the cluster has. Raises Unreachable."""
    asking = _Admin(bootstrap, properties)
    try:
        return len(asking.client.list_topics(timeout=ANSWER_S).brokers)
    except KafkaException as error:
        raise asking.unreachable(error) from error


def sound_topics(bootstrap: str, prefix: str, properties: Properties = ()) -> dict[str, LiveTopic]:
    """Our topics, if nothing is wrong with them. Raises Misconfigured with everything that is, or Unreachable."""
    live = live_topics(bootstrap, prefix, properties)
    problems = check(prefix, live)
    if not problems:
        events = live[TopicNames.under(prefix).events]
        problems = moved(prefix, events.partitions, _sample(bootstrap, events.name, properties))
    if problems:
        raise Misconfigured(*problems)
    return live


def _sample(bootstrap: str, topic: str, properties: Properties) -> list[tuple[int, bytes | None]]:
    """Partition and key of the oldest records of each partition."""
    reader = TopicReader(bootstrap, topic, BEGINNING, follow=False, properties=properties)
    found: dict[int, list[bytes | None]] = {}
    try:
        while not reader.done and any(len(found.get(p, ())) < SAMPLE for p in range(reader.partitions)):
            records = reader.poll(READ_S)
            if not records:
                break
            for record in records:
                found.setdefault(record.partition, []).append(record.key)
    finally:
        reader.close()
    return [(partition, key) for partition, keys in found.items() for key in keys]


def require_topics(bootstrap: str, prefix: str, properties: Properties = ()) -> int:
    """The partition count of sound topics. Raises as `sound_topics` does."""
    return sound_topics(bootstrap, prefix, properties)[TopicNames.under(prefix).events].partitions


def create_topics(bootstrap: str, specs: Sequence[TopicSpec], properties: Properties = ()) -> list[str]:
    """Create the topics that do not exist; returns their names. Raises Unreachable, or Misconfigured on a refusal."""
    asking = _Admin(bootstrap, properties)
    admin = asking.client
    try:
        known = admin.list_topics(timeout=ANSWER_S).topics
        missing = [
            NewTopic(spec.name, spec.partitions, spec.replication, config=spec.config())
            for spec in specs
            if spec.name not in known
        ]
        futures = admin.create_topics(missing, operation_timeout=ANSWER_S) if missing else {}
        for name, future in futures.items():
            _created(name, future)
        _await_leaders(admin, [spec.name for spec in specs])
    except (KafkaException, TimeoutError) as error:
        raise asking.unreachable(error) from error
    return [topic.topic for topic in missing]


def _created(name: str, future: Any) -> None:
    try:
        future.result(timeout=2 * ANSWER_S)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.TOPIC_ALREADY_EXISTS:
            return  # another `topics init` was quicker
        if code in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT):
            raise
        raise Misconfigured(f"topic {name} cannot be created: {describe(error)}") from error


def _await_leaders(admin: AdminClient, names: Sequence[str]) -> None:
    """Wait until each partition has a leader: before that, writers meet unknown topics."""
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        known = admin.list_topics(timeout=ANSWER_S).topics
        if all(
            name in known and known[name].partitions and all(p.leader >= 0 for p in known[name].partitions.values())
            for name in names
        ):
            return
        time.sleep(0.05)


class TopicReader:
    """Committed records of all partitions of a topic, in order within a partition; for one thread.

    Without `follow` it ends where the topic ended when it was opened. Raises Unreachable, and Misconfigured when the
    topic or a position does not exist.
    """

    def __init__(self, bootstrap: str, topic: str, start: Start, *, follow: bool, properties: Properties = ()) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._follow = follow
        self._asking = _Admin(bootstrap, properties)
        self._consumer = _made(Consumer, {**connection(bootstrap, properties), **_READER})
        self._silent_since = time.monotonic()
        try:
            self._bounds = self._watermarks()
            self.positions = self._positions(start)
        except (KafkaException, TimeoutError) as error:
            self._consumer.close()
            raise self._asking.unreachable(error) from error
        except Misconfigured:
            self._consumer.close()
            raise
        self._unfinished = {p for p, offset in self.positions.items() if follow or offset < self._bounds[p][1]}
        self._consumer.assign([TopicPartition(topic, p, self.positions[p]) for p in sorted(self._unfinished)])

    @property
    def partitions(self) -> int:
        """Partition count of the topic."""
        return len(self._bounds)

    @property
    def whole(self) -> frozenset[int]:
        """Partitions whose very first record, offset 0, is where reading began."""
        return self._whole

    def behind(self, offsets: Mapping[int, int]) -> dict[int, int]:
        """Positions before these offsets, where records come after them."""
        return {
            partition: offset
            for partition, offset in self.positions.items()
            if offset < min(offsets[partition], self._bounds[partition][1])
        }

    @property
    def done(self) -> bool:
        """Everything that was there when the reader was opened has been returned."""
        return not self._follow and not self._unfinished

    def poll(self, timeout_s: float) -> list[Stored]:
        """What has arrived, perhaps nothing. Raises Unreachable when nothing comes that must be there."""
        if self.done:
            return []
        messages = self._consumer.consume(2000, timeout=timeout_s)
        if messages:
            self._silent_since = time.monotonic()
        elif not self._follow and time.monotonic() - self._silent_since > 4 * ANSWER_S:
            raise Unreachable(
                f"Kafka at {self._bootstrap} stopped to deliver while {self._topic} was being read:"
                " check that it runs, and that no worker hangs in a transaction"
            )
        records = []
        for message in messages:
            partition = message.partition() or 0
            if partition not in self._unfinished or self._ended(message, partition):
                continue
            record = stored(message)
            self.positions[partition] = record.offset + 1
            records.append(record)
            if not self._follow and record.offset + 1 >= self._bounds[partition][1]:
                self._finish(partition)
        return records

    def offsets_at(self, time_ms: int) -> dict[int, int]:
        """First offset at or after a time by partition, the end where nothing is as late. Raises Unreachable."""
        asked = [TopicPartition(self._topic, partition, time_ms) for partition in self._bounds]
        try:
            found = patiently(lambda: self._consumer.offsets_for_times(asked, timeout=ANSWER_S))
        except KafkaException as error:
            raise self._asking.unreachable(error) from error
        return {p.partition: p.offset if p.offset >= 0 else self._bounds[p.partition][1] for p in found}

    def close(self) -> None:
        """Leave; nothing is stored."""
        self._consumer.close()

    def _watermarks(self) -> dict[int, tuple[int, int]]:
        known = self._asking.client.list_topics(self._topic, timeout=ANSWER_S).topics
        partitions = sorted(known[self._topic].partitions) if self._topic in known else []
        if not partitions:
            raise Misconfigured(f"topic {self._topic} does not exist: check --prefix, or run `kubecdc topics init`")
        low = edges(self._asking.client, self._topic, partitions, FIRST)
        high = edges(self._asking.client, self._topic, partitions, NEXT)
        return {partition: (low[partition], high[partition]) for partition in partitions}

    def _positions(self, start: Start) -> dict[int, int]:
        positions = {}
        if start.where is Where.TIME:
            positions = self.offsets_at(start.time_ms)
        unknown = sorted(set(start.offsets) - set(self._bounds))
        if unknown:
            raise Misconfigured(
                f"{self._topic} has no partition {unknown[0]}: it has {len(self._bounds)}, numbered from 0"
            )
        end = max(high for _, high in self._bounds.values())
        if start.offset > end:
            raise Misconfigured(f"{self._topic} ends at offset {end} at the latest, there is no {start.offset}")
        for partition, (low, high) in self._bounds.items():
            if start.where in (Where.BEGINNING, Where.END):
                positions[partition] = low if start.where is Where.BEGINNING else high
            elif start.where is Where.OFFSETS:
                named = start.offsets.get(partition)
                if named is not None and named > high:
                    raise Misconfigured(
                        f"{self._topic} partition {partition} ends at offset {high}, there is no {named}:"
                        " was the topic made anew?"
                    )
                positions[partition] = max(low, min(high, start.offset if named is None else named))
        self._whole = frozenset(partition for partition, offset in positions.items() if offset == 0)
        return positions

    def _ended(self, message: Message, partition: int) -> bool:
        """Tell whether a message is no record, or lies behind the end."""
        error = message.error()
        if error is None:
            behind = not self._follow and (message.offset() or 0) >= self._bounds[partition][1]
            if behind:
                self._finish(partition)
            return behind
        if error.code() == KafkaError._PARTITION_EOF:
            if not self._follow and (message.offset() or 0) >= self._bounds[partition][1]:
                self._finish(partition)
            return True
        if error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise ChainBroken(f"{self._topic} partition {partition}: records were deleted before they were read")
        if error.code() in _PASSING or error.code() == KafkaError.GROUP_AUTHORIZATION_FAILED:
            return True  # as to the latter: the client looks for its group although it never uses it
        raise Unreachable(f"topic {self._topic} cannot be read: {complaints.advised(error.str(), error.name())}")

    def _finish(self, partition: int) -> None:
        self._unfinished.discard(partition)
        self._consumer.pause([TopicPartition(self._topic, partition)])


def stored(message: Message) -> Stored:
    """A message without its client."""
    return Stored(
        message.partition() or 0, message.offset() or 0, message.timestamp()[1], message.key(), message.value()
    )
