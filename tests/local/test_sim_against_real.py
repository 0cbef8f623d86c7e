"""The simulated API server takes and refuses writes as a real kube-apiserver does, request by request.

Held: status codes, Status objects down to their words, objects with their versions in order and the ownership of
their fields. Reads and kinds have modules of their own.
"""

from __future__ import annotations

import pytest

from local.apiserver import ApiServer
from local.sim_server import SimServer
from tests.local.sim_compare import MERGE, STRATEGIC, Operation
from tests.local.sim_pair import GROUP, PATHS, assert_alike, both, fresh_namespace, get, patch, serve_custom_kind
from tests.local.sim_workload import Workload

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
WIDGET = {"apiVersion": f"{GROUP}/v1", "kind": "Widget"}
NAMED = {"metadata": {"name": "x"}}
HELD = {"metadata": {"name": "held", "finalizers": ["test.io/one"]}}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_work_is_answered_alike(real: ApiServer, sim: SimServer, seed: int) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, f"work-{seed}")
    assert_alike(clients, Workload(seed, f"work-{seed}").build(250))


def test_bad_writes_are_refused_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, "bad")
    maps, widgets, deployments = (PATHS[plural].format(ns="bad") for plural in ("configmaps", "widgets", "deployments"))
    script = [
        Operation("POST", maps, NAMED),
        Operation("POST", maps, NAMED),
        Operation("POST", maps, {"metadata": {}}),
        Operation("POST", maps, {"metadata": {"name": "A_B"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "namespace": "default"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "resourceVersion": "5"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "finalizers": ["bad"]}}),
        Operation("POST", maps, {"metadata": {"name": "g", "uid": "mine", "generation": 7}}),
        Operation("POST", "/api/v1/namespaces/none/configmaps", NAMED),
        Operation("POST", maps, "{bad", code_only=True),
        Operation("POST", maps, {"kind": "Pod", "apiVersion": "v1"} | NAMED, code_only=True),
        Operation("POST", "/api/v1/configmaps", NAMED),
        Operation("PUT", maps, NAMED),
        Operation("POST", f"{maps}/x", NAMED),
        Operation("PUT", f"{maps}/none", {"metadata": {"name": "none"}}),
        Operation("PUT", f"{maps}/x", {"metadata": {"name": "other"}}),
        Operation("PUT", f"{maps}/x", {"data": {}}),
        Operation("PUT", f"{maps}/x", {"metadata": {"name": "x", "deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        patch(f"{maps}/x", {"metadata": {"uid": "5"}}),
        patch(f"{maps}/x", {"metadata": {"name": "5"}}),
        Operation("PATCH", f"{maps}/x", "{bad", MERGE, code_only=True),
        patch(f"{maps}/x", {"data": {}}, "application/json"),
        Operation("DELETE", f"{maps}/none"),
        Operation("DELETE", f"{maps}/x?gracePeriodSeconds=x"),
        Operation("DELETE", f"{maps}/x?propagationPolicy=Bogus"),
        Operation("DELETE", f"{maps}/x?propagationPolicy=Background"),
        Operation("POST", widgets, NAMED, code_only=True),
        Operation("POST", widgets, WIDGET | NAMED),
        Operation("PUT", f"{widgets}/x", WIDGET | NAMED),
        patch(f"{widgets}/x", {"spec": {}}, STRATEGIC),
        Operation("DELETE", f"{widgets}/none"),
        Operation("DELETE", f"{deployments}/none"),
        get(f"/apis/{GROUP}/v1beta1/namespaces/bad/widgets"),
        get(f"/apis/{GROUP}/v1beta1/namespaces/bad/widgets/x"),
        Operation("DELETE", f"{maps}?gracePeriodSeconds=0"),
        get(maps),
    ]
    assert_alike(clients, script)


def test_what_is_peculiar_to_a_kind_is_alike(real: ApiServer, sim: SimServer) -> None:
    """Names of kinds in refusals, names and finalizers that a kind takes, versions that it needs."""
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, "kinds")
    maps, widgets = (PATHS[plural].format(ns="kinds") for plural in ("configmaps", "widgets"))
    lease = f"{LEASES.format(ns='kinds')}/l"
    empty = {"labels": {}, "annotations": {}, "finalizers": []}
    spaces = "/api/v1/namespaces"
    script = [
        Operation("POST", maps, {"metadata": {"name": "empty"} | empty}),
        Operation(
            "POST", widgets, WIDGET | {"metadata": {"name": "empty"} | empty, "spec": {}, "list": [], "no": None}
        ),
        patch(f"{widgets}/empty", {"metadata": {"uid": "5"}}),
        patch(f"{widgets}/empty", {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}),
        Operation("DELETE", f"{widgets}/empty", {"preconditions": {"uid": "other"}}),
        Operation("POST", widgets, WIDGET | {"metadata": {"name": "A_B"}}),
        Operation("POST", widgets, WIDGET | {"metadata": {"name": "f", "finalizers": ["bad"]}}),
        Operation("PUT", lease, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "a"}}, code_only=True),
        Operation("PUT", lease, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "b"}}),
        *[Operation("POST", maps, {"metadata": {"name": name}}) for name in ("x" * 254, "X" * 254, "a..b", "-a")],
        *[Operation("POST", spaces, {"metadata": {"name": name}}) for name in ("kinds.b", "K_B")],
        Operation("POST", spaces, {"metadata": {"name": "kinds-b"}}),
        Operation("PUT", f"{spaces}/kinds-b", {"metadata": {"name": "kinds-b"}}),
        patch(f"{spaces}/kinds-b", {"metadata": {"labels": None}}),
        patch(f"{spaces}/kinds-b", {"spec": None, "metadata": {"labels": {"a": "b"}}}),
        Operation("POST", maps, {"metadata": {"generateName": "A_"}}, code_only=True),
        Operation("DELETE", f"{widgets}?limit=1"),
        get(widgets),
    ]
    assert_alike(clients, script)


