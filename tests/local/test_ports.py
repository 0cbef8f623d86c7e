"""Ports are free when chosen, and a taken one is refused with its number."""

from __future__ import annotations

import socket

import pytest

from local import ports
from local.errors import PortTaken


def test_free_port_can_be_listened_on() -> None:
    port = ports.free_port()
    ports.check_port(port, "a test")
    with socket.create_server((ports.HOST, port)):
        pass


def test_taken_port_is_named_with_its_server() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTaken, match=rf"port {port} for a test is taken"):
            ports.check_port(port, "a test")
