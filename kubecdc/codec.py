"""Bytes to records and back: Avro, in both framings, and the only module that knows fastavro.

Without a Schema Registry a value is Avro single-object encoding (0xC3 0x01, the schema's CRC-64-AVRO fingerprint,
the body); with one it is the Confluent wire format (0x00, schema id, the body). `decode` accepts both. Records of
older schemas are read through Avro's resolution as long as their schema is known.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import json
import operator
import types
import typing
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import fastavro
from fastavro import schema as avro_schema

from kubecdc import records
from kubecdc.errors import KubecdcError, Undecodable

SCHEMA_FILES = {
    records.RawEvent: "raw_event",
    records.Change: "change",
    records.UidState: "uid_state",
    records.StreamState: "stream_state",
    records.Progress: "progress",
    records.Position: "position",
}
SINGLE_OBJECT = b"\xc3\x01"
CONFLUENT = b"\x00"


class SchemaIds(Protocol):
    """A Schema Registry as far as the codec needs it."""

    def id_of(self, subject: str, schema: str) -> int:
        """Register `schema` under `subject` if need be, and return its id."""

    def schema_of(self, schema_id: int) -> str:
        """Return the schema text of an id. Raises Undecodable when the registry does not know it."""


def schema_text(name: str) -> str:
    """Text of `schemas/<name>.avsc`, from the wheel or from a checkout."""
    packaged = resources.files("kubecdc") / "schemas" / f"{name}.avsc"
    if packaged.is_file():
        return packaged.read_text()
    return (Path(__file__).parent.parent / "schemas" / f"{name}.avsc").read_text()


def fingerprint(schema: Mapping[str, Any]) -> bytes:
    """CRC-64-AVRO of the parsing canonical form, little endian, as the single-object header has it."""
    canonical = avro_schema.to_parsing_canonical_form(dict(schema))
    return bytes.fromhex(avro_schema.fingerprint(canonical, "CRC-64-AVRO"))


def _builder(hint: Any) -> Callable[[Any], Any] | None:
    """Function that turns a decoded Avro value into the field's Python value; None for the identity."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {member.value: member for member in hint}.__getitem__
    if dataclasses.is_dataclass(hint):
        return _reader(typing.cast("type[Any]", hint))
    if typing.get_origin(hint) is types.UnionType:
        inner = _builder(next(arg for arg in typing.get_args(hint) if arg is not type(None)))
        return inner and (lambda value: None if value is None else inner(value))
    if typing.get_origin(hint) is tuple:
        item = _builder(typing.get_args(hint)[0])
        if item is None:
            return tuple
        return lambda values: tuple([item(value) for value in values]) if values else ()
    return None


def _reader(cls: type[Any]) -> Callable[[dict[str, Any]], Any]:
    """Build by position: fastavro keeps the schema's field order, which is the class's (a test compares the two)."""
    hints = typing.get_type_hints(cls)
    special = [
        (index, build)
        for index, f in enumerate(dataclasses.fields(cls))
        if (build := _builder(hints[f.name])) is not None
    ]

    def read(row: dict[str, Any]) -> Any:
        values = list(row.values())
        for index, build in special:
            values[index] = build(values[index])
        return cls(*values)

    return read if special else lambda row: cls(*row.values())


def _lowering(hint: Any) -> Callable[[Any], Any] | None:
    """Function that turns a field's value into what fastavro writes; None where it takes it as it is."""
    if dataclasses.is_dataclass(hint):
        return _writer(typing.cast("type[Any]", hint))
    if typing.get_origin(hint) is types.UnionType:
        inner = _lowering(next(arg for arg in typing.get_args(hint) if arg is not type(None)))
        return inner and (lambda value: None if value is None else inner(value))
    if typing.get_origin(hint) is tuple:
        item = _lowering(typing.get_args(hint)[0])
        return item and (lambda values: [item(value) for value in values] if values else values)
    return None


def _writer(cls: type[Any]) -> Callable[[Any], dict[str, Any]]:
    """Read all fields in one call, then lower the few that fastavro does not take as they are."""
    hints = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    special = [(name, low) for name in names if (low := _lowering(hints[name])) is not None]
    if len(names) == 1:
        return lambda record: {names[0]: getattr(record, names[0])}
    values = operator.attrgetter(*names)

    def lower(record: Any) -> dict[str, Any]:
        row = dict(zip(names, values(record), strict=True))
        for name, low in special:
            row[name] = low(row[name])
        return row

    return lower


