"""The page and the probes of a process of ours: /metrics, /healthz and /readyz, whatever it counts.

It does not know what makes a process healthy or ready, nor why it is not: that is asked when a probe comes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from kubecdc.errors import Misconfigured


class MetricsServer:
    """Serves /metrics, /healthz and /readyz. Raises Misconfigured when the port cannot be had.

    `unready` is asked for the sentences that /readyz shows below "not yet", `notes` for those that it always shows.
    """

    def __init__(
        self,
        port: int,
        registry: CollectorRegistry,
        healthy: Callable[[], bool],
        ready: Callable[[], bool],
        unready: Callable[[], Sequence[str]] = tuple,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        def page(path: str) -> tuple[int, bytes, str]:
            if path == "/metrics":
                return 200, generate_latest(registry), CONTENT_TYPE_LATEST
            probe = {"/healthz": healthy, "/readyz": ready}.get(path)
            if probe is None:
                return 404, b"see /metrics, /healthz, /readyz\n", "text/plain"
            good = probe()
            why = () if good or probe is not ready else unready()
            lines = ("ok" if good else "not yet", *why, *(notes() if probe is ready else ()))
            return 200 if good else 503, "".join(f"{line}\n" for line in lines).encode(), "text/plain; charset=utf-8"

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body, kind = page(self.path.partition("?")[0])
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                """Probes are no news."""

        try:
            self._server = ThreadingHTTPServer(("", port), Handler)
        except (OSError, OverflowError) as error:
            raise Misconfigured(f"--metrics-port {port} cannot be used: {error}") from error
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
