"""The thread that keeps a producer's lease: it reads and writes the Lease as `producer.election` decides.

Its I/O is three requests: get, create, update. Each is given up before the lease could expire for others.
"""

from __future__ import annotations

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from kubecdc.errors import Misconfigured
from producer import election
from producer.cluster import Cluster
from producer.election import Due, Election, Failed, Follow, Found, Input, Lead, Write, Written
from producer.errors import SessionFailed
from producer.frames import ServerError
from producer.settings import ElectionSettings
from producer.signals import Unreachable

log = logging.getLogger(__name__)

POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
API = "coordination.k8s.io/v1"
Answer = Mapping[str, Any] | ServerError | Unreachable


class Elector(threading.Thread):
    """A candidate for one lease. `changed` is called in its thread with True when it leads and False when it does not.

    `failure` holds Misconfigured when the server's first answers say that this can never work, or SessionFailed when a
    fault of ours ended the thread: it leads no more then, since nobody renews.
    """

    def __init__(self, cluster: Cluster, settings: ElectionSettings, changed: Callable[[bool], None]) -> None:
        super().__init__(name="elector", daemon=True)
        self._cluster = cluster
        self._settings = settings
        self._changed = changed
        self._closing = threading.Event()
        self._namespace = settings.namespace or own_namespace()
        self._path = f"/apis/{API}/namespaces/{self._namespace}/leases"
        self._election = Election(f"{socket.gethostname()}_{secrets.token_hex(6)}", settings.duration_s)
        self._answered = False
        self.failure: Misconfigured | SessionFailed | None = None

    @property
    def identity(self) -> str:
        """What the lease shows while this candidate holds it."""
        return self._election.identity

    def run(self) -> None:
        """Look and renew until `release`."""
        log.info("candidate %s for lease %s/%s", self.identity, self._namespace, self._settings.name)
        try:
            while not self._closing.is_set() and self.failure is None:
                self._step(Due(clock()))
                self._closing.wait(self._settings.duration_s * election.RETRY_EVERY)
        except Exception as error:  # noqa: BLE001 - whoever stands by or leads must learn that nobody renews
            self.failure = SessionFailed(f"the election: {type(error).__name__}")
            self.failure.__cause__ = error
            self._changed(False)

    def release(self) -> None:
        """Stop, and hand the lease over at once if it is ours."""
        self._closing.set()
        self.join(self._settings.duration_s)
        body = election.released(self._election, now())
        if body is not None and not self.is_alive() and self.failure is None:
            self._put(body)

    def _step(self, signal: Input) -> None:
        self._election, outputs = election.step(self._election, signal)
        for out in outputs:
            match out:
                case Lead() | Follow():
                    leads = isinstance(out, Lead)
                    log.warning(
                        "%s the lease %s/%s", "holds" if leads else "lost", self._namespace, self._settings.name
                    )
                    self._changed(leads)
                case Write(body):
                    self._write(body)
                case _:
                    self._read()

    def _read(self) -> None:
        answer = self._ask("GET", f"{self._path}/{self._settings.name}")
        if isinstance(answer, ServerError) and answer.code == 404:
            self._step(Found(None, clock(), now()))
        elif isinstance(answer, ServerError | Unreachable):
            self._refused("get", answer)
        else:
            self._answered = True
            self._step(Found(election.parse(answer), clock(), now()))

    def _write(self, body: Mapping[str, Any]) -> None:
        asked_at = clock()
        answer = self._put(body)
        if isinstance(answer, ServerError | Unreachable):
            self._refused("write", answer)
        else:
            self._answered = True
            self._step(Written(election.parse(answer), asked_at, clock()))

    def _put(self, body: Mapping[str, Any]) -> Answer:
        if "metadata" in body:
            return self._ask("PUT", f"{self._path}/{self._settings.name}", body)
        metadata = {"name": self._settings.name, "namespace": self._namespace}
        return self._ask("POST", self._path, {"apiVersion": API, "kind": "Lease", "metadata": metadata, **body})

    def _ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Ask within the time between a leader's deadline and the end of its lease."""
        return self._cluster.send(method, path, body, self._settings.duration_s * (1 - election.RENEW_WITHIN))

    def _refused(self, what: str, answer: ServerError | Unreachable) -> None:
        why = answer.label() if isinstance(answer, ServerError) else answer.why
        level = logging.DEBUG if isinstance(answer, ServerError) and answer.code == 409 else logging.WARNING
        log.log(level, "cannot %s the lease %s/%s: %s", what, self._namespace, self._settings.name, why)
        if not self._answered and isinstance(answer, ServerError) and answer.code in (403, 404):
            self.failure = Misconfigured(
                f"--elect: the lease {self._namespace}/{self._settings.name} cannot be had ({what}: {why}): the"
                " producer needs get, create and update on leases.coordination.k8s.io there, and the namespace must"
                " exist; deploy/elect has the Role, --lease-namespace and --lease-name choose another"
            )
            return
        self._step(Failed(clock()))


def own_namespace() -> str:
    """The namespace of the pod that this runs in, `default` outside of one."""
    try:
        return POD_NAMESPACE.read_text().strip() or "default"
    except OSError:
        return "default"


def clock() -> float:
    """Seconds that go on while the machine sleeps, where the system has such a clock."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


def now() -> str:
    """Time of day as a Lease has it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
