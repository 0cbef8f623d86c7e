"""The simulated API server answers as a real kube-apiserver does, request by request.

Held: status codes, Status objects down to their words, list shapes and page boundaries, event
sequences, versions in their order, ownership of fields. The real server is started for this module, since
it is compacted here.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from local.apiserver import ApiServer
from local.sim_server import SimOptions, SimServer
from tests.local.sim_compare import JSON_PATCH, MERGE, STRATEGIC, Client, Operation, canonical, play

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
NAMES = ("a", "a-b", "b", "c", "d")
WATCH = "watch=1&timeoutSeconds=1&allowWatchBookmarks=true"
# The real server may wait more than a second for etcd's progress before a consistent answer is complete.
PATIENT_WATCH = WATCH.replace("=1&allow", "=4&allow")


@pytest.fixture(scope="module")
def real(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("compared"), binaries=envtest_folder) as server:
        yield server


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with SimServer(options=SimOptions(too_large_wait_s=0.2)) as server:
        yield server


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


class Workload:
    """A seeded script over four kinds in one namespace; it may also ask for what must be refused."""

    def __init__(self, seed: int, namespace: str) -> None:
        self.random = random.Random(seed)
        self.namespace = namespace
        self.script: list[Operation] = []
        self.paths = {plural: path.format(ns=namespace) for plural, path in PATHS.items()}

    def build(self, length: int) -> list[Operation]:
        self.script += [get(path) for path in self.paths.values()]
        actions = [self.create] * 5 + [self.change] * 6 + [self.replace] * 2 + [self.delete] * 4 + [self.read] * 3
        while len(self.script) < length:
            self.random.choice(actions)(self.random.choice(list(self.paths)))
        for number, path in enumerate(self.paths.values()):
            self.script.append(get(path, f"{WATCH}&resourceVersion=$v{number}"))
            follow = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
            self.script.append(get(path, f"{PATIENT_WATCH}&{follow}"))
        self.script.append(get(path, f"{PATIENT_WATCH}&resourceVersion=0"))
        self.script.append(get(path, f"{PATIENT_WATCH}"))
        return self.script

    def add(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> None:
        manager = self.random.choice(["", "?fieldManager=alpha", "?fieldManager=beta"])
        self.script.append(Operation(method, path + manager, body, content_type))

    def earlier(self) -> int:
        return self.random.randrange(len(self.script))

    def body(self, plural: str, name: str) -> dict[str, Any]:
        meta: dict[str, Any] = {"name": name}
        if self.random.random() < 0.3:
            meta["finalizers"] = ["test.io/one", "test.io/two"]
        if self.random.random() < 0.3:
            meta["labels"] = {"l": str(self.random.randrange(3))}
        number = self.random.randrange(3)
        container = {"name": "c", "image": f"image:{number}"}
        if plural == "pods":
            bound = {"nodeName": "n"} if self.random.random() < 0.5 else {}
            return {"metadata": meta, "spec": {"containers": [container]} | bound}
        if plural == "deployments":
            labels = {"app": "x"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
            spec = {"replicas": number, "selector": {"matchLabels": labels}, "template": template}
            return {"metadata": meta, "spec": spec}
        if plural == "widgets":
            head = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": meta}
            return head | {"spec": {"size": number, "parts": [number]}, "status": {"ignored": True}}
        return {"metadata": meta, "data": {"k": str(number), "j": "x"}}

    def create(self, plural: str) -> None:
        self.add("POST", self.paths[plural], self.body(plural, self.random.choice(NAMES)))

    def change(self, plural: str) -> None:
        path = f"{self.paths[plural]}/{self.random.choice(NAMES)}"
        number = self.random.randrange(3)
        choices: list[tuple[str, Any, str]] = [
            ("", {"metadata": {"labels": {"l": str(number)}}}, MERGE),
            ("", {"metadata": {"annotations": {"a": str(number)}}}, MERGE),
            ("", {"metadata": {"annotations": None}}, MERGE),
            ("", {"metadata": {"finalizers": None}}, MERGE),
            ("", {"metadata": {"finalizers": ["test.io/one"]}}, MERGE),
            ("", {"metadata": {"resourceVersion": f"$v{self.earlier()}", "labels": {"l": "v"}}}, MERGE),
        ]
        if plural == "configmaps":
            choices += [("", {"data": {"k": str(number)}}, MERGE), ("", {"data": {"j": None}}, MERGE)]
            choices += [("", [{"op": "add", "path": "/data/new", "value": "1"}], JSON_PATCH)]
        if plural == "pods":
            container = {"name": "c", "image": f"image:{number}"}
            choices += [("", {"spec": {"containers": [container]}}, STRATEGIC)]
            choices += [("/status", {"status": {"phase": "Running"}}, MERGE)]
        if plural == "deployments":
            choices += [("", {"spec": {"replicas": number}}, MERGE)]
            choices += [("/status", {"status": {"replicas": number}, "metadata": {"labels": {"no": "no"}}}, MERGE)]
        if plural == "widgets":
            choices += [("", {"spec": {"size": number}}, MERGE), ("", {"status": {"not": "here"}}, MERGE)]
            choices += [("/status", {"status": {"n": number}, "spec": {"not": "here"}}, MERGE)]
        suffix, body, content_type = self.random.choice(choices)
        self.add("PATCH", path + suffix, body, content_type)

    def replace(self, plural: str) -> None:
        name = self.random.choice(NAMES)
        if plural == "pods":  # a pod's spec cannot be replaced without all its defaults
            return
        body = self.body(plural, name)
        condition = self.random.choice(["none", "version", "uid"])
        if condition == "version":
            body["metadata"]["resourceVersion"] = f"$v{self.earlier()}"
        if condition == "uid" and plural != "widgets":
            body["metadata"]["uid"] = f"$u{self.earlier()}"
        self.add("PUT", f"{self.paths[plural]}/{name}", body)

    def delete(self, plural: str) -> None:
        path = f"{self.paths[plural]}/{self.random.choice(NAMES)}"
        earlier = self.earlier()
        bodies = [None, None, {"gracePeriodSeconds": 0}, {"gracePeriodSeconds": 5}, {"gracePeriodSeconds": 60}]
        bodies += [{"preconditions": {"uid": f"$u{earlier}"}}, {"preconditions": {"resourceVersion": f"$v{earlier}"}}]
        self.script.append(Operation("DELETE", path, self.random.choice(bodies)))

    def read(self, plural: str) -> None:
        path = self.paths[plural]
        first = self.random.randrange(4)
        # A list's own version, of this kind and not of objects, is one that both servers have.
        queries = [
            "",
            "limit=2",
            "limit=1",
            f"resourceVersionMatch=Exact&resourceVersion=$v{first}",
            f"resourceVersionMatch=NotOlderThan&resourceVersion=$v{first}",
            f"resourceVersion=$v{first}&limit=2",
            "fieldSelector=metadata.name%3Da",
            "fieldSelector=metadata.name!%3Da&limit=1",
            "resourceVersion=0&limit=1",
        ]
        query = self.random.choice(queries)
        # What need not be the latest may come from a cache that lags, as far as the version asked for.
        stale = "resourceVersion" in query and "Exact" not in query and "limit=2" not in query
        self.script.append(get(path, query, code_only=stale))
        if "limit" in query:
            self.script.append(get(path, f"limit=1&continue=$t{len(self.script) - 1}"))
            self.script.append(get(path, f"continue=$t{len(self.script) - 1}"))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_work_is_answered_alike(real: ApiServer, sim: SimServer, seed: int) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, f"work-{seed}")
    assert_alike(clients, Workload(seed, f"work-{seed}").build(250))


LIST_QUERIES = (
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=Other&resourceVersion=5",
    "resourceVersionMatch=Exact&resourceVersion=0",
    "resourceVersionMatch=NotOlderThan&continue=$t9",
    "resourceVersion=5&continue=$t9",
    "resourceVersion=0&continue=$t9",
    "limit=-1",
    "limit=abc",
    "resourceVersion=abc",
    "resourceVersion=-1",
    "resourceVersion=99999999&resourceVersionMatch=Exact",
    "resourceVersion=99999999",
    "resourceVersion=99999999&limit=2",
    "sendInitialEvents=true",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
    "timeoutSeconds=abc",
    "fieldSelector=foo%3Da",
)
WATCH_QUERIES = (
    "resourceVersionMatch=Exact&resourceVersion=1",
    "resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true",
    "sendInitialEvents=true&resourceVersionMatch=Exact&resourceVersion=5",
    "sendInitialEvents=false",
    "sendInitialEvents=abc&resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=99999999",
    "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion=0",
    "resourceVersion=abc",
    "resourceVersion=99999999",
    "continue=abc",
    "limit=1",
)


@pytest.mark.parametrize("plural", ["configmaps", "widgets"])
def test_read_parameters_are_refused_alike(real: ApiServer, sim: SimServer, plural: str) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    namespace = f"read-{plural}"
    fresh_namespace(clients, namespace)
    path = PATHS[plural].format(ns=namespace)
    work = Workload(0, namespace)
    script = [Operation("POST", path, work.body(plural, f"n{n}")) for n in range(8)]
    script = [get(path, "limit=2"), *script, get(path, "limit=3")]
    assert len(script) == 10  # so that $t9 is the second list's token
    script += [get(path, query) for query in LIST_QUERIES]
    script += [get(path, f"watch=1&timeoutSeconds=1&{query}") for query in WATCH_QUERIES]
    script += [
        get(path, f"{PATIENT_WATCH}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=$v9")
    ]
    assert_alike(clients, script)


def test_bad_requests_are_refused_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    fresh_namespace(clients, "bad")
    maps, widgets = (PATHS[plural].format(ns="bad") for plural in ("configmaps", "widgets"))
    deployments = PATHS["deployments"].format(ns="bad")
    named = {"metadata": {"name": "x"}}
    widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget"}
    script = [get(path) for path in (f"{maps}/none", "/apis/apps/v9", "/api/v2", "/foo", "/apis/none.io/v1/foos")]
    script += [get(path) for path in ("/apis/apps/v1/foos", "/api/v1/foos", f"{CORE.format(ns='bad')}/nodes")]
    script += [get(path) for path in (f"/apis/{GROUP}/v1/foos", f"/apis/{GROUP}/v2/widgets", "/apis/none.io")]
    script += [get(path) for path in ("/healthz", "/livez", f"/apis/{GROUP}", f"{maps}/none/status")]
    script += [
        Operation("POST", maps, named),
        Operation("POST", maps, named),
        Operation("POST", maps, {"metadata": {}}),
        Operation("POST", maps, {"metadata": {"name": "A_B"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "namespace": "default"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "resourceVersion": "5"}}),
        Operation("POST", maps, {"metadata": {"name": "y", "finalizers": ["bad"]}}),
        Operation("POST", maps, {"metadata": {"name": "g", "uid": "mine", "generation": 7}}),
        Operation("POST", "/api/v1/namespaces/none/configmaps", named),
        Operation("POST", maps, "{bad", code_only=True),
        Operation("POST", maps, {"kind": "Pod", "apiVersion": "v1"} | named, code_only=True),
        Operation("POST", "/api/v1/configmaps", named),
        Operation("PUT", maps, named),
        Operation("POST", f"{maps}/x", named),
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
        Operation("POST", widgets, named, code_only=True),
        Operation("POST", widgets, widget | named),
        Operation("PUT", f"{widgets}/x", widget | named),
        patch(f"{widgets}/x", {"spec": {}}, STRATEGIC),
        Operation("DELETE", f"{widgets}/none"),
        Operation("DELETE", f"{deployments}/none"),
        get(f"/apis/{GROUP}/v1beta1/namespaces/bad/widgets"),
        get(f"/apis/{GROUP}/v1beta1/namespaces/bad/widgets/x"),
        Operation("DELETE", f"{maps}?gracePeriodSeconds=0"),
        get(maps),
    ]
    assert_alike(clients, script)


def test_all_namespaces_page_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    serve_custom_kind(clients, "widgets", "Widget")
    for client in clients:  # what other tests left must not be seen here
        listed = client.call(get(ALL["widgets"]), {}).body["items"]
        for item in listed:
            meta = item["metadata"]
            path = f"{PATHS['widgets'].format(ns=meta['namespace'])}/{meta['name']}"
            client.call(Operation("DELETE", path), {})
            client.call(patch(path, {"metadata": {"finalizers": None}}), {})
    script = [get(ALL["widgets"])]
    # A hyphen sorts before the slash that ends a namespace in etcd's keys.
    for namespace in ("page", "page-b", "pageb"):
        fresh_namespace(clients, namespace)
        path = PATHS["widgets"].format(ns=namespace)
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Widget"}
        script += [Operation("POST", path, body | {"metadata": {"name": name}}) for name in ("a", "a-b", "b")]
    for limit in (1, 2, 4):
        script.append(get(ALL["widgets"], f"limit={limit}"))
        script += [get(ALL["widgets"], f"limit={limit}&continue=$t{len(script) - 1 + n}") for n in range(9 // limit)]
    script.append(get(ALL["widgets"], f"{WATCH}&resourceVersion=$v0"))
    assert_alike(clients, script)


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


def test_compaction_expires_alike(real: ApiServer, sim: SimServer) -> None:
    clients = both(real, sim)
    fresh_namespace(clients, "old")
    path = PATHS["configmaps"].format(ns="old")
    script = [Operation("POST", path, {"metadata": {"name": f"n{n}"}}) for n in range(6)]
    script += [get(path, "limit=2"), Operation("DELETE", f"{path}/n1"), Operation("DELETE", f"{path}/n3")]
    before = [play(client, script) for client in clients]
    real.compact(real.revision())
    real.restart_apiserver()  # its cache would still know what etcd has forgotten
    sim.store.compact()
    lists = [replies[6].body["metadata"] for replies in before]
    after = []
    for client, old in zip(clients, lists, strict=True):
        token, version = old["continue"], old["resourceVersion"]
        queries = (
            f"limit=2&continue={token}",
            f"resourceVersion={version}&resourceVersionMatch=Exact",
            f"resourceVersion={version}&limit=2",
            f"resourceVersion={version}",
            f"watch=1&timeoutSeconds=1&resourceVersion={version}",
            f"watch=1&timeoutSeconds=1&resourceVersion={version}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan",
        )
        replies = [client.call(get(path, query), {}) for query in queries]
        rest = replies[0].body["metadata"]["continue"]  # the inconsistent token
        replies.append(client.call(get(path, f"limit=1&continue={rest}"), {}))
        after.append(replies)
    asked = [get(f"{path} after compaction, {number}") for number in range(7)]
    both_replies = [first + last for first, last in zip(before, after, strict=True)]
    assert_same_replies([*script, *asked], *both_replies)


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
