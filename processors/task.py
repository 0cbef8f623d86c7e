"""One partition of a worker: fence, read state to its end, then one transaction for each batch.

The order makes it exact (kafka.md 6.2): a new owner fences the old one before it reads state, so nothing can be added
after it has read; output, state and progress are written in one transaction; the source is resumed after
`__progress__`, never after a committed group offset. What is unknown is thrown away and read again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kubecdc.codec import Codec, SchemaIds
from kubecdc.errors import Undecodable, Unreachable
from kubecdc.hearing import Ear, on
from kubecdc.records import RawEvent, UidState
from kubecdc.unheard import Asked, Heard, Left, Refused
from kubecdc.wire import PROGRESS_KEY, is_object_key
from processors import crash, fitting
from processors.errors import Restart, Stop, Stuck
from processors.kafka import Cluster, Pair, Raw, Writer
from processors.metrics import Metrics
from processors.partition import Partition

log = logging.getLogger(__name__)

ATTEMPTS = 6
LOST = "its records cannot be turned into changes, and wait,"
BACKOFF_S = 0.5
BATCH_RECORDS = 4_000
BATCH_BYTES = 16 * 1024 * 1024


class PartitionTask:
    """Owns one partition between `open` and `close`; the calls may come from different threads.

    `history_ms` is the compaction lag of the events topic: a hole in older records is compaction, not loss.
    """

    def __init__(
        self,
        partition: int,
        cluster: Cluster,
        metrics: Metrics,
        *,
        noise: str,
        history_ms: int,
        registry: SchemaIds | None = None,
    ) -> None:
        self.partition = partition
        self._cluster = cluster
        self._metrics = metrics
        self._noise, self._history_ms = noise, history_ms
        self._events = Codec(cluster.names.events, registry)
        self._changes = Codec(cluster.names.changes, registry)
        self._state = Codec(cluster.names.state, registry)
        self.ear = Ear(f"partition {partition}", log, on(metrics.unheard, f"partition {partition}"), lost=LOST)
        self._lock = threading.Lock()
        self._writer: Writer | None = None
        self._memory = self._empty()
        self._acknowledged = 0
        self._recovered = False

    @property
    def next_offset(self) -> int:
        """First source offset whose effects are not known to be committed."""
        return self._acknowledged

    @property
    def recovered(self) -> bool:
        """Whether it is open, and its memory is what is committed; False while it fences and reads."""
        return self._recovered

    def open(self) -> int:
        """Take the partition over; returns the source offset to resume at. Raises Stop."""
        with self._lock:
            offset = self._take_over()
            self.ear.take(Heard(time.monotonic()))
            return offset

    def process(self, records: Sequence[Raw]) -> int | None:
        """Write what the records mean; returns the next offset when it is durable, None when the task is closed.

        Records at or below what is done are ignored. Raises Stop: Fenced when another worker owns the partition, Stuck
        when the batch cannot be committed.
        """
        with self._lock:
            if self._writer is None:
                return None
            for batch in cut(records):
                self._exactly_once(batch)
            crash.point("before_ack")
            return self._memory.next_offset

    def close(self) -> None:
        """Give the partition up; a batch under way is finished first."""
        with self._lock:
            self._discard()
            self.ear.take(Left(time.monotonic()))
            self._memory = self._empty()  # its sealed states refer to us, and what is frozen no collector finds
            self._metrics.forget(self.partition)

    def _empty(self) -> Partition:
        return Partition(self.partition, noise=self._noise, history_ms=self._history_ms)

    def _take_over(self) -> int:
        last: Exception | None = None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                with self._metrics.recovery_seconds.time():
                    return self._recover()
            except (Restart, Unreachable) as error:  # the latter: a Schema Registry that is away
                last = error
                self._start_again(error, attempt)
        raise Stuck(f"partition {self.partition} could not be taken over in {ATTEMPTS} attempts: {last}")

    def _recover(self) -> int:
        writer = self._writer = self._cluster.writer(self.partition)
        writer.fence()
        memory = self._empty()
        stored = self._cluster.committed(self._cluster.names.state, self.partition)
        crash.point("in_recovery")
        self._check(stored)
        for key, value in stored.items():
            try:
                head = self._state.head(value) if is_object_key(key) else None
                if head is not None:
                    memory.seal(head, partial(self._unsealed, key, value))
                else:
                    memory.load(key, self._state.decode(value))
            except Undecodable as error:
                raise _damaged(self.partition, key, error) from error
        self._check_source(memory)
        memory.truncated(self._cluster.low_watermark(self._cluster.names.events, self.partition))
        self._memory, self._acknowledged, self._recovered = memory, memory.next_offset, True
        self._metrics.uids.labels(str(self.partition)).set(memory.uids)
        log.info("partition %d: %d uids, resuming at offset %d", self.partition, memory.uids, memory.next_offset)
        return memory.next_offset

    def _unsealed(self, key: bytes, value: bytes) -> UidState:
        try:
            state: UidState = self._state.decode(value)
        except Undecodable as error:
            raise _damaged(self.partition, key, error) from error
        return state

    def _check(self, stored: Mapping[bytes, bytes]) -> None:
        """Every transaction writes progress: state without it, or changes without state, is damage."""
        names = self._cluster.names
        if PROGRESS_KEY in stored:
            return
        if stored or self._cluster.committed(names.changes, self.partition, first_only=True):
            raise Stop(
                f"{names.state} [{self.partition}] has no {PROGRESS_KEY.decode()} although the partition was processed"
                " before: the state topic was truncated or made anew, and going on would write changes twice: stop all"
                " workers and run `kubecdc rebuild-state`, which makes it anew from the changes topic"
            )

    def _check_source(self, memory: Partition) -> None:
        """A source that ends before what was read of it is another one: its offsets mean other records."""
        events = self._cluster.names.events
        end = self._cluster.high_watermarks(events, (self.partition,))[self.partition]
        if end < memory.next_offset:
            raise Stop(
                f"{events} [{self.partition}] ends at offset {end}, and was processed up to {memory.next_offset}: it"
                " was made anew, or has lost its end; going on would skip what is new in it: stop all producers and"
                " workers and begin under another --prefix, or delete all four topics of this one"
            )

    def _start_again(self, error: Exception, attempt: int) -> None:
        log.warning("partition %d: %s (attempt %d of %d)", self.partition, error, attempt, ATTEMPTS)
        self._metrics.restarts.inc()
        self.ear.take(Refused(time.monotonic(), _culprit(error), str(error)))
        self._discard()
        time.sleep(BACKOFF_S * attempt)

    def _exactly_once(self, records: Sequence[Raw]) -> None:
        """Commit the batch, whatever it takes; after a fence only what `__progress__` does not hold is applied."""
        reached = self._memory.next_offset
        last: Exception | None = None
        for attempt in range(1, ATTEMPTS + 1):
            try:
                self._transaction(records)
            except (Restart, Unreachable) as error:
                last = error
                self._start_again(error, attempt)
                if self._take_over() < reached:
                    raise Stop(
                        f"partition {self.partition}: committed state before offset {reached} is lost"
                    ) from error
            except Stop:
                self._discard()
                raise
            except Exception as error:
                # Memory is half changed, and the same input would fail again: it must not be skipped.
                self._discard()
                where = f"offsets {records[0][0]} to {records[-1][0]}"
                raise Stop(f"partition {self.partition}, {where}: {type(error).__name__}: {error}") from error
            else:
                return
        raise Stuck(f"partition {self.partition}: a batch could not be committed in {ATTEMPTS} attempts: {last}")

    def _transaction(self, records: Sequence[Raw]) -> None:
        if self._writer is None:
            raise Restart("there is no producer")
        began = time.monotonic()
        self.ear.take(Asked(began))
        counters: Counter[str] = Counter()
        # Each record is decoded, applied and encoded before the next: what one needs is still in the processor's cache.
        self._writer.write(self._changed(records, counters), self._drained(counters))
        self.ear.take(Heard(time.monotonic()))
        self._acknowledged = self._memory.next_offset
        self._metrics.count(counters)
        self._metrics.batch_seconds.observe(time.monotonic() - began)
        self._metrics.uids.labels(str(self.partition)).set(self._memory.uids)
        self._metrics.source_offset.labels(str(self.partition)).set(self._memory.next_offset)

    def _changed(self, records: Sequence[Raw], counters: Counter[str]) -> Iterator[Pair]:
        """Apply the records one by one, and give what each of them changes."""
        memory, encode, now_ms = self._memory, self._changes.encode, int(time.time() * 1000)
        for offset, timestamp_ms, _, value in records:
            memory.apply(offset, self._decoded(value), timestamp_ms, now_ms)
            for addressed, change in memory.take():
                if change is None:
                    yield addressed, None
                    continue
                written, omitted = fitting.fit(change, encode)
                if omitted:
                    counters[fitting.COUNTER] += 1
                yield addressed, written

    def _drained(self, counters: Counter[str]) -> Iterator[Pair]:
        """State and progress after the batch."""
        batch, encode = self._memory.drain(), self._state.encode
        counters.update(batch.counters)
        for key, record in batch.state:
            yield key, None if record is None else encode(record)

    def _decoded(self, value: bytes | None) -> RawEvent | Undecodable | None:
        if value is None:
            return None
        try:
            event = self._events.decode(value)
        except Undecodable as error:
            return error
        return event if isinstance(event, RawEvent) else Undecodable(f"a {type(event).__name__} in the events topic")

    def _discard(self) -> None:
        writer, self._writer, self._recovered = self._writer, None, False
        if writer is not None:
            writer.discard()


def _culprit(error: Exception) -> str:
    """Who it is that keeps a partition, as metrics show it."""
    return "registry" if isinstance(error, Unreachable) else "kafka"


def _damaged(partition: int, key: bytes, error: Undecodable) -> Stop:
    return Stop(
        f"state of partition {partition}, key {key!r}: {error}; the state topic is damaged, or written by a"
        " newer version"
    )


def cut(records: Sequence[Raw], count: int = BATCH_RECORDS, size: int = BATCH_BYTES) -> Iterator[Sequence[Raw]]:
    """Batches of at most `count` records and `size` bytes; a larger record is a batch of its own."""
    start, held = 0, 0
    for number, (_, _, _, value) in enumerate(records):
        length = len(value or b"")
        if number > start and (number - start >= count or held + length > size):
            yield records[start:number]
            start, held = number, 0
        held += length
    if start < len(records):
        yield records[start:]
