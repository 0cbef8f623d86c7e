"""A seeded workload on any API server: what controllers, kubelets and people do to a small fleet of applications.

Decides what to write next from its seed and from what it believes to exist; it waits for nothing and watches nothing.
There may be no controller, so it plays them: a rollout writes the Deployment, its ReplicaSet and the Pods itself.
The same seed makes the same choices, as long as the server answers them alike.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from local import manifests
from local.errors import LocalError
from local.kube_client import JSON, MERGE_PATCH, Away, KubeClient
from local.manifests import KINDS

CONFIG_MAPS, SECRETS, PODS = ("", "configmaps"), ("", "secrets"), ("", "pods")
REPLICA_SETS, DEPLOYMENTS = ("apps", "replicasets"), ("apps", "deployments")
APPS_MAX = 6
CONFIGS_MAX = 12
REPLICAS_MAX = 4


@dataclass(slots=True)
class _App:
    """What the workload believes of one application."""

    name: str
    revision: int = 0
    replica_set: str = ""
    pods: list[str] = field(default_factory=list)
    restarts: int = 0

    @property
    def image(self) -> str:
        return f"demo:{self.revision}"


class _Writer:
    """Requests to one namespace; `writes` counts what the server took, `refused` what it did not. Raises `Away`."""

    def __init__(self, client: KubeClient, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self.writes = 0
        self.refused = 0

    def create(self, resource: tuple[str, str], body: dict[str, Any]) -> None:
        """Make an object."""
        self._send("POST", manifests.resource_path(resource, self._namespace), body, JSON)

    def create_one_of_each(self, name: str) -> None:
        """Make an object of every kind."""
        self.create(CONFIG_MAPS, manifests.config_map(name, "end"))
        self.create(SECRETS, manifests.secret(name, "end"))
        self.create(PODS, manifests.pod("last", name, "demo:end"))
        self.create(REPLICA_SETS, manifests.replica_set("last", name, "demo:end", 0))
        self.create(DEPLOYMENTS, manifests.deployment(name, "demo:end", 0))

    def patch(self, resource: tuple[str, str], name: str, patch: dict[str, Any], *, status: bool = False) -> None:
        """Merge into an object, or into its status."""
        path = manifests.resource_path(resource, self._namespace, name) + ("/status" if status else "")
        self._send("PATCH", path, patch, MERGE_PATCH)

    def remove(self, resource: tuple[str, str], name: str) -> bool:
        """Delete in order, and by force where that only marks: nothing here ends a Pod's containers."""
        path = manifests.resource_path(resource, self._namespace, name)
        gone = self._send("DELETE", path, None, JSON)
        if resource == PODS:
            self._send("DELETE", path, {"gracePeriodSeconds": 0}, JSON)
        return gone

    def _send(self, method: str, path: str, body: dict[str, Any] | None, content_type: str) -> bool:
        status, _ = self._client.request(method, path, body, content_type=content_type)
        done = status < 300
        if done:
            self.writes += 1
        elif method != "DELETE" or status != 404:
            self.refused += 1
        return done


