"""Showing what arrives while it arrives: a table that is drawn anew on a terminal, a line now and then elsewhere.

Shows and decides nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from local.observing import counts, objects_only
from local.report import resource_name
from local.verdicts import Entry

_LINE_EVERY_SECONDS = 2.0
_ROWS = 12
_STYLES = {"CREATED": "green", "UPDATED": "cyan", "DELETED": "red", "SNAPSHOT": "blue", "GAP": "yellow"}


class Screen:
    """Where a demo speaks while it runs. Not for several threads."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        self._started = time.monotonic()
        self._next_line = 0.0
        self._shown = 0

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._console.print(Text(f"{self.seconds:6.1f} s  {text}"))

    def show(self, entries: Sequence[Entry]) -> None:
        """Show the log as it stands; call it often."""
        if self._live is not None:
            self._live.update(_table(entries, self.seconds))
        elif self.seconds >= self._next_line and len(entries) > self._shown:
            self._next_line = self.seconds + _LINE_EVERY_SECONDS
            self._shown = len(entries)
            self.say(_summary(counts(list(entries)), entries))


def _summary(seen: Counter[str], entries: Sequence[Entry]) -> str:
    numbers = ", ".join(f"{name} {seen[name]}" for name in sorted(seen))
    objects = objects_only(list(entries[-_ROWS:]))
    return f"{numbers}; last: {_words(objects[-1])}" if objects else numbers


def _words(entry: Entry) -> str:
    change = entry.change
    return f"{change.op} {resource_name(change)} {change.namespace}/{change.name} at {change.rv}"


def _table(entries: Sequence[Entry], seconds: float) -> RenderableType:
    table = Table("op", "resource", "object", "version", "seq", "changed", "gap", box=None)
    for entry in entries[-_ROWS:]:
        change = entry.change
        bounds = f"({change.after_rv or ''}, {change.upto_rv or ''}]"
        table.add_row(
            Text(str(change.op), style=_STYLES.get(str(change.op), "dim")),
            resource_name(change),
            f"{change.namespace}/{change.name}" if change.uid else "",
            change.rv or bounds,
            str(change.seq or ""),
            " ".join(change.changed[:2]),
            str(change.gap.cause) if change.gap else "",
        )
    seen = counts(list(entries))
    numbers = "  ".join(f"{name} {seen[name]}" for name in sorted(seen))
    return Group(Text(f"{seconds:5.1f} s  {numbers}", style="bold"), table)
