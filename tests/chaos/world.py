"""The Kubernetes under test: a real kube-apiserver and etcd behind a hostile relay, and what etcd committed.

The truth is etcd's own history, one for each epoch: a restore begins another, which shares what the snapshot held.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from local import ports
from local.apiserver import ApiServer, User
from local.history import Committed, HistoryRecorder
from tests.chaos.harm import alone, pause
from tests.chaos.relay import Relay


class World:
    """API server, etcd and truth. One harm at a time; the methods that harm return False where another is under way."""

    def __init__(self, folder: Path, binaries: Path, user: User) -> None:
        self._folder = folder
        self._server = ApiServer(folder / "apiserver", binaries=binaries, users=[user])
        self._user = user
        address = urlsplit(self._server.url)
        self.relay = Relay((ports.HOST, address.port or 443))
        self._recorder = HistoryRecorder(self._server.etcd_url)
        self._ended: list[Sequence[Committed]] = []
        self._inherited: Sequence[Committed] = ()
        self._base = 0
        self._snapshot: Path | None = None
        self._harm = threading.Lock()
        self.kubeconfig = folder / "relayed-kubeconfig"

    @property
    def epoch(self) -> int:
        """The epoch that a producer should have come to."""
        return len(self._ended) + 1

    def start(self) -> None:
        self._server.start()
        self._recorder.start()
        self.relay.start()
        self._server.write_kubeconfig(self.kubeconfig, self._user)
        config = json.loads(self.kubeconfig.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://{ports.HOST}:{self.relay.port}"
        self.kubeconfig.write_text(json.dumps(config), encoding="utf-8")

    def stop(self) -> None:
        self.relay.stop()
        self._recorder.stop()
        self._server.stop()

    @property
    def admin_kubeconfig(self) -> Path:
        """The administrator's, past the relay."""
        return self._server.kubeconfig

    def kill(self, down_s: float) -> bool:
        with alone(self._harm) as free:
            if free:
                self._server.kill_apiserver()
                pause(down_s)
                self._server.start_apiserver()
            return free

    def restart(self) -> bool:
        with alone(self._harm) as free:
            if free:
                self._server.restart_apiserver()
            return free

    def freeze(self, seconds: float) -> bool:
        with alone(self._harm) as free:
            if free:
                self._server.freeze_apiserver()
                pause(seconds)
                self._server.thaw_apiserver()
            return free

    def compact(self) -> bool:
        """Make etcd forget all history, and kube-apiserver's watch cache with it."""
        with alone(self._harm) as free:
            if free:
                self._server.stop_apiserver()
                revision = self._server.revision()
                self._recorder.wait_for(revision)
                self._server.compact(revision)
                self._server.start_apiserver()
            return free

    def snapshot(self) -> None:
        """Keep etcd as it is now, for a restore."""
        with self._harm:
            self._snapshot = self._folder / f"snapshot-{self.epoch}"
            self._server.snapshot(self._snapshot)

    def restore(self) -> bool:
        """Go back to the snapshot. False without one."""
        if self._snapshot is None:
            return False
        with self._harm:
            self._server.stop_apiserver()
            self._recorder.wait_for(self._server.revision())
            ended = self._records()
            self._recorder.stop()
            self._server.restore(self._snapshot)
            self._base = self._server.revision()  # nothing writes yet
            self._inherited = tuple(each for each in ended if int(each.rv) <= self._base)
            self._ended.append(ended)
            self._recorder = HistoryRecorder(self._server.etcd_url).start()
            self._server.start_apiserver()
        return True

    def calm(self) -> None:
        """End what lasts; kube-apiserver serves afterwards."""
        self.relay.calm()
        with self._harm:
            if not self._server.alive:
                self._server.start_apiserver()

    def truths(self) -> Sequence[Sequence[Committed]]:
        """What was committed, by epoch, up to now."""
        self._recorder.wait_for(self._server.revision())
        return (*self._ended, self._records())

    def _records(self) -> Sequence[Committed]:
        return (*self._inherited, *(each for each in self._recorder.records() if int(each.rv) > self._base))
