"""What librdkafka complains of by itself: seldom lines of our log, and the reason of a call that only timed out.

A broker that is away makes every client of a process say so at every attempt to connect, many times a second; who reads
the log needs it once. A call of the client ends with "timed out" or "transport failure" alike where the broker is away,
the password wrong or its certificate unknown: only the complaint tells.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Protocol

QUIET_S = 30.0
_LOGIN = "check the user and the password in --kafka-property"
_RIGHTS = "give the account the rights that README.md names"
# By librdkafka's name of an error; what tells most comes first.
ADVICE = {
    "_AUTHENTICATION": _LOGIN,
    "SASL_AUTHENTICATION_FAILED": _LOGIN,
    "TOPIC_AUTHORIZATION_FAILED": _RIGHTS,
    "GROUP_AUTHORIZATION_FAILED": _RIGHTS,
    "CLUSTER_AUTHORIZATION_FAILED": _RIGHTS,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": _RIGHTS,
    "_SSL": "check security.protocol, ssl.ca.location and the names in the certificate",
    "_RESOLVE": "check the host in --bootstrap",
}
FORBIDDEN = frozenset(name for name, advice in ADVICE.items() if advice is _RIGHTS)


def advised(text: str, name: str) -> str:
    """What an error of that name said, with what to do about it where that is known."""
    advice = ADVICE.get(name)
    return f"{text.rstrip('.')}: {advice}" if advice else text


class Complaint(Protocol):
    """A KafkaError, as far as this module needs it."""

    def name(self) -> str:
        """Its constant's name, such as `_SSL`."""

    def str(self) -> str:
        """What happened."""


class Heard:
    """Takes the complaints of one client, and tells of those with advice. Thread-safe."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}
        self.last = ""  # with advice where there is some

    def __call__(self, complaint: Complaint) -> None:
        """Take one."""
        LOG.debug("kafka: %s", complaint)
        self._found[complaint.name()] = complaint.str()
        self.last = advised(complaint.str(), complaint.name())

    def reason(self) -> str | None:
        """What keeps the client from its broker, and what to do about it; None when nothing told."""
        return next((advised(self._found[name], name) for name in ADVICE if name in self._found), None)


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
# Of clients whose calls tell their complaints by themselves (`Heard`).
SILENT = logging.getLogger("kubecdc.kafka.asking")
SILENT.addHandler(logging.NullHandler())
SILENT.propagate = False
