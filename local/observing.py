"""Watching the canonical log grow: a thread that follows the changes topic and keeps all it has seen.

For showing progress and for knowing when everything has arrived. Judging is done on a second, independent reading.
"""

from __future__ import annotations

import threading
from collections import Counter
from typing import Self

from kubecdc.codec import Codec
from kubecdc.kafka import TopicReader
from kubecdc.start import BEGINNING
from local import logs
from local.errors import LocalError
from local.verdicts import OBJECT_OPS, Entry

_POLL_SECONDS = 0.2


class Observer:
    """Follows a changes topic between `start` and `stop`; the counts are safe to read at any time."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._reader = TopicReader(bootstrap, topic, BEGINNING, follow=True)
        self._lock = threading.Lock()
        self._entries: list[Entry] = []
        self._failed: Exception | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="observer", daemon=True)

    def start(self) -> Self:
        """Begin to follow."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop following; what was seen stays readable."""
        self._stopping.set()
        self._thread.join()

    def entries(self) -> list[Entry]:
        """Return everything seen so far. Raises what ended the thread, if anything did."""
        with self._lock:
            if self._failed is not None:
                raise LocalError(f"the changes topic cannot be followed: {self._failed}") from self._failed
            return list(self._entries)

    def _follow(self) -> None:
        try:
            codec = Codec()
            while not self._stopping.is_set():
                seen = [logs.entry(kept) for kept in logs.kept(codec, self._reader.poll(_POLL_SECONDS))]
                with self._lock:
                    self._entries += seen
        except Exception as error:  # noqa: BLE001 - it is raised to whoever asks next
            with self._lock:
                self._failed = error
        finally:
            self._reader.close()


def counts(entries: list[Entry]) -> Counter[str]:
    """Count by operation; gaps and progress once for each partition, as they lie in the log."""
    return Counter(str(entry.change.op) for entry in entries)


def objects_only(entries: list[Entry]) -> list[Entry]:
    """Keep the records of objects."""
    return [entry for entry in entries if entry.change.op in OBJECT_OPS]
