"""A hostile network on this machine: a TCP relay that cuts, stalls, delays, dribbles and refuses on demand.

Passes bytes both ways without looking at them. `KafkaRelay` alone looks: it finds the replies to EndTxn, and loses
them. When is decided by others.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial

from local.cutter import Cutter, Pump, pump_through

LOOK_S = 0.02
DRIBBLED_BYTES = 512  # of a chunk go out one by one; the rest in pieces of an odd size
END_TXN = 26  # https://kafka.apache.org/protocol: the API key


class Relay(Cutter):
    """Relays connections to `(host, port)` until `stop`; clients connect to `port`."""

    def __init__(self, target: tuple[str, int], port: int | None = None) -> None:
        super().__init__(target, port)
        self._stall_until = self._dribble_until = self._delay_until = self._refuse_until = 0.0
        self._delay_s = 0.0

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

    def admits(self) -> bool:
        return time.monotonic() >= self._refuse_until

    def pumps(self) -> tuple[Pump, Pump]:
        up, down = self._filters()
        return partial(self._pump, up), partial(self._pump, down)

    def _filters(self) -> tuple[Filter, Filter]:
        """What each direction of a new connection goes through."""
        return _everything, _everything

    def _pump(self, through: Filter, source: socket.socket, sink: socket.socket) -> None:
        def send(data: bytes) -> None:
            for piece in through(data):
                self._pass(sink, piece)

        pump_through(source, sink, send)

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
