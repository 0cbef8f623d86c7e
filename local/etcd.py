"""etcd's JSON gateway: the few calls that the local servers and the ground truth need.

https://etcd.io/docs/v3.6/dev-guide/api_grpc_gateway/: bytes are base64, 64-bit numbers are decimal
strings, zero values are left out, a stream has one JSON document a line.
"""

from __future__ import annotations

import base64
import http.client
import json
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from local.errors import LocalError

_TIMEOUT_SECONDS = 10.0


def connect(url: str, timeout_seconds: float | None = _TIMEOUT_SECONDS) -> http.client.HTTPConnection:
    """Make a connection to the gateway at `url`; nothing is sent yet."""
    address = urlsplit(url)
    return http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_seconds)


def is_ready(url: str) -> bool:
    """Tell whether etcd has a leader and serves requests."""
    try:
        with closing(connect(url)) as connection:
            connection.request("GET", "/health")
            answer = json.loads(connection.getresponse().read())
    except (OSError, ValueError, http.client.HTTPException):
        return False
    return isinstance(answer, dict) and answer.get("health") == "true"


def revision(url: str) -> int:
    """Return the newest committed revision."""
    answer = _call(url, "/v3/kv/range", {"key": encode(b"\0"), "count_only": True})
    return int(answer["header"]["revision"])


def compact(url: str, at_revision: int) -> None:
    """Drop history before `at_revision`; what is current at that revision stays readable.

    `LocalError` when it lies in the future or was compacted already.
    """
    _call(url, "/v3/kv/compaction", {"revision": str(at_revision), "physical": True})


def encode(value: bytes) -> str:
    """Write bytes as the gateway wants them."""
    return base64.b64encode(value).decode()


def decode(value: str) -> bytes:
    """Read bytes as the gateway writes them."""
    return base64.b64decode(value)


def _call(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    try:
        with closing(connect(url)) as connection:
            connection.request("POST", path, json.dumps(body))
            response = connection.getresponse()
            answer = json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise LocalError(f"etcd at {url} does not answer {path}: {error!r}") from error
    # Every answer of etcd has a header; another program that answers on this port has none.
    if response.status != 200 or not isinstance(answer, dict) or not isinstance(answer.get("header"), dict):
        raise LocalError(f"etcd at {url} refused {path}: {answer}")
    return answer
