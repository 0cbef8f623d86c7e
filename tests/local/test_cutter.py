"""The relay passes bytes both ways until it is cut, and goes on for new connections afterwards."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest

from local.cutter import Cutter
from local.kube_client import Away, KubeClient
from local.ports import free_port
from local.sim_server import SimServer


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer() as running:
        yield running


def test_requests_pass_through(server: SimServer) -> None:
    with Cutter(("127.0.0.1", server.port)) as cutter, KubeClient(f"http://127.0.0.1:{cutter.port}") as client:
        assert client.request("GET", "/api/v1/pods")[1]["kind"] == "PodList"


def test_a_cut_resets_an_open_stream_and_spares_the_next(server: SimServer) -> None:
    with Cutter(("127.0.0.1", server.port)) as cutter:
        with socket.create_connection(("127.0.0.1", cutter.port), timeout=10) as stream:
            stream.sendall(b"GET /api/v1/pods?watch=true HTTP/1.1\r\nHost: x\r\n\r\n")
            assert stream.recv(15).startswith(b"HTTP/1.1 200")
            assert cutter.cut() == 1
            with contextlib.suppress(ConnectionError):
                while stream.recv(65536):  # times out, and fails, where the stream goes on
                    pass
        assert cutter.cut() == 0
        with KubeClient(f"http://127.0.0.1:{cutter.port}") as client:
            assert client.request("GET", "/api/v1/pods")[0] == 200


def test_a_server_that_is_away_is_seen_at_once() -> None:
    with (
        Cutter(("127.0.0.1", free_port())) as cutter,
        KubeClient(f"http://127.0.0.1:{cutter.port}") as client,
        pytest.raises(Away),
    ):
        client.request("GET", "/version")


def test_nobody_listens_once_it_is_stopped(server: SimServer) -> None:
    cutter = Cutter(("127.0.0.1", server.port)).start()
    cutter.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", cutter.port), timeout=5)
