"""A consistent list as versions and digests: those that the producer itself makes, page by page."""

from __future__ import annotations

import urllib.request

import orjson
import pytest

from kubecdc.errors import Misconfigured, Unreachable
from kubecdc.records import EventType
from local.ports import free_port
from local.sim_server import SimServer
from producer import lister
from producer.convert import Context, to_event
from producer.frames import Item
from producer.redact import Redactor

KEY = "k" * 32


def values(**given):
    defaults = {option.key: option.default for option in lister.OPTIONS}
    return {**defaults, "redact": (), "redaction_key": KEY, "page_size": 3, **given}


@pytest.fixture
def server():
    with SimServer() as running:
        yield running


def fill(server, count=8):
    kind = server.store.kind("", "secrets")
    for number in range(count):
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"s{number}"}, "data": {"k": "aGk="}}
        server.store.create(kind, body, namespace="default")


def test_rows_are_what_the_producer_would_publish(server):
    fill(server)
    found = lister.Lister(values(server=server.url)).of("", "v1", "secrets", "")
    with urllib.request.urlopen(f"{server.url}/api/v1/secrets", timeout=10) as answer:
        stored = orjson.loads(answer.read())["items"]
    redaction = Redactor(KEY.encode()).for_kind("", "Secret")
    context = Context("default", "", "v1", "secrets", "Secret", "", "s", redaction, 1_000_000)
    wanted = set()
    for obj in stored:
        meta = obj["metadata"]
        event, _ = to_event(
            context, Item(meta["uid"], meta["resourceVersion"], obj), EventType.LISTED, epoch=1, seq=0, observed_at=0
        )
        wanted.add((event.uid, "default", event.name, event.rv, event.digest))
    assert set(found.rows) == wanted
    assert len(found.rows) == 8
    assert int(found.rv) >= max(int(row[3]) for row in found.rows)


def test_a_scope_lists_its_namespace_only(server):
    fill(server, 2)
    assert lister.Lister(values(server=server.url)).of("", "v1", "secrets", "kube-system").rows == ()


def test_what_cannot_be_listed_says_why(server):
    with pytest.raises(Misconfigured, match="does not serve gadgets in version v9"):
        lister.Lister(values(server=server.url)).of("", "v9", "gadgets", "")
    away = lister.Lister(values(server=f"http://127.0.0.1:{free_port()}"))
    with pytest.raises(Unreachable, match="does not answer"):
        away.of("", "v1", "secrets", "")


def test_problems_of_the_settings_are_those_of_the_producer():
    assert list(lister.check(values(redaction_key="short"))) == [
        "the redaction key has 5 bytes: give 16 to 64 random ones"
    ]
    assert list(lister.check(values())) == []
