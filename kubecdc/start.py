"""Where a reader begins: what `--from` and `from_` accept, and what it means.

Pure: text, numbers and times become a `Start`; which offsets a time means is asked of Kafka elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TypeGuard

from kubecdc.errors import Misconfigured

WANTED = (
    "beginning, end, an offset (1200, or 0=1200,1=1300 for single partitions), "
    "a time (2026-01-31T12:00:00Z) or an age (15m, 2h, 7d)"
)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


class Where(Enum):
    """The kinds of places to begin at."""

    BEGINNING = "beginning"
    END = "end"
    OFFSETS = "offsets"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Start:
    """A place to begin at.

    OFFSETS: `offsets` by partition, and `offset` for the partitions that it does not name. TIME: the first records at
    or after `time_ms` (epoch milliseconds).
    """

    where: Where
    offset: int = 0
    offsets: Mapping[int, int] = field(default_factory=dict)
    time_ms: int = 0

    def __str__(self) -> str:
        if self.where is Where.OFFSETS:
            return ",".join(f"{p}={o}" for p, o in sorted(self.offsets.items())) or str(self.offset)
        return str(self.time_ms) if self.where is Where.TIME else self.where.value


BEGINNING = Start(Where.BEGINNING)
END = Start(Where.END)


def start_of(given: str | int | datetime | Mapping[int, int] | Start, now: datetime) -> Start:
    """Understand what a caller gave; `now` (with a time zone) is what an age counts from. Raises Misconfigured."""
    if isinstance(given, Start):
        return given
    if isinstance(given, datetime):
        return _at(given)
    if isinstance(given, str):
        return _parsed(given.strip(), now)
    # Callers hand in what they have kept, and JSON makes text of numbers: the annotation alone holds nobody.
    if _whole(given):
        return _offsets({}, int(given))
    if isinstance(given, Mapping) and all(_whole(number) for pair in given.items() for number in pair):
        return _offsets(given, 0)
    raise Misconfigured(f"from {given!r}: must be {WANTED}")


def _whole(number: object) -> TypeGuard[int]:
    return isinstance(number, int) and not isinstance(number, bool)


def _parsed(given: str, now: datetime) -> Start:
    label, colon, labelled = given.partition(":")
    only = label if colon and label in ("offset", "time") else None
    bare = labelled if only else given
    found = None
    if only is None and bare in ("beginning", "end"):
        found = BEGINNING if bare == "beginning" else END
    elif only != "time" and re.fullmatch(r"[0-9]{1,18}", bare, re.ASCII):
        found = _offsets({}, int(bare))
    elif only != "time" and re.fullmatch(r"[0-9]{1,9}=[0-9]{1,18}(,[0-9]{1,9}=[0-9]{1,18})*", bare, re.ASCII):
        pairs = [pair.split("=") for pair in bare.split(",")]
        found = _offsets({int(partition): int(offset) for partition, offset in pairs}, 0)
    elif only != "offset":
        found = _time(bare, now)
    if found is None:
        raise Misconfigured(f"from {given!r}: must be {WANTED}")
    return found


def _time(bare: str, now: datetime) -> Start | None:
    age = re.fullmatch(r"-?([0-9]{1,9})([smhd])", bare, re.ASCII)
    try:
        if age is not None:
            return _at(now - timedelta(**{_UNITS[age[2]]: int(age[1])}))
        # Python takes 20260131 for a date, and so would take offsets for one.
        return None if bare.isdigit() else _at(datetime.fromisoformat(bare))
    except (ValueError, OverflowError):
        return None


def _at(time: datetime) -> Start:
    zoned = time if time.tzinfo is not None else time.replace(tzinfo=UTC)
    return Start(Where.TIME, time_ms=max(0, round(zoned.timestamp() * 1000)))


def _offsets(offsets: Mapping[int, int], other: int) -> Start:
    if other < 0 or any(offset < 0 or partition < 0 for partition, offset in offsets.items()):
        raise Misconfigured("from: offsets and partitions are not negative")
    return Start(Where.OFFSETS, other, dict(offsets))
