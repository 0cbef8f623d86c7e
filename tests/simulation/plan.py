"""What a seed means: how large the world is, and which writes and faults happen when. Values only.

A plan is what a failure is shrunk in: any of its steps may be left out, and the rest still makes a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from producer.settings import WatchSettings

DURATION_S = 60.0
WRITES = 110  # steps that write, of a few commits each

STREAM_FAULTS = (
    "cut_in_batch",
    "watch_ended", "watch_cut", "frame_cut", "frame_garbled", "frame_twice", "frame_older", "error_in_stream",
    "throttled_in_stream", "expired_mid_stream", "watch_mute",
)  # fmt: skip
REQUEST_FAULTS = (
    "instant_close", "throttled", "unauthorized", "internal_error", "unreachable", "not_found", "page_expired",
    "page_failed", "page_broken", "pages_mixed", "stale_list", "forbidden", "streamed_list_cut",
    "streamed_list_endless", "streamed_list_refused",
)  # fmt: skip
STORE_FAULTS = ("history_compacted", "server_lags", "kind_gone", "kind_moved")
RESTORES = ("restored", "restored_bumped")
BROKER_FAULTS = ("broker_away", "ack_lost", "append_twice", "items_twice", "state_compacted")
LOSSES = (
    "record_lost",
    "item_lost",
    "delete_lost",
    "marker_lost",
    "record_corrupted",
    "poison",
    "events_compacted",
    "events_cut_off",
)
PRODUCER_FAULTS = ("producer_killed", "producer_frozen", "producer_stopped")
WORKER_FAULTS = (
    "crash_in_recovery", "crash_after_begin", "crash_after_produce", "crash_before_commit",
    "crash_commit_sent_no_reply", "crash_after_commit", "crash_before_ack", "fence_error", "produce_error",
    "commit_error", "commit_reply_lost", "commit_in_doubt", "zombie_in_commit", "zombie", "rebalance",
    "worker_killed", "worker_frozen", "delivered_twice",
)  # fmt: skip
FAMILIES = (
    STREAM_FAULTS,
    REQUEST_FAULTS,
    STORE_FAULTS,
    RESTORES,
    BROKER_FAULTS,
    LOSSES,
    PRODUCER_FAULTS,
    WORKER_FAULTS,
)
WITHHOLD = "withhold"
UNSEEN = "restored_unseen"  # above all versions, and nobody may know: seldom, since nothing can be judged after it


@dataclass(frozen=True, slots=True)
class Step:
    """Something that happens: `kind` is "write" or a fault, `pick` and `size` in [0, 1) choose object and extent."""

    at: float
    kind: str
    pick: float
    size: float

    def __str__(self) -> str:
        return f"{self.at:7.2f}s  {self.kind:<24} pick={self.pick:.3f} size={self.size:.3f}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a run depends on."""

    seed: int
    partitions: int
    kinds: int
    producers: int
    workers: int
    scopes: tuple[str, ...]
    start_rv: int
    old_deletes: bool
    watchlist: bool
    noise: str
    history_ms: int
    watch: WatchSettings
    steps: tuple[Step, ...]
    objects: int


def plan(seed: int) -> Plan:
    """The plan of a seed."""
    rng = Random(f"plan {seed}")
    audits = rng.random() < 0.5
    return Plan(
        seed=seed,
        partitions=rng.choice((1, 2, 3)),
        kinds=rng.choice((1, 1, 2)),
        producers=rng.choice((1, 2)),
        workers=rng.choice((1, 2, 3)),
        scopes=rng.choice((("",), ("",), ("",), ("alpha", "beta"))),
        start_rv=rng.choice((90, 950, 99_700, 10**19 - 400, 10**30)),
        old_deletes=rng.random() < 0.05,
        watchlist=rng.random() < 0.5,
        noise="emit",
        history_ms=rng.choice((4_000, 10_000, 30_000)),
        watch=WatchSettings(
            page_size=rng.choice((3, 7, 20, 500)),
            progress_interval_s=1.0,
            backoff_min_s=0.1,
            backoff_max_s=2.0,
            watchlist_deadline_s=4.0,
            audit_interval_s=rng.choice((5.0, 15.0)) if audits else 0.0,
        ),
        steps=_steps(rng, audits=audits),
        objects=rng.choice((0, 0, 40)),
    )


def _steps(rng: Random, *, audits: bool) -> tuple[Step, ...]:
    """Writes all along, and faults of some families; now and then of all of them, or none."""
    families = rng.sample(FAMILIES, rng.choice((0, 1, 2, 3, 4, len(FAMILIES))))
    kinds = [kind for family in families for kind in family]
    if audits and rng.random() < 0.5:
        kinds += [WITHHOLD] * 4
    if rng.random() < 0.02:
        kinds.append(UNSEEN)
    count = rng.choice((5, 20, 40, 80)) if kinds else 0
    steps = [Step(rng.uniform(0, DURATION_S), "write", 0.0, rng.random()) for _ in range(WRITES)]
    steps += [
        Step(rng.uniform(1.0, DURATION_S - 5.0), rng.choice(kinds), rng.random(), rng.random()) for _ in range(count)
    ]
    return tuple(sorted(steps, key=lambda step: step.at))