class Workload:
    """Writes to one namespace, which it makes, at `rate` actions a second; one action is one to a dozen writes.

    `counts` tells how often each action was done, `writes` how many requests the server took, `refused` how many it
    did not. Raises `LocalError` when
    the namespace cannot be made; a server that is away for a while only delays it.
    """

    def __init__(self, client: KubeClient, namespace: str, *, seed: int, rate: float = 15.0) -> None:
        self._client = client
        self._writer = _Writer(client, namespace)
        self.namespace = namespace
        self._random = random.Random(seed)  # noqa: S311 - a workload that can be repeated, not a secret
        self._rate = rate
        self._lock = threading.Lock()
        self._apps: dict[str, _App] = {}
        self._configs: list[str] = []
        self._serial = 0
        self.counts: Counter[str] = Counter()
        self._actions: Mapping[str, tuple[int, Callable[[], None]]] = {
            "rollout": (3, self._rollout),
            "scale": (4, self._scale),
            "crash loop": (5, self._crash_loop),
            "config change": (5, self._config_change),
            "no-op apply": (2, self._no_op),
            "delete": (2, self._delete),
            "finalizer": (2, self._finalizer),
            "name reuse": (2, self._name_reuse),
        }

    @property
    def writes(self) -> int:
        """How many requests the server took."""
        return self._writer.writes

    @property
    def refused(self) -> int:
        """How many requests the server did not take."""
        return self._writer.refused

    def begin(self) -> None:
        """Make the namespace and the first objects."""
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}}
        status, answer = self._client.request("POST", "/api/v1/namespaces", namespace)
        if status not in (201, 409):
            raise LocalError(f"namespace {self.namespace} cannot be made: {status} {_message(answer)}")
        with self._lock:
            for _ in range(3):
                self._new_app()
                self._new_config()

    def run(self, stop: threading.Event) -> None:
        """Act until `stop` is set."""
        while not stop.is_set():
            started = time.monotonic()
            self.act()
            stop.wait(max(0.0, 1 / self._rate - (time.monotonic() - started)))

    def act(self) -> str:
        """Do one action and return its name. Where the server is away it counts as `away` and is left half done."""
        names = list(self._actions)
        with self._lock:
            weights = [weight for weight, _ in self._actions.values()]
            name = self._random.choices(names, weights)[0]
            try:
                self._actions[name][1]()
            except Away:
                name = "away"
            self.counts[name] += 1
        return name

    def delete_some(self, wanted: int) -> int:
        """Delete up to `wanted` ConfigMaps and Pods now, and return how many were deleted."""
        with self._lock:
            doomed = [(CONFIG_MAPS, name) for name in self._configs[: (wanted + 1) // 2]]
            pods = [(PODS, name) for app in self._apps.values() for name in app.pods]
            doomed += pods[: wanted - len(doomed)]
            gone = 0
            for resource, name in doomed:
                gone += self._writer.remove(resource, name)
            self._configs = [name for name in self._configs if (CONFIG_MAPS, name) not in doomed]
            for app in self._apps.values():
                app.pods = [name for name in app.pods if (PODS, name) not in doomed]
        return gone

    def last_word(self) -> None:
        """Write a new object of every kind, so that each kind has a newest version that is no delete."""
        with self._lock:
            self._serial += 1
            self._writer.create_one_of_each(f"last-{self._serial}")

    def end(self) -> None:
        """Delete the namespace; where no controller empties it, its objects stay."""
        self._client.request("DELETE", f"/api/v1/namespaces/{self.namespace}")

    def _rollout(self) -> None:
        if len(self._apps) < APPS_MAX and self._random.random() < 0.3:
            self._new_app()
            return
        app = self._an_app()
        old, old_pods = app.replica_set, app.pods
        app.revision += 1
        image = {"containers": [{"name": "main", "image": app.image}]}
        self._writer.patch(DEPLOYMENTS, app.name, {"spec": {"template": {"spec": image}}})
        self._new_replica_set(app, len(old_pods))
        for name in old_pods:
            self._writer.remove(PODS, name)
        self._writer.patch(REPLICA_SETS, old, {"spec": {"replicas": 0}})
        if self._random.random() < 0.7:
            self._writer.remove(REPLICA_SETS, old)

    def _scale(self) -> None:
        app = self._an_app()
        replicas = self._random.randint(0, REPLICAS_MAX)
        for resource, name in ((DEPLOYMENTS, app.name), (REPLICA_SETS, app.replica_set)):
            self._writer.patch(resource, name, {"spec": {"replicas": replicas}})
        while len(app.pods) < replicas:
            self._new_pod(app)
        while len(app.pods) > replicas:
            self._writer.remove(PODS, app.pods.pop(0))

    def _crash_loop(self) -> None:
        app = self._an_app()
        if not app.pods:
            self._new_pod(app)
        name = self._random.choice(app.pods)
        for crashing in (True, False, True):
            app.restarts += crashing
            self._writer.patch(PODS, name, manifests.pod_status(app.restarts, crashing=crashing), status=True)

    def _config_change(self) -> None:
        if len(self._configs) < CONFIGS_MAX and self._random.random() < 0.3:
            self._new_config()
            return
        value = f"{self._random.getrandbits(64):x}"
        if self._configs and self._random.random() < 0.7:
            self._writer.patch(CONFIG_MAPS, self._random.choice(self._configs), {"data": {"setting": value}})
        else:
            self._writer.patch(SECRETS, self._an_app().name, {"stringData": {"password": value}})

    def _no_op(self) -> None:
        app = self._an_app()
        self._writer.patch(DEPLOYMENTS, app.name, {"metadata": {"labels": {"app": app.name.partition("-")[0]}}})

    def _delete(self) -> None:
        if self._configs:
            self._writer.remove(CONFIG_MAPS, self._configs.pop(self._random.randrange(len(self._configs))))
        if len(self._apps) > APPS_MAX - 2:
            app = self._apps.pop(self._random.choice(sorted(self._apps)))
            self._writer.remove(DEPLOYMENTS, app.name)
            self._writer.remove(REPLICA_SETS, app.replica_set)
            self._writer.remove(SECRETS, app.name)
            for name in app.pods:
                self._writer.remove(PODS, name)

    def _finalizer(self) -> None:
        self._serial += 1
        name = f"held-{self._serial}"
        self._writer.create(CONFIG_MAPS, manifests.config_map(name, "held", held=True))
        self._writer.remove(CONFIG_MAPS, name)
        self._writer.patch(CONFIG_MAPS, name, {"metadata": {"finalizers": None}})

    def _name_reuse(self) -> None:
        name = "reused"
        self._writer.remove(CONFIG_MAPS, name)
        self._writer.create(CONFIG_MAPS, manifests.config_map(name, f"{self._random.getrandbits(32):x}"))

    def _an_app(self) -> _App:
        if not self._apps:
            self._new_app()
        return self._apps[self._random.choice(sorted(self._apps))]

    def _new_app(self) -> None:
        self._serial += 1
        app = _App(f"app{self._serial}")
        self._apps[app.name] = app
        self._writer.create(SECRETS, manifests.secret(app.name, f"{self._random.getrandbits(64):x}"))
        replicas = self._random.randint(1, REPLICAS_MAX)
        self._writer.create(DEPLOYMENTS, manifests.deployment(app.name, app.image, replicas))
        self._new_replica_set(app, replicas)

    def _new_replica_set(self, app: _App, replicas: int) -> None:
        app.replica_set = f"{app.name}-{app.revision}"
        app.pods = []
        self._writer.create(REPLICA_SETS, manifests.replica_set(app.name, app.replica_set, app.image, replicas))
        for _ in range(replicas):
            self._new_pod(app)

    def _new_pod(self, app: _App) -> None:
        self._serial += 1
        name = f"{app.replica_set}-{self._serial}"
        app.pods.append(name)
        self._writer.create(PODS, manifests.pod(app.name, name, app.image))

    def _new_config(self) -> None:
        self._serial += 1
        name = f"config-{self._serial}"
        self._configs.append(name)
        self._writer.create(CONFIG_MAPS, manifests.config_map(name, f"{self._random.getrandbits(64):x}"))


def resources() -> tuple[tuple[str, str], ...]:
    """All (group, plural) that a workload writes."""
    return tuple(KINDS)


def _message(answer: Any) -> str:
    return str(answer.get("message", answer)) if isinstance(answer, dict) else str(answer)