@dataclasses.dataclass(frozen=True, slots=True)
class _Format:
    """Everything needed to write and read one record class."""

    cls: type[Any]
    text: str
    schema: dict[str, Any]
    header: bytes
    lower: Callable[[Any], dict[str, Any]]
    build: Callable[[dict[str, Any]], Any]


def _format(cls: type[Any], name: str) -> _Format:
    text = schema_text(name)
    schema = typing.cast("dict[str, Any]", fastavro.parse_schema(json.loads(text)))
    header = SINGLE_OBJECT + fingerprint(json.loads(text))
    return _Format(cls, text, schema, header, _writer(cls), _reader(cls))


def _reordered(form: _Format, row: Any) -> Any:
    """Bring a row that was read through another schema, and so has that one's field order, into ours."""
    again = io.BytesIO()
    fastavro.schemaless_writer(again, form.schema, row)
    again.seek(0)
    return fastavro.schemaless_reader(again, form.schema, None)


FORMATS: dict[type[Any], _Format] = {cls: _format(cls, name) for cls, name in SCHEMA_FILES.items()}
_BY_HEADER = {known.header: known for known in FORMATS.values()}


class Codec:
    """Writes and reads the records of one topic.

    With `registry` it writes the Confluent wire format under `<topic>-value`; it reads either framing.
    """

    def __init__(self, topic: str = "", registry: SchemaIds | None = None) -> None:
        self._topic = topic
        self._registry = registry
        self._headers: dict[type[Any], bytes] = {}
        self._by_id: dict[int, tuple[_Format, dict[str, Any]]] = {}

    def encode(self, record: Any) -> bytes:
        """Return the framed value of any record class of `kubecdc.records` that has a schema."""
        form = FORMATS[type(record)]
        out = io.BytesIO()
        out.write(self._headers.get(form.cls) or self._header(form))
        fastavro.schemaless_writer(out, form.schema, form.lower(record))
        return out.getvalue()

    def decode(self, data: bytes) -> Any:
        """Return the record. Raises Undecodable with the reason, whatever the bytes are.

        Unreachable is raised where a Schema Registry that is needed does not answer: the record may be sound.
        """
        try:
            form, writer, body = self._frame(data)
            stream = io.BytesIO(body)
            same = writer is form.schema
            row = fastavro.schemaless_reader(stream, writer, None if same else form.schema)
            if stream.tell() != len(body):
                raise Undecodable(f"{len(body) - stream.tell()} bytes after the end of the record")
            return form.build(typing.cast("dict[str, Any]", row if same else _reordered(form, row)))
        except KubecdcError:
            raise
        except Exception as error:
            raise Undecodable(f"not a record of ours: {type(error).__name__}: {error}"[:300]) from error

    def _header(self, form: _Format) -> bytes:
        header = form.header
        if self._registry is not None:
            schema_id = self._registry.id_of(f"{self._topic}-value", form.text)
            header = CONFLUENT + schema_id.to_bytes(4, "big")
        self._headers[form.cls] = header
        return header

    def _frame(self, data: bytes) -> tuple[_Format, dict[str, Any], bytes]:
        if data[:2] == SINGLE_OBJECT:
            form = _BY_HEADER.get(data[:10])
            if form is None:
                raise Undecodable(f"unknown schema fingerprint {data[2:10].hex()}")
            return form, form.schema, data[10:]
        if data[:1] == CONFLUENT and len(data) > 5:
            form, writer = self._by_registry(int.from_bytes(data[1:5], "big"))
            return form, writer, data[5:]
        raise Undecodable(f"unknown framing, first bytes {data[:2].hex() or '(none)'}")

    def _by_registry(self, schema_id: int) -> tuple[_Format, dict[str, Any]]:
        known = self._by_id.get(schema_id)
        if known is None:
            if self._registry is None:
                raise Undecodable(f"written with Schema Registry id {schema_id}: set --schema-registry to read it")
            writer = json.loads(self._registry.schema_of(schema_id))
            name = str(writer.get("name", "")).rpartition(".")[2]
            form = next((form for cls, form in FORMATS.items() if cls.__name__ == name), None)
            if form is None:
                raise Undecodable(f"schema id {schema_id} describes {name!r}, not a record of ours")
            parsed = typing.cast("dict[str, Any]", fastavro.parse_schema(writer))
            same = fingerprint(writer) == form.header[2:]
            known = self._by_id[schema_id] = (form, form.schema if same else parsed)
        return known
