"""Memory of the producer while Kafka is away and the cluster goes on changing, and what is missing afterwards.

A real Kafka that is frozen, the simulated API server, `kubecdc produce` as a process of its own. What is promised (G6):
memory stays bounded, and as the server keeps its history here, nothing is lost.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from benchmarks.memory import CHANGES_PER_S, Produced, Watched, change, fill, producing
from kubecdc.records import OBJECT_TYPES, RawEvent
from local.broker import Broker
from local.logs import read_whole
from local.sim_server import SimServer

OBJECTS = 1_000
AWAY_S = 600.0
CALM_S = 20.0


def lost(broker: Broker, prefix: str, server: SimServer) -> tuple[int, int]:
    """How many committed versions are not in the events topic, and how many relists there were."""
    sent, lists = set(), 0
    for kept in read_whole(broker.bootstrap, f"{prefix}.events"):
        if isinstance(kept.record, RawEvent):
            lists += kept.record.type == "RELIST_START" and kept.partition == 0
            if kept.record.type in OBJECT_TYPES:
                sent.add((kept.record.uid, kept.record.rv))
    committed = {(c.uid, str(c.revision)) for c in server.store.history() if c.resource == "configmaps"}
    return len(committed - sent), lists


def outage(broker: Broker, server: SimServer, produced: Produced, seconds: float) -> str:
    """Freeze Kafka for so long; returns what was seen."""
    watched = Watched(produced.process.pid)
    done = change(server, OBJECTS, CHANGES_PER_S, CALM_S)
    produced.wait("changes", lambda: produced.value("events_total", 'type="MODIFIED"') >= done)
    before, watched.peak = watched.peak, 0.0
    broker.freeze()
    done += change(server, OBJECTS, CHANGES_PER_S, seconds)
    held, depth, peak = produced.value("events_total", 'type="MODIFIED"'), produced.value("queue_depth"), watched.peak
    broker.thaw()
    took = produced.wait("changes", lambda: produced.value("events_total", 'type="MODIFIED"') >= done)
    produced.wait("position", produced.stored)
    return (
        f"{before:.0f} MB before it, {peak:.0f} MB at most in it, {watched.peak:.0f} MB after it;"
        f" {done} changes, of which {done - held:.0f} were left with the server and {depth:.0f} records waited;"
        f" {took:.0f} s to catch up"
    )


def main(seconds: float = AWAY_S) -> None:
    """Print sizes, and what was lost."""
    with (
        tempfile.TemporaryDirectory(prefix="kubecdc-bench-") as name,
        Broker(Path(name) / "kafka") as broker,
        SimServer() as server,
    ):
        fill(server, OBJECTS)
        with producing(broker.bootstrap, "outage", server, "never", Path(name) / "producer.log") as produced:
            produced.wait("list", produced.stored)
            began = time.monotonic()
            seen = outage(broker, server, produced, seconds)
        missing, lists = lost(broker, "outage", server)
    print(
        f"Kafka away for {seconds:.0f} s at {CHANGES_PER_S} changes/s: {seen}; {missing} versions lost,"
        f" {lists} list(s); {time.monotonic() - began:.0f} s in all"
    )


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))
