"""Producer processes: their sessions driven as `producer.driver` and `producer.service` drive them, without threads.

Driven is production code: `producer.session.step` decides, `producer.publisher.Publisher` numbers, converts and holds
positions back. Modelled is what does I/O: one request a lane whose answers are void once it was cancelled, alarms of
which the latest of a kind rings, discovery, and a process that can be stopped, killed, or frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from kubecdc import wire
from kubecdc.records import EventType
from producer import frames, session
from producer.convert import Context
from producer.metrics import Metrics, StreamMetrics
from producer.past import Past
from producer.publisher import Publisher
from producer.redact import Redactor
from producer.signals import (
    Alarm,
    AuditAnswer,
    AuditDue,
    Back,
    Cancel,
    Checkpoint,
    Count,
    EpochBegun,
    Gone,
    Input,
    Lane,
    Mark,
    Moved,
    ProgressDue,
    Publish,
    PublishAbsent,
    Request,
    Start,
    Stop,
    StreamEnded,
    StreamOpened,
    Verb,
)
from producer.state import Phase
from producer.stored import StoredPositions
from tests.simulation.server import Stream
from tests.simulation.sink import CODEC, Sink
from tests.simulation.world import Kind

if TYPE_CHECKING:
    from tests.simulation.run import Simulation

CLUSTER = "sim"
DISCOVERY_S = 3.0
CONFIRM_S = 1.0
REDACTOR = Redactor(b"k" * 32, ())
METRICS = Metrics()
_PROVES = (EventType.PROGRESS, EventType.RELIST_END)


class Driver:
    """One session of a process."""

    def __init__(self, process: Process, kind: Kind, scope: str, start: Start) -> None:
        simulation = self.simulation = process.simulation
        self.process = process
        self.life = process.runs  # of the process; what is due in another one never comes
        self.kind = kind
        self.scope = scope
        self.stream = wire.stream_name(CLUSTER, kind.group, kind.resource, scope)
        number = f"{process.run}.{len(process.drivers)}"
        self.rng = Random(f"{simulation.plan.seed}/{number}")
        context = Context(
            CLUSTER, kind.group, kind.version, kind.resource, kind.kind, scope, number,
            REDACTOR.for_kind(kind.group, kind.kind), 100_000,
        )  # fmt: skip
        self.publisher = Publisher(
            context,
            process.sink,
            (CODEC, CODEC),
            StreamMetrics(METRICS, kind.resource, scope),
            lambda: simulation.schedule.now_ms,
        )
        self.rules = simulation.plan.watch
        self.machine = session.new(number, self.rules, streamed=simulation.plan.watchlist, recalls=True)
        self.version = kind.version
        self.parked = False
        self.era_told = -1
        self._era: int | None = None
        self._numbers = dict.fromkeys(Lane, 0)
        self._streams: dict[Lane, Stream | None] = dict.fromkeys(Lane)
        self._tickets: dict[type[Any], int] = {}
        self._ticket = 0
        self.step(start)
        self._ring_later(ProgressDue(), self.rules.progress_interval_s)
        self._audit_later()

    @property
    def noticed(self) -> bool:
        """It knows of the store's present era."""
        return self.era_told == self.simulation.world.era or self.machine.phase in (Phase.STOPPED, Phase.PARKED)

    def order(self, signal: Input) -> None:
        """From the service."""
        self.step(signal)

    def step(self, signal: Input) -> None:
        """One input, and what follows from it."""
        if self.machine.phase is Phase.STOPPED and not isinstance(signal, Stop):
            return
        self.machine, outputs = session.step(self.machine, signal)
        for out in outputs:
            self._perform(out)
            if isinstance(out, Publish) or (isinstance(out, Mark) and out.type in _PROVES):
                self.simulation.spoke(self, out.epoch, self._era, firm=out.type is not EventType.LISTED)

    def _perform(self, out: object) -> None:
        match out:
            case Publish():
                self.publisher.publish(out)
            case Mark():
                self.publisher.mark(out)
            case Checkpoint():
                self.publisher.checkpoint(out)
            case EpochBegun():
                self.publisher.begin_epoch(out)
            case PublishAbsent():
                self.publisher.publish_absent(out)
            case Request():
                self._ask(out)
            case Cancel():
                self.cancel(out.lane)
            case Alarm():
                spread = 1.0 + self.rng.uniform(0.0 if out.exact else -0.2, 0.2)
                self._ring_later(out.rings, out.seconds * spread)
            case Count():
                self.simulation.counts[f"{out.what} {out.label}".strip()] += 1

    # --- requests ---------------------------------------------------------------------------------------------------

    def cancel(self, lane: Lane) -> None:
        """Make void what is under way."""
        self._numbers[lane] += 1
        stream, self._streams[lane] = self._streams[lane], None
        if stream is not None:
            stream.drop()

    def _ask(self, request: Request) -> None:
        self.cancel(request.lane)
        number = self._numbers[request.lane]
        self.simulation.schedule.after(self.rng.uniform(0.005, 0.1), lambda: self._reach(number, request))

    def _reach(self, number: int, request: Request) -> None:
        """The request is at the server. The answer takes its time as well."""
        server, lane = self.simulation.server, request.lane
        if number != self._numbers[lane]:
            return
        era = self.simulation.world.era
        if request.verb is Verb.RECALL:
            known = self.process.past.recall(self.stream)
            self.simulation.counts["recalled" if not known.why else "recall failed"] += 1
            self._later(number, lane, (AuditAnswer(known) if lane is Lane.AUDIT else known,), era)
            return
        if request.verb is Verb.LIST:
            page = server.list_page(self.kind, self.scope, self.rules.page_size, request.token)
            answer = AuditAnswer(page) if lane is Lane.AUDIT else page
            self._later(number, lane, (answer,), era)
            return
        post = self._follower(number, lane, era)
        opened = (
            server.watch(self.kind, self.scope, request.rv, post)
            if request.verb is Verb.WATCH
            else server.watch_list(self.kind, self.scope, post)
        )
        if not isinstance(opened, Stream):
            self._later(number, lane, (opened,), era)
            return
        self._streams[lane] = opened
        self.deliver(number, lane, (StreamOpened(),), era)

    def _follower(self, number: int, lane: Lane, era: int) -> Callable[[Sequence[bytes], StreamEnded | None], None]:
        splitter = frames.Splitter()

        def post(chunks: Sequence[bytes], end: StreamEnded | None) -> None:
            inputs: list[Input] = []
            for chunk in chunks:
                inputs += map(frames.classify, splitter.feed(chunk))
            if end is not None:
                inputs.append(end)
            if inputs:
                self.deliver(number, lane, tuple(inputs), era)

        return post

    def _later(self, number: int, lane: Lane, inputs: tuple[Input, ...], era: int) -> None:
        self.simulation.schedule.after(
            self.rng.uniform(0.005, 0.1), lambda: self.deliver(number, lane, inputs, era)
        )  # fmt: skip

    def deliver(self, number: int, lane: Lane, inputs: tuple[Input, ...], era: int) -> None:
        """Hand answers over; a cancel among them makes the rest void."""

        def work() -> None:
            for signal in inputs:
                if number != self._numbers[lane]:
                    return
                self._era = era
                self.step(signal)
                self._era = None

        self.process.defer(work, self.life)

    # --- alarms -----------------------------------------------------------------------------------------------------

    def _ring_later(self, signal: Input, seconds: float) -> None:
        self._ticket += 1
        ticket = self._tickets[type(signal)] = self._ticket
        self.simulation.schedule.after(
            seconds, lambda: self.process.defer(lambda: self._ring(signal, ticket), self.life)
        )

    def _ring(self, signal: Input, ticket: int) -> None:
        if self._tickets.get(type(signal)) != ticket:
            return
        del self._tickets[type(signal)]
        self.step(signal)
        if isinstance(signal, ProgressDue):
            self._ring_later(signal, self.rules.progress_interval_s)
        elif isinstance(signal, AuditDue) and AuditDue not in self._tickets:
            self._audit_later()

    def _audit_later(self) -> None:
        if self.rules.audit_interval_s > 0:
            self._ring_later(AuditDue(), self.rules.audit_interval_s * (1.0 + self.rng.uniform(-0.2, 0.2)))

    def audit(self) -> None:
        """From the operator: look now."""
        self.step(AuditDue())

    def discover(self) -> None:
        """Take over what discovery says, and what other producers have stored."""
        kind = self.kind
        if not kind.served and not self.parked:
            self.simulation.schedule.after(CONFIRM_S, lambda: self.process.defer(self._confirm, self.life))
        elif kind.served and self.parked:
            self.parked = False
            self._retarget(Back())
        elif kind.served and kind.version != self.version:
            self._retarget(Moved())
        overtaken = self.process.positions.overtaken(self.stream, self.machine.epoch)
        if overtaken is not None:
            self.simulation.hit("overtaken")
            self.order(overtaken)

    def _confirm(self) -> None:
        if not self.kind.served and not self.parked and self.machine.phase is not Phase.STOPPED:
            self.parked = True
            self.order(Gone())

    def _retarget(self, signal: Input) -> None:
        self.version = self.kind.version
        self.publisher.move(self.version)
        self.order(signal)

    def abandon(self) -> None:
        """The process is gone."""
        self.publisher.abandon()
        for lane in Lane:
            self.cancel(lane)


