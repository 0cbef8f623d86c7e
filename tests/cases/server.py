"""The scripted API server: sockets for `tests.cases.script`. One listener is one producer's base URL.

Each process that a case starts gets a listener of its own, so that hanging up on it is the end of that process's
connections and of nobody else's. It decides nothing but how bytes go out: in pieces, silent, torn.
"""

from __future__ import annotations

import fcntl
import select
import socket
import socketserver
import struct
import sys
import termios
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.cases import bodies
from tests.cases.loader import Lane, Request
from tests.cases.outside import Outside, Refused
from tests.cases.script import Asked, Feed, Idle, Script

TORN = struct.pack("ii", 1, 0)  # linger for 0 s: closing sends a reset
DRAIN_S = 2.0


class Left(Exception):  # noqa: N818 - named by what happened
    """The client has closed its side."""


class Listener(socketserver.ThreadingTCPServer):
    """A base URL of the scripted server for the producer `by`. Close it with `hang_up`."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, script: Script, outside: Outside, by: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script = script
        self.outside = outside
        self.by = by
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def hang_up(self) -> None:
        """Stop listening and end every connection."""
        self.shutdown()
        self._thread.join()
        with self._lock:
            for connection in self._connections:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._connections.add(request)
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                self._connections.discard(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that vanish are what the cases are about; anything else is a fault of this server."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError | Left):
            self.script.fail(f"the scripted server itself failed: {type(error).__name__}: {error}")


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Listener

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def log_message(self, *args: object) -> None:
        """The script records what it was asked."""

    def do_GET(self) -> None:
        at = time.monotonic()
        script = self.server.script
        url = urlsplit(self.path)
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if not self._collection(url.path):
            self._alone(url.path, token)
            return
        resource, ns, name = self._collection(url.path) or ("", "", "")
        if name:
            obj = self.server.outside.shown(resource, ns, name)
            self._answer(200, bodies.compact(obj)) if obj else self._status({}, 404)
            return
        params = {key: values[-1] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        watching = params.get("watch") in ("1", "true")
        kind = "list" if not watching else "watchlist" if params.get("sendInitialEvents") == "true" else "watch"
        lane = Lane(self.server.by, resource, ns)
        verdict = script.judge(Asked(lane, kind, params, token, at), self._has_left)
        match verdict:
            case None:
                self.close_connection = True
            case Refused(code, reason):
                self._status({"reason": reason} if reason else {}, code)
            case Idle():
                self._stream(lane, Feed())
            case _:
                self._scripted(lane, verdict.step, params)

    def _alone(self, path: str, token: str) -> None:
        """Answer what needs no step."""
        outside = self.server.outside
        if not outside.known_token(token):
            self._status({}, 401)
        elif path == "/version":
            minor = "36" if outside.watchlist else "30"
            self._answer(200, bodies.compact({"major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}))
        else:
            document = outside.discovery(path)
            self._answer(200, document) if document is not None else self._status({}, 404)

    def _collection(self, path: str) -> tuple[str, str, str] | None:
        """Resource, namespace and name of a path that is no discovery document."""
        parts = [unquote(part) for part in path.strip("/").split("/")]
        count = 2 if parts[0] == "api" else 3 if parts[0] == "apis" else len(parts)
        version, rest = "/".join(parts[1:count]), parts[count:]
        ns = ""
        if len(rest) >= 3 and rest[0] == "namespaces":
            ns, rest = rest[1], rest[2:]
        return (f"{version}/{rest[0]}", ns, rest[1] if len(rest) > 1 else "") if rest else None

    def _scripted(self, lane: Lane, step: Request, params: dict[str, str]) -> None:
        answer = step.answer
        script = self.server.script
        if "status" in answer:
            try:
                self._status(answer, answer["status"])
            finally:
                script.done(lane)
        elif step.kind == "list":
            try:
                self._list(lane, answer)
            finally:
                script.done(lane)
        else:
            frames = tuple(answer["stream"])
            if answer.get("skip_seen"):
                floor = params["resourceVersion"]
                frames = tuple(f for f in frames if not _at_or_below(f, floor))
            self._stream(lane, script.opened(lane, frames))

    def _list(self, lane: Lane, answer: Any) -> None:
        body = bodies.page(answer["list"], lane.resource)
        cut = answer.get("cut_after")
        if cut is not None:
            self._head(200, len(body))
            self.wfile.write(body[:cut])
            self._tear()
            return
        items = [bodies.thing(item, lane.resource, in_list=True) for item in answer["list"]["items"]]
        self.server.outside.show(lane.resource, items)
        self.server.script.show(lane, answer["list"]["rv"])
        self._answer(200, body)

    # --- streams --------------------------------------------------------------------------------------------------

    def _stream(self, lane: Lane, feed: Feed) -> None:
        script = self.server.script
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            while not self._has_left():
                frame = script.next_frame(lane, feed)
                if frame is not None and self._send(lane, feed, frame):
                    return
        except (Left, OSError):
            pass
        finally:
            script.gone(lane, feed)
        self.close_connection = True

    def _send(self, lane: Lane, feed: Feed, frame: Any) -> bool:
        """Send one frame; True when the stream is over."""
        if frame == "close":
            self.wfile.write(b"0\r\n\r\n")
            return True
        if frame == "cut":
            self._tear()
            return True
        if "mute" in frame:
            self._mute(lane, frame["mute"], last=not feed.frames)
            return False
        data = bodies.frame(frame, lane.resource)
        objects = [bodies.thing(frame[short], lane.resource) for short in ("A", "M", "D") if short in frame]
        self.server.outside.show(lane.resource, objects)
        self.server.script.show(lane, bodies.version(frame))
        size = frame.get("chunk", len(data))
        for start in range(0, len(data), size):
            piece = data[start : start + size]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        if "E" in frame:
            self.wfile.write(b"0\r\n\r\n")
            return True
        return False

    def _mute(self, lane: Lane, seconds: float, *, last: bool) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._has_left():
                raise Left
            time.sleep(0.02)
        if last:
            self.server.script.fail(f"{lane}: the client did not leave a stream that was silent for {seconds} s")

    def _has_left(self) -> bool:
        """The client has closed its side; it never sends anything while it waits for an answer."""
        try:
            readable, _, _ = select.select([self.connection], [], [], 0)
            return bool(readable) and not self.connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True

    def _tear(self) -> None:
        """Reset the connection once the client has been given everything that was written."""
        until = time.monotonic() + DRAIN_S
        waiting = bytearray(4)
        while time.monotonic() < until:
            fcntl.ioctl(self.connection, termios.TIOCOUTQ, waiting)
            if not int.from_bytes(waiting, "little"):
                break
            time.sleep(0.005)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, TORN)
        self.rfile.close()  # it holds the socket too, and only the last close sends the reset
        self.connection.close()
        self.close_connection = True

    # --- whole answers --------------------------------------------------------------------------------------------

    def _head(self, code: int, length: int, retry_after: object = None) -> None:
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(length))
        if retry_after is not None:
            self.send_header("Retry-After", str(retry_after))
        self.end_headers()

    def _answer(self, code: int, body: bytes, retry_after: object = None) -> None:
        self._head(code, len(body), retry_after)
        self.wfile.write(body)

    def _status(self, answer: Any, code: int) -> None:
        self._answer(code, bodies.compact(bodies.status(answer, code)), answer.get("retry_after"))

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()


def _at_or_below(frame: Any, floor: str) -> bool:
    rv = bodies.version(frame) if isinstance(frame, dict) else None
    return rv is not None and (len(rv), rv) <= (len(floor), floor)
