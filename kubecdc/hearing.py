"""An ear for one partner: a silence in the log, in a metric and in what /readyz shows; `kubecdc.unheard` decides when.

It adds the clocks: monotonic for how long, the wall's for since when. Safe to use from several threads.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from prometheus_client import Gauge

from kubecdc import unheard
from kubecdc.unheard import Hearing, Input, Look, Over, Warned

Show = Callable[[str, Callable[[], float] | None], None]  # a reason, and how many seconds so far; None: it is over


def on(gauge: Gauge, *labels: str) -> Show:
    """Show a silence in a gauge whose last label is the reason; where there is no silence there is no sample."""

    def show(reason: str, seconds: Callable[[], float] | None) -> None:
        if seconds is None:
            gauge.remove(*labels, reason)
        else:
            gauge.labels(*labels, reason).set_function(seconds)

    return show


class Ear:
    """Hears of one partner, who is called `name`; `lost` says what a silence means, `fields` go with each log line."""

    def __init__(
        self,
        name: str,
        log: logging.Logger,
        show: Show,
        *,
        lost: str = "nothing heard",
        fields: Mapping[str, object] | None = None,
    ) -> None:
        self._name, self._log, self._show, self._lost = name, log, show, lost
        self._fields = fields
        self._lock = threading.Lock()
        self._state = Hearing()
        self._shown: str | None = None

    @property
    def silent(self) -> bool:
        """Whether a silence is under way, or a question: then what is heard makes a difference."""
        return self._state.since is not None or self._state.asked is not None

    def take(self, signal: Input) -> None:
        """Take note of what happened."""
        with self._lock:
            self._state, outputs = unheard.step(self._state, signal)
            self._shown_now()
        for output in outputs:
            self._tell(output)

    def look(self, reason: str = unheard.NO_ANSWER, detail: str = "") -> None:
        """Tell what has become due."""
        self.take(Look(time.monotonic(), reason, detail))

    def due(self) -> float | None:
        """When `look` is needed next, by the monotonic clock."""
        return unheard.due(self._state)

    def seconds(self) -> float:
        """How long the silence has lasted so far; 0 when there is none."""
        return self._state.lasted_s(time.monotonic())

    def sentence(self, longer_than_s: float = 0.0) -> str:
        """Who is not heard, since when and why; empty when there is no silence, or one that is not longer yet."""
        state, now = self._state, time.monotonic()
        lasted_s = state.lasted_s(now)
        if state.since is None or lasted_s < longer_than_s:
            return ""
        return self._worded(state.reason, state.detail, state.count, lasted_s)

    def _shown_now(self) -> None:
        reason = self._state.reason if self._state.since is not None else None
        if reason == self._shown:
            return
        if self._shown is not None:
            self._show(self._shown, None)
        if reason is not None:
            self._show(reason, self.seconds)
        self._shown = reason

    def _tell(self, output: Warned | Over) -> None:
        if isinstance(output, Warned):
            said = self._worded(output.reason, output.detail, output.count, output.lasted_s)
            self._log.warning("%s", said, extra=self._fields)
            return
        self._log.info(
            "%s: heard again after %.0f s of silence (%s)", self._name, output.lasted_s, output.reason,
            extra=self._fields,
        )  # fmt: skip

    def _worded(self, reason: str, detail: str, count: int, lasted_s: float) -> str:
        since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - lasted_s))
        times = f", {count} failed {'request' if count == 1 else 'requests'}" if count else ""
        why = f"{reason} ({detail})" if detail else reason
        return f"{self._name}: {self._lost} for {lasted_s:.0f} s, since {since}{times}: {why}"
