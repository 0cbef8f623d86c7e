"""An HTTP proxy before an API server that answers what a test wants instead of passing a request on; no watches."""

from __future__ import annotations

import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import urllib3


class Front:
    """Passes requests on. `answer` is (status, body) to be sent instead; `stalled` lets every request hang."""

    def __init__(self, url: str) -> None:
        self.answer: tuple[int, bytes] | None = None
        self.stalled = False
        self.asked = 0
        outer, pool = self, urllib3.PoolManager(retries=False)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                outer.asked += 1
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                while outer.stalled:
                    time.sleep(0.05)
                if outer.answer is not None:
                    self.reply(*outer.answer)
                    return
                headers = {"Content-Type": self.headers.get("Content-Type", "application/json")}
                answer = pool.request(self.command, url + self.path, body=body or None, headers=headers)
                self.reply(answer.status, answer.data)

            do_GET = do_PUT = do_POST = handle_any  # noqa: N815 - names of the library

            def reply(self, status: int, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stalled = False
        self._server.shutdown()
        self._server.server_close()
