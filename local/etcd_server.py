"""A real etcd on this machine: one member, its data in one folder, served on the loopback address.

Knows how to start, stop and copy it. It knows nothing of what is stored: `local.etcd` speaks to it.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from local import children, etcd, ports
from local.errors import LocalError

if TYPE_CHECKING:
    from pathlib import Path

_READY_SECONDS = 30.0
_STOP_SECONDS = 15.0


class EtcdServer:
    """etcd whose data live in `folder`/etcd; its ports stay the same over restarts of this object.

    `program` is the executable. All methods raise `LocalError` only.
    """

    def __init__(self, folder: Path, program: Path) -> None:
        self._folder = folder
        self._program = program
        self._ports = (ports.free_port(), ports.free_port())
        self._child: children.Child | None = None

    @property
    def url(self) -> str:
        """The base URL of the JSON gateway (plain http)."""
        return f"http://{ports.HOST}:{self._ports[0]}"

    @property
    def alive(self) -> bool:
        """Whether the process runs, ready or not."""
        return self._child is not None and self._child.alive

    def start(self) -> None:
        """Start on the data that are there, and return when there is a leader.

        Raises `PortTaken`, `ServerDied`, `NotReady`.
        """
        client, peer = (f"http://{ports.HOST}:{port}" for port in self._ports)
        for port in self._ports:
            ports.check_port(port, "etcd")
        argv = [
            str(self._program),
            f"--data-dir={self._data}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--log-level=warn",
            "--unsafe-no-fsync",  # a killed process loses nothing; only a power cut would
            f"--quota-backend-bytes={8 * 1024**3}",  # all history is kept
        ]
        self._child = children.spawn(argv, log=self._folder / "etcd.log")
        children.wait_ready(self._child, "etcd", lambda: etcd.is_ready(self.url), _READY_SECONDS)

    def stop(self) -> None:
        """Stop in order (SIGTERM); nothing happens when it is down."""
        if self._child is not None:
            self._child.stop(_STOP_SECONDS)

    def snapshot(self, folder: Path) -> None:
        """Copy the data to the new `folder` while etcd stands still, as a snapshot of its volume does."""
        if self._child is None or not self._child.alive:
            raise LocalError("there is no etcd to copy: call start()")
        self._child.freeze()
        try:
            _copy(self._data, folder)
        finally:
            self._child.thaw()

    def restore(self, folder: Path) -> None:
        """Go back to a snapshot, revisions included; etcd runs afterwards. A copy that fails changes nothing."""
        copy = self._folder / "etcd.restored"
        shutil.rmtree(copy, ignore_errors=True)
        _copy(folder, copy)
        self.stop()
        shutil.rmtree(self._data)
        copy.rename(self._data)
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "etcd"


def _copy(source: Path, target: Path) -> None:
    try:
        shutil.copytree(source, target)
    except (OSError, shutil.Error) as error:
        raise LocalError(f"cannot copy etcd's data from {source} to {target}: {error}") from error
