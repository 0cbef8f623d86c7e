"""Memory of the producer while a long list goes through: growth over the same producer with one object.

A real Kafka, the simulated API server in this process, `kubecdc produce` as a process of its own. The promise is memory
that does not grow with the list (design.md, producer rule 3), apart from the map of published versions.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from local.broker import Broker
from local.sim_server import SimServer

OBJECTS = 20_000
BYTES = 2_000
GROWTH_LIMIT_MB = 100


def _peak_mb(command: list[str], log: Path, done: str, seconds: float) -> float:
    """Run the producer until its log says `done`; the largest resident size seen, in MB."""
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    watched = psutil.Process(process.pid)
    peak, deadline, settled = 0.0, time.monotonic() + seconds, 0
    try:
        while time.monotonic() < deadline and settled < 20:
            if process.poll() is not None:
                raise SystemExit(f"the producer ended: {log.read_text()[-2000:]}")
            peak = max(peak, watched.memory_info().rss / 1e6)
            settled += done in log.read_text()
            time.sleep(0.05)
        if not settled:
            raise SystemExit(f"no {done!r} within {seconds} s: {log.read_text()[-2000:]}")
    finally:
        process.terminate()
        process.wait(30)
    return peak


def _fill(server: SimServer, prefix: str, count: int) -> None:
    maps = server.store.kind("", "configmaps")
    for number in range(count):
        body = {"metadata": {"name": f"{prefix}-{number}"}, "data": {"blob": "x" * BYTES}}
        server.store.create(maps, body, namespace="default")


def _list_once(bootstrap: str, prefix: str, folder: Path) -> float:
    kubecdc = [sys.executable, "-m", "kubecdc"]
    topics = ["topics", "init", "--bootstrap", bootstrap, "--prefix", prefix, "--partitions", "4"]
    subprocess.run([*kubecdc, *topics], check=True, capture_output=True)
    produce = ["produce", "--bootstrap", bootstrap, "--prefix", prefix, "--cluster", "bench"]
    produce += ["--kubeconfig", str(folder / "kubeconfig"), "--resources", "configmaps"]
    return _peak_mb([*kubecdc, *produce], folder / f"{prefix}.log", "RELIST_END", 120)


def main(objects: int = OBJECTS) -> None:
    """Print the growth, and the ratio to the limit that the issue names."""
    with (
        tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as name,
        Broker(Path(name) / "kafka") as broker,
        SimServer() as server,
    ):
        folder = Path(name)
        server.write_kubeconfig(folder / "kubeconfig")
        peaks = []
        for prefix, count in (("one", 1), ("many", objects)):
            _fill(server, prefix, count)
            peaks.append(_list_once(broker.bootstrap, prefix, folder))
    growth = peaks[1] - peaks[0]
    print(
        f"list of {objects} objects of {BYTES} bytes: {peaks[0]:.0f} MB -> {peaks[1]:.0f} MB, growth {growth:.0f} MB,"
        f" {growth / GROWTH_LIMIT_MB:.2f} of the {GROWTH_LIMIT_MB} MB allowed"
    )


if __name__ == "__main__":
    main()
