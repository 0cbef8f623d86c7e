"""What librdkafka complains of by itself, as lines of our log: each kind once in a while.

A broker that is away makes every client of a process say so at every attempt to connect, many times a second; who reads
the log needs it once. Calls report their errors themselves, so nothing is decided by these lines.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

QUIET_S = 30.0


class Seldom(logging.Filter):
    """Of records that begin with the same word, librdkafka's facility, lets one pass in `QUIET_S` seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        kind, now = record.getMessage().partition(" ")[0], self._clock()
        if now < self._next.get(kind, now):
            return False
        self._next[kind] = now + QUIET_S
        return True


LOG = logging.getLogger("kubecdc.kafka.client")
LOG.addFilter(Seldom())
