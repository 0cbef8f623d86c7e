"""After the storm: waiting until the log has come to the last commit, and reading what is left behind.

The judge reads Kafka past the relays, with clients of its own. Producers are killed before the last look, so that
nothing moves any more and no parting word of theirs covers up what they still owed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kubecdc.records import Change
from kubecdc.versions import not_newer
from local import check_coverage
from local.kube_client import KubeClient
from local.logs import Kept
from local.logs import entry as entry_of
from local.verdicts import Entry, Evidence
from processors.errors import ProcessorError
from tests.chaos.cleaning import positions
from tests.chaos.epochs import of_epoch
from tests.chaos.following import Follower
from tests.chaos.judge import Resource, latest
from tests.chaos.kafkas import NAMES, PARTITIONS

LOOK_S = 1.0


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask until it holds or time is up. Returns its last answer."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(LOOK_S)
    return True


class Resolved:
    """Whether the log has come to every last commit, and to the state that the server lists."""

    def __init__(self, follower: Follower, truth: Sequence[Any], epoch: int, expected: Sequence[Resource]) -> None:
        self._follower = follower
        self._epoch = epoch
        self._wanted = check_coverage.owed(Evidence(truth, (), PARTITIONS, expected))
        self.missing: Mapping[Any, Any] = {}

    def __call__(self) -> bool:
        log = of_epoch(entries(self._follower.kept()), self._epoch)
        reached = check_coverage.resolved_by_partition(log)
        self.missing = {
            key: (rv, reached.get(key)) for key, rv in self._wanted.items() if not not_newer(rv, reached.get(key))
        }
        return not self.missing


def entries(kept: Sequence[Kept]) -> list[Entry]:
    """Records of the changes topic, in the order of partitions and offsets."""
    return sorted(entry_of(each) for each in kept if isinstance(each.record, Change))


def listed(client: KubeClient, expected: Sequence[Resource]) -> dict[str, str]:
    """What the API server has: uid to version. Raises `Away`."""
    found = {}
    for group, plural in expected:
        root = f"/apis/{group}/v1" if group else "/api/v1"
        status, answer = client.request("GET", f"{root}/{plural}")
        if status != 200:
            raise RuntimeError(f"{plural} cannot be listed: {status} {answer}")
        for item in answer["items"]:
            found[item["metadata"]["uid"]] = item["metadata"]["resourceVersion"]
    return found


def same_state(follower: Follower, client: KubeClient, expected: Sequence[Resource]) -> bool:
    """Whether the log's last state is what the server lists now."""
    return latest(entries(follower.kept())) == listed(client, expected)


def ends(bootstrap: str, topic: str, *, committed: bool) -> dict[int, int]:
    """Where each partition ends: for readers of committed records, or for everyone. Raises KafkaException."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    answers = AdminClient({"bootstrap.servers": bootstrap}).list_offsets(asked, isolation_level=level)
    return {place.partition: int(future.result(20).offset) for place, future in answers.items()}


def lag(bootstrap: str) -> int | None:
    """How many events wait; None when Kafka does not tell."""
    try:
        done = positions(bootstrap)
        return sum(
            end - done[partition] - 1 for partition, end in ends(bootstrap, NAMES.events, committed=False).items()
        )
    except (ProcessorError, KafkaException):
        return None


def open_transactions(bootstrap: str) -> list[str]:
    """Partitions whose last stable offset is not their end."""
    found = []
    for topic in (NAMES.changes, NAMES.state):
        stable, high = (ends(bootstrap, topic, committed=committed) for committed in (True, False))
        found += [
            f"{topic} [{p}]: stable up to {stable[p]}, it ends at {high[p]}" for p in high if stable[p] != high[p]
        ]
    return found
