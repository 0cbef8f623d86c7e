"""A watch read frame by frame, for tests of streams that misbehave."""

from __future__ import annotations

import http.client
import json
from typing import Any, Self
from urllib.parse import urlencode, urlsplit


class Stream:
    """An open watch. `timeout_s`: how long `frame` waits before it raises TimeoutError."""

    def __init__(self, url: str, path: str, *, timeout_s: float = 5.0, **query: str) -> None:
        address = urlsplit(url)
        self._connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=timeout_s)
        self._connection.request("GET", f"{path}?{urlencode({'watch': '1'} | query)}")
        self.response = self._connection.getresponse()

    def line(self) -> bytes:
        """The next line; empty at a clean end, ConnectionError when torn."""
        try:
            return self.response.readline()
        except http.client.IncompleteRead as error:
            raise ConnectionResetError from error

    def frame(self) -> dict[str, Any]:
        line = self.line()
        assert line, "the stream has ended"
        return dict(json.loads(line))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()


def names(*frames: dict[str, Any]) -> list[tuple[str, str]]:
    return [(frame["type"], frame["object"]["metadata"].get("name", "")) for frame in frames]
