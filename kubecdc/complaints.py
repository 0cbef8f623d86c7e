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
    """Of records that begin with the same word, librdkafka's facility, lets one pass in `QUIET_S` seconds.

    The next one tells how many were left out before it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        message, now = record.getMessage(), self._clock()
        kind = message.partition(" ")[0]
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._next[kind] = now + QUIET_S
        left_out = self._left_out.pop(kind, 0)
        if left_out:
            record.msg, record.args = "%s (%d more of the kind before)", (message, left_out)
        return True


LOG = logging.getLogger("kubecdc.kafka.client")
LOG.addFilter(Seldom())
