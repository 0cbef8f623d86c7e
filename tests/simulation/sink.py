"""A producer's way to Kafka in the simulation: batches by partition, one under way at a time, acknowledged in order.

What a process had sent before it died may still arrive, much later, and is never acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from kubecdc.errors import Unreachable
from kubecdc.records import EventType, Position, RawEvent
from producer.sink import Place
from tests.simulation.log import Codec, Ref

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

Told = tuple[bytes, Ref | None, Ref | None]  # key, value, what a tombstone tells
Waiting = tuple[Told, Callable[[], None]]
CODEC = Codec()
TOMBSTONE_LOST = 0.6  # how often a lost DELETED takes its tombstone along


class Sink:
    """A `producer.sink.Sink`. `defer` runs something in the process when it is able to run: now, later, or never."""

    def __init__(self, simulation: Simulation, rng: Random, defer: Callable[[Callable[[], None]], None]) -> None:
        self._simulation = simulation
        self._rng = rng
        self._defer = defer
        self._waiting: list[deque[Waiting]] = [deque() for _ in range(simulation.plan.partitions)]
        self._under_way = [False] * simulation.plan.partitions
        self._positions: dict[bytes, Position] = {}
        self._dead = False

    @property
    def partitions(self) -> int:
        return self._simulation.plan.partitions

    def positions(self, since: Place | None) -> tuple[list[tuple[str, Ref | None]], Place]:
        return [(stream, Ref(position)) for stream, position in sorted(self._simulation.log.positions.items())], {}

    def state(self) -> Iterator[tuple[bytes, Ref | None]]:
        """What workers have committed. Raises Unreachable while a broker is away."""
        simulation = self._simulation
        for partition, topic in enumerate(simulation.log.state):
            if simulation.down.get(partition, 0.0) > simulation.schedule.now:
                simulation.hit("state_unreadable")
                raise Unreachable("the state topic cannot be read")
            for written in simulation.log.committed(topic):
                yield written.key, written.value

    def send(
        self,
        partition: int,
        key: bytes,
        value: Ref | None,
        on_ack: Callable[[], None],
        headers: Sequence[tuple[str, Ref]] = (),
    ) -> None:
        if self._dead:
            return
        told = next((content for _, content in headers), None)
        self._waiting[partition].append(((key, value, told), on_ack))
        if not self._under_way[partition]:
            self._under_way[partition] = True
            self._later(lambda: self._arrive(partition))

    def store_position(self, key: bytes, value: Ref) -> None:
        assert isinstance(value.record, Position)
        fresh = key not in self._positions
        self._positions[key] = value.record
        if fresh:
            self._later(lambda: self._store(key))

    def store_now(self, key: bytes, value: Ref) -> None:
        assert isinstance(value.record, Position)
        self._simulation.log.positions[key.decode()] = value.record

    def depth(self) -> int:
        return sum(map(len, self._waiting)) + sum(self._under_way) + len(self._positions)

    def flush(self, timeout_s: float) -> bool:
        raise NotImplementedError("nothing may wait in the simulation")

    def close(self) -> None:
        self._dead = True

    def die(self) -> None:
        """The process is gone. Of what it had queued a part has reached the network."""
        self._dead = True
        for partition, waiting in enumerate(self._waiting):
            sent = [record for record, _ in waiting][: self._rng.randrange(len(waiting) + 1)]
            waiting.clear()
            if sent:
                delay = self._rng.choice((0.01, 0.5, 4.0))
                if delay > 1:
                    self._simulation.hit("records_arrive_late")
                self._simulation.schedule.after(delay, lambda p=partition, s=sent: self._append(p, s))
        self._positions.clear()

    def _later(self, action: Callable[[], None]) -> None:
        self._simulation.schedule.after(self._rng.uniform(0.002, 0.06), action)

    def _append(self, partition: int, records: list[Told]) -> None:
        simulation = self._simulation
        lost_with = b""
        for key, value, told in records:
            simulation.log.append(partition, simulation.schedule.now_ms, key, value, told)
            if value is not None and simulation.armed and _struck(simulation, partition, value.record):
                simulation.log.events[partition][-1].gone = "lost"
                simulation.lost.add(partition)
                lost_with = key if self._rng.random() < TOMBSTONE_LOST else b""
            elif value is None and key == lost_with:
                simulation.log.events[partition][-1].gone = "lost"
                simulation.hit("tombstone_lost")

    def _arrive(self, partition: int) -> None:
        """A request reaches the broker."""
        simulation = self._simulation
        if self._dead:
            return
        if simulation.down.get(partition, 0.0) > simulation.schedule.now:
            simulation.hit("broker_away")
            simulation.schedule.after(0.4, lambda: self._arrive(partition))
            return
        waiting = self._waiting[partition]
        batch = [waiting.popleft() for _ in range(self._rng.randrange(1, len(waiting) + 1))]
        records = [record for record, _ in batch]
        self._append(partition, records)
        delay = self._rng.uniform(0.002, 0.06)
        if simulation.armed and _again(
            simulation, partition, records
        ):  # the broker had forgotten the producer's sequence
            self._append(partition, records)
        if simulation.take("ack_lost", partition):  # sent again, known to the broker, acknowledged at last
            delay += self._rng.uniform(0.5, 3.0)
        simulation.schedule.after(delay, lambda: self._defer(lambda: self._acknowledged(partition, batch)))

    def _acknowledged(self, partition: int, batch: list[Waiting]) -> None:
        self._under_way[partition] = False
        for _, on_ack in batch:
            on_ack()
        if self._waiting[partition] and not self._under_way[partition]:
            self._under_way[partition] = True
            self._later(lambda: self._arrive(partition))

    def _store(self, key: bytes) -> None:
        position = self._positions.pop(key, None)
        if position is not None and not self._dead:
            self._simulation.log.positions[key.decode()] = position


def _again(simulation: Simulation, partition: int, records: list[Told]) -> bool:
    """Whether the broker appends the batch once more: any, or one with items of a list but neither of its ends."""
    types = {ref.record.type for _, ref, _ in records if ref is not None and isinstance(ref.record, RawEvent)}
    items = EventType.LISTED in types and not types & {EventType.RELIST_START, EventType.RELIST_END}
    return simulation.take("append_twice", partition) or (items and simulation.take("items_twice", partition))


def _struck(simulation: Simulation, partition: int, record: object) -> bool:
    """A loss that waits for a record of this kind strikes it before anybody has read it."""
    if not isinstance(record, RawEvent):
        return False
    if record.type is EventType.LISTED:
        return simulation.take("item_lost", partition)
    if record.type is EventType.DELETED:
        return simulation.take("delete_lost", partition)
    return record.uid is None and simulation.take("marker_lost", partition)
