"""Carrying out the steps of a plan. Each fault says when it took effect, or does nothing where it makes no sense."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kubecdc.errors import Undecodable
from kubecdc.records import EventType, RawEvent
from producer import frames
from producer.signals import Unreachable, Verb
from tests.simulation.log import Event, Ref
from tests.simulation.plan import REQUEST_FAULTS, STREAM_FAULTS, UNSEEN, WITHHOLD, Step
from tests.simulation.server import Armed, status

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

T = TypeVar("T")
ANY = (Verb.LIST, Verb.WATCH, Verb.WATCHLIST)
WRITES_MAX = 14
RETENTION_OVER = 0.3  # of how many compactions the tombstones go as well
LATER = (WITHHOLD, "cut_in_batch", "frame_garbled")  # they strike with what the stream sends next

ARMED: dict[str, tuple[tuple[Verb, ...], object, bool]] = {
    "instant_close": ((Verb.WATCH,), None, False),
    "throttled": (ANY, status(429, "TooManyRequests", details={"retryAfterSeconds": 1}), False),
    "unauthorized": (ANY, status(401, "Unauthorized"), False),
    "internal_error": (ANY, status(500, "InternalError"), False),
    "unreachable": (ANY, Unreachable("connection refused"), False),
    "not_found": (ANY, status(404, "NotFound"), False),
    "page_expired": ((Verb.LIST,), status(410, "Expired", "The provided continue parameter is too old"), True),
    "page_failed": ((Verb.LIST,), Unreachable("connection reset"), True),
    "page_broken": ((Verb.LIST,), frames.Broken("list is not JSON in UTF-8 (7 bytes)"), True),
    "pages_mixed": ((Verb.LIST,), None, True),
    "stale_list": ((Verb.LIST,), None, False),
    "streamed_list_cut": ((Verb.WATCHLIST,), None, False),
    "streamed_list_endless": ((Verb.WATCHLIST,), None, False),
    "streamed_list_refused": ((Verb.WATCHLIST,), status(422, "Invalid", "sendInitialEvents is forbidden"), False),
}


def chosen(things: Sequence[T], pick: float) -> T | None:
    """One of them, by a number in [0, 1)."""
    return things[int(pick * len(things))] if things else None


def carry_out(simulation: Simulation, step: Step) -> None:
    """Do what a step says."""
    if step.kind == "write":
        for _ in range(1 + int(step.size * WRITES_MAX)):
            simulation.world.write()
    elif step.kind in STREAM_FAULTS or step.kind == WITHHOLD:
        stream = chosen(simulation.server.streams, step.pick)
        if stream is not None and stream.initial is None and stream.suffer(step.kind) and step.kind not in LATER:
            simulation.hit(step.kind)
    elif step.kind in REQUEST_FAULTS and step.kind != "forbidden":
        verbs, answer, later = ARMED[step.kind]
        simulation.server.armed.append(Armed(step.kind, verbs, answer, later))  # type: ignore[arg-type]  # of the table
    elif step.kind.startswith("crash_"):
        partition = int(step.pick * simulation.plan.partitions)
        simulation.crashes[partition] = step.kind.removeprefix("crash_")
    else:
        DIRECT.get(step.kind, _arm)(simulation, step)


def _arm(simulation: Simulation, step: Step) -> None:
    simulation.armed.append((step.kind, int(step.pick * simulation.plan.partitions)))


def _forbidden(simulation: Simulation, step: Step) -> None:
    kind = chosen(simulation.world.kinds, step.pick)
    if kind is not None:
        simulation.server.forbidden[kind.resource] = simulation.schedule.now + 1.0 + 6.0 * step.size
        for stream in [s for s in simulation.server.streams if s.kind is kind]:
            stream.end(clean=False)


def _compacted(simulation: Simulation, step: Step) -> None:
    simulation.world.compact(int(step.size * 30))
    simulation.hit(step.kind)


def _lags(simulation: Simulation, step: Step) -> None:
    world = simulation.world
    simulation.server.lag = (simulation.schedule.now + 1.0 + 4.0 * step.size, world.revision, world.era)
    simulation.hit(step.kind)


def _kind_gone(simulation: Simulation, step: Step) -> None:
    kind = chosen(simulation.world.kinds, step.pick)
    if kind is None or not kind.served or simulation.restoring:
        return
    simulation.world.remove_kind(kind)
    simulation.hit(step.kind)

    def back() -> None:
        kind.served = True

    simulation.schedule.after(1.0 + 9.0 * step.size, back)


def _kind_moved(simulation: Simulation, step: Step) -> None:
    kind = chosen(simulation.world.kinds, step.pick)
    if kind is not None:
        kind.version = {"v1": "v2", "v2": "v1"}[kind.version]
        simulation.hit(step.kind)


def _restored(simulation: Simulation, step: Step) -> None:
    unseen = step.kind == UNSEEN
    if simulation.restore(3 + int(step.size * 40), bump=step.kind != "restored", unseen=unseen):
        simulation.hit(step.kind)


def _broker_away(simulation: Simulation, step: Step) -> None:
    partition = int(step.pick * simulation.plan.partitions)
    simulation.down[partition] = simulation.schedule.now + 0.5 + 5.0 * step.size


def _state_compacted(simulation: Simulation, step: Step) -> None:
    if simulation.log.compact_state(int(step.pick * simulation.plan.partitions)):
        simulation.hit(step.kind)


# --- losses of records: only of what no worker has read, else nothing is lost ----------------------------------------


def _unread(simulation: Simulation, step: Step) -> Event | None:
    partition = int(step.pick * simulation.plan.partitions)
    start = simulation.log.read[partition]
    events = [e for e in simulation.log.events[partition][start:] if not e.gone and e.value is not None]
    return chosen(events, step.size)


def _record_lost(simulation: Simulation, step: Step) -> None:
    event = _unread(simulation, step)
    if event is not None:
        event.gone = "lost"
        simulation.lost.add(int(step.pick * simulation.plan.partitions))
        simulation.hit(step.kind)


def _record_corrupted(simulation: Simulation, step: Step) -> None:
    event = _unread(simulation, step)
    if event is not None:
        event.value = Ref(Undecodable("not Avro"))
        simulation.lost.add(int(step.pick * simulation.plan.partitions))
        simulation.hit(step.kind)


def _poison(simulation: Simulation, step: Step) -> None:
    partition = int(step.pick * simulation.plan.partitions)
    value: object = Undecodable("not Avro")
    if step.size < 0.5:
        bad = dict.fromkeys(RawEvent.__dataclass_fields__, "")
        value = RawEvent(**{  # type: ignore[arg-type]  # a record of somebody else's
            **bad, "epoch": 1, "type": EventType.MODIFIED, "uid": "u", "rv": "007", "seq": 0, "relist": None,
            "generation": None, "deletion_timestamp": None, "managers": (), "object": None, "object_omitted": None,
            "observed_at": 0,
        })  # fmt: skip
    simulation.log.append(partition, simulation.schedule.now_ms, b"poison", Ref(value))
    simulation.hit(step.kind)


def _events_compacted(simulation: Simulation, step: Step) -> None:
    before = simulation.schedule.now_ms - simulation.plan.history_ms
    for partition in range(simulation.plan.partitions):
        if simulation.log.compact_events(partition, before, tombstones=step.size < RETENTION_OVER):
            simulation.lost.add(partition)
            simulation.hit(step.kind)


def _events_cut_off(simulation: Simulation, step: Step) -> None:
    partition = int(step.pick * simulation.plan.partitions)
    topic = simulation.log.events[partition]
    upto = int(len(topic) - 30 * step.size)
    if upto > 0 and simulation.log.delete_events(partition, upto):
        simulation.lost.add(partition)
        simulation.hit(step.kind)


# --- processes ------------------------------------------------------------------------------------------------------


def _producer(act: Callable[[Simulation, object, Step], None]) -> Callable[[Simulation, Step], None]:
    def fault(simulation: Simulation, step: Step) -> None:
        running = [process for process in simulation.processes if process.alive and not process.frozen]
        process = chosen(running, step.pick)
        if process is not None and not simulation.restoring:
            act(simulation, process, step)
            simulation.hit(step.kind)

    return fault


def _killed(simulation: Simulation, process: object, step: Step) -> None:
    process.kill()  # type: ignore[attr-defined]  # a Process
    simulation.schedule.after(0.2 + 8.0 * step.size, process.start)  # type: ignore[attr-defined]  # a Process


def _stopped(simulation: Simulation, process: object, step: Step) -> None:
    process.stop()  # type: ignore[attr-defined]  # a Process
    simulation.schedule.after(3.0 + 6.0 * step.size, process.start)  # type: ignore[attr-defined]  # a Process


def _frozen(simulation: Simulation, process: object, step: Step) -> None:
    process.freeze()  # type: ignore[attr-defined]  # a Process
    simulation.schedule.after(1.0 + 8.0 * step.size, process.thaw)  # type: ignore[attr-defined]  # a Process


def _rebalance(simulation: Simulation, step: Step) -> None:
    simulation.move(int(step.pick * simulation.plan.partitions), step.size)


def _zombie(simulation: Simulation, step: Step) -> None:
    partition = int(step.pick * simulation.plan.partitions)
    if simulation.steal(partition):
        simulation.hit(step.kind)


def _worker_killed(simulation: Simulation, step: Step) -> None:
    worker = chosen([w for w in simulation.workers if w.alive], step.pick)
    if worker is not None:
        worker.die()
        simulation.hit(step.kind)


def _worker_frozen(simulation: Simulation, step: Step) -> None:
    """Longer than the session timeout: the group gives its partitions to others, and it finds out late."""
    worker = chosen([w for w in simulation.workers if w.alive], step.pick)
    if worker is not None:
        worker.frozen_until = simulation.schedule.now + 0.5 + 12.0 * step.size
        for partition in sorted(worker.tasks):
            simulation.schedule.after(2.0, lambda p=partition: simulation.steal(p))
        simulation.hit(step.kind)


DIRECT: dict[str, Callable[[Simulation, Step], None]] = {
    "forbidden": _forbidden,
    "history_compacted": _compacted,
    "server_lags": _lags,
    "kind_gone": _kind_gone,
    "kind_moved": _kind_moved,
    "restored": _restored,
    "restored_bumped": _restored,
    UNSEEN: _restored,
    "broker_away": _broker_away,
    "state_compacted": _state_compacted,
    "record_lost": _record_lost,
    "record_corrupted": _record_corrupted,
    "poison": _poison,
    "events_compacted": _events_compacted,
    "events_cut_off": _events_cut_off,
    "producer_killed": _producer(_killed),
    "producer_stopped": _producer(_stopped),
    "producer_frozen": _producer(_frozen),
    "rebalance": _rebalance,
    "zombie": _zombie,
    "worker_killed": _worker_killed,
    "worker_frozen": _worker_frozen,
}
