"""A producer on a simulated API server and a sink in memory, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from local.sim_server import SimServer
from producer.cluster import Cluster
from producer.service import Producer
from producer.settings import ClusterSettings, ProducerSettings, WatchSettings
from tests.producer.memory_sink import MemorySink

QUICK: dict[str, Any] = {
    "progress_interval_s": 0.1,
    "backoff_min_s": 0.05,
    "backoff_max_s": 0.3,
    "discovery_interval_s": 0.2,
    "watchlist": "never",
}


WIDGETS: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.io"},
    "spec": {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "versions": [
            {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        ],
    },
}


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def config_map(name: str, value: str = "1") -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"v": value}}


class Background:
    """Work in a thread of its own, until `end`; what it raised is in `error`, for the test to look at."""

    def __init__(self, work: Callable[[threading.Event], None]) -> None:
        self.stop = threading.Event()
        self.error: BaseException | None = None
        self._work = work
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self._work(self.stop)
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.error = error

    def end(self) -> None:
        self.stop.set()
        self.thread.join(30)
        assert not self.thread.is_alive()


class Running(Background):
    """A producer at work."""

    def __init__(self, server: SimServer, sink: MemorySink, **watch: Any) -> None:
        settings = WatchSettings(**{"resources": ("configmaps",), **QUICK, **watch})
        self.producer = Producer(Cluster(ClusterSettings("c", server=server.url)), sink, ProducerSettings(settings))
        super().__init__(self.producer.run)
