"""The one inbox of a session thread: bounded for what the server sends, never for orders.

It knows nothing of what it holds. When the bound is reached `post` waits, which holds back the reading thread, and with
it the server (G6).
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue whose reader takes all there is at once. `limit` is in the units of `cost`, bytes as a rule."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._held = 0
        self._items: deque[tuple[T, int]] = deque()
        self._condition = threading.Condition()
        self._closed = False
        self._waiting = False

    def post(self, item: T, cost: int = 0) -> None:
        """Add an item. With a `cost` wait for room first; an item that is over the limit alone is taken when empty."""
        with self._condition:
            while cost and self._held and self._held + cost > self._limit and not self._closed:
                self._condition.wait()
            if self._closed:
                return
            self._items.append((item, cost))
            self._held += cost
            self._condition.notify_all()

    def take(self, timeout_s: float) -> list[T]:
        """Return what is there, or wait up to `timeout_s` for something; empty when nothing came.

        What was taken goes on counting against the limit until the next call: it is being worked on.
        """
        with self._condition:
            if not self._items:
                self._held = 0
                self._condition.notify_all()
                self._waiting = True
                self._condition.wait(timeout_s)
                self._waiting = False
            taken = [item for item, _ in self._items]
            self._held = sum(cost for _, cost in self._items)
            self._items.clear()
            self._condition.notify_all()
            return taken

    def close(self) -> None:
        """Release everyone who waits; later posts are dropped."""
        with self._condition:
            self._closed = True
            self._items.clear()
            self._condition.notify_all()

    def idle(self) -> bool:
        """The reader has worked on everything, and waits."""
        with self._condition:
            return self._waiting and not self._items
