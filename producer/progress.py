"""How far long lists are: bars on a terminal, a log line now and then otherwise.

It shows and decides nothing. Lists that are over quickly are not worth a word.
"""

from __future__ import annotations

import logging
import sys
import threading
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

log = logging.getLogger(__name__)

LONG_LIST = 2000
LINE_EVERY_S = 5.0


class ListProgress:
    """Called by session threads as `(name, items so far, items to come or None when the list is over)`."""

    def __init__(self, *, terminal: bool | None = None) -> None:
        self._terminal = sys.stderr.isatty() if terminal is None else terminal
        self._lock = threading.Lock()
        self._bars: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._told: dict[str, float] = {}

    def __call__(self, name: str, items: int, to_come: int | None) -> None:
        """Show it, if the list is long enough to make somebody wonder."""
        if items + (to_come or 0) < LONG_LIST:
            return
        with self._lock:
            if self._terminal:
                self._bar(name, items, to_come)
            else:
                self._line(name, items, to_come)

    def close(self) -> None:
        """Take the bars away."""
        with self._lock:
            if self._bars is not None:
                self._bars.stop()
                self._bars = None

    def _bar(self, name: str, items: int, to_come: int | None) -> None:
        if self._bars is None:
            columns = (TextColumn("listing {task.description}"), BarColumn(), MofNCompleteColumn())
            self._bars = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bars.start()
        task = self._tasks.get(name)
        if task is None:
            task = self._tasks[name] = self._bars.add_task(name)
        self._bars.update(task, completed=items, total=items + (to_come or 0))
        if to_come is None:
            self._bars.remove_task(self._tasks.pop(name))
            if not self._tasks:
                self._bars.stop()
                self._bars = None

    def _line(self, name: str, items: int, to_come: int | None) -> None:
        now = time.monotonic()
        if to_come is None:
            self._told.pop(name, None)
            log.info("listed %s: %d items", name, items)
        elif now - self._told.get(name, 0.0) >= LINE_EVERY_S:
            self._told[name] = now
            log.info("listing %s: %d items, about %d to come", name, items, to_come)