class Process:
    """A producer. It is running, frozen, or dead; a dead one starts again with a run id of its own."""

    def __init__(self, simulation: Simulation, number: int) -> None:
        self.simulation = simulation
        self.number = number
        self.runs = 0
        self.alive = False
        self.frozen = False
        self._backlog: list[Callable[[], None]] = []
        self.drivers: list[Driver] = []
        self.positions = StoredPositions(lambda _: ((), {}), CODEC)  # type: ignore[arg-type]  # references for bytes

    @property
    def run(self) -> str:
        """Names one life of the process."""
        return f"p{self.number}r{self.runs}"

    def start(self) -> None:
        """Begin with the positions as they are stored now."""
        if self.alive:
            return
        self.runs += 1
        self.alive, self.frozen = True, False
        self._backlog = []
        run = self.runs
        rng = Random(f"{self.simulation.plan.seed}/{self.run}")
        self.sink = Sink(self.simulation, rng, lambda action: self.defer(action, run))
        self.drivers = []
        self.positions = StoredPositions(self.sink.positions, CODEC)  # type: ignore[arg-type]  # references for bytes
        self.positions.refresh()
        self.past = Past(self.sink.state, CODEC, self.positions.epochs())  # type: ignore[arg-type]  # as above
        for kind in self.simulation.world.kinds:
            for scope in self.simulation.plan.scopes:
                stream = wire.stream_name(CLUSTER, kind.group, kind.resource, scope)
                self.drivers.append(Driver(self, kind, scope, self.positions.start(stream)))
        self._discover_later(run)

    def _look(self) -> None:
        self.positions.refresh()
        for driver in self.drivers:
            driver.discover()

    def defer(self, action: Callable[[], None], run: int | None = None) -> None:
        """Run it in the process: at once, when it thaws, or never."""
        if not self.alive or (run is not None and run != self.runs):
            return
        if self.frozen:
            self._backlog.append(action)
        else:
            action()

    def _discover_later(self, run: int) -> None:
        def look() -> None:
            if self.alive and run == self.runs:
                self.defer(self._look, run)
                self._discover_later(run)

        self.simulation.schedule.after(DISCOVERY_S, look)

    def kill(self) -> None:
        """As a power cut does."""
        if not self.alive:
            return
        self.alive = False
        for driver in self.drivers:
            driver.abandon()
        self.sink.die()
        self.drivers = []

    def stop(self) -> None:
        """Gracefully: last PROGRESS, acknowledgements, positions; then it is dead."""
        for driver in self.drivers:
            driver.order(Stop())
        run = self.runs

        def leave() -> None:
            if self.alive and run == self.runs:
                if self.sink.depth():
                    self.simulation.schedule.after(0.2, leave)
                else:
                    self.kill()

        self.simulation.schedule.after(0.2, leave)

    def freeze(self) -> None:
        """As SIGSTOP does."""
        self.frozen = True

    def thaw(self) -> None:
        """Go on, with all that has come in meanwhile."""
        self.frozen = False
        backlog, self._backlog = self._backlog, []
        for position, action in enumerate(backlog):
            if self.frozen:
                self._backlog += backlog[position:]
                return
            action()
