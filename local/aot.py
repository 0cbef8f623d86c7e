"""A broker's start-up cache: the classes of Kafka and Java, loaded and linked ahead of time, made once.

Java writes it when a broker that was told to ends in order (JEP 483 and 514), and ignores one that does not fit. With
it a broker is up in a third of the time and work, which is most of what a short demo or test costs. It only saves time:
a broker starts without it where it cannot be made.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from local import jars
from local.errors import LocalError

log = logging.getLogger(__name__)

KEPT = 4


def cache(
    command: Sequence[str], make: Callable[[Path], None], progress: Callable[[str], None] | None = None
) -> Path | None:
    """Return the cache that fits this Java, its options and class path, or None where it could not be made.

    `make` writes it to a path, or raises LocalError; it is asked once, not again after a failure. `progress` gets one
    line before that. Processes that ask at once wait for one another.
    """
    fits = hashlib.sha256(f"{jars.java().stat().st_mtime_ns} {' '.join(command)}".encode()).hexdigest()[:12]
    folder = jars.cache_folder()
    path = folder / f"kafka-{jars.KAFKA_VERSION}-{fits}.aot"
    with jars.locked(folder / "aot.lock"):
        if not path.exists():
            if progress:
                progress("making Kafka's start-up cache (once, some seconds) ...")
            _made(path, make)
            _forget_old(folder)
        return path if path.stat().st_size else None


def _made(path: Path, make: Callable[[Path], None]) -> None:
    """Have it made beside its place, and put there whole; an empty file stands for a failure."""
    partial = path.with_suffix(".part")
    partial.unlink(missing_ok=True)
    try:
        make(partial)
    except LocalError as error:
        log.warning("Kafka starts without its start-up cache; delete %s to have it made again: %s", path, error)
        partial.unlink(missing_ok=True)
        path.touch()
    else:
        partial.replace(path)


def _forget_old(folder: Path) -> None:
    """Each installation of Java has a cache of its own, of 65 MB: remove those of installations long gone."""
    newest = sorted(folder.glob("kafka-*.aot"), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in newest[KEPT:]:
        path.unlink(missing_ok=True)
