"""Guarantees: answers carry the number of their request, so that a cancelled one can be told from the present one."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from local.sim_server import SimServer
from producer import frames
from producer.cluster import Cluster
from producer.lanes import Delivery, LaneRunner, Target
from producer.mailbox import Mailbox
from producer.published import Versions
from producer.selection import ResourceInfo
from producer.settings import ClusterSettings
from producer.signals import AuditAnswer, Input, Lane, Recalled, Request, StreamEnded, StreamOpened, Unreachable, Verb

KIND = ResourceInfo("", "v1", "configmaps", "ConfigMap", namespaced=True, verbs=frozenset({"list", "watch"}))
TARGET = Target(KIND, "", 500)


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer() as running:
        yield running


def runner(url: str, lane: Lane = Lane.MAIN) -> tuple[LaneRunner, Mailbox[Delivery]]:
    mailbox: Mailbox[Delivery] = Mailbox(1 << 20)
    return LaneRunner(lane, Cluster(ClusterSettings("c", server=url)), mailbox), mailbox


def take(mailbox: Mailbox[Delivery], number: int, count: int) -> list[Input]:
    """The first `count` inputs of a request."""
    found: list[Input] = []
    deadline = time.monotonic() + 20
    while len(found) < count:
        assert time.monotonic() < deadline, found
        for delivery in mailbox.take(0.2):
            if delivery.number == number:
                found += delivery.inputs
    return found


def create(server: SimServer, name: str) -> str:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    made = server.store.create(server.store.kind("", "configmaps"), body, namespace="default")
    return str(made["metadata"]["resourceVersion"])


def test_a_page_and_an_audit_page(server: SimServer) -> None:
    create(server, "a")
    lane, mailbox = runner(server.url)
    lane.ask(Request(Lane.MAIN, Verb.LIST), TARGET)
    (page,) = take(mailbox, lane.number, 1)
    assert isinstance(page, frames.Page)
    audit, mailbox = runner(server.url, Lane.AUDIT)
    audit.ask(Request(Lane.AUDIT, Verb.LIST), TARGET)
    assert take(mailbox, audit.number, 1) == [AuditAnswer(page)]


def test_what_the_log_holds_is_an_answer_on_both_lanes() -> None:
    known = Recalled(Versions(), 3)
    mailbox: Mailbox[Delivery] = Mailbox(1 << 20)
    nowhere = Cluster(ClusterSettings("c", server="http://127.0.0.1:9"))
    for lane, answer in ((Lane.MAIN, known), (Lane.AUDIT, AuditAnswer(known))):
        asked = LaneRunner(lane, nowhere, mailbox, lambda: known)
        asked.ask(Request(lane, Verb.RECALL), TARGET)
        assert take(mailbox, asked.number, 1) == [answer]


def test_a_watch_opens_delivers_and_is_void_when_cancelled(server: SimServer) -> None:
    first = create(server, "a")
    lane, mailbox = runner(server.url)
    lane.ask(Request(Lane.MAIN, Verb.WATCH, rv=first), TARGET)
    number = lane.number
    assert take(mailbox, number, 1) == [StreamOpened()]
    second = create(server, "b")
    (event,) = take(mailbox, number, 1)
    assert isinstance(event, frames.Object)
    assert event.rv == second
    lane.cancel()
    assert lane.number != number
    (end,) = take(mailbox, number, 1)
    assert isinstance(end, StreamEnded)


def test_an_absent_server_is_an_answer_too() -> None:
    lane, mailbox = runner("http://127.0.0.1:9")
    lane.ask(Request(Lane.MAIN, Verb.WATCHLIST), TARGET)
    (answer,) = take(mailbox, lane.number, 1)
    assert isinstance(answer, Unreachable)
