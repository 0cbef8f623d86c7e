"""One harm at a time to one server: two at once would tell less, and start it twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def alone(lock: threading.Lock) -> Iterator[bool]:
    """Hold the lock if it is free; the value tells whether it was."""
    taken = lock.acquire(blocking=False)
    try:
        yield taken
    finally:
        if taken:
            lock.release()


def pause(seconds: float) -> None:
    """Let a fault last."""
    threading.Event().wait(seconds)
