"""When which fault strikes, decided from a seed alone: a storm can be told again, and a shorter one is a part of none.

Pure. Faults come in families, each with a pace of its own; what must happen at least once has its place in the run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Fault(StrEnum):
    """What is done to the system; the values are the rows of the report."""

    KILL_PRODUCER = "kill -9 of a producer"
    KILL_WORKER = "kill -9 of a worker"
    FREEZE_PRODUCER = "SIGSTOP of a producer"
    FREEZE_WORKER = "SIGSTOP of a worker past its session"
    CRASH_WORKER = "worker crash point"
    STOP_PRODUCER = "SIGTERM of a producer"
    STOP_WORKER = "worker leaves and joins"
    EXTRA_WORKER = "one worker more, for seconds"

    CUT_API = "connections to the API server cut"
    STALL_API = "connections to the API server stalled"
    DRIBBLE_API = "API server's bytes dribbled"
    REFUSE_API = "connections to the API server refused"
    CUT_KAFKA = "connections to Kafka cut"
    STALL_KAFKA = "connections to Kafka stalled"
    DELAY_KAFKA = "Kafka's bytes delayed"
    DROP_END_TXN = "EndTxn reply swallowed"
    CUT_END_TXN = "connection cut in place of an EndTxn reply"

    KILL_BROKER = "kill -9 of a broker"
    RESTART_BROKER = "restart of a broker"
    FREEZE_BROKER = "SIGSTOP of a broker"
    MOVE_LEADERS = "leaders moved back"
    RESTART_API = "restart of the API server"
    KILL_API = "kill -9 of the API server"
    FREEZE_API = "SIGSTOP of the API server"

    COMPACT_ETCD = "etcd compacted, history gone (410)"
    RESTORE_ETCD = "etcd restored from a snapshot"
    COMPACT_LOG = "events compacted while no worker runs"
    FULL_DISK = "full disk of a broker"

    CHURN_CRD = "CRD deleted and made again"
    REVOKE_ALL = "RBAC revoked and granted, all kinds"
    REVOKE_ONE = "RBAC revoked and granted, one kind"


PROCESS_FAULTS = frozenset(
    {
        Fault.KILL_PRODUCER,
        Fault.KILL_WORKER,
        Fault.FREEZE_PRODUCER,
        Fault.FREEZE_WORKER,
        Fault.CRASH_WORKER,
        Fault.STOP_PRODUCER,
        Fault.STOP_WORKER,
        Fault.EXTRA_WORKER,
    }
)


@dataclass(frozen=True, slots=True)
class Family:
    """Faults that take turns: one about every `every_s`, chosen by weight."""

    every_s: float
    weights: Mapping[Fault, int]


class Strike(NamedTuple):
    """One fault: at which second of the storm, at which target (a share of those there are), for how long."""

    at_s: float
    fault: Fault
    pick: float
    lasts_s: float


PROCESSES = Family(
    6.0,
    {
        Fault.KILL_PRODUCER: 4,
        Fault.KILL_WORKER: 5,
        Fault.FREEZE_PRODUCER: 2,
        Fault.FREEZE_WORKER: 3,
        Fault.CRASH_WORKER: 7,
        Fault.STOP_PRODUCER: 1,
        Fault.STOP_WORKER: 2,
        Fault.EXTRA_WORKER: 3,
    },
)
NETWORK = Family(
    11.0,
    {
        Fault.CUT_API: 3,
        Fault.STALL_API: 2,
        Fault.DRIBBLE_API: 2,
        Fault.REFUSE_API: 1,
        Fault.CUT_KAFKA: 3,
        Fault.STALL_KAFKA: 2,
        Fault.DELAY_KAFKA: 2,
        Fault.DROP_END_TXN: 3,
        Fault.CUT_END_TXN: 3,
    },
)
SERVERS = Family(
    50.0,
    {
        Fault.KILL_BROKER: 3,
        Fault.RESTART_BROKER: 2,
        Fault.FREEZE_BROKER: 2,
        Fault.RESTART_API: 1,
        Fault.KILL_API: 2,
        Fault.FREEZE_API: 2,
        Fault.COMPACT_ETCD: 3,
    },
)
LEADERS = Family(25.0, {Fault.KILL_BROKER: 2, Fault.RESTART_BROKER: 1, Fault.FREEZE_BROKER: 1, Fault.MOVE_LEADERS: 3})
HOSTILE = (
    Family(5.0, {Fault.CUT_API: 4, Fault.STALL_API: 3, Fault.DRIBBLE_API: 4, Fault.REFUSE_API: 2}),
    Family(45.0, {Fault.RESTART_API: 1, Fault.KILL_API: 1, Fault.FREEZE_API: 1, Fault.COMPACT_ETCD: 3}),
    Family(20.0, {Fault.CHURN_CRD: 2, Fault.REVOKE_ALL: 1, Fault.REVOKE_ONE: 2}),
)
# How long a fault lasts, in seconds. A worker's session ends after 6.
LASTS: Mapping[Fault, tuple[float, float]] = {
    Fault.FREEZE_PRODUCER: (3.0, 14.0),
    Fault.FREEZE_WORKER: (7.5, 11.0),
    Fault.EXTRA_WORKER: (3.0, 9.0),
    Fault.STALL_API: (2.0, 8.0),
    Fault.DRIBBLE_API: (4.0, 10.0),
    Fault.REFUSE_API: (1.0, 4.0),
    Fault.STALL_KAFKA: (1.0, 8.0),
    Fault.DELAY_KAFKA: (3.0, 8.0),
    Fault.KILL_BROKER: (0.5, 5.0),
    Fault.FREEZE_BROKER: (2.0, 12.0),
    Fault.KILL_API: (0.2, 3.0),
    Fault.FREEZE_API: (2.0, 8.0),
    Fault.FULL_DISK: (1.0, 4.0),
    Fault.REVOKE_ALL: (3.0, 10.0),
    Fault.REVOKE_ONE: (3.0, 10.0),
}
MOMENT = (0.0, 3.0)
# What takes its time, with its places: shares of the run. A restore that rewinds little may pass unseen, and not only
# here: once the server has overtaken a producer that was away, nothing tells (README, "What it cannot do").
LONG_S = 240.0
SHORT: Mapping[Fault, Sequence[float]] = {Fault.FULL_DISK: (0.15,)}
# Late: an undisturbed fold can be compared only up to the first.
COMPACTIONS: Mapping[Fault, Sequence[float]] = {Fault.COMPACT_LOG: (0.5, 0.8)}
LARGE: Mapping[Fault, Sequence[float]] = {
    Fault.FULL_DISK: (0.15, 0.7),
    Fault.RESTORE_ETCD: (0.5,),
}


def storm(
    seed: int, seconds: float, families: Sequence[Family], large: Mapping[Fault, Sequence[float]]
) -> tuple[Strike, ...]:
    """Every strike of a run, in order. The families do not disturb each other's choices."""
    strikes = [
        strike
        for number, family in enumerate(families)
        for strike in _paced(random.Random(f"{seed}/{number}"), seconds, family)
    ]
    draw = random.Random(f"{seed}/large")
    strikes += [_strike(draw, share * seconds, fault) for fault, shares in large.items() for share in shares]
    return tuple(sorted(strikes))


def _paced(draw: random.Random, seconds: float, family: Family) -> Iterator[Strike]:
    faults, weights = list(family.weights), list(family.weights.values())
    at = 1.0
    while True:
        at += family.every_s * draw.uniform(0.5, 1.5)
        if at > seconds:
            return
        yield _strike(draw, at, draw.choices(faults, weights)[0])


def _strike(draw: random.Random, at_s: float, fault: Fault) -> Strike:
    return Strike(at_s, fault, draw.random(), draw.uniform(*LASTS.get(fault, MOMENT)))
