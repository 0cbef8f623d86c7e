"""What the checkers are given: the topics as they ended up, and what really happened. Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from kubecdc.errors import Undecodable
from kubecdc.records import Change, RawEvent
from local.history import Committed
from local.verdicts import Notes, ObjectId, Status, Verdict

StreamEpoch = tuple[tuple[str, str], str, int]  # (group, resource), scope, epoch
COMMITTED = "committed"
OPEN = "open"


@dataclass(frozen=True, slots=True)
class Raw:
    """A record that the events topic ever had; `gone` says what took it away."""

    partition: int
    offset: int
    record: RawEvent | Undecodable | None
    gone: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """A record of the changes topic; `transaction` names the one that wrote it, None if none did."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes
    change: Change | None
    status: str = COMMITTED
    transaction: int | None = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """A transaction: the source offsets that it accounts for, what it counted, and its `__progress__`."""

    partition: int
    offsets: tuple[int, ...]
    counters: Mapping[str, int]
    progress: int | None
    status: str = COMMITTED


@dataclass(frozen=True, slots=True)
class Living:
    """An object as the API server has it at the end; `body` is JSON."""

    rv: str
    body: bytes
    namespace: str


@dataclass(frozen=True, slots=True)
class History:
    """`truth` has the commits that each epoch of a stream spoke of, None where nobody can tell.

    `loose` are commits that may be in an epoch but are not owed to it, where a list that was given up has shown a store
    that went back; empty where it had nothing new. `lost` are partitions of the events topic that lost records before
    they were read, `withheld` versions (resource, uid, rv) that the server left out of a stream, `suffered` the faults
    that took effect, `faults` errors of our own.
    """

    partitions: int
    truth: Mapping[StreamEpoch, Sequence[Committed] | None]
    loose: Mapping[StreamEpoch, Sequence[Committed]] = field(default_factory=dict)
    expected: Sequence[tuple[tuple[str, str], str]] = ()
    raw: Sequence[Raw] = ()
    log: Sequence[Record] = ()
    batches: Sequence[Applied] = ()
    living: Mapping[ObjectId, Living] | None = None
    lost: frozenset[int] = frozenset()
    withheld: frozenset[tuple[str, str, str]] = frozenset()
    suffered: frozenset[str] = frozenset()
    faults: Sequence[str] = ()

    def committed(self) -> list[Record]:
        """What readers of committed records see, tombstones too."""
        return [record for record in self.log if record.status == COMMITTED]


def judge(guarantee: str, check: Callable[[History], Notes], history: History) -> Verdict:
    """Run a checker; one that raises has proved nothing, whatever it raised."""
    try:
        return check(history).verdict(guarantee)
    except Exception as error:  # noqa: BLE001 - a checker that breaks cannot tell, by its contract
        return Verdict(guarantee, Status.UNKNOWN, 0, (f"the checker broke: {error!r}",))
