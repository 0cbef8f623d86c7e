"""The clusters that a demo can run on, behind one face: simulated, real on this machine, or found in a kubeconfig.

Each knows how to start, what its server committed (the ground truth), and which faults it can be made to show. When
faults strike, and what they must lead to, is decided elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from local import children, ports
from local.apiserver import ApiServer
from local.cutter import Cutter
from local.errors import LocalError, NotReady, ServerDied
from local.history import Committed, HistoryRecorder
from local.jars import cache_folder
from local.kube_client import Away, KubeClient

_READY_SECONDS = 30.0


class Cluster(Protocol):
    """An API server with a workload's client and a producer's kubeconfig."""

    name: str
    client: KubeClient
    kubeconfig: Path

    @property
    def faults(self) -> dict[str, int]:
        """How often each fault of this server has struck."""

    def start(self) -> None:
        """Return when requests are served. Raises `LocalError`."""

    def stop(self) -> None:
        """End what was started."""

    def cut(self) -> None:
        """Break the producer's open connections; where that cannot be done, nothing happens."""

    def annoy(self) -> None:
        """Show the lesser faults that this server has, if any."""

    def forget(self) -> bool:
        """Make all history up to now unreadable, so that older versions get 410; False where that cannot be done."""

    def truth(self) -> Sequence[Committed] | None:
        """Everything committed so far, or None when nobody knows."""


