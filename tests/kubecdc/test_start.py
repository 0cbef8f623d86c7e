"""All the ways to say where reading begins, and nothing else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from kubecdc.errors import Misconfigured
from kubecdc.start import BEGINNING, END, Start, Where, start_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
NOW_MS = 1_769_860_800_000


@pytest.mark.parametrize(
    ("given", "start"),
    [
        ("beginning", BEGINNING),
        (" end ", END),
        ("offset:0=5", Start(Where.OFFSETS, 0, {0: 5})),
        ("time:15m", Start(Where.TIME, time_ms=NOW_MS - 900_000)),
        (BEGINNING, BEGINNING),
        ("1200", Start(Where.OFFSETS, 1200)),
        ("offset:1200", Start(Where.OFFSETS, 1200)),
        (7, Start(Where.OFFSETS, 7)),
        ("0=5,2=6", Start(Where.OFFSETS, 0, {0: 5, 2: 6})),
        ({1: 4}, Start(Where.OFFSETS, 0, {1: 4})),
        ("2026-01-31T12:00:00Z", Start(Where.TIME, time_ms=NOW_MS)),
        ("time:2026-01-31T13:00:00+01:00", Start(Where.TIME, time_ms=NOW_MS)),
        ("2026-01-31T12:00:00", Start(Where.TIME, time_ms=NOW_MS)),
        ("-15m", Start(Where.TIME, time_ms=NOW_MS - 900_000)),
        ("2h", Start(Where.TIME, time_ms=NOW_MS - 7_200_000)),
        (NOW, Start(Where.TIME, time_ms=NOW_MS)),
        (datetime(2026, 1, 31, 11, tzinfo=timezone(timedelta(hours=-1))), Start(Where.TIME, time_ms=NOW_MS)),
    ],
)
def test_what_is_understood(given: object, start: Start):
    assert start_of(given, NOW) == start  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        *("", "yesterday", "-5", -5, {0: -1}, True, "1=", "999999999d", "2026-13-01", "\u0661"),
        *("time:5", "time:20260131", "time:0=5", "time:end", "offset:2026-11-30", "offset:15m", "offset:beginning"),
        *("time:", "offset:", "time:offset:5", 1.5, None, timedelta(hours=1), {"a": 1}, {"0": 5}, {0: 1.5}, {0: True}),
        *([1], b"5", object()),
    ],
)
def test_what_is_refused(given: object):
    with pytest.raises(Misconfigured, match=r"^from"):
        start_of(given, NOW)  # type: ignore[arg-type]


def test_a_start_reads_as_it_is_written():
    for text in ("beginning", "end", "12", "0=5,2=6"):
        assert str(start_of(text, NOW)) == text