def test_terminating_objects_are_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, "ending")
    maps, pods, widgets = (PATHS[plural].format(ns="ending") for plural in ("configmaps", "pods", "widgets"))
    pod = {"metadata": {"name": "held"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    script = [Operation("POST", pods, pod), Operation("POST", maps, HELD), Operation("POST", widgets, WIDGET | HELD)]
    for path in (pods, maps, widgets):
        script += [
            Operation("DELETE", f"{path}/held"),
            patch(f"{path}/held", {"metadata": {"finalizers": ["test.io/one", "test.io/two"]}}),
            patch(f"{path}/held", {"metadata": {"deletionGracePeriodSeconds": 3}}),
            patch(f"{path}/held", {"metadata": {"labels": {"l": "1"}}}),
            get(f"{path}/held"),
            patch(f"{path}/held", {"metadata": {"finalizers": None, "labels": {"never": "stored"}}}),
            get(path),
        ]
    # It is ignored, but whoever sends it owns the field from then on: that is not simulated.
    moved = {"metadata": {"deletionTimestamp": "2020-01-01T00:00:00Z"}}
    for path in (maps, widgets):
        head = WIDGET if path == widgets else {}
        script += [
            Operation("POST", path, head | HELD),
            Operation("DELETE", f"{path}/held"),
            Operation("PATCH", f"{path}/held", moved, MERGE, code_only=True),
        ]
    assert_alike(clients, script)


def test_odd_values_are_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, "odd")
    path = PATHS["widgets"].format(ns="odd")
    values = ("123456789012345678901234567890", "9223372036854775807", "1e3", "1.0", r'"\ud800x"', r'"\ud83d\ude00"')
    body = '{"apiVersion": "%s/v1", "kind": "Widget", "metadata": {"name": "%s"}, "spec": {"n": %s}}'
    script = [Operation("POST", path, body % (GROUP, f"w{n}", value)) for n, value in enumerate(values)]
    script += [
        Operation("POST", path, body % (GROUP, "bad", value), code_only=True) for value in ("NaN", "1e400", "01")
    ]
    assert_alike(clients, [*script, get(path)])
