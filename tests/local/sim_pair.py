"""Two API servers, a real and a simulated one, asked the same: what the tests of their likeness share."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from local.apiserver import ApiServer
from local.sim_server import SimServer
from tests.local.sim_compare import MERGE, Client, Operation, canonical, play

GROUP = "example.io"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CORE = "/api/v1/namespaces/{ns}"
PATHS = {
    "configmaps": "/api/v1/namespaces/{ns}/configmaps",
    "pods": "/api/v1/namespaces/{ns}/pods",
    "deployments": "/apis/apps/v1/namespaces/{ns}/deployments",
    "widgets": f"/apis/{GROUP}/v1/namespaces/{{ns}}/widgets",
}
ALL = {plural: path.replace("/namespaces/{ns}", "") for plural, path in PATHS.items()}
WATCH = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true"
# The real server may wait more than a second for etcd's progress before a consistent answer is complete.
PATIENT_WATCH = WATCH.replace("=1&allow", "=4&allow")


def both(real: ApiServer, sim: SimServer) -> tuple[Client, Client]:
    return Client(real.url, real.admin_token, real.ca_file), Client(sim.url)


def assert_alike(clients: tuple[Client, Client], script: list[Operation]) -> None:
    with ThreadPoolExecutor(2) as pool:
        replies = list(pool.map(lambda client: play(client, script), clients))
    assert_same_replies(script, *replies)


def assert_same_replies(script: list[Operation], real: list[Any], sim: list[Any]) -> None:
    pairs = zip(canonical(script, real), canonical(script, sim), strict=True)
    for number, (operation, (expected, found)) in enumerate(zip(script, pairs, strict=True)):
        message = f"operation {number}: {operation}\nreal {_lines(expected)}\nsim  {_lines(found)}"
        assert found == expected, message


def _lines(reply: Any) -> str:
    frames = isinstance(reply, tuple) and isinstance(reply[1], list)
    return "\n     ".join(json.dumps(frame, sort_keys=True) for frame in (reply[1] if frames else [reply]))


def get(path: str, query: str = "", *, code_only: bool = False) -> Operation:
    return Operation("GET", f"{path}?{query}" if query else path, code_only=code_only)


def patch(path: str, body: Any, content_type: str = MERGE) -> Operation:
    return Operation("PATCH", path, body, content_type)


def crd(plural: str, kind: str, *, status: bool = True) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    shared = {"served": True, "schema": schema, "subresources": {"status": {}} if status else {}}
    versions = [{"name": "v1beta1", "storage": False}, {"name": "v1", "storage": True}]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [version | shared for version in versions],
        },
    }


def serve_custom_kind(clients: tuple[Client, ...], plural: str, kind: str) -> None:
    for client in clients:
        client.call(Operation("POST", CRDS, crd(plural, kind)), {})
        wait_for(client, f"/apis/{GROUP}/v1/{plural}", 200)


def wait_for(client: Client, path: str, code: int) -> None:
    for _ in range(300):
        # Served for good only once the CRD's storage is: a watch of no time shows that.
        if client.call(get(path, "limit=1"), {}).code == code:
            return
    raise AssertionError(f"{client.url}{path} never answered {code}")


def fresh_namespace(clients: tuple[Client, ...], name: str) -> None:
    body = {"metadata": {"name": name}}
    for client in clients:
        assert client.call(Operation("POST", "/api/v1/namespaces", body), {}).code == 201
