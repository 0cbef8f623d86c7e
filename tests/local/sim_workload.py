"""A seeded script of reads and writes, to be played to two API servers."""

from __future__ import annotations

import random
from typing import Any

from tests.local.sim_compare import JSON_PATCH, MERGE, STRATEGIC, Operation
from tests.local.sim_pair import GROUP, PATHS, PATIENT_WATCH, WATCH, get

NAMES = ("a", "a-b", "b", "c", "d")


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
