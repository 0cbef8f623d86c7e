"""From a session's outputs to records in the sink: partition, sequence number, bytes, and which position may be stored.

It knows neither the cluster nor why something is published. `seq` is contiguous for each partition over everything that
has a value, markers included, so that a reader sees every hole. Called by the session's thread; acknowledgements come
in any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kubecdc import wire
from kubecdc.codec import Codec
from kubecdc.records import EventType, Position, RawEvent
from producer import convert
from producer.metrics import StreamMetrics
from producer.positions import Tracker
from producer.signals import Checkpoint, EpochBegun, Mark, Publish, PublishAbsent
from producer.sink import Sink


class Publisher:
    """Numbers, encodes and sends the records of one session. `now_ms` is the wall clock in epoch ms."""

    def __init__(
        self,
        context: convert.Context,
        sink: Sink,
        codecs: tuple[Codec, Codec],
        metrics: StreamMetrics,
        now_ms: Callable[[], int],
    ) -> None:
        self._context = context
        self._sink = sink
        self._events, self._positions = codecs
        self._metrics = metrics
        self._now_ms = now_ms
        self._stream = wire.stream_name(context.cluster, context.group, context.resource, context.scope)
        partitions = sink.partitions
        self._next = [0] * partitions
        self._listed = [0] * partitions
        self._tracker: Tracker[Position] = Tracker(partitions)
        self._lock = threading.Lock()
        self._on_ack = [partial(self._acked, partition) for partition in range(partitions)]
        self._abandoned = False
        self._behind_since: int | None = None  # epoch ms; None: all that was sent lies before the stored position
        self._sent = self._told = 0
        self.acknowledged = 0  # records, so far
        metrics.follow_lag(self.lag_s)

    def move(self, version: str) -> None:
        """Later records are of this API version."""
        self._context = replace(self._context, version=version)

    def publish(self, out: Publish) -> None:
        """Send the record of an object; a DELETED is followed by a tombstone that tells of it."""
        partition = wire.partition_of(out.item.uid, len(self._next))
        event, redacted = convert.to_event(
            self._context,
            out.item,
            out.type,
            epoch=out.epoch,
            seq=self._next[partition],
            observed_at=self._now_ms(),
            relist=out.relist,
        )
        if out.type is EventType.LISTED:
            self._listed[partition] += 1
        self._metrics.object_sent(event, redacted)
        self._object(partition, event)

    def publish_absent(self, out: PublishAbsent) -> None:
        """Send the DELETED of an object that an audit did not find."""
        partition = wire.partition_of(out.uid, len(self._next))
        event = convert.absent(
            self._context,
            out.uid,
            out.rv,
            epoch=out.epoch,
            seq=self._next[partition],
            observed_at=self._now_ms(),
            relist=out.relist,
        )
        self._metrics.object_sent(event)
        self._object(partition, event)

    def mark(self, out: Mark) -> None:
        """Send a marker to every partition; RELIST_END tells each how many items it was sent."""
        if out.type is EventType.RELIST_START:
            self._listed = [0] * len(self._next)
        key = wire.marker_key(self._stream, out.type)
        observed_at = self._now_ms()
        for partition, seq in enumerate(self._next):
            relist = out.relist
            if relist is not None and out.type is EventType.RELIST_END:
                relist = replace(relist, expected=self._listed[partition])
            event = convert.marker(
                self._context,
                out.type,
                epoch=out.epoch,
                seq=seq,
                observed_at=observed_at,
                rv=out.rv,
                relist=relist,
                detail=out.detail,
            )
            self._send(partition, key, event)
        self._metrics.marked(out.type)

    def checkpoint(self, out: Checkpoint) -> None:
        """Store the position as soon as everything sent so far is acknowledged."""
        position = self._position(out.epoch, out.rv)
        with self._lock:
            self._told = self._sent
            self._store(self._tracker.checkpoint(position))

    def begin_epoch(self, out: EpochBegun) -> None:
        """Store that the epoch has begun; returns once that is acknowledged. Raises SinkFailed.

        A producer that starts, or goes on, in the epoch before would say nothing but stale things.
        """
        if not self._abandoned:
            value = self._positions.encode(self._position(out.epoch, ""))
            self._sink.store_now(wire.epoch_key(self._stream), value)

    def _position(self, epoch: int, rv: str) -> Position:
        context = self._context
        return Position(
            context.cluster,
            context.group,
            context.resource,
            context.scope,
            epoch,
            rv,
            context.version,
            context.session,
            self._now_ms(),
        )

    def lag_s(self) -> float:
        """Age in seconds of the oldest record that the stored position does not cover; at most so old."""
        with self._lock:
            since = self._behind_since
        return 0.0 if since is None else max(0.0, (self._now_ms() - since) / 1000)

    def settled(self) -> bool:
        """Everything sent is acknowledged, and its position handed to the sink."""
        with self._lock:
            return self._tracker.outstanding == 0 and self._tracker.pending == 0

    def abandon(self) -> None:
        """Store no position from now on, as if the process had died."""
        with self._lock:
            self._abandoned = True
            self._behind_since = None

    def _object(self, partition: int, event: RawEvent) -> None:
        key = (event.uid or "").encode()
        self._send(partition, key, event)
        if event.type is EventType.DELETED:
            told = self._events.encode(convert.remnant(event))
            self._hand_over(partition, key, None, ((wire.DELETED_HEADER, told),))

    def _send(self, partition: int, key: bytes, event: RawEvent) -> None:
        self._next[partition] += 1
        self._hand_over(partition, key, self._events.encode(event))

    def _hand_over(self, partition: int, key: bytes, value: bytes | None, headers: Sequence[wire.Header] = ()) -> None:
        with self._lock:
            self._tracker.produced(partition)
            self._sent += 1
            if self._behind_since is None and not self._abandoned:
                self._behind_since = self._now_ms()
        self._sink.send(partition, key, value, self._on_ack[partition], headers)

    def _acked(self, partition: int) -> None:
        with self._lock:
            self.acknowledged += 1
            self._store(self._tracker.acked(partition))

    def _store(self, position: Position | None) -> None:
        if position is not None and not self._abandoned:
            self._sink.store_position(self._stream.encode(), self._positions.encode(position))
            self._metrics.position_stored()
            behind = self._tracker.pending or self._sent > self._told
            self._behind_since = position.stored_at if behind else None
