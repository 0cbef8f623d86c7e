"""The codec is the exact inverse of itself in both framings, and no bytes break it otherwise than by Undecodable."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubecdc import records
from kubecdc.codec import CONFLUENT, SCHEMA_FILES, SINGLE_OBJECT, Codec, fingerprint, schema_text
from kubecdc.errors import Misconfigured, Undecodable, Unreachable
from tests.kubecdc.making import change

CLASSES = list(SCHEMA_FILES)
LONG = st.integers(-(2**63), 2**63 - 1)
# A change of these is a change of the wire format: older readers no longer know the records.
PINNED = {
    records.RawEvent: "bbd724ac657a4824",
    records.Change: "c507db9c14a84dca",
    records.UidState: "80f0183b60d56b2d",
    records.StreamState: "8aad3e1e83fe6016",
    records.Progress: "a0f5a0dac7e25660",
    records.Position: "460571e11fe37715",
}


class Ids:
    """A registry in memory."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def id_of(self, subject: str, schema: str) -> int:
        name = json.loads(schema)["name"]
        shared = name in ("UidState", "StreamState", "Progress")
        assert subject == (f"topic-io.kubecdc.{name}" if shared else "topic-value")
        if schema not in self.texts:
            self.texts.append(schema)
        return self.texts.index(schema) + 1

    def schema_of(self, schema_id: int) -> str:
        if not 0 < schema_id <= len(self.texts):
            raise Undecodable(f"no schema {schema_id}")
        return self.texts[schema_id - 1]


IDS = Ids()
CODECS = {"single object": Codec(), "confluent": Codec("topic", IDS)}


@st.composite
def any_record(draw: st.DrawFn) -> Any:
    return draw(st.from_type(draw(st.sampled_from(CLASSES))))


st.register_type_strategy(int, LONG)
st.register_type_strategy(str, st.text(st.characters(exclude_categories=["Cs"])))


@pytest.mark.parametrize("framing", CODECS)
@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_every_record_comes_back_as_it_was(framing: str, cls: type[Any], data: st.DataObject):
    record = data.draw(st.from_type(cls))
    again = CODECS[framing].decode(CODECS[framing].encode(record))
    assert again == record
    assert type(again) is cls
    for field in dataclasses.fields(cls):
        assert type(getattr(again, field.name)) is type(getattr(record, field.name)), field.name


@given(any_record())
@settings(max_examples=50, deadline=None)
def test_readers_accept_both_framings(record: Any):
    for writer in CODECS.values():
        assert CODECS["confluent"].decode(writer.encode(record)) == record


def test_headers_are_those_of_the_specifications():
    assert Codec().encode(records.Progress(1))[:2] == SINGLE_OBJECT == b"\xc3\x01"
    ids = Ids()
    value = Codec("topic", ids).encode(records.Progress(1))
    assert value[:5] == CONFLUENT + (1).to_bytes(4, "big")
    assert value[5:] == Codec().encode(records.Progress(1))[10:] == b"\x02"


@pytest.mark.parametrize("cls", CLASSES)
def test_fingerprints_are_pinned(cls: type[Any]):
    assert fingerprint(json.loads(schema_text(SCHEMA_FILES[cls]))).hex() == PINNED[cls]


def rabin(canonical: bytes) -> bytes:
    """CRC-64-AVRO as the specification writes it down."""
    empty = 0xC15D213AA4D7A795
    table = []
    for number in range(256):
        value = number
        for _ in range(8):
            value = (value >> 1) ^ (empty & -(value & 1))
        table.append(value)
    found = empty
    for byte in canonical:
        found = (found >> 8) ^ table[(found ^ byte) & 0xFF]
    return found.to_bytes(8, "little")


@pytest.mark.parametrize("cls", CLASSES)
def test_fingerprints_are_crc_64_avro_of_the_canonical_form(cls: type[Any]):
    assert rabin(b'"int"').hex() == "8f5c393f1ad57572", "the specification's own vector"
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(schema_text(SCHEMA_FILES[cls])))
    assert rabin(canonical.encode()).hex() == PINNED[cls]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_undecodable(data: bytes):
    for prefix in (b"", SINGLE_OBJECT, CONFLUENT + b"\0\0\0\1", Codec().encode(records.Progress(0))[:10]):
        with contextlib.suppress(Undecodable):
            assert type(CODECS["confluent"].decode(prefix + data)) in CLASSES


