"""A TCP relay on this machine whose connections can be cut: a network that breaks on demand.

Passes bytes both ways without looking at them, so TLS goes through untouched. It decides nothing about when to cut.
A subclass may refuse connections (`admits`), or do something to what passes (`pumps`).
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Callable
from typing import Self

from local import ports

CHUNK = 64 * 1024
_CONNECT_SECONDS = 5.0

Pump = Callable[[socket.socket, socket.socket], None]


class Cutter:
    """Relays connections to `(host, port)` until `stop`; `port` is where it listens, a free one if none is given."""

    def __init__(self, target: tuple[str, int], port: int | None = None) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self.port = port or ports.free_port()

    def start(self) -> Self:
        """Begin to listen; OSError when the port was taken meanwhile."""
        self._listener = socket.create_server((ports.HOST, self.port), backlog=128)
        self._thread = threading.Thread(target=self._accept, args=(self._listener,), name="cutter", daemon=True)
        self._thread.start()
        return self

    def cut(self) -> int:
        """Reset all open connections and return how many clients that hit; new ones are relayed as before."""
        with self._lock:
            doomed, self._open = self._open, set()
        for connection in doomed:
            with contextlib.suppress(OSError):
                # Linger 0 makes the close a reset; the shutdown wakes the threads that read.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.shutdown(socket.SHUT_RDWR)
        return len(doomed) // 2

    def stop(self) -> None:
        """Stop listening and cut what is open."""
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        if self._thread is not None:
            self._thread.join()
        self.cut()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def admits(self) -> bool:
        """Whether a new connection is relayed, or else closed at once."""
        return True

    def pumps(self) -> tuple[Pump, Pump]:
        """What copies the bytes of a new connection, to the server and back, until either side ends."""
        return pump, pump

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # stopped
            if not self.admits():
                client.close()
                continue
            threading.Thread(target=self._relay, args=(client,), name="cutter-relay", daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=_CONNECT_SECONDS)
        except OSError:
            client.close()  # the server is away, and its clients see that at once
            return
        server.settimeout(None)
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {client, server}
        up, down = self.pumps()
        back = threading.Thread(target=down, args=(server, client), name="cutter-back", daemon=True)
        back.start()
        up(client, server)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy until either side ends, then end the other in order."""
    pump_through(source, sink, sink.sendall)


def pump_through(source: socket.socket, sink: socket.socket, send: Callable[[bytes], object]) -> None:
    """Hand what comes to `send` until either side ends, then end the other in order."""
    with contextlib.suppress(OSError):
        while data := source.recv(CHUNK):
            send(data)
    with contextlib.suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
