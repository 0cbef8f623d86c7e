"""The objects that the workload writes: plain JSON of a small application, the same on any API server.

Pure. Pods name a scheduler that does not exist, so that on a cluster with controllers they stay pending and run
nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

# (group, plural) -> (version, kind)
KINDS: Mapping[tuple[str, str], tuple[str, str]] = {
    ("", "configmaps"): ("v1", "ConfigMap"),
    ("", "secrets"): ("v1", "Secret"),
    ("", "pods"): ("v1", "Pod"),
    ("apps", "replicasets"): ("v1", "ReplicaSet"),
    ("apps", "deployments"): ("v1", "Deployment"),
}
FINALIZER = "kubecdc.example.io/hold"
_NO_SCHEDULER = "kubecdc-demo-runs-nothing"


def resource_path(resource: tuple[str, str], namespace: str, name: str = "") -> str:
    """Path of a collection, or of one object in it."""
    group, plural = resource
    version, _ = KINDS[resource]
    root = f"/apis/{group}/{version}" if group else f"/api/{version}"
    return f"{root}/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def _object(resource: tuple[str, str], name: str, **content: Any) -> Json:
    group, _ = resource
    version, kind = KINDS[resource]
    labels = {"app": name.partition("-")[0], "made-by": "kubecdc-demo"}
    api_version = f"{group}/{version}" if group else version
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": labels}, **content}


def config_map(name: str, value: str, *, held: bool = False) -> Json:
    """A ConfigMap; `held` by a finalizer, so that its delete takes two steps."""
    made = _object(("", "configmaps"), name, data={"setting": value})
    if held:
        made["metadata"]["finalizers"] = [FINALIZER]
    return made


def secret(name: str, value: str) -> Json:
    """A Secret whose value must never be seen in a topic."""
    return _object(("", "secrets"), name, stringData={"password": value})


def _template(app: str, image: str) -> Json:
    container = {"name": "main", "image": image}
    spec = {"schedulerName": _NO_SCHEDULER, "containers": [container], "automountServiceAccountToken": False}
    return {"metadata": {"labels": {"app": app}}, "spec": spec}


def deployment(app: str, image: str, replicas: int) -> Json:
    """A Deployment of `app`."""
    selector = {"matchLabels": {"app": app}}
    spec = {"replicas": replicas, "selector": selector, "template": _template(app, image)}
    return _object(("apps", "deployments"), app, spec=spec)


def replica_set(app: str, name: str, image: str, replicas: int) -> Json:
    """One revision of a Deployment."""
    selector = {"matchLabels": {"app": app, "revision": name}}
    template = _template(app, image)
    template["metadata"]["labels"]["revision"] = name
    spec = {"replicas": replicas, "selector": selector, "template": template}
    return _object(("apps", "replicasets"), name, spec=spec)


def pod(app: str, name: str, image: str) -> Json:
    """A Pod of `app`."""
    return _object(("", "pods"), name, spec=_template(app, image)["spec"])


def pod_status(restarts: int, *, crashing: bool) -> Json:
    """What a kubelet would report of a Pod, as a merge patch of its status."""
    waiting = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off after restart {restarts}"}}
    running: Json = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    container = {
        "name": "main",
        "image": "demo",
        "imageID": "",
        "ready": not crashing,
        "restartCount": restarts,
        "state": waiting if crashing else running,
    }
    return {"status": {"phase": "Running", "containerStatuses": [container]}}
