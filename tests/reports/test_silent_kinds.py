"""What others have reported of kinds that nobody heard of, against a real kube-apiserver.

Each test names its report. What is to be seen: the log, /readyz and a metric within the times that README names.
"""

from __future__ import annotations

import logging
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from kubecdc.probes import MetricsServer
from kubecdc.records import EventType
from local.apiserver import ApiServer
from local.children import poll
from producer.cluster import Cluster
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, WatchSettings
from tests.producer.edge import NO_TLS, Edge
from tests.producer.memory_sink import MemorySink
from tests.producer.running import Background

GROUP = "silent.example.io"
NAME = f"widgets.{GROUP}"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
OBJECTS = f"/apis/{GROUP}/v1/namespaces/default/widgets"
UNHEARD_AFTER_S = 11.0


def version(name: str, *, storage: bool) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {"name": name, "served": True, "storage": storage, "schema": schema}


def definition(*versions: dict[str, Any], conversion: dict[str, Any] | None = None) -> dict[str, Any]:
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    spec = {"group": GROUP, "scope": "Namespaced", "names": names, "versions": list(versions)}
    spec["conversion"] = conversion or {"strategy": "None"}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}
    return body | {"metadata": {"name": NAME}}


# Nothing listens at that port.
WEBHOOK_DOWN = {
    "strategy": "Webhook",
    "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"url": "https://127.0.0.1:9/convert"}},
}


class Followed(Background):
    """A producer of one kind behind an edge, with the page of a process."""

    def __init__(self, server: ApiServer, lines: pytest.LogCaptureFixture, resources: str) -> None:
        self.server, self.sink, self._lines = server, MemorySink(), lines
        address = urlsplit(server.url)
        self.edge = Edge((str(address.hostname), address.port or 0)).start()
        token = server.ca_file.parent / "silent-token"
        token.write_text(server.admin_token)
        place = ClusterSettings(
            "c", server=f"https://127.0.0.1:{self.edge.port}", token_file=token, ca_file=Path(server.ca_file)
        )
        watch = WatchSettings(
            (resources,), unheard_after_s=UNHEARD_AFTER_S, discovery_interval_s=1.0, backoff_max_s=2.0
        )
        self.producer = Producer(Cluster(place), self.sink, ProducerSettings(watch))
        probes = (self.producer.healthy, self.producer.ready, self.producer.unready)
        self._page = MetricsServer(0, self.producer.metrics.registry, *probes, notes=self.producer.notes)
        super().__init__(self.producer.run)

    def ready(self) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._page.port}/readyz", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def told(self, *words: str, level: int = logging.WARNING) -> list[str]:
        lines = [record.getMessage() for record in list(self._lines.records) if record.levelno == level]
        return [line for line in lines if all(word in line for word in words)]

    def silent_s(self, resource: str) -> float:
        return self.producer.metrics.value("unheard_seconds", resource=resource)

    def named(self) -> list[str | None]:
        return [event.name for event in self.sink.events() if event.uid]

    def close(self) -> None:
        self.end()
        self.edge.stop()
        self._page.close()
        assert self.error is None


@pytest.fixture
def defined(apiserver: ApiServer) -> Iterator[ApiServer]:
    """The server, with a kind of one version and one object of it."""
    code, body = apiserver.request("POST", DEFINITIONS, definition(version("v1", storage=True)))
    assert code == 201, body
    assert poll(lambda: create(apiserver, "before") == 201, 60, 0.2)
    yield apiserver
    # Objects are deleted with their definition, for which they are read: the webhook must be out of the way.
    define(apiserver, definition(version("v1", storage=True)))
    apiserver.request("DELETE", f"{DEFINITIONS}/{NAME}")
    assert poll(lambda: apiserver.request("GET", f"{DEFINITIONS}/{NAME}")[0] == 404, 60, 0.2)


def create(server: ApiServer, name: str) -> int:
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}}
    return server.request("POST", OBJECTS, body)[0]


def define(server: ApiServer, body: dict[str, Any]) -> None:
    def put() -> bool:
        _, known = server.request("GET", f"{DEFINITIONS}/{NAME}")
        body["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"]
        return server.request("PUT", f"{DEFINITIONS}/{NAME}", body)[0] == 200

    assert poll(put, 30, 0.2)


def test_a_conversion_webhook_that_is_down_is_told(defined: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """java-operator-sdk#2526, kubernetes#130899: 44 retries in four minutes and no line, /readyz "ok", lag 0."""
    caplog.set_level(logging.INFO)
    followed = Followed(defined, caplog, f"*.{GROUP}")
    try:
        assert poll(lambda: "before" in followed.named() and followed.ready() == (200, "ok\n"), 60, 0.1)
        both = (version("v1", storage=True), version("v2", storage=False))
        define(defined, definition(*both, conversion=WEBHOOK_DOWN))  # v2 is preferred from now on
        began = time.monotonic()
        assert poll(lambda: followed.told(NAME, "nothing heard for 1", "since 20", "failed requests"), 60, 0.1)
        assert time.monotonic() - began >= 10
        assert followed.told(NAME, "conversion webhook of its CRD") or followed.told(NAME, "conversion webhook failed")
        assert poll(lambda: followed.ready()[0] == 503, 60, 0.1)
        assert f"{NAME}: nothing heard" in followed.ready()[1]
        assert followed.silent_s(NAME) >= UNHEARD_AFTER_S
        define(defined, definition(*both))
        assert create(defined, "after") == 201
        assert poll(lambda: "after" in followed.named(), 60, 0.1)
        assert poll(lambda: followed.told(NAME, "heard again after", level=logging.INFO), 30, 0.1)
        assert followed.ready() == (200, "ok\n")
        assert followed.silent_s(NAME) == 0
        assert EventType.COVERAGE_LOST not in followed.sink.types(0), "no version was lost"
    finally:
        followed.close()


def test_a_tls_handshake_that_fails_for_ever_is_told(apiserver: ApiServer, caplog: pytest.LogCaptureFixture) -> None:
    """What lies in between answers in plain HTTP: there is no request that could be refused, and none was counted."""
    caplog.set_level(logging.INFO)
    followed = Followed(apiserver, caplog, "configmaps")
    try:
        assert poll(lambda: followed.ready() == (200, "ok\n"), 60, 0.1)
        followed.edge.give(NO_TLS)
        assert poll(lambda: followed.told("configmaps: nothing heard for 1", "tls (SSLError"), 60, 0.1)
        assert poll(lambda: followed.told("discovery: ", "SSLError"), 60, 0.1)
        assert poll(lambda: "configmaps: nothing heard" in followed.ready()[1], 60, 0.1)
        assert followed.ready()[0] == 503
        assert followed.producer.metrics.value("unheard_seconds", resource="configmaps", reason="tls") > 10
        followed.edge.give(None)
        assert poll(lambda: followed.told("configmaps: heard again after", level=logging.INFO), 60, 0.1)
        assert poll(lambda: followed.ready() == (200, "ok\n"), 60, 0.1)
        assert EventType.COVERAGE_LOST not in followed.sink.types(0)
    finally:
        followed.close()
