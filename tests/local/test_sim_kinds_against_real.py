"""The simulated API server shows kinds as a real kube-apiserver does: discovery, custom kinds that come and go."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from local.apiserver import ApiServer
from local.sim_server import SimServer
from tests.local.sim_compare import Client, Operation, play
from tests.local.sim_pair import CRDS, GROUP, assert_same_replies, both, crd, get, serve_custom_kind, wait_for


def test_custom_kind_comes_and_goes_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "gadgets", "Gadget")
    path = f"/apis/{GROUP}/v1/namespaces/default/gadgets"
    body = {"apiVersion": f"{GROUP}/v1", "kind": "Gadget"}
    script = [get(path)]
    script += [Operation("POST", path, body | {"metadata": {"name": name}}) for name in ("a", "b")]
    before = [play(client, script) for client in clients]
    start = [replies[0].body["metadata"]["resourceVersion"] for replies in before]

    def end(pair: tuple[Client, str]) -> Any:
        client, version = pair
        with ThreadPoolExecutor(1) as pool:
            query = f"watch=1&timeoutSeconds=25&resourceVersion={version}"
            stream = pool.submit(client.call, get(path, query), {})
            # The watch must be open before its kind goes: it is once it could have been answered.
            client.call(get(path, f"watch=1&timeoutSeconds=1&resourceVersion={version}"), {})
            client.call(Operation("DELETE", f"{CRDS}/gadgets.{GROUP}"), {})
            reply = stream.result(timeout=30)
        wait_for(client, path, 404)
        return [reply, client.call(get(path), {})]

    with ThreadPoolExecutor(2) as pool:
        ends = list(pool.map(end, zip(clients, start, strict=True)))
    both_replies = [first + last for first, last in zip(before, ends, strict=True)]
    assert_same_replies([*script, get("the watch as its kind goes"), get(path)], *both_replies)


def test_discovery_describes_each_kind_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    groups = {g["name"]: g for g in clients[0].call(get("/apis"), {}).body["groups"]}
    for group in clients[1].call(get("/apis"), {}).body["groups"]:
        assert group == groups[group["name"]]
        for version in group["versions"]:
            assert_resources_alike(clients, f"/apis/{version['groupVersion']}")
    assert_resources_alike(clients, "/api/v1")
    documents = [client.call(get("/api"), {}).body for client in clients]
    assert [sorted(document) for document in documents] == [sorted(documents[0])] * 2


def assert_resources_alike(clients: tuple[Client, Client], path: str) -> None:
    real, sim = (client.call(get(path), {}).body for client in clients)
    known = {resource["name"]: resource for resource in real.pop("resources")}
    for resource in sim.pop("resources"):
        expected = known[resource["name"]]
        expected.pop("storageVersionHash", None)
        for shown in (resource, expected):
            shown["verbs"] = sorted(shown["verbs"])
        assert resource == expected, json.dumps([resource, expected])
    assert sim == real


def test_versions_of_a_group_are_in_one_order_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    wanted = {"aaas": ["v1alpha1"], "bbbs": ["v1beta1", "v1"]}
    for client in clients:
        for plural, names in wanted.items():
            body = crd(plural, plural[:3].title())
            body["metadata"]["name"] = f"{plural}.order.io"
            version = body["spec"]["versions"][0]
            versions = [version | {"name": name, "storage": name == names[0]} for name in names]
            body["spec"] |= {"group": "order.io", "versions": versions}
            client.call(Operation("POST", CRDS, body), {})
            wait_for(client, f"/apis/order.io/{names[-1]}/{plural}", 200)
        # The group's document follows the kinds a moment later.
        wait_for_versions(client, 3)
    found, expected = (client.call(get("/apis/order.io"), {}).body for client in reversed(clients))
    assert found == expected


def wait_for_versions(client: Client, count: int) -> None:
    for _ in range(300):
        body = client.call(get("/apis/order.io"), {}).body
        if isinstance(body, dict) and len(body.get("versions", ())) == count:
            return
        time.sleep(0.05)
    raise AssertionError(f"{client.url} never showed {count} versions")
