"""A Schema Registry for the tests: the two calls that we need of the Confluent API, over real HTTP."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class MemoryRegistry(ThreadingHTTPServer):
    """Ids count from 1; the same schema has the same id. `refuse` is a status that every answer has instead.

    As Confluent's does by default, it takes under a subject only what can read what is there: never another record.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.schemas: list[str] = []
        self.subjects: dict[str, list[int]] = {}
        self.refuse = 0
        self.requests = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def id_of(self, subject: str, schema: str) -> int:
        if schema not in self.schemas:
            self.schemas.append(schema)
        number = self.schemas.index(schema) + 1
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return number

    def compatible(self, subject: str, schema: str) -> bool:
        """The one rule of Avro's resolution that needs no look at fields: the names of two records are equal."""
        there = {name(self.schemas[number - 1]) for number in self.subjects.get(subject, ())}
        return there <= {name(schema)}

    def schema_of(self, schema_id: int) -> str:
        return self.schemas[schema_id - 1]


class _Handler(BaseHTTPRequestHandler):
    server: MemoryRegistry

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        subject = self.path.split("/")[2]
        if not self.server.compatible(subject, body["schema"]):
            self._answer({"error_code": 409, "message": "incompatible with an earlier schema: NAME_MISMATCH"}, 409)
        else:
            self._answer({"id": self.server.id_of(subject, body["schema"])})

    def do_GET(self) -> None:
        number = int(self.path.split("?")[0].split("/")[3])
        if number > len(self.server.schemas):
            self._answer({"error_code": 40403, "message": "Schema not found"}, 404)
        else:
            self._answer({"schema": self.server.schema_of(number)})

    def _answer(self, value: Any, status: int = 200) -> None:
        self.server.requests += 1
        if self.server.refuse:
            status, value = self.server.refuse, {"error_code": self.server.refuse * 100, "message": "refused"}
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def name(schema: str) -> str:
    """The name of a record schema."""
    parsed = json.loads(schema)
    return str(parsed["name"]) if isinstance(parsed, dict) else str(parsed)


@contextmanager
def memory_registry() -> Iterator[MemoryRegistry]:
    """A registry that answers until the context ends."""
    server = MemoryRegistry()
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
