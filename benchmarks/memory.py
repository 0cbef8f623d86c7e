"""Memory of the producer with many objects: while they are listed, paged and streamed, and while they change.

A real Kafka, the simulated API server in a process of its own, `kubecdc produce` as it is deployed. Resident sizes are
read ten times a second; what is promised is a peak below 250 MB with 200,000 ConfigMaps of 1 KB.
"""

from __future__ import annotations

import gc
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from benchmarks.objects import config_map
from local.broker import Broker
from local.ports import free_port
from local.sim_server import SimServer

OBJECTS = 200_000
BYTES = 1_000
STREAMED = 20_000
CHANGES_PER_S = 300
CHANGING_S = 30
AUDIT_S = 60
LIMIT_MB = 250


class Watched:
    """A process whose resident size is read all the time; `peak` is the greatest since it was last set to 0."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self.peak = 0.0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while self._process.is_running():
            try:
                self.peak = max(self.peak, self.now())
            except psutil.Error:
                return
            time.sleep(0.1)

    def now(self) -> float:
        """Resident size in MB."""
        return float(self._process.memory_info().rss / 1e6)

    def cpu_s(self) -> float:
        """CPU seconds so far."""
        times = self._process.cpu_times()
        return float(times.user + times.system)


class Produced:
    """`kubecdc produce` and its metrics page."""

    def __init__(self, bootstrap: str, prefix: str, server: SimServer, watchlist: str, log: Path) -> None:
        kubecdc = [sys.executable, "-m", "kubecdc"]
        topics = ["topics", "init", "--bootstrap", bootstrap, "--prefix", prefix, "--partitions", "4"]
        subprocess.run([*kubecdc, *topics], check=True, capture_output=True)
        self._port, self._log = free_port(), log
        command = [*kubecdc, "produce", "--bootstrap", bootstrap, "--prefix", prefix, "--cluster", "bench"]
        command += ["--server", server.url, "--resources", "configmaps", "--watchlist", watchlist]
        command += ["--metrics-port", str(self._port), "--redaction-key", "k" * 32, "--watchlist-deadline", "600"]
        command += ["--audit-interval", str(AUDIT_S)]
        with log.open("wb") as stream:
            self.process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)

    def value(self, name: str, labels: str = "") -> float:
        """Sum of a metric's samples whose labels contain `labels`; 0 while the page is not there."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
                page = answer.read().decode()
        except OSError:
            return 0
        full = f"kubecdc_producer_{name}"
        found = [line.rsplit(" ", 1)[1] for line in page.splitlines() if line.startswith(full) and labels in line]
        return sum(map(float, found))

    def wait(self, what: str, condition: Callable[[], bool], seconds: float = 900) -> float:
        """Wait until `condition` holds; return the seconds that it took."""
        began = time.monotonic()
        while not condition():
            if self.process.poll() is not None or time.monotonic() - began > seconds:
                raise SystemExit(f"no {what}: {self._log.read_text()[-3000:]}")
            time.sleep(0.5)
        return time.monotonic() - began

    def stored(self) -> bool:
        """The list is over, and everything is acknowledged and lies before the stored position."""
        ended = self.value("events_total", 'type="RELIST_END"') >= 1
        return ended and self.value("queue_depth") == 0 and self.value("position_lag_seconds") == 0


@contextmanager
def producing(bootstrap: str, prefix: str, server: SimServer, watchlist: str, log: Path) -> Iterator[Produced]:
    made = Produced(bootstrap, prefix, server, watchlist, log)
    try:
        yield made
    finally:
        made.process.terminate()
        made.process.wait(60)


def fill(server: SimServer, count: int) -> None:
    kind = server.store.kind("", "configmaps")
    gc.disable()  # it would walk over all of them again and again
    for number in range(count):
        shown = config_map(number, BYTES)
        body = {"metadata": {"name": shown["metadata"]["name"]}, "data": shown["data"]}
        server.store.create(kind, body, namespace="default")


def change(server: SimServer, objects: int, per_s: int, seconds: float) -> int:
    """Update objects at a steady rate; returns how many were."""
    kind = server.store.kind("", "configmaps")
    began, done = time.monotonic(), 0
    while time.monotonic() - began < seconds:
        while done < (time.monotonic() - began) * per_s:
            shown = config_map(done % objects, BYTES)
            metadata = {"name": shown["metadata"]["name"], "labels": {"changed": str(done)}}
            server.store.update(kind, {"metadata": metadata, "data": shown["data"]}, namespace="default")
            done += 1
        time.sleep(0.005)
    return done


def measure(broker: Broker, server: SimServer, objects: int, watchlist: str, folder: Path) -> None:
    prefix = f"memory-{watchlist}-{objects}"
    with producing(broker.bootstrap, prefix, server, watchlist, folder / f"{prefix}.log") as produced:
        watched = Watched(produced.process.pid)
        took = produced.wait("list", produced.stored)
        listed, listing_peak, cpu = watched.now(), watched.peak, watched.cpu_s()
        watched.peak = 0.0
        done = change(server, objects, CHANGES_PER_S, CHANGING_S)
        lag = produced.wait("changes", lambda: produced.value("events_total", 'type="MODIFIED"') >= done)
        produced.wait("position", produced.stored)
        changing_peak, watched.peak = watched.peak, 0.0
        audits = produced.value("audits_total", 'result="complete"')
        produced.wait("audit", lambda: produced.value("audits_total", 'result="complete"') >= audits + 2)
        peaks = (listing_peak, changing_peak, watched.peak)
        print(
            f"{objects} ConfigMaps of {BYTES} bytes, {'streamed' if watchlist == 'always' else 'paged'} list:"
            f" {took:.0f} s, {cpu:.0f} s CPU, peak {listing_peak:.0f} MB, {listed:.0f} MB after it; then"
            f" {done} changes in {CHANGING_S} s: peak {changing_peak:.0f} MB, {lag:.0f} s behind at the end;"
            f" audits: peak {watched.peak:.0f} MB; {max(peaks) / LIMIT_MB:.2f} of the {LIMIT_MB} MB allowed",
            flush=True,
        )


def main(objects: int = OBJECTS) -> None:
    """Print the peaks for few objects, many streamed, and all paged."""
    with (
        tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as name,
        Broker(Path(name) / "kafka") as broker,
    ):
        for count, watchlist in ((1, "never"), (min(objects, STREAMED), "always"), (objects, "never")):
            with SimServer() as server:
                fill(server, count)
                measure(broker, server, count, watchlist, Path(name))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
