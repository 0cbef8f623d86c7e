"""Terms of office: a new producer each time that the lease is ours, and none while it is not.

Whoever loses the lease is abandoned as if it had been killed: it stores no position any more, since that of its
successor is newer. What it had read and not yet said, the successor reads again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from producer.cluster import Cluster
from producer.elector import Elector
from producer.metrics import Metrics
from producer.service import Producer
from producer.settings import ElectionSettings

log = logging.getLogger(__name__)

TURN_S = 0.1


class Terms:
    """Stands by, and runs what `make` makes while it is elected. A candidate that stands by is healthy and ready."""

    def __init__(
        self, cluster: Cluster, settings: ElectionSettings, make: Callable[[], Producer], metrics: Metrics
    ) -> None:
        self._make = make
        self._metrics = metrics
        self._lock = threading.Lock()
        self._leads = threading.Event()
        self._producer: Producer | None = None
        self._elector = Elector(cluster, settings, self._changed)
        metrics.leading.set(0)

    @property
    def identity(self) -> str:
        """What the lease shows while this candidate holds it."""
        return self._elector.identity

    def healthy(self) -> bool:
        """No session has failed."""
        producer = self._producer
        return producer is None or producer.healthy()

    def ready(self) -> bool:
        """It stands by, or every session of its term is covered."""
        return not self.unready()

    def unready(self) -> tuple[str, ...]:
        """What keeps it from being ready, a sentence each: what /readyz shows."""
        producer = self._producer
        return () if producer is None else producer.unready()

    def notes(self) -> tuple[str, ...]:
        """What is not heard and does not count against readiness, a sentence each: /readyz shows it as well."""
        producer = self._producer
        return () if producer is None else producer.notes()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then end the term gracefully and hand the lease over.

        Raises Misconfigured when there can be no lease, SessionFailed when its thread met a fault of ours, and what
        `Producer.run` raises.
        """
        self._elector.start()
        try:
            while not stop.is_set():
                if self._elector.failure is not None:
                    raise self._elector.failure
                if self._leads.wait(TURN_S):
                    self._serve(stop)
        finally:
            self._elector.release()

    def _serve(self, stop: threading.Event) -> None:
        producer = self._make()
        with self._lock:
            if not self._leads.is_set():
                return
            self._producer = producer
        try:
            producer.run(stop)
        finally:
            self._producer = None

    def _changed(self, leads: bool) -> None:
        self._metrics.leading.set(leads)
        with self._lock:
            if leads:
                self._leads.set()
                return
            self._leads.clear()
            if self._producer is not None:
                self._producer.kill()
