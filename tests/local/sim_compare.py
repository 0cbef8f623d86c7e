"""The same script to two API servers, and their answers in a form that can be compared.

An operation may name what an earlier one yielded: `$v3` is the version, `$u3` the uid, `$t3` the
continue token in the answer to operation 3, each server's own. For the comparison uids become ordinals by first
appearance, an object's version its rank among all versions of objects seen, and a list's version
the number of those not above it; times and what a server fills in by itself are left out.
"""

from __future__ import annotations

import bisect
import http.client
import json
import re
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True, slots=True)
class Operation:
    """A request; `code_only` for what the servers are known to word or fill in differently."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"
    code_only: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.path} {json.dumps(self.body)} {self.content_type}"


@dataclass(frozen=True, slots=True)
class Reply:
    """Status code and body: JSON, text, or for a stream the list of its frames."""

    code: int
    body: Any


@dataclass(frozen=True, slots=True)
class Client:
    """A bare HTTP client that reads an answer, or a stream, to its end."""

    url: str
    token: str = ""
    ca_file: Path | None = None

    def call(self, operation: Operation, values: Mapping[str, str]) -> Reply:
        def known(name: re.Match[str]) -> str:
            return values.get(name[1], "" if name[1].startswith("t") else "1")

        path = re.sub(r"\$([vtu]\d+)", known, operation.path)
        body = operation.body if isinstance(operation.body, str) else json.dumps(operation.body)
        data = None if operation.body is None else re.sub(r"\$([vtu]\d+)", known, body).encode()
        connection = self._connect()
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if data is not None:
            headers["Content-Type"] = operation.content_type
        try:
            connection.request(operation.method, path, data, headers)
            response = connection.getresponse()
            text = response.read().decode()
            streamed = response.getheader("Transfer-Encoding") == "chunked" and "watch=" in path
            return Reply(response.status, _parsed(text, streamed=streamed))
        finally:
            connection.close()

    def _connect(self) -> http.client.HTTPConnection:
        address = urlsplit(self.url)
        host = address.hostname or "127.0.0.1"
        if address.scheme == "http":
            return http.client.HTTPConnection(host, address.port, timeout=30)
        context = ssl.create_default_context(cafile=str(self.ca_file))
        return http.client.HTTPSConnection(host, address.port, timeout=30, context=context)


def play(client: Client, script: list[Operation]) -> list[Reply]:
    """Send each operation in turn; reads that do not wait for one another go out together."""
    values: dict[str, str] = {}
    replies: list[Reply] = []
    with ThreadPoolExecutor(8) as pool:
        while len(replies) < len(script):
            batch = _batch(script, len(replies))
            for reply in pool.map(client.call, batch, [dict(values)] * len(batch)):
                values |= _yielded(len(replies), reply)
                replies.append(reply)
    return replies


def _batch(script: list[Operation], start: int) -> list[Operation]:
    batch = [script[start]]
    for operation in script[start + 1 :]:
        needed = [int(number) for number in re.findall(r"\$[vtu](\d+)", operation.path)]
        if {operation.method, batch[0].method} != {"GET"} or any(number >= start for number in needed):
            break
        batch.append(operation)
    return batch


def _yielded(number: int, reply: Reply) -> dict[str, str]:
    meta = reply.body.get("metadata") if isinstance(reply.body, dict) else None
    if not isinstance(meta, dict):
        return {}
    found = {"v": "resourceVersion", "u": "uid", "t": "continue"}
    return {f"{key}{number}": meta[name] for key, name in found.items() if meta.get(name)}


def canonical(script: list[Operation], replies: list[Reply]) -> list[Any]:
    """Return the replies in a form that is equal for two servers that behave alike."""
    compared = [r for o, r in zip(script, replies, strict=True) if not o.code_only]
    versions = sorted({v for reply in compared for v in _object_versions(reply.body)})
    names = _Names(versions, {})
    return [
        reply.code if operation.code_only else (reply.code, names.shown(reply.body))
        for operation, reply in zip(script, replies, strict=True)
    ]


def _parsed(text: str, *, streamed: bool) -> Any:
    if streamed:
        return [json.loads(line) for line in text.splitlines()]
    try:
        return json.loads(text)
    except ValueError:
        return text


def _object_versions(value: Any) -> list[int]:
    if isinstance(value, list):
        return [v for item in value for v in _object_versions(item)]
    if not isinstance(value, dict):
        return []
    meta = value.get("metadata")
    if isinstance(meta, dict) and "uid" in meta:
        return [int(meta["resourceVersion"])]
    return [v for key in ("items", "object") for v in _object_versions(value.get(key))]


@dataclass(frozen=True, slots=True)
class _Names:
    versions: list[int]
    uids: dict[str, str]

    def shown(self, body: Any) -> Any:
        if isinstance(body, list):
            # How often a bookmark comes is the server's choice, except for the one that ends a list.
            frames = [f for f in body if f["type"] != "BOOKMARK" or "annotations" in f["object"]["metadata"]]
            return [(frame["type"], self.shown(frame["object"])) for frame in frames]
        if not isinstance(body, dict):
            return body
        if body.get("kind") == "Status":
            return self._status(body)
        if "items" in body:
            return self._list(body)
        if "uid" in body.get("metadata", {}):
            return self._object(body)
        if "resourceVersion" in body.get("metadata", {}):
            return body | {"metadata": body["metadata"] | {"resourceVersion": "any"}}
        return body

    def _uid(self, uid: str) -> str:
        return self.uids.setdefault(uid, f"uid{len(self.uids)}")

    def _status(self, status: dict[str, Any]) -> Any:
        message = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "<uid>", status.get("message", ""))
        message = re.sub(r"\b\d+\b", "<n>", message)
        details = dict(status.get("details", {}))
        if "uid" in details:
            details["uid"] = self._uid(details["uid"])
        has_token = "continue" in status["metadata"]
        return status | {"message": message, "details": details, "metadata": has_token}

    def _list(self, body: dict[str, Any]) -> Any:
        meta = dict(body["metadata"])
        meta["resourceVersion"] = bisect.bisect_right(self.versions, int(meta["resourceVersion"]))
        meta["continue"] = bool(meta.get("continue")) if "continue" in meta else None
        return body | {"metadata": meta, "items": [self.shown(item) for item in body["items"]]}

    def _object(self, obj: dict[str, Any]) -> Any:
        meta = dict(obj["metadata"])
        meta["uid"] = self._uid(meta["uid"])
        meta["resourceVersion"] = self.versions.index(int(meta["resourceVersion"]))
        for name in ("creationTimestamp", "deletionTimestamp"):
            if name in meta:
                meta[name] = "<time>"
        served = "spec" in obj and ("containers" in obj["spec"] or "template" in obj["spec"])
        meta["managedFields"] = sorted(
            (e["manager"], e["operation"], e.get("subresource", ""), e["apiVersion"])
            + (() if served else (json.dumps(e["fieldsV1"], sort_keys=True),))
            for e in meta.get("managedFields", ())
        )
        # Specs of Pods and Deployments are full of the server's defaults.
        spec = {"spec": {"replicas": obj["spec"].get("replicas")}} if served else {}
        return obj | spec | {"metadata": meta}
