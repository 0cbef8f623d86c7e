"""Builders of frames and pages, and a session with all that it has put out, for the tests of the session's parts."""

from __future__ import annotations

from typing import Any

from kubecdc.records import EventType
from producer import session
from producer.frames import Item, Object, Page, ServerError
from producer.published import Versions
from producer.settings import WatchSettings
from producer.signals import (
    Alarm,
    Mark,
    Recalled,
    Request,
    RetryDue,
    Start,
    StreamOpened,
    Verb,
)
from producer.state import Phase, Session

RULES = WatchSettings(backoff_min_s=1.0, backoff_max_s=8.0)
ADDED, MODIFIED, DELETED = EventType.ADDED, EventType.MODIFIED, EventType.DELETED


def obj(uid: str, rv: str) -> dict[str, Any]:
    return {"metadata": {"uid": uid, "name": uid, "namespace": "default", "resourceVersion": rv}}


def frame(kind: EventType, uid: str, rv: str) -> Object:
    return Object(kind, uid, rv, obj(uid, rv))


def page(rv: str, *items: tuple[str, str], token: str = "") -> Page:
    return Page(rv, token, None, tuple(Item(uid, item_rv, obj(uid, item_rv)) for uid, item_rv in items))


def error(code: int, reason: str = "", message: str = "", retry_after: float | None = None) -> ServerError:
    return ServerError(code, reason, message, (), retry_after)


class Run:
    """A session and everything it has put out."""

    def __init__(
        self,
        *,
        streamed: bool = False,
        start: str | None = None,
        rules: WatchSettings = RULES,
        recalls: bool = False,
    ) -> None:
        self.session: Session = session.new("s", rules, streamed=streamed, recalls=recalls)
        self.last: list[Any] = []
        self.give(Start(start, 1))

    def give(self, *signals: Any) -> Run:
        self.last = []
        for signal in signals:
            self.session, outputs = session.step(self.session, signal)
            self.last += outputs
        return self

    @property
    def phase(self) -> Phase:
        return self.session.phase

    def of(self, kind: type[Any]) -> list[Any]:
        return [out for out in self.last if isinstance(out, kind)]

    def marks(self) -> list[tuple[str, str | None]]:
        return [(mark.type.value, mark.rv) for mark in self.of(Mark)]

    def requests(self) -> list[tuple[Verb, str]]:
        return [(request.verb, request.rv or request.token) for request in self.of(Request)]

    def alarm(self) -> float:
        return next(alarm.seconds for alarm in self.of(Alarm) if isinstance(alarm.rings, RetryDue))


def live(rv: str = "10", *items: tuple[str, str]) -> Run:
    """A session that listed at `rv` and has an open watch."""
    return Run().give(page(rv, *items), StreamOpened())


def held(epoch: int = 1, why: str = "", **versions: str) -> Recalled:
    """What the log holds, by UID."""
    known = Versions()
    for uid, rv in versions.items():
        known.put(uid, rv)
    return Recalled(known, epoch, why)
