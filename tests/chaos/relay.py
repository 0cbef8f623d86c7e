"""A hostile network on this machine: a TCP relay that cuts, stalls, delays, dribbles and refuses on demand.

Passes bytes both ways without looking at them. `KafkaRelay` alone looks: it finds the replies to EndTxn, and loses
them. When is decided by others.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Self

from local import ports

CHUNK = 64 * 1024
CONNECT_S = 5.0
LOOK_S = 0.02
DRIBBLED_BYTES = 512  # of a chunk go out one by one; the rest in pieces of an odd size
END_TXN = 26  # https://kafka.apache.org/protocol: the API key


class Relay:
    """Relays connections to `(host, port)` until `stop`; clients connect to `port`."""

    def __init__(self, target: tuple[str, int], port: int | None = None) -> None:
        self._target = target
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._listener: socket.socket | None = None
        self._stall_until = self._dribble_until = self._delay_until = self._refuse_until = 0.0
        self._delay_s = 0.0
        self.port = port or ports.free_port()

    def start(self) -> Self:
        self._listener = socket.create_server((ports.HOST, self.port), backlog=128)
        threading.Thread(target=self._accept, args=(self._listener,), name="relay", daemon=True).start()
        return self

    def stop(self) -> None:
        if self._listener is not None:
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.cut()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def cut(self) -> int:
        """Reset all open connections; returns how many there were."""
        with self._lock:
            doomed, self._open = self._open, set()
        for connection in doomed:
            _reset(connection)
        return len(doomed) // 2

    def stall(self, seconds: float) -> None:
        """Let no byte pass for a while, on connections old and new."""
        self._stall_until = time.monotonic() + seconds

    def delay(self, seconds: float, by_s: float) -> None:
        """Hold back each piece for `by_s`, for a while."""
        self._delay_s = by_s
        self._delay_until = time.monotonic() + seconds

    def dribble(self, seconds: float) -> None:
        """Let bytes pass one by one for a while."""
        self._dribble_until = time.monotonic() + seconds

    def refuse(self, seconds: float) -> None:
        """Close new connections at once, for a while, and cut the open ones."""
        self._refuse_until = time.monotonic() + seconds
        self.cut()

    def calm(self) -> None:
        """End whatever lasts."""
        self._stall_until = self._dribble_until = self._delay_until = self._refuse_until = 0.0

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return  # stopped
            if time.monotonic() < self._refuse_until:
                client.close()
                continue
            threading.Thread(target=self._relay, args=(client,), name="relay-up", daemon=True).start()

    def _relay(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, timeout=CONNECT_S)
        except OSError:
            client.close()  # the server is away, and its clients see that at once
            return
        server.settimeout(None)
        for side in (client, server):
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._open |= {client, server}
        up, down = self._filters()
        back = threading.Thread(target=self._pump, args=(server, client, down), name="relay-down", daemon=True)
        back.start()
        self._pump(client, server, up)
        back.join()
        with self._lock:
            self._open -= {client, server}
        client.close()
        server.close()

    def _filters(self) -> tuple[Filter, Filter]:
        """What each direction of a new connection goes through."""
        return _everything, _everything

    def _pump(self, source: socket.socket, sink: socket.socket, through: Filter) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK):
                for piece in through(data):
                    self._pass(sink, piece)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def _pass(self, sink: socket.socket, data: bytes) -> None:
        while time.monotonic() < self._stall_until:
            time.sleep(LOOK_S)
        if time.monotonic() < self._delay_until:
            time.sleep(self._delay_s)
        for piece in dribbled(data) if time.monotonic() < self._dribble_until else (data,):
            sink.sendall(piece)


Filter = Callable[[bytes], Iterable[bytes]]


def _everything(data: bytes) -> Iterable[bytes]:
    return (data,)


def dribbled(data: bytes) -> Iterator[bytes]:
    """Yield the bytes one by one at first, the rest in pieces whose size is no power of two."""
    for at in range(min(len(data), DRIBBLED_BYTES)):
        yield data[at : at + 1]
    for at in range(DRIBBLED_BYTES, len(data), 1021):
        yield data[at : at + 1021]


class KafkaRelay(Relay):
    """A relay in front of a broker, which can lose replies to EndTxn: the commit is done, and nobody is told."""

    def __init__(self, target: tuple[str, int], port: int | None = None) -> None:
        super().__init__(target, port)
        self._doomed: list[bool] = []
        self.lost = 0

    def lose_end_txn(self, *, cut: bool) -> None:
        """Lose the next reply to an EndTxn: cut the connection in its place, or swallow it and say nothing."""
        self._doomed.append(cut)

    def calm(self) -> None:
        super().calm()
        self._doomed.clear()

    def _filters(self) -> tuple[Filter, Filter]:
        return self._exchange()

    def _exchange(self) -> tuple[Filter, Filter]:
        asked: set[int] = set()
        requests, replies = Frames(), Frames()

        def up(data: bytes) -> Iterable[bytes]:
            for frame in requests.feed(data):
                key, _, correlation = struct.unpack_from(">hhi", frame, 4)
                if key == END_TXN:
                    asked.add(correlation)
            return (data,)

        def down(data: bytes) -> Iterable[bytes]:
            passed = []
            for frame in replies.feed(data):
                (correlation,) = struct.unpack_from(">i", frame, 4)
                if correlation in asked:
                    asked.discard(correlation)
                    if self._doomed:
                        self.lost += 1
                        if self._doomed.pop():
                            self.cut()
                        continue
                passed.append(frame)
            return (b"".join(passed),) if passed else ()

        return up, down


class Frames:
    """Cuts a stream into frames of Kafka's protocol: a length of four bytes, then as many bytes."""

    def __init__(self) -> None:
        self._held = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are whole now, each with its length."""
        self._held += data
        frames, at = [], 0
        while len(self._held) - at >= 4:
            end = at + 4 + int.from_bytes(self._held[at : at + 4], "big")
            if end > len(self._held):
                break
            frames.append(bytes(self._held[at:end]))
            at = end
        del self._held[:at]
        return frames


def _reset(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Linger 0 makes the close a reset; the shutdown wakes the threads that read.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)
