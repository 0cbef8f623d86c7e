"""What the producer counts, and the page and probes that show it.

Numbers only: no names of objects, no content. One registry for each `Metrics`, so that several producers fit into one
process. Every drop, refusal and omission has a counter here.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from kubecdc.hearing import Show, on
from kubecdc.records import EventType, RawEvent

_PREFIX = "kubecdc_producer"


class Metrics:
    """All metrics of one producer."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

        self.events = counter(
            "events", "Records sent, markers included (once, not for each partition)", "resource", "type"
        )
        self.omitted = counter("omitted", "Objects published without their content", "resource", "reason")
        self.redacted = counter("redacted", "Values replaced by a keyed digest", "resource")
        self.positions = counter("positions", "Positions handed over to be stored", "resource")
        self.occurrences = _occurrences(counter)
        self.last_frame = gauge(
            "last_frame_timestamp_seconds", "When the server last sent something", "resource", "scope"
        )
        self.lag = gauge(
            "position_lag_seconds",
            "Age of what was read and lies beyond the stored position; 0: all is stored",
            "resource",
            "scope",
        )
        self.unheard = gauge(
            "unheard_seconds",
            "How long nothing is heard of a kind, or of discovery, and why; absent while it is heard",
            *("resource", "scope", "reason"),
        )
        self.kafka_unheard = gauge(
            "kafka_unheard_seconds",
            "How long Kafka acknowledges nothing that waits, or no positions can be read; absent while it answers",
            *("what", "reason"),
        )
        self.phase = gauge("session_phase", "1 for the phase that a session is in", "resource", "scope", "phase")
        self.leading = gauge("leading", "1 while this producer works: it holds the lease, or needs none")
        self.leading.set(1)
        self.depth = gauge("queue_depth", "Records that Kafka has not acknowledged")
        self.listed = gauge("list_items", "Items read of the list under way", "resource", "scope")

    def value(self, name: str, **labels: str) -> float:
        """Sum of all samples `name` (with or without the prefix) that carry these labels; 0 when there is none."""
        full = name if name.startswith(_PREFIX) else f"{_PREFIX}_{name}"
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == full and labels.items() <= sample.labels.items()
        )


def _occurrences(counter: Callable[..., Counter]) -> dict[str, Counter]:
    """What sessions count by name (`producer.signals.Count`)."""
    return {
        "relists": counter("relists", "Streams given up for a new list", "resource", "reason"),
        "relist_aborted": counter("relist_aborted", "Lists given up after they were announced", "resource"),
        "refusals": counter("refusals", "Requests that the server refused or did not answer", "resource", "reason"),
        "older_lists": counter("older_lists", "Lists that contradict what was read before", "resource"),
        "overtaken": counter("overtaken", "Epochs taken over from another producer", "resource"),
        "coverage_lost": counter("coverage_lost", "Times that a kind could not be watched any more", "resource"),
        "watchlist_fallbacks": counter("watchlist_fallbacks", "Streamed lists given up for paged ones", "resource"),
        "recalls": counter("recalls", "Reads of what the log holds, by how they ended", "resource", "result"),
        "audits": counter("audits", "Audit lists by how they ended", "resource", "result"),
        "silent_watches": counter(
            "silent_watches", "Watches that brought nothing at all, no bookmark either, for too long", "resource"
        ),
        "drift": counter("audit_drift", "Audits that found something the stream had lost", "resource"),
    }


class StreamMetrics:
    """The metrics of one session, with its labels filled in."""

    def __init__(self, metrics: Metrics, resource: str, scope: str) -> None:
        self._metrics = metrics
        self._resource, self._scope = resource, scope
        self._sent = {kind: metrics.events.labels(resource, kind.value) for kind in EventType}
        self._stored = metrics.positions.labels(resource)
        self._redacted = metrics.redacted.labels(resource)
        self._frame = metrics.last_frame.labels(resource, scope)
        self._phase = ""

    def object_sent(self, event: RawEvent, redacted: int = 0) -> None:
        """Count a record of an object, and what was left out of it or replaced in it."""
        self._sent[event.type].inc()
        if redacted:
            self._redacted.inc(redacted)
        if event.object_omitted is not None:
            self._metrics.omitted.labels(self._resource, event.object_omitted.reason).inc()

    def marked(self, kind: EventType) -> None:
        """Count a marker, once for all its partitions."""
        self._sent[kind].inc()

    def unheard(self) -> Show:
        """Where to show that nothing is heard, and why."""
        return on(self._metrics.unheard, self._resource, self._scope)

    def follow_lag(self, lag_s: Callable[[], float]) -> None:
        """Ask for the lag of the position whenever the page is shown."""
        self._metrics.lag.labels(self._resource, self._scope).set_function(lag_s)

    def position_stored(self) -> None:
        """Count a position."""
        self._stored.inc()

    def count(self, what: str, label: str) -> None:
        """Count what a session names. Reasons are cut at the colon: what follows may differ each time."""
        counter = self._metrics.occurrences[what]
        labels = (self._resource, label.partition(":")[0]) if label else (self._resource,)
        counter.labels(*labels).inc()

    def frame(self) -> None:
        """Note that the server sent something just now."""
        self._frame.set_to_current_time()

    def listed(self, items: int) -> None:
        """Tell how far the list under way is."""
        self._metrics.listed.labels(self._resource, self._scope).set(items)

    def phase(self, phase: str) -> None:
        """Tell which phase the session is in; empty: it has ended."""
        if phase != self._phase:
            if self._phase:
                self._metrics.phase.labels(self._resource, self._scope, self._phase).set(0)
            if phase:
                self._metrics.phase.labels(self._resource, self._scope, phase).set(1)
            self._phase = phase
