"""After the storm: waiting until the log has come to the last commit, and reading what is left behind.

The judge reads Kafka past the relays, with clients of its own. Producers are killed before the last look, so that
nothing moves any more and no parting word of theirs covers up what they still owed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kubecdc.codec import Codec
from kubecdc.kafka import TopicReader
from kubecdc.records import Change
from kubecdc.start import BEGINNING
from kubecdc.versions import not_newer
from local import check_coverage
from local.history import Committed
from local.kube_client import KubeClient
from local.logs import Kept
from local.logs import entry as entry_of
from local.verdicts import Entry, Evidence
from processors.errors import ProcessorError
from tests.chaos.cleaning import positions
from tests.chaos.epochs import Resource, parts
from tests.chaos.following import Follower, light
from tests.chaos.judge import latest
from tests.chaos.kafkas import NAMES, PARTITIONS
from tests.checkers.history import Record

LOOK_S = 1.0
ANSWER_S = 8.0
VERIFY_S = 300.0


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Ask until it holds or time is up. Returns its last answer; a Kafka that does not tell says no."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with suppress(KafkaException, TimeoutError, ProcessorError):
            if condition():
                return True
        time.sleep(LOOK_S)
    return condition()


class Resolved:
    """Whether the log has come to the last commit of each resource; `missing` says what it has not."""

    def __init__(self, follower: Follower, truths: Sequence[Sequence[Committed]], expected: Sequence[Resource]) -> None:
        self._follower, self._truths, self._expected = follower, truths, expected
        self.missing: list[str] = []

    def __call__(self) -> bool:
        self.missing = []
        for part in parts(entries(self._follower.kept()), self._truths, self._expected):
            reached = check_coverage.resolved_by_partition(part.log)
            wanted = check_coverage.owed(Evidence(part.truth, (), PARTITIONS, self._expected)) if part.last else {}
            self.missing += [
                f"{part.name}, partition {key[2]}: {reached.get(key)} of {rv}"
                for key, rv in wanted.items()
                if not not_newer(rv, reached.get(key))
            ]
        return not self.missing


def entries(kept: Sequence[Kept]) -> list[Entry]:
    """Records of the changes topic, in the order of partitions and offsets."""
    return sorted(entry_of(each) for each in kept if isinstance(each.record, Change))


def whole_log(bootstrap: str) -> list[Record]:
    """The canonical log as a new reader sees it, tombstones too, by partition and offset. Raises KubecdcError."""
    reader = TopicReader(bootstrap, NAMES.changes, BEGINNING, follow=False)
    codec = Codec()
    found = []
    try:
        while not reader.done:
            for each in reader.poll(0.2):
                change = None if each.value is None else light(codec.decode(each.value))
                found.append(Record(each.partition, each.offset, each.timestamp_ms, each.key or b"", change))
    finally:
        reader.close()
    return sorted(found, key=lambda record: (record.partition, record.offset))


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


def verify(arguments: Sequence[str]) -> tuple[int, str]:
    """How `kubecdc verify` ends, and what it says. It waits for the log, since bookmarks come each minute only."""
    command = [sys.executable, "-m", "kubecdc", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=VERIFY_S, check=False)
    return done.returncode, done.stdout + done.stderr


def ends(bootstrap: str, topic: str, *, committed: bool) -> dict[int, int]:
    """Where each partition ends: for readers of committed records, or for all. Raises KafkaException, TimeoutError."""
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(PARTITIONS)}
    admin = AdminClient({"bootstrap.servers": bootstrap})
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=ANSWER_S)
    return {place.partition: int(future.result(2 * ANSWER_S).offset) for place, future in answers.items()}


def lag(bootstrap: str) -> int:
    """How many events wait. Raises KafkaException, TimeoutError, ProcessorError."""
    done = positions(bootstrap)
    return sum(end - done[p] - 1 for p, end in ends(bootstrap, NAMES.events, committed=False).items())


def open_transactions(bootstrap: str) -> list[str]:
    """Partitions whose last stable offset is not their end."""
    found = []
    for topic in (NAMES.changes, NAMES.state):
        stable, high = (ends(bootstrap, topic, committed=committed) for committed in (True, False))
        found += [
            f"{topic} [{p}]: stable up to {stable[p]}, it ends at {high[p]}" for p in high if stable[p] != high[p]
        ]
    return found
