"""TCP ports of the loopback address.

Chosen outside the range that the kernel gives to outgoing connections: a client that keeps trying
a dead server on an ephemeral port can take that port itself, even connect to itself, and then the
server cannot come back.
"""

from __future__ import annotations

import random
import socket

from local.errors import PortTaken

HOST = "127.0.0.1"
_FIRST, _LAST = 15_000, 31_999  # Linux gives 32768-60999 to outgoing connections


def free_port() -> int:
    """Choose a port that nobody listens on now.

    Raises `PortTaken` when none of many random ones is free.
    """
    for _ in range(200):
        port = random.SystemRandom().randint(_FIRST, _LAST)
        if _bindable(port):
            return port
    raise PortTaken(f"no free TCP port found between {_FIRST} and {_LAST}: stop some servers")


def check_port(port: int, what: str) -> None:
    """Raise `PortTaken` when `port` cannot be listened on; `what` names the server to the user."""
    if not _bindable(port):
        raise PortTaken(f"port {port} for {what} is taken by another process: stop it, or choose another port")


def _bindable(port: int) -> bool:
    with socket.socket() as probe:
        # As servers do: connections that linger in TIME_WAIT are no obstacle, a listener is.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
