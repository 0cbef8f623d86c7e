"""Keys and partitions: those of Kafka's Java client, and no key but a UID looks like one."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc import wire

UIDS = st.uuids().map(str)


def murmur2(data: bytes) -> int:
    """Kafka's partitioner hash, written from its description, to check the one that we call."""
    mask, seed, magic = 0xFFFFFFFF, 0x9747B28C, 0x5BD1E995
    found = (seed ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        block = int.from_bytes(data[at : at + 4], "little") * magic & mask
        block = (block ^ (block >> 24)) * magic & mask
        found = (found * magic & mask) ^ block
    tail = data[whole:]
    if tail:
        found = (found ^ int.from_bytes(tail, "little")) * magic & mask
    found = (found ^ (found >> 13)) * magic & mask
    return found ^ (found >> 15)


@given(st.text(max_size=60), st.integers(1, 200))
def test_partitions_are_those_of_the_java_client(uid: str, partitions: int):
    assert wire.partition_of(uid, partitions) == (murmur2(uid.encode()) & 0x7FFFFFFF) % partitions


def test_uids_spread_over_all_partitions():
    found = {wire.partition_of(str(uuid.UUID(int=number)), 12) for number in range(500)}
    assert found == set(range(12))


@given(UIDS, st.text(max_size=20), st.text(max_size=20), st.integers(0))
def test_only_a_uid_is_an_object_key(uid: str, stream: str, kind: str, offset: int):
    assert wire.is_object_key(uid.encode())
    others = [
        wire.PROGRESS_KEY,
        wire.marker_key(stream, kind),
        wire.stream_key(stream),
        wire.progress_key(stream),
        wire.gap_key(stream, kind, offset),
        wire.uid_gap_key(uid),
        None,
    ]
    assert not any(wire.is_object_key(key) for key in others)


PARTS = st.text(st.characters(codec="ascii", exclude_characters="/"), max_size=8)


@given(st.tuples(PARTS, PARTS, PARTS, PARTS), st.tuples(PARTS, PARTS, PARTS, PARTS))
def test_streams_with_one_name_are_one_stream(one: tuple[str, ...], other: tuple[str, ...]):
    assert (wire.stream_name(*one) == wire.stream_name(*other)) == (one == other)


@pytest.mark.parametrize("offset", [1, 2])
def test_gaps_never_supersede_each_other(offset: int):
    assert wire.gap_key("s", "RELIST_WINDOW", offset) != wire.gap_key("s", "RELIST_WINDOW", 3)
    assert wire.gap_key("s", "RELIST_WINDOW", offset) != wire.gap_key("s", "COMPACTED", offset)


@pytest.mark.parametrize(
    ("value", "headers", "told"),
    [
        (b"v", [(wire.DELETED_HEADER, b"d")], b"v"),
        (b"", [(wire.DELETED_HEADER, b"d")], b""),
        (None, [("trace", b"1"), (wire.DELETED_HEADER, b"d")], b"d"),
        (None, [(wire.DELETED_HEADER, None)], None),
        (None, [("trace", b"1")], None),
        (None, (), None),
        (None, None, None),
    ],
)
def test_only_a_tombstone_tells_by_its_headers(value, headers, told):
    assert wire.told(value, headers) == told
