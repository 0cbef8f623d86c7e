"""The simulated API server: a real HTTP/1.1 server over a store, with faults on demand.

For trying kubecdc out and for testing it where no cluster is at hand; held to a real kube-apiserver
by `tests/local/test_sim*_against_real.py`. Decides: connections, authentication by token, the faults
that hit whole requests, the control paths under `/_sim`. What is deliberately not simulated stands
in the docstrings of `sim_api`, `sim_reads`, `sim_store` and `sim_wire`; TLS and RBAC are missing
too: every known token may do everything.

Run as a process of its own: `python -m local.sim_server --port 8001 --kubeconfig FILE`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import signal
import socket
import struct
import sys
import threading
import time
import urllib.parse
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from local import sim_status
from local.sim_api import Answer, Request, SimApi, Target
from local.sim_control import SimControl
from local.sim_faults import Fault, Faults
from local.sim_reads import Watch
from local.sim_status import NoSuchPath, Refused
from local.sim_store import SimStore
from local.sim_watch import ClientGone, Torn, WatchStream
from local.sim_wire import encoded

_OPEN_PATHS = ("/version", "/readyz", "/healthz", "/livez")
_NOT_FOUND = "404 page not found\n"


@dataclass(frozen=True, slots=True)
class SimOptions:
    """How the server behaves.

    `bookmark_s`: seconds between bookmarks (the real server: about 60). `watchlist`: whether
    sendInitialEvents is served, else refused with 422 as by older servers. `too_large_wait_s`: how
    long a version from the future is waited for (the real server: 3).
    """

    bookmark_s: float = 60.0
    watchlist: bool = True
    too_large_wait_s: float = 3.0


class SimServer:
    """The server. `port` 0: a free one. `token`: what clients must send; None: nothing.

    `url`, `store` and `faults` are there from the start; requests are answered between `start` and
    `stop`, or within the `with` block. Raises OSError when the port is taken.
    """

    def __init__(
        self,
        port: int = 0,
        *,
        token: str | None = None,
        options: SimOptions | None = None,
        store: SimStore | None = None,
        seed: int | None = None,
    ) -> None:
        self.options = options or SimOptions()
        self.token = token
        self.store = store or SimStore(seed=seed)
        self.faults = Faults(self.store.pulse.beat)
        self.stopping = False
        self._http = _HttpServer(("127.0.0.1", port), _Handler)
        self._http.sim = self
        self.port: int = self._http.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.api = SimApi(
            self.store,
            watchlist=self.options.watchlist,
            wait_s=self.options.too_large_wait_s,
            address=f"127.0.0.1:{self.port}",
        )
        self.control = SimControl(self.store, self.faults)
        self._thread: threading.Thread | None = None

    def start(self) -> Self:
        """Begin to answer, in threads of its own."""
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.05,), name="sim-api", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End all streams and connections and close the port. May be called twice."""
        self.stopping = True
        self.store.pulse.beat()
        if self._thread is not None:
            self._http.shutdown()
            self._thread.join()
            self._thread = None
        self._http.close_connections()
        self._http.server_close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def write_kubeconfig(self, path: Path | str, *, token: str | None = None) -> None:
        """Write a kubeconfig for this server, with its own token unless another is given."""
        given = token if token is not None else self.token
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "sim", "cluster": {"server": self.url}}],
            "users": [{"name": "sim", "user": {"token": given} if given else {}}],
            "contexts": [{"name": "sim", "context": {"cluster": "sim", "user": "sim"}}],
            "current-context": "sim",
        }
        file = Path(path)
        file.touch(mode=0o600)  # JSON is YAML, and a token is a secret
        file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


class _HttpServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    sim: SimServer

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_connections(self) -> None:
        with self._open_lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that hangs up in the middle is no error of ours; all others are shown.
        if not isinstance(sys.exception(), ConnectionError | ClientGone):
            super().handle_error(request, client_address)


