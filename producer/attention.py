"""Whether one session hears its server: what of its inputs and requests says so, and what that means for readiness.

What counts is decided in `producer.listening`, when it is told in `kubecdc.unheard`; this module adds the clock. The
session's thread uses it; what the service asks may come from any.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from kubecdc.hearing import Ear, Show
from kubecdc.unheard import Answered, Left
from producer import frames, listening
from producer.signals import Cancel, Input, Lane, Output, Request
from producer.state import Phase, Session

log = logging.getLogger(__name__)


class Attention:
    """What one session hears; `name` and `fields` are those of its log lines."""

    def __init__(self, name: str, show: Show, fields: Mapping[str, object]) -> None:
        self._name = name
        self._ear = Ear(name, log, show, fields=fields)
        self._served = time.monotonic()

    # --- for the session's thread -----------------------------------------------------------------------------------

    def served(self) -> None:
        """The server has sent something of use just now."""
        self._served = time.monotonic()

    def stepped(self, before: Session, after: Session, signal: Input) -> None:
        """Take note of an input of the session."""
        if isinstance(signal, frames.Object) and not self._ear.silent:
            return  # as nearly all of them
        heard = listening.sense(before, after, signal, time.monotonic())
        if heard is not None:
            self._ear.take(heard)

    def performing(self, out: Output) -> None:
        """Take note of what the session is about to ask, or does not want to know any more."""
        if isinstance(out, Request) and out.lane is Lane.MAIN:
            self._ear.take(listening.asked(out, time.monotonic()))
        elif isinstance(out, Cancel) and out.lane is Lane.MAIN:
            self._ear.take(Answered(time.monotonic()))

    def due(self, latest: float) -> float:
        """When `look` is needed next, at most `latest`, by the monotonic clock."""
        at = self._ear.due()
        return latest if at is None else min(at, latest)

    def look(self) -> None:
        """Tell what has become due."""
        at = self._ear.due()
        if at is not None and at <= time.monotonic():
            self._ear.look(detail=listening.UNANSWERED)

    def leave(self) -> None:
        """The session has ended."""
        self._ear.take(Left(time.monotonic()))

    # --- for everybody ----------------------------------------------------------------------------------------------

    def current(self, machine: Session, *, idle: bool) -> bool:
        """The server has served something lately, and its watch is quiet rather than mute.

        A kind that is parked has none to hear. Bookmarks tell a quiet watch from a mute one; where a server sends none,
        an accepted watch has to do. `idle`: all that came was worked on. Else what the server has sent lies there.
        """
        if machine.phase is Phase.PARKED or machine.lost:
            return True
        rules = machine.rules
        if machine.mute or self._ear.seconds() >= rules.unheard_after_s:
            return False
        return not idle or time.monotonic() - self._served <= 2 * rules.inactivity_s + rules.backoff_max_s

    def why(self, *, covered: bool) -> str:
        """Why it is not ready, where it is not."""
        silence = self._ear.sentence()
        if silence:
            return silence
        if not covered:
            return f"{self._name}: there is no version to watch from yet, its first list is not complete"
        return f"{self._name}: the server has sent nothing for long although its watch is open"

    def note(self, machine: Session) -> str:
        """What is not heard and does not count against readiness, since the log says that it is not covered."""
        return self._ear.sentence(machine.rules.unheard_after_s) if machine.lost else ""
