"""What lies between a producer and its API server, such as a proxy, and what it may do to each connection."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from local.cutter import CHUNK, Cutter, Pump, pump

UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/html\r\nContent-Length: 13\r\n\r\n<h1>busy</h1>"
NO_TLS = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
MUTE = b""


class Edge(Cutter):
    """Passes connections on, or gives each the same answer without asking the server."""

    answer: bytes | None = None

    def give(self, answer: bytes | None) -> None:
        """Answer so from now on, an empty answer being none at all; None passes on again. Open connections are cut."""
        self.answer = answer
        self.cut()

    def pumps(self) -> tuple[Pump, Pump]:
        answer = self.answer
        if answer is None:
            return pump, pump

        def reply(client: socket.socket, server: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while client.recv(CHUNK):
                    if answer:
                        client.sendall(answer)
                        break
            for side in (client, server):
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

        def wait(*_: Any) -> None:
            pass

        return reply, wait
