"""The tree says what to do next: whatever stops a worker is a Stop, and a Restart never is."""

from __future__ import annotations

from processors.errors import Fenced, ProcessorError, Restart, Stalled, Stop, Stuck


def test_the_tree():
    assert all(issubclass(kind, Stop) for kind in (Fenced, Stalled, Stuck))
    assert issubclass(Restart, ProcessorError)
    assert not issubclass(Restart, Stop)