class _ChunkedBody:
    """The body of a stream: each frame a chunk of its own, flushed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def send(self, data: bytes) -> None:
        try:
            self._connection.sendall(b"%x\r\n%b\r\n" % (len(data), data))
        except OSError as error:
            raise ClientGone from error

    def gone(self) -> bool:
        try:
            readable, _, _ = select.select([self._connection], [], [], 0)
            return bool(readable) and not self._connection.recv(1, socket.MSG_PEEK)
        except (OSError, ValueError):
            return True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "kubecdc-sim"
    disable_nagle_algorithm = True
    server: _HttpServer

    def log_message(self, *_: Any) -> None:
        """Stay silent: the console belongs to whoever started the server."""

    def _serve(self) -> None:
        path, _, raw_query = self.path.partition("?")
        query = dict(urllib.parse.parse_qsl(raw_query, keep_blank_values=True))
        size = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        path = urllib.parse.unquote(path)
        request = Request(self.command, path, query, headers, self.rfile.read(size))
        try:
            self._answer(request)
        except Refused as refused:
            self._send(refused.code, refused.status, refused.headers)
        except NoSuchPath:
            self._send(404, _NOT_FOUND)
        except Torn:
            self._tear()
        except ClientGone:
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815 - names of http.server

    def _answer(self, request: Request) -> None:
        sim = self.server.sim
        self._authenticate(request)
        if request.path.startswith("/_sim/"):
            answer = sim.control.handle(request)
            self._send(answer.code, answer.body)
            return
        target = sim.api.target(request)
        verb = target.verb(request) if target else ""
        if target and verb in ("list", "watch"):
            self._hit_by_fault(target, verb, request)
        result = sim.api.handle(request, target)
        if isinstance(result, Watch):
            self._stream(result)
        else:
            self._send_answer(result, target, verb)

    def _authenticate(self, request: Request) -> None:
        wanted = self.server.sim.token
        if wanted is None or request.path in _OPEN_PATHS:
            return
        sent = request.headers.get("authorization")
        if sent is None:
            target = self.server.sim.api.target(request)
            kind = target.scope.kind if target else None
            verb = target.verb(request) if target else request.method.lower()
            where = target.scope.namespace if target else ""
            user = "system:anonymous"
            raise sim_status.forbidden(kind, verb, where, user, request.path)
        if sent != f"Bearer {wanted}":
            raise sim_status.unauthorized()

    def _hit_by_fault(self, target: Target, verb: str, request: Request) -> None:
        kind = target.scope.kind
        faults = self.server.sim.faults
        if fault := (faults.take(("late",), kind.qualified, verb) if verb == "list" else None):
            time.sleep(float(fault.options["seconds"]))
        names = ("unauthorized_401", "forbidden_403", "throttle_429", "error_500")
        if fault := faults.take(names, kind.qualified, verb):
            if fault.name == "unauthorized_401":
                raise sim_status.unauthorized()
            if fault.name == "throttle_429":
                raise sim_status.throttled(int(fault.options["retry_after"]))
            if fault.name == "error_500":
                raise sim_status.server_error(fault.options["message"], "InternalError")
            namespace = target.scope.namespace
            raise sim_status.forbidden(kind, verb, namespace, "sim", request.path)
        if faults.take(("expired_410",), kind.qualified, verb, lambda fault: _as_status(fault, verb)):
            raise sim_status.expired(f"The resourceVersion for the provided {verb} is too old.")

    def _stream(self, watch: Watch) -> None:
        sim = self.server.sim
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Cache-Control", "no-cache, private")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        body = _ChunkedBody(self.connection)
        WatchStream(
            watch,
            sim.store,
            sim.faults,
            body,
            bookmark_s=sim.options.bookmark_s,
            stopping=lambda: sim.stopping,
        ).run()
        with contextlib.suppress(OSError):
            self.connection.sendall(b"0\r\n\r\n")

    def _send_answer(self, answer: Answer, target: Target | None, verb: str) -> None:
        if verb != "list" or target is None:
            self._send(answer.code, answer.body)
            return
        faults, name = self.server.sim.faults, target.scope.kind.qualified
        data = encoded(answer.body)
        if fault := faults.take(("garbage",), name, verb):
            data = fault.options["data"].encode()
        cut = faults.take(("cut",), name, verb)
        if cut:
            self._head(answer.code, len(data), "application/json", {})
            self.wfile.write(data[: int(cut.options["after_bytes"])])
            raise Torn
        self._send_bytes(answer.code, data, "application/json", {})

    def _send(self, code: int, body: dict[str, Any] | str, headers: dict[str, str] | None = None) -> None:
        if isinstance(body, str):
            self._send_bytes(code, body.encode(), "text/plain; charset=utf-8", headers or {})
        else:
            self._send_bytes(code, encoded(body), "application/json", headers or {})

    def _send_bytes(self, code: int, data: bytes, media: str, headers: dict[str, str]) -> None:
        self._head(code, len(data), media, headers)
        self.wfile.write(data)

    def _head(self, code: int, size: int, media: str, headers: dict[str, str]) -> None:
        self.send_response(code)
        self.send_header("Content-Type", media)
        self.send_header("Cache-Control", "no-cache, private")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()

    def _tear(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            # Give what was written time to leave before the reset throws it away.
            time.sleep(0.02)
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()


def _as_status(fault: Fault, verb: str) -> bool:
    return fault.verb == "list" if verb == "list" else fault.options["mode"] == "status"


def main(arguments: list[str] | None = None) -> int:
    """Run the server until SIGTERM or SIGINT."""
    parser = argparse.ArgumentParser(prog="python -m local.sim_server", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="port on 127.0.0.1; 0: a free one")
    parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig for clients here")
    parser.add_argument("--token", help="bearer token that clients must send")
    parser.add_argument("--seed", type=int, help="make uids and generated names repeatable")
    parser.add_argument("--bookmark-seconds", type=float, default=60.0)
    parser.add_argument("--no-watchlist", action="store_true", help="refuse sendInitialEvents")
    given = parser.parse_args(arguments)
    options = SimOptions(bookmark_s=given.bookmark_seconds, watchlist=not given.no_watchlist)
    try:
        server = SimServer(given.port, token=given.token, options=options, seed=given.seed)
    except OSError as error:
        sys.stderr.write(f"cannot listen on port {given.port}: {error.strerror}; give another\n")
        return 2
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with server:
        if given.kubeconfig:
            server.write_kubeconfig(given.kubeconfig)
        sys.stdout.write(f"simulated API server on {server.url}\n")
        sys.stdout.flush()
        ended.wait()
    return 0


if __name__ == "__main__":
    sys.exit(main())