@given(any_record(), st.data())
@settings(max_examples=60, deadline=None)
def test_a_record_that_was_cut_or_lengthened_is_undecodable(record: Any, data: st.DataObject):
    value = Codec().encode(record)
    cut = data.draw(st.integers(0, len(value) - 1))
    for bad in (value[:cut], value + b"\0"):
        with pytest.raises(Undecodable):
            Codec().decode(bad)


@given(any_record(), st.sampled_from(sorted(CODECS)))
@settings(deadline=None)
def test_the_head_is_how_the_state_of_a_uid_begins_and_nothing_else_has_one(record: Any, framing: str):
    head = CODECS[framing].head(CODECS[framing].encode(record))
    if not isinstance(record, records.UidState):
        assert head is None
        return
    names = [field.name for field in dataclasses.fields(records.UidHead)]
    assert [getattr(head, name) for name in names] == [getattr(record, name) for name in names]


@given(st.binary(max_size=200))
def test_the_head_of_any_bytes_is_one_or_undecodable(data: bytes):
    header = Codec().encode(records.UidState(*("c", 1), *[""] * 9, 1, False, None, "", "", (), (), ""))[:10]
    for prefix in (b"", SINGLE_OBJECT, CONFLUENT + b"\0\0\0\1", header):
        with contextlib.suppress(Undecodable):
            assert type(CODECS["confluent"].head(prefix + data)) in (records.UidHead, type(None))


def test_why_is_told():
    with pytest.raises(Undecodable, match="unknown framing"):
        Codec().decode(b"{}")
    with pytest.raises(Undecodable, match=r"unknown schema fingerprint 0{16}$"):
        Codec().decode(SINGLE_OBJECT + b"\0" * 8)
    with pytest.raises(Undecodable, match="set --schema-registry"):
        Codec().decode(CONFLUENT + b"\0\0\0\1\2")
    position = records.Position("c", "", "pods", "", 1, "5", "v1", "s", 9)
    with pytest.raises(Misconfigured, match="set --schema-registry"):  # sound, but for the setting
        Codec().decode(CODECS["confluent"].encode(position))
    ids = Ids()
    ids.texts.append(json.dumps({"type": "record", "name": "Other", "fields": []}))
    with pytest.raises(Undecodable, match="describes 'Other'"):
        Codec("topic", ids).decode(CONFLUENT + b"\0\0\0\1\2")


def older(name: str, *, order: list[str], without: set[str]) -> dict[str, Any]:
    """A schema as an earlier release might have had it: other field order, fields missing."""
    schema: dict[str, Any] = json.loads(schema_text(name))
    fields = {field["name"]: field for field in schema["fields"] if field["name"] not in without}
    schema["fields"] = [fields.pop(first) for first in order] + list(fields.values())
    return schema


def test_records_of_an_older_schema_are_read_field_by_field():
    """In whatever order it had them: the fast path builds records by position."""
    made = change(after_rv="7", count=3, namespace="ns", name="n")
    schema = older("change", order=["digest", "name", "cluster", "epoch"], without={"after_rv", "gap"})
    ids = Ids()
    number = ids.id_of("topic-value", json.dumps(schema))
    row = dataclasses.asdict(made)
    row["source"] = dataclasses.asdict(made.source)
    body = _written(schema, row)
    found = Codec("topic", ids).decode(CONFLUENT + number.to_bytes(4, "big") + body)
    assert found == dataclasses.replace(made, after_rv=None, gap=None)


def _written(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return out.getvalue()


def test_a_registry_that_is_away_is_not_the_record_s_fault():
    class Away(Ids):
        def schema_of(self, schema_id: int) -> str:
            raise Unreachable("away")

    with pytest.raises(Unreachable):
        Codec("topic", Away()).decode(CONFLUENT + b"\0\0\0\1\2")


def test_a_registry_is_asked_once_for_each_schema():
    class Counting(Ids):
        asked = 0

        def id_of(self, subject: str, schema: str) -> int:
            self.asked += 1
            return super().id_of(subject, schema)

        def schema_of(self, schema_id: int) -> str:
            self.asked += 1
            return super().schema_of(schema_id)

    ids = Counting()
    codec = Codec("topic", ids)
    for number in range(5):
        assert codec.decode(codec.encode(records.Progress(number))) == records.Progress(number)
    assert ids.asked == 2
