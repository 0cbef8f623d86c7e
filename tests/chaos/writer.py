"""The writer: a workload on the API server that remembers every version that the server confirmed to it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from local.kube_client import JSON, Away, KubeClient
from local.workload import Workload
from tests.chaos.judge import Acked

NAMESPACE = "chaos"


class Remembering(KubeClient):
    """A client that keeps what was confirmed: the answer to each write carries the object's new version."""

    epoch: Callable[[], int] = staticmethod(lambda: 1)

    def remember(self, epoch: Callable[[], int]) -> None:
        self.epoch = epoch
        self.acked: list[Acked] = []

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = JSON) -> tuple[int, Any]:
        epoch = self.epoch()
        status, answer = super().request(method, path, body, content_type=content_type)
        if method in ("POST", "PATCH", "PUT") and status < 300 and isinstance(answer, dict):
            metadata = answer.get("metadata", {})
            # During a restore nobody can tell which history the answer belongs to.
            if epoch == self.epoch() and "uid" in metadata:
                self.acked.append(Acked(epoch, metadata["uid"], metadata["resourceVersion"]))
        return status, answer


class Writer:
    """Runs the workload in a thread between `start` and `finish`."""

    def __init__(self, client: Remembering, seed: int, rate: float) -> None:
        self.client = client
        self.workload = Workload(client, NAMESPACE, seed=seed, rate=rate)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self.workload.run, args=(self._over,), name="writer", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """End, and write a last object of every kind, so that each kind has a newest version that is no delete."""
        self._over.set()
        self._thread.join()
        for _ in range(20):
            try:
                self.workload.last_word()
            except Away:
                threading.Event().wait(1.0)
            else:
                return
        self.workload.last_word()
