"""The events topic of a test folded by the processor's own rules, and judged by the checkers of G1, G2 and G3."""

from __future__ import annotations

from collections.abc import Sequence

from kubecdc import topics
from local import checkers
from local.history import Committed
from local.logs import read_whole
from local.recount import recount
from local.sim_server import SimServer
from local.verdicts import Entry, Evidence, Status


def truth_of(server: SimServer, *resources: str) -> list[Committed]:
    """What the simulated API server committed of core resources."""
    return [
        Committed(c.group, c.resource, c.namespace, c.name, c.uid, str(c.revision), c.kind)
        for c in server.store.history()
        if c.group == "" and c.resource in resources
    ]


def changes_of(bootstrap: str, prefix: str) -> list[Entry]:
    """The canonical records that the events topic leads to."""
    folded = recount(read_whole(bootstrap, topics.TopicNames.under(prefix).events))
    return [
        Entry(partition, offset, change)
        for partition, changes in sorted(folded.changes.items())
        for offset, change in enumerate(changes)
    ]


def assert_holds(
    bootstrap: str, prefix: str, truth: Sequence[Committed], partitions: int, resource: str = "configmaps"
) -> list[Entry]:
    """Every guarantee that has a checker holds, that of deletes where there were any; returns the log."""
    log = changes_of(bootstrap, prefix)
    verdicts = checkers.check_all(Evidence(truth, log, partitions, [("", resource)]))
    if not any(commit.kind == "DELETE" for commit in truth):
        del verdicts["G2"]
    assert {name: v.status for name, v in verdicts.items()} == dict.fromkeys(verdicts, Status.HOLDS), verdicts
    return log
