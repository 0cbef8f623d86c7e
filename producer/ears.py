"""Who else a producer has to hear, besides its kinds: discovery, and Kafka when it writes and when it reads positions.

What is a silence is decided in `kubecdc.unheard` and `producer.listening`; this module adds clock, log and metrics.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import TypeVar

from kubecdc.errors import KubecdcError
from kubecdc.hearing import Ear, on
from kubecdc.unheard import Heard, Left, Refused
from producer import listening
from producer.listening import NOT_ACKNOWLEDGED, Outstanding
from producer.metrics import Metrics

log = logging.getLogger(__name__)

T = TypeVar("T")


class Ears:
    """`unheard_after_s` is how long each may be silent while the producer is ready.

    `complaint` tells what Kafka's client complained of last, empty for nothing.
    """

    def __init__(self, metrics: Metrics, unheard_after_s: float, complaint: Callable[[], str]) -> None:
        self._unheard_after_s = unheard_after_s
        self._complaint = complaint
        self._seen = Outstanding()
        self._discovery = Ear(
            "discovery",
            log,
            on(metrics.unheard, "discovery", ""),
            lost="the API server's kinds cannot be read, and new ones are not followed,",
        )
        self._positions = Ear(
            "Kafka", log, on(metrics.kafka_unheard, "positions"), lost="stored positions cannot be read"
        )
        self._records = Ear(
            "Kafka",
            log,
            on(metrics.kafka_unheard, "acknowledgements"),
            lost="nothing is acknowledged, and watches wait once the buffer is full,",
        )

    def discovery(self, look: Callable[[], T]) -> T | None:
        """What a look at discovery brings; None when it failed, which is told when it goes on."""
        return _asked(self._discovery, look)[1]

    def positions(self, refresh: Callable[[], object]) -> bool:
        """Read the stored positions; False when that failed."""
        return _asked(self._positions, refresh)[0]

    def look(self, waiting: int, acknowledged: int) -> None:
        """Take note of what waits for Kafka and what it acknowledged so far, and tell what has become due."""
        seen = Outstanding(waiting, acknowledged)
        self._records.take(listening.sense_kafka(self._seen, seen, time.monotonic()))
        self._seen = seen
        detail = ""
        if self._records.silent:
            told = self._complaint()
            what = "1 record or position waits" if waiting == 1 else f"{waiting} records and positions wait"
            detail = f"{what}; {told}" if told else f"{what}; check that Kafka's brokers run, and the network"
        self._records.look(NOT_ACKNOWLEDGED, detail)
        for ear in (self._discovery, self._positions):
            ear.look()

    def leave(self) -> None:
        """Nobody has to be heard any more."""
        for ear in (self._discovery, self._positions, self._records):
            ear.take(Left(time.monotonic()))

    def unready(self) -> tuple[str, ...]:
        """Who is not heard for too long, a sentence each."""
        ears = (self._discovery, self._positions, self._records)
        return tuple(said for ear in ears if (said := ear.sentence(self._unheard_after_s)))


def _asked(ear: Ear, call: Callable[[], T]) -> tuple[bool, T | None]:
    began = time.monotonic()
    try:
        answer = call()
    except KubecdcError as error:
        log.debug("%s", error)
        ear.take(Refused(time.monotonic(), type(error).__name__.lower(), str(error), began))
        return False, None
    ear.take(Heard(time.monotonic()))
    return True, answer
