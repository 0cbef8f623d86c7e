"""How the sessions of a producer are made: what each of them is called, publishes with, and is driven by.

It decides neither which kinds are followed nor from where: that is the service's.
"""

from __future__ import annotations

import itertools
import logging
import secrets
import time
from collections.abc import Callable

from kubecdc.codec import Codec
from kubecdc.records import EventType, Position
from producer import session
from producer.cluster import Cluster
from producer.convert import Context
from producer.driver import Driver
from producer.lanes import Target
from producer.metrics import Metrics, StreamMetrics
from producer.progress import ListProgress
from producer.publisher import Publisher
from producer.redact import Redactor, parse_rules
from producer.selection import ResourceInfo
from producer.settings import ProducerSettings
from producer.signals import Mark, Recalled
from producer.sink import Sink

log = logging.getLogger(__name__)


def now_ms() -> int:
    """Wall clock in epoch milliseconds, for `observed_at`."""
    return time.time_ns() // 1_000_000


class Sessions:
    """Makes sessions whose ids no other run has. Raises Misconfigured for unusable redaction rules."""

    def __init__(
        self, cluster: Cluster, sink: Sink, settings: ProducerSettings, metrics: Metrics, codecs: tuple[Codec, Codec]
    ) -> None:
        self._cluster, self._sink, self._watch = cluster, sink, settings.watch
        self._metrics, self._codecs = metrics, codecs
        rules = parse_rules(settings.redaction.rules)
        self._redactor = Redactor(settings.redaction.key or secrets.token_bytes(32), rules)
        self._progress = ListProgress()
        self._run_id = secrets.token_hex(6)
        self._numbers = itertools.count()

    def target(self, info: ResourceInfo, scope: str) -> Target:
        """What a session asks the server for."""
        return Target(info, scope, self._watch.page_size)

    def driver(self, info: ResourceInfo, scope: str, *, streamed: bool, recall: Callable[[], Recalled]) -> Driver:
        """A session of a kind, which has not begun; `streamed` lets its first list be a watch."""
        session_id, publisher, metrics = self._publisher(info, scope)
        machine = session.new(session_id, self._watch, streamed=streamed, recalls=True)
        target = self.target(info, scope)
        return Driver(machine, target, self._cluster, publisher, metrics, progress=self._progress, recall=recall)

    def tell_unserved(self, position: Position) -> None:
        """Say in the log that coverage is lost of a kind that went while no producer ran; nobody else would."""
        info = ResourceInfo(position.group, position.version, position.resource, "", True, frozenset())
        log.warning("%s is not served any more, its coverage is lost", info.name)
        _, publisher, metrics = self._publisher(info, position.scope)
        publisher.mark(Mark(EventType.COVERAGE_LOST, position.epoch, None, detail="the kind is not served any more"))
        metrics.count("coverage_lost", "")

    def close(self) -> None:
        """Show no progress any more."""
        self._progress.close()

    def _publisher(self, info: ResourceInfo, scope: str) -> tuple[str, Publisher, StreamMetrics]:
        session_id = f"{self._run_id}.{next(self._numbers)}"
        context = Context(
            self._cluster.name,
            info.group,
            info.version,
            info.resource,
            info.kind,
            scope,
            session_id,
            self._redactor.for_kind(info.group, info.kind),
            self._watch.max_object_bytes,
        )
        metrics = StreamMetrics(self._metrics, info.name, scope)
        return session_id, Publisher(context, self._sink, self._codecs, metrics, now_ms), metrics
