"""Keys, partitions and headers: how a record is addressed in a topic.

Object records are keyed by UID and live in the partition of that UID under the Java-compatible murmur2
partitioner. Everything else has keys that no UID can equal, since those begin with two underscores.
"""

from __future__ import annotations

from collections.abc import Iterable

from confluent_kafka import murmur2

from kubecdc.records import Change, RawEvent, StreamState, UidHead, UidState

PROGRESS_KEY = b"__progress__"
RESERVED = "__"
EPOCH = "__epoch__/"
DELETED_HEADER = "kubecdc.deleted"

Header = tuple[str, bytes]


def partition_of(uid: str, partitions: int) -> int:
    """Partition of a UID; every topic of ours with UIDs has the same count."""
    return int(murmur2(uid.encode(), partitions))


def stream_name(cluster: str, group: str, resource: str, scope: str) -> str:
    """Name of a (cluster, resource, scope), unambiguous: no part may hold a slash."""
    return f"{cluster}/{group}/{resource}/{scope}"


def stream_of(record: RawEvent | Change | UidState | UidHead | StreamState) -> str:
    """Name of the stream that a record belongs to."""
    return stream_name(record.cluster, record.group, record.resource, record.scope)


def marker_key(stream: str, kind: str) -> bytes:
    """Key of a producer's marker. One per stream and kind, so that compaction keeps only the newest of each."""
    return f"__marker__/{stream}/{kind}".encode()


def stream_key(stream: str) -> bytes:
    """Key of a stream's state in the state topic."""
    return f"__stream__/{stream}".encode()


def epoch_key(stream: str) -> bytes:
    """Key, in the positions topic, of the last epoch that any producer has begun for a stream."""
    return f"{EPOCH}{stream}".encode()


def progress_key(stream: str) -> bytes:
    """Key of a PROGRESS record in the changes topic."""
    return f"__progress__/{stream}".encode()


def gap_key(stream: str, cause: str, offset: int) -> bytes:
    """Key of a stream's GAP record: unique by its source offset, since a gap is never superseded."""
    return f"__gap__/{stream}/{cause}/{offset}".encode()


def uid_gap_key(uid: str) -> bytes:
    """Key of a GAP record that names a UID (CONFLICT)."""
    return f"__gap__/{uid}".encode()


def is_object_key(key: bytes | None) -> bool:
    """The key is a UID."""
    return key is not None and not key.startswith(b"__")


def told(value: bytes | None, headers: Iterable[tuple[str, str | bytes | None]] | None) -> bytes | None:
    """The value of a record of the events topic; in a tombstone's place the DELETED before it, without its object.

    Compaction takes that DELETED as soon as the tombstone is there, whoever has read it or not, and leaves the headers
    of the tombstone. None where those do not tell it.
    """
    if value is not None:
        return value
    for name, content in headers or ():
        if name == DELETED_HEADER and isinstance(content, bytes):
            return content
    return None