class SimulatedCluster:
    """The simulated API server in a process of its own."""

    name = "sim"

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.kubeconfig = folder / "sim-kubeconfig"
        self._log = folder / "sim.log"
        self._port = ports.free_port()
        self._seed = seed
        self._child: children.Child | None = None
        self.client = KubeClient(f"http://{ports.HOST}:{self._port}")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        argv = [sys.executable, "-m", "local.sim_server", "--port", str(self._port), "--seed", str(self._seed)]
        argv += ["--kubeconfig", str(self.kubeconfig), "--bookmark-seconds", "5"]
        child = self._child = children.spawn(argv, log=self._log)
        answered = children.poll(lambda: not child.alive or self._answers(), _READY_SECONDS, every_seconds=0.05)
        if not child.alive:
            raise ServerDied(f"the simulated API server ended at its start:\n{child.tail()}")
        if not answered:
            raise NotReady(f"the simulated API server did not answer within {_READY_SECONDS:.0f} s:\n{child.tail()}")

    def stop(self) -> None:
        """Stop the process."""
        self.client.close()
        if self._child is not None:
            self._child.stop(5.0)

    @property
    def faults(self) -> dict[str, int]:
        """What the switchboard says has fired."""
        fired = self._control("GET", "faults")["fired"]
        return {f"sim {name}": count for name, count in fired.items()}

    def cut(self) -> None:
        """Tear the next watch streams that have something to send."""
        self._control("POST", "faults", {"name": "cut", "verb": "watch", "count": 5})

    def annoy(self) -> None:
        """Repeat frames, answer 500 and 429, and close streams as soon as they open."""
        self._control("POST", "faults", {"name": "duplicate", "verb": "watch", "count": 20})
        for name in ("error_500", "throttle_429", "instant_close"):
            self._control("POST", "faults", {"name": name, "verb": "watch", "count": 1})

    def forget(self) -> bool:
        """Compact at the newest revision."""
        self._control("POST", "compact", {})
        return True

    def truth(self) -> Sequence[Committed]:
        """Return the store's own history."""
        return [
            Committed(
                each["group"],
                each["resource"],
                each["namespace"],
                each["name"],
                each["uid"],
                str(each["revision"]),
                each["kind"],
            )
            for each in self._control("GET", "history?after=0")["commits"]
        ]

    def _answers(self) -> bool:
        try:
            return self.client.request("GET", "/readyz")[0] == 200 and self.kubeconfig.exists()
        except Away:
            return False

    def _control(self, method: str, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        status, answer = self.client.request(method, f"/_sim/{what}", body)
        if status != 200 or not isinstance(answer, dict):
            raise LocalError(f"the simulated API server refused {method} {what}: {status} {answer}")
        return answer


class RealCluster:
    """A real kube-apiserver and etcd on this machine; the producer reaches it through a relay that can be cut."""

    name = "envtest"

    def __init__(self, folder: Path) -> None:
        self.kubeconfig = folder / "relayed-kubeconfig"
        self._server = ApiServer(folder / "apiserver", binaries=find_binaries())
        address = urlsplit(self._server.url)
        self._cutter = Cutter((address.hostname or ports.HOST, address.port or 443))
        self._recorder = HistoryRecorder(self._server.etcd_url)
        self._struck: Counter[str] = Counter()
        self._recording = False

    @property
    def faults(self) -> dict[str, int]:
        """Connections that were cut are counted one by one."""
        return dict(self._struck)

    def start(self) -> None:
        """Start the servers, the recorder and the relay."""
        self._server.start()
        self._recorder.start()
        self._recording = True
        self._cutter.start()
        config = json.loads(self._server.kubeconfig.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = f"https://{ports.HOST}:{self._cutter.port}"
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps(config), encoding="utf-8")
        self.client = KubeClient.from_kubeconfig(self._server.kubeconfig)

    def stop(self) -> None:
        """Stop everything in order."""
        self._cutter.stop()
        if self._recording:
            self._recorder.stop()
            self.client.close()
        self._server.stop()

    def cut(self) -> None:
        """Reset every connection of the producer."""
        self._struck["connections cut"] += self._cutter.cut()

    def annoy(self) -> None:
        """Do nothing: a real server has no switchboard."""

    def forget(self) -> bool:
        """Compact etcd and restart kube-apiserver, whose watch cache would remember."""
        revision = self._server.revision()
        self._recorder.wait_for(revision)
        self._server.compact(revision)
        self._server.restart_apiserver()
        self._struck["API server restart"] += 1
        return True

    def truth(self) -> Sequence[Committed]:
        """Return etcd's history up to its newest revision."""
        self._recorder.wait_for(self._server.revision())
        return self._recorder.records()


class FoundCluster:
    """A cluster that is there already: read by the producer, written to in one namespace, harmed in no way."""

    name = "kubeconfig"

    def __init__(self) -> None:
        self.kubeconfig = found_kubeconfig()
        self.client = KubeClient.from_kubeconfig(self.kubeconfig)

    @property
    def faults(self) -> dict[str, int]:
        """None: the cluster is not ours to break."""
        return {}

    def start(self) -> None:
        """Ask for its version. Raises `Away` and `LocalError`."""
        status, answer = self.client.request("GET", "/version")
        if status != 200:
            raise LocalError(f"{self.client.server} refuses the user of {self.kubeconfig}: {status} {answer}")

    def stop(self) -> None:
        """Close the connections."""
        self.client.close()

    def cut(self) -> None:
        """Do nothing."""

    def annoy(self) -> None:
        """Do nothing."""

    def forget(self) -> bool:
        """Say that this is out of the question."""
        return False

    def truth(self) -> None:
        """Return nothing: only its etcd knows what was committed."""
        return


def found_kubeconfig() -> Path:
    """Return the kubeconfig file that kubectl would read first; `LocalError` when there is none."""
    named = [Path(part) for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    places = named or [Path("~/.kube/config").expanduser()]
    for place in places:
        if place.is_file():
            return place
    listed = ", ".join(map(str, places))
    raise LocalError(f"no kubeconfig at {listed}: set KUBECONFIG, or use --cluster sim")


def find_binaries() -> Path | None:
    """Return a folder of kube-apiserver and etcd where tools keep them, or None: then the environment decides."""
    if os.environ.get("KUBEBUILDER_ASSETS"):
        return None
    store = Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser()
    places = [
        *sorted(store.glob("kubebuilder-envtest/k8s/*"), reverse=True),  # where setup-envtest puts them
        *sorted(cache_folder().glob("envtest-*"), reverse=True),
    ]
    wanted = ("kube-apiserver", "etcd")
    return next((place for place in places if all(os.access(place / name, os.X_OK) for name in wanted)), None)
