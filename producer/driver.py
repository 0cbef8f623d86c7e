"""The thread that drives one watch session: inputs and alarms in, requests and records out.

All decisions are those of `producer.session`; this module keeps its promises: one request a lane, nothing of a
cancelled one, alarms that ring. It waits where the sink waits, which holds the server back.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable
from typing import Any

from kubecdc.records import EventType
from producer import frames, session
from producer.attention import Attention
from producer.cluster import Cluster
from producer.errors import SessionFailed, SinkFailed
from producer.lanes import Delivery, LaneRunner, Target
from producer.mailbox import Mailbox
from producer.metrics import StreamMetrics
from producer.past import unknown
from producer.publisher import Publisher
from producer.signals import (
    Alarm,
    AuditDue,
    Back,
    Cancel,
    Checkpoint,
    Count,
    EpochBegun,
    Input,
    Lane,
    Mark,
    Moved,
    Output,
    ProgressDue,
    Publish,
    PublishAbsent,
    Recalled,
    Request,
    Start,
    Stop,
    StreamEnded,
    Unreachable,
)
from producer.state import Phase, Session

log = logging.getLogger(__name__)

LEVELS = {EventType.PROGRESS: logging.DEBUG, EventType.COVERAGE_LOST: logging.WARNING}
MAILBOX_BYTES = 1024 * 1024
JITTER = 0.2
Progress = Callable[[str, int, int | None], None]  # what is listed, items so far, items to come (None: list is over)


class Driver(threading.Thread):
    """Runs a session from Start until Stop or a fault, which `failed` then holds."""

    def __init__(
        self,
        machine: Session,
        target: Target,
        cluster: Cluster,
        publisher: Publisher,
        metrics: StreamMetrics,
        *,
        progress: Progress,
        recall: Callable[[], Recalled] = unknown,
    ) -> None:
        super().__init__(name=f"{target.kind.name} {target.namespace}".strip(), daemon=True)
        self.target = target
        self.failed: Exception | None = None
        self._machine = machine
        self._publisher = publisher
        self._metrics = metrics
        self._progress = progress
        self._moves: queue.SimpleQueue[Target] = queue.SimpleQueue()
        self._mailbox: Mailbox[Delivery] = Mailbox(MAILBOX_BYTES)
        self._lanes = {lane: LaneRunner(lane, cluster, self._mailbox, recall) for lane in Lane}
        self._alarms: dict[type[Any], tuple[float, Input]] = {}
        self._killed = False
        self._listed = 0
        self.labels = {"resource": target.kind.name, "scope": target.namespace, "session": machine.id}
        self._attention = Attention(self.name, metrics.unheard(), self.labels)

    # --- for the service's thread ----------------------------------------------------------------------------------

    def order(self, *inputs: Input) -> None:
        """Hand over Start, Gone, AuditDue, Overtaken or Stop; returns at once. Moved and Back go through `retarget`."""
        self._mailbox.post(Delivery(None, 0, inputs))

    def retarget(self, target: Target, moved: Input) -> None:
        """Ask for another API version of the same resource from now on."""
        self._moves.put(target)
        self.order(moved)

    def kill(self) -> None:
        """Abandon everything at once: no marker, no position."""
        self._killed = True
        self._publisher.abandon()
        self._mailbox.close()
        for lane in self._lanes.values():
            lane.cancel()

    @property
    def epoch(self) -> int:
        """The epoch that the session is in."""
        return self._machine.epoch

    @property
    def acknowledged(self) -> int:
        """How many of its records were acknowledged so far."""
        return self._publisher.acknowledged

    def stored(self) -> bool:
        """Nothing that was read is waiting to be worked on, told, acknowledged or stored; a list may be to come."""
        begun = self._machine.phase is not Phase.NEW
        return begun and self._mailbox.idle() and not self._machine.versions.untold and self._publisher.settled()

    def settled(self) -> bool:
        """All is stored, and no list is to come."""
        return self.stored() and self._machine.phase in (Phase.LIVE, Phase.OPENING, Phase.WAITING, Phase.PARKED)

    def covered(self) -> bool:
        """The session knows a version to watch from, or has told that it lost coverage."""
        return self._machine.versions.safe is not None or self._machine.lost

    def current(self) -> bool:
        """The server is heard, as `Attention.current` has it."""
        return self._attention.current(self._machine, idle=self._mailbox.idle())

    def unready(self) -> str:
        """Why it is not ready, in a sentence; empty when it is."""
        covered = self.covered()
        return "" if covered and self.current() else self._attention.why(covered=covered)

    def note(self) -> str:
        """What is not heard and does not count against readiness; empty for nothing."""
        return self._attention.note(self._machine)

    # --- the thread -------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until the session has stopped."""
        try:
            self._ring_later(ProgressDue(), self._machine.rules.progress_interval_s)
            self._audit_later()
            while self._machine.phase is not Phase.STOPPED and not self._killed:
                self._turn()
        except SinkFailed as error:
            self.failed = None if self._killed else error
        except Exception as error:  # noqa: BLE001 - the service ends the process with it
            failure = SessionFailed(f"{self.name}: {type(error).__name__}")
            failure.__cause__ = error
            self.failed = failure
        finally:
            for lane in self._lanes.values():
                lane.cancel()
            self._mailbox.close()
            self._attention.leave()
            self._metrics.phase("")

    def _turn(self) -> None:
        due = self._attention.due(min((at for at, _ in self._alarms.values()), default=time.monotonic() + 1.0))
        for delivery in self._mailbox.take(max(0.0, due - time.monotonic())):
            self._deliver(delivery)
        now = time.monotonic()
        for rings in [kind for kind, (at, _) in self._alarms.items() if at <= now]:
            _, signal = self._alarms.pop(rings)
            self._step(signal)
            if rings is ProgressDue:
                self._ring_later(signal, self._machine.rules.progress_interval_s)
            elif rings is AuditDue and rings not in self._alarms:
                self._audit_later()
        self._attention.look()

    def _deliver(self, delivery: Delivery) -> None:
        lane = delivery.lane
        for signal in delivery.inputs:
            # A cancel in the middle of a batch makes the rest of it void.
            if self._killed or (lane is not None and delivery.number != self._lanes[lane].number):
                return
            self._step(signal)
        if lane is not None and not isinstance(delivery.inputs[-1], Unreachable | StreamEnded | frames.ServerError):
            self._attention.served()
            self._metrics.frame()

    def _step(self, signal: Input) -> None:
        if self._machine.phase is Phase.STOPPED and not isinstance(signal, Stop):
            return
        if isinstance(signal, Moved | Back):
            # Not when it is ordered: answers of the old version that wait here must not bear the name of the new one.
            self.target = self._moves.get_nowait()
            self._publisher.move(self.target.kind.version)
        before = self._machine
        self._machine, outputs = session.step(before, signal)
        self._attention.stepped(before, self._machine, signal)
        if self._machine.phase is not before.phase:
            self._entered(before.phase, signal)
        for out in outputs:
            self._perform(out)
        if isinstance(signal, frames.Page):
            self._listed += len(signal.items)
            self._report(signal)

    def _perform(self, out: Output) -> None:
        match out:
            case Publish():
                self._publisher.publish(out)
            case Mark():
                level = LEVELS.get(out.type, logging.INFO)
                labels = {**self.labels, "version": out.rv}
                why = out.detail or (out.relist.reason if out.relist else "")
                log.log(level, "%s %s at %s %s", self.name, out.type, out.rv, why, extra=labels)
                self._publisher.mark(out)
            case Checkpoint():
                self._publisher.checkpoint(out)
            case EpochBegun():
                log.warning("%s: the server was restored, epoch %d begins", self.name, out.epoch, extra=self.labels)
                self._publisher.begin_epoch(out)
            case PublishAbsent():
                self._publisher.publish_absent(out)
            case Request():
                self._attention.performing(out)
                self._lanes[out.lane].ask(out, self.target)
            case Cancel():
                self._attention.performing(out)
                self._lanes[out.lane].cancel()
            case Alarm():
                spread = 1.0 + random.uniform(0.0 if out.exact else -JITTER, JITTER)  # noqa: S311 - no secret
                self._ring_later(out.rings, out.seconds * spread)
            case Count():
                self._metrics.count(out.what, out.label)

    def _entered(self, before: Phase, signal: Input) -> None:
        phase = self._machine.phase
        self._metrics.phase(phase)
        log.debug("%s %s -> %s by %s", self.name, before, phase, type(signal).__name__, extra=self.labels)
        if phase is Phase.LISTING or before is Phase.LISTING:
            self._listed = 0

    def _report(self, page: frames.Page) -> None:
        self._metrics.listed(self._listed)
        over = self._machine.phase is not Phase.LISTING
        self._progress(self.name, self._listed, None if over else page.remaining or 0)

    def _ring_later(self, signal: Input, seconds: float) -> None:
        self._alarms[type(signal)] = (time.monotonic() + seconds, signal)

    def _audit_later(self) -> None:
        interval = self._machine.rules.audit_interval_s
        if interval > 0:
            self._ring_later(AuditDue(), interval * (1.0 + random.uniform(-JITTER, JITTER)))  # noqa: S311 - spreads load


def begin(driver: Driver, start: Start) -> None:
    """Start the thread with its first input."""
    driver.order(start)
    driver.start()
