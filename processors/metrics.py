"""What the workers count, and the page and probes that show it.

Numbers only: no names of objects, no content. One registry for each `Metrics`, so that several workers fit into one
process. Every verdict of the pure part has a counter here; a drop is never invisible.
"""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kubecdc.records import Op

_PREFIX = "kubecdc_processor"
_GAP = "gap_"
_OPS = frozenset(op.value.lower() for op in Op)
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """All metrics of one worker."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{_PREFIX}_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(f"{_PREFIX}_{name}", text, labels, registry=registry)

        self.verdicts = counter("verdicts", "Raw records by what became of them, and what was inferred", "verdict")
        self.changes = counter("changes", "Canonical records by op", "op")
        self.gaps = counter("gaps", "Gaps by cause", "cause")
        self.restarts = counter("restarts", "Times that a task started again from the fence")
        self.batch_seconds = Histogram(
            f"{_PREFIX}_batch_seconds", "Time from records to acknowledgement", buckets=_SECONDS, registry=registry
        )
        self.recovery_seconds = Histogram(
            f"{_PREFIX}_recovery_seconds",
            "Time from the fence to the resume offset",
            buckets=_SECONDS,
            registry=registry,
        )
        self.source_offset = gauge("source_offset", "Next offset of the events topic", "partition")
        self.lag = gauge("lag", "Records of the events topic that are not processed", "partition")
        self.unheard = gauge(
            "unheard_seconds",
            "How long Kafka does not answer, or a partition cannot be worked on, and why; absent while all is well",
            *("who", "reason"),
        )
        self.uids = gauge("uids", "UIDs in memory", "partition")

    def count(self, counters: Mapping[str, int]) -> None:
        """Add what a committed batch counted."""
        for name, count in counters.items():
            if not count:
                continue
            if name.startswith(_GAP):
                self.gaps.labels(name.removeprefix(_GAP)).inc(count)
            elif name in _OPS:
                self.changes.labels(name).inc(count)
            else:
                self.verdicts.labels(name).inc(count)

    def forget(self, partition: int) -> None:
        """Drop the gauges of a partition that is no longer ours."""
        for gauge in (self.source_offset, self.lag, self.uids):
            if (str(partition),) in gauge._metrics:  # noqa: SLF001 - remove() warns when there is none
                gauge.remove(str(partition))

    def value(self, name: str, **labels: str) -> float:
        """Sum of all samples `name` (with or without the prefix) that carry these labels; 0 when there is none."""
        full = name if name.startswith(_PREFIX) else f"{_PREFIX}_{name}"
        return sum(
            sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == full and labels.items() <= sample.labels.items()
        )
