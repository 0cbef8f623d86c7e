"""What the hostile run does to a cluster beside traffic: a kind that comes and goes, and rights that do.

A real kube-apiserver deletes the objects of a deleted kind itself, one by one, before the kind is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from local.kube_client import MERGE_PATCH, Away, KubeClient
from tests.chaos.harm import alone, pause
from tests.chaos.schedule import Fault, Strike

GROUP, PLURAL = "chaos.example.io", "widgets"
WIDGETS = (GROUP, PLURAL)
USER = "producer"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PATIENCE_S = 60.0


class Customs:
    """A kind of our own and the rights of the producer's user, changed on demand. Thread-safe where it matters."""

    def __init__(
        self, client: KubeClient, namespace: str, kinds: Sequence[tuple[str, str]], cut: Callable[[], object]
    ) -> None:
        self._client = client
        self._path = f"/apis/{GROUP}/v1/namespaces/{namespace}/{PLURAL}"
        self._kinds = tuple(kinds)
        self._cut = cut
        self._serial = 0
        self._churn = threading.Lock()
        self._rights = threading.Lock()

    def begin(self) -> None:
        """Make the kind with some objects, and give the rights that a producer needs: list and watch."""
        for group, plural in self._kinds:
            rule = {"apiGroups": [group], "resources": [plural], "verbs": ["list", "watch"]}
            role = {"metadata": {"name": _role(plural)}, "rules": [rule]}
            self._must("POST", f"{RBAC}/clusterroles", role)
            self._grant(plural)
        self._make()

    def churn(self, strike: Strike) -> bool:
        """Delete the kind with its objects, and make it again, with others."""
        with alone(self._churn) as free:
            if free:
                self._write()
                self._must("DELETE", f"{CRDS}/{PLURAL}.{GROUP}")
                self._await(lambda: self._client.request("GET", f"{CRDS}/{PLURAL}.{GROUP}")[0] == 404)
                pause(strike.lasts_s)
                self._make()
            return free

    def revoke(self, strike: Strike) -> bool:
        """Take rights away, and give them back after a while. Open watches go on without them, so those are cut."""
        plurals = [plural for _, plural in self._kinds]
        if strike.fault is Fault.REVOKE_ONE:
            plurals = [plurals[int(strike.pick * len(plurals))]]
        with alone(self._rights) as free:
            if free:
                for plural in plurals:
                    self._must("DELETE", f"{RBAC}/clusterrolebindings/{_role(plural)}")
                self._cut()
                pause(strike.lasts_s)
                for plural in plurals:
                    self._grant(plural)
            return free

    def end(self) -> None:
        """Write a last object, so that the kind has a newest version that is no delete."""
        self._serial += 1
        self._must("POST", self._path, _widget(f"last-{self._serial}"))

    def _grant(self, plural: str) -> None:
        binding = {
            "metadata": {"name": _role(plural)},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": _role(plural)},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": USER}],
        }
        self._must("POST", f"{RBAC}/clusterrolebindings", binding)

    def _make(self) -> None:
        self._must("POST", CRDS, _definition())
        self._await(lambda: self._client.request("GET", f"/apis/{GROUP}/v1/{PLURAL}")[0] == 200)
        self._write()

    def _write(self) -> None:
        """Some objects: made, changed, and some of them deleted."""
        names = [f"widget-{self._serial + n}" for n in range(5)]
        self._serial += len(names)
        for name in names:
            self._must("POST", self._path, _widget(name))
            self._must("PATCH", f"{self._path}/{name}", {"spec": {"size": self._serial}})
        for name in names[:2]:
            self._must("DELETE", f"{self._path}/{name}")

    def _must(self, method: str, path: str, body: Any = None) -> None:
        """Send it until the server takes it, or says that it is done already: it may be away, or just starting."""
        done = {"POST": (200, 201, 409), "DELETE": (200, 202, 404), "PATCH": (200, 404)}[method]
        kind = {"content_type": MERGE_PATCH} if method == "PATCH" else {}
        self._await(lambda: self._client.request(method, path, body, **kind)[0] in done)

    def _await(self, condition: Any) -> None:
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                if condition():
                    return
            except Away:
                pass
            if time.monotonic() > until:
                raise TimeoutError(f"the API server did not do as it was told within {PATIENCE_S} s")
            pause(0.2)


def _role(plural: str) -> str:
    return f"chaos-read-{plural}"


def _widget(name: str) -> dict[str, Any]:
    return {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": 0}}


def _definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": PLURAL, "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {"group": GROUP, "scope": "Namespaced", "names": names, "versions": [version]},
    }
