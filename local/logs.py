"""Topics as a judge reads them: each record decoded, with the place where it lies, tombstones left out.

Decides nothing, and trusts no chain: whether the records belong together is what the checkers find out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kubecdc.codec import Codec
from kubecdc.errors import Undecodable
from kubecdc.kafka import Stored, TopicReader
from kubecdc.records import Change
from kubecdc.start import BEGINNING
from local.errors import LocalError
from local.verdicts import Entry

_POLL_SECONDS = 0.2


class Kept(NamedTuple):
    """One record of a topic; `record` is what the codec made of its value, or why it could not."""

    partition: int
    offset: int
    timestamp_ms: int
    record: Any


def read_whole(bootstrap: str, topic: str) -> Iterator[Kept]:
    """Yield everything up to where the topic ends at the call; in order within a partition. Raises KubecdcError."""
    reader = TopicReader(bootstrap, topic, BEGINNING, follow=False)
    codec = Codec()
    try:
        while not reader.done:
            yield from kept(codec, reader.poll(_POLL_SECONDS))
    finally:
        reader.close()


def kept(codec: Codec, records: list[Stored]) -> Iterator[Kept]:
    """Decode what is no tombstone."""
    for record in records:
        if record.value is not None:
            yield Kept(record.partition, record.offset, record.timestamp_ms, _decoded(codec, record.value))


def entry(record: Kept) -> Entry:
    """Read a record of the changes topic as what checkers judge; `LocalError` when it is no Change."""
    if not isinstance(record.record, Change):
        raise LocalError(
            f"changes partition {record.partition} offset {record.offset} holds no change: {record.record}"
        )
    return Entry(record.partition, record.offset, record.record)


def _decoded(codec: Codec, value: bytes) -> Any:
    try:
        return codec.decode(value)
    except Undecodable as error:
        return error
