"""The topic table: which topics exist, what exactness and history need of them, and what is wrong with live ones.

Pure: it compares values. Reading and creating topics is done by each package's Kafka module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kubecdc.wire import is_object_key, partition_of

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
HISTORY_MS = 7 * 24 * 3600 * 1000
LEAST_HISTORY_MS = 3600 * 1000
MOST_HISTORY_MS = 36_500 * 24 * 3600 * 1000
SETTINGS = ("cleanup.policy", "min.compaction.lag.ms", "max.message.bytes", "min.insync.replicas")

# State and positions are read to their end at each start, and written all the time; the segment being written is never
# compacted, and by default it is one of a week or a gigabyte.
OFTEN_CLEANED = {"segment.ms": "3600000", "segment.bytes": "134217728", "min.cleanable.dirty.ratio": "0.2"}


@dataclass(frozen=True, slots=True)
class TopicNames:
    """The four topics under one prefix."""

    events: str
    changes: str
    state: str
    positions: str

    @classmethod
    def under(cls, prefix: str) -> TopicNames:
        """Names for a prefix such as `kubecdc`."""
        return cls(*(f"{prefix}.{part}" for part in ("events", "changes", "state", "positions")))


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic as it should be. `min_compaction_lag_ms` 0 means that compaction may run at once."""

    name: str
    partitions: int
    replication: int
    min_insync: int
    min_compaction_lag_ms: int
    max_message_bytes: int = MAX_MESSAGE_BYTES

    def config(self) -> dict[str, str]:
        """The broker settings that `topics init` sets."""
        return {
            "cleanup.policy": "compact",
            "min.compaction.lag.ms": str(self.min_compaction_lag_ms),
            "max.message.bytes": str(self.max_message_bytes),
            "min.insync.replicas": str(self.min_insync),
            **(
                OFTEN_CLEANED
                if self.min_compaction_lag_ms == 0
                else {"delete.retention.ms": str(self.min_compaction_lag_ms)}
            ),
        }


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """A topic as a broker describes it."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


def table(prefix: str, partitions: int, replication: int, history_ms: int = HISTORY_MS) -> tuple[TopicSpec, ...]:
    """The four topics. With three or more replicas a write needs two of them; else all there are."""
    names = TopicNames.under(prefix)
    insync = 2 if replication >= 3 else 1
    return tuple(
        TopicSpec(name, partitions, replication, insync, lag)
        for name, lag in (
            (names.events, history_ms),
            (names.changes, history_ms),
            (names.state, 0),
            (names.positions, 0),
        )
    )


def check(prefix: str, live: Mapping[str, LiveTopic]) -> list[str]:
    """What is wrong with the live topics and how to mend it, one sentence each; empty when all is well."""
    names = TopicNames.under(prefix)
    wanted = (names.events, names.changes, names.state, names.positions)
    problems = [f"topic {name} does not exist: {_remedy(prefix, name, live)}" for name in wanted if name not in live]
    for name in wanted:
        if name in live:
            problems += _check_topic(live[name], history=name in (names.events, names.changes))
    counts = {live[n].name: live[n].partitions for n in wanted[:3] if n in live}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        problems.append(
            f"partition counts differ ({listed}): a UID's events, changes and state must lie in one partition; "
            + _migrate(names)
        )
    return problems


def planned(specs: Iterable[TopicSpec], live: Mapping[str, LiveTopic]) -> dict[str, LiveTopic]:
    """The topics as they will be when those that are missing have been made."""
    return {
        spec.name: live.get(spec.name) or LiveTopic(spec.name, spec.partitions, spec.replication, spec.config())
        for spec in specs
    }


def differing(
    prefix: str,
    live: Mapping[str, LiveTopic],
    *,
    partitions: int | None = None,
    replication: int | None = None,
    history_ms: int | None = None,
) -> list[str]:
    """Where live topics are not what was asked for, and how to get it; what is None was not asked for."""
    names = TopicNames.under(prefix)
    problems = []
    others = [f"{topic.name} {topic.partitions}" for topic in live.values() if topic.partitions != partitions]
    if partitions is not None and others:
        problems.append(
            f"{partitions} partitions were asked for, but the topics exist with others ({', '.join(others)}): to keep"
            " them leave --partitions out; " + _migrate(names)
        )
    others = [f"{topic.name} {topic.replication}" for topic in live.values() if topic.replication != replication]
    if replication is not None and others:
        problems.append(
            f"replication {replication} was asked for, but the topics exist with another ({', '.join(others)}): to keep"
            " it leave --replication out, or change it with `kafka-reassign-partitions`"
        )
    for name in (names.events, names.changes) if history_ms is not None else ():
        lag = live[name].config.get("min.compaction.lag.ms", "0") if name in live else str(history_ms)
        if int(lag) != history_ms:
            problems.append(
                f"a history of {history_ms} ms was asked for, but topic {name} exists with min.compaction.lag.ms={lag}:"
                " to keep it leave --history out, or "
                + _alter(name, f"min.compaction.lag.ms={history_ms},delete.retention.ms={history_ms}")
            )
    return problems


def moved(prefix: str, partitions: int, keys: Iterable[tuple[int, bytes | None]]) -> list[str]:
    """What is wrong if UIDs do not lie where they must: `keys` are (partition, key) of records of the events topic."""
    names = TopicNames.under(prefix)
    for partition, key in keys:
        if key is not None and is_object_key(key):
            uid = key.decode(errors="replace")
            wanted = partition_of(uid, partitions)
            if wanted != partition:
                told = (
                    f"{names.events} has {partitions} partitions, but holds UID {uid} in partition {partition} and not"
                    f" {wanted}: the partition count was changed, and two workers would order versions of one object; "
                )
                return [told + _migrate(names)]
    return []


def _migrate(names: TopicNames) -> str:
    return (
        "partitions can be neither added nor taken away. To have another number: run `kubecdc topics init --prefix NEW"
        " --partitions N`, start producers and workers with --prefix NEW, let readers move over when they have read"
        f" {names.changes} to its end, then delete the old topics"
    )


def _remedy(prefix: str, name: str, live: Mapping[str, LiveTopic]) -> str:
    """How to get a topic that is missing: state is made from changes, or it would contradict them."""
    names = TopicNames.under(prefix)
    if name == names.state and names.changes in live:
        return (
            "if the partitions were processed before, stop all workers and run"
            f" `kubecdc rebuild-state --prefix {prefix}`; else run `kubecdc topics init --prefix {prefix}`"
        )
    return f"run `kubecdc topics init --prefix {prefix}`"


def _alter(name: str, setting: str) -> str:
    return f"mend it with `kafka-configs --alter --topic {name} --add-config {setting}`"


def _check_topic(topic: LiveTopic, *, history: bool) -> list[str]:
    problems = []
    policy = topic.config.get("cleanup.policy", "delete")
    if policy != "compact":
        problems.append(
            f"topic {topic.name} has cleanup.policy={policy}, which deletes the last state of live objects; "
            + _alter(topic.name, "cleanup.policy=compact")
        )
    lag = topic.config.get("min.compaction.lag.ms", "0")
    if history and int(lag) < LEAST_HISTORY_MS:
        problems.append(
            f"topic {topic.name} has min.compaction.lag.ms={lag}: versions may"
            " vanish before they are read; " + _alter(topic.name, f"min.compaction.lag.ms={HISTORY_MS}")
        )
    size = int(topic.config.get("max.message.bytes", "0"))
    if size < MAX_MESSAGE_BYTES:
        problems.append(
            f"topic {topic.name} takes messages of at most {size} bytes, objects may need {MAX_MESSAGE_BYTES}; "
            + _alter(topic.name, f"max.message.bytes={MAX_MESSAGE_BYTES}")
        )
    insync = int(topic.config.get("min.insync.replicas", "1"))
    if topic.replication >= 3 and insync < 2:
        problems.append(
            f"topic {topic.name} has replication {topic.replication} but min.insync.replicas={insync}: one broker's"
            " loss may lose acknowledged records; " + _alter(topic.name, "min.insync.replicas=2")
        )
    if insync > topic.replication:
        problems.append(
            f"topic {topic.name} needs {insync} replicas in sync but has {topic.replication}: no write can succeed; "
            + _alter(topic.name, f"min.insync.replicas={topic.replication}")
        )
    return problems
