"""The functions written out from a schema do byte for byte what fastavro does with it, and refuse what it refuses."""

from __future__ import annotations

import dataclasses
import io
import json
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubecdc import compiled, records
from kubecdc.codec import FORMATS, SCHEMA_FILES, schema_text
from kubecdc.compiled import Compiler, read_long, varint

CLASSES = list(SCHEMA_FILES)
st.register_type_strategy(int, st.integers(-(2**63), 2**63 - 1))
st.register_type_strategy(str, st.text(st.characters(exclude_categories=["Cs"])))


def by_fastavro(record: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, FORMATS[type(record)].schema, dataclasses.asdict(record))
    return out.getvalue()


@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_the_bytes_are_those_of_fastavro(cls: type[Any], data: st.DataObject):
    record = data.draw(st.from_type(cls))
    written = FORMATS[cls].write(record)
    assert written == by_fastavro(record)
    assert FORMATS[cls].read(b"head" + written + b"tail", 4) == (record, 4 + len(written))


@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_damaged_bytes_are_never_read_as_something_else_than_fastavro_reads(cls: type[Any], data: st.DataObject):
    """Where both accept, they agree; ours may refuse more, never less (but for what the codec checks: the end)."""
    body = bytearray(FORMATS[cls].write(data.draw(st.from_type(cls))))
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    try:
        found, end = FORMATS[cls].read(bytes(body), 0)
    except (ValueError, LookupError):
        return
    if end > len(body):
        return
    row = fastavro.schemaless_reader(io.BytesIO(bytes(body)), FORMATS[cls].schema, None)
    assert by_fastavro(found) == _rewritten(cls, row)


def _rewritten(cls: type[Any], row: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, FORMATS[cls].schema, row)
    return out.getvalue()


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3))
def test_longs_come_back(number: int, tail: bytes):
    assert read_long(varint(number) + tail, 0) == (number, len(varint(number)))
    assert compiled.LONGS[number] == varint(number)


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (-1, "01"), (1, "02"), (-2, "03"), (-64, "7f"), (64, "8001"), (2**63 - 1, "feffffffffffffffff01")],
)
def test_longs_are_those_of_the_specification(number: int, data: str):
    """https://avro.apache.org/docs/1.12.0/specification/#primitive-types-1 says so."""
    assert varint(number).hex() == data


def test_numbers_beyond_64_bits_and_negative_lengths_are_refused():
    with pytest.raises(ValueError, match="64 bits"):
        read_long(b"\xff" * 10 + b"\1", 0)
    with pytest.raises(ValueError, match="negative"):
        compiled.read_length(b"\1", 0)


def test_arrays_in_several_blocks_are_read():
    """Other writers may cut an array into blocks, and give a block its size by a negative count."""
    state = records.UidState(
        *("c", 1, "", "v1", "pods", "", "ns", "n", "u", "5", "5", 1, False, None, "", "", (), (), "")
    )
    body = FORMATS[records.UidState].write(state)
    assert body.endswith(b"\0\0\0"), "no managers, no lists, no conflict"
    blocks = body[:-2] + b"\2\2a" + b"\1\4\2b" + b"\0" + b"\0"
    found, end = FORMATS[records.UidState].read(blocks, 0)
    assert end == len(blocks)
    assert found == dataclasses.replace(state, listed=("a", "b"))


def test_kept_strings_do_not_grow_without_end():
    """Hostile names must not fill the memory of a worker."""
    for table in (compiled._Strings(), compiled._Texts()):
        for number in range(compiled.KEPT_STRINGS + 10):
            value: Any = str(number) if isinstance(table, compiled._Strings) else str(number).encode()
            assert table[value]
        assert len(table) == compiled.KEPT_STRINGS
    for table in (compiled._Strings(), compiled._Texts()):
        long: Any = "x" * 1000 if isinstance(table, compiled._Strings) else b"x" * 1000
        assert table[long]
        assert len(table) == 0


@pytest.mark.parametrize(
    "type_", ["bytes", ["string", "null"], ["null", "string", "long"], {"type": "map", "values": "string"}, "double"]
)
def test_shapes_that_are_not_known_are_refused_at_import(type_: Any):
    schema = {"type": "record", "name": "Progress", "fields": [{"name": "src_offset", "type": type_}]}
    with pytest.raises(TypeError):
        Compiler(vars(records)).pair(schema)


def test_every_schema_of_ours_compiles():
    for cls, name in SCHEMA_FILES.items():
        schema = fastavro.parse_schema(json.loads(schema_text(name)))
        write, read = Compiler(vars(records)).pair(schema)
        assert callable(write)
        assert callable(read)
        assert cls in FORMATS
