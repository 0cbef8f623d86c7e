"""Bytes to records and back: Avro, in both framings, and the only module that knows fastavro.

Without a Schema Registry a value is Avro single-object encoding (0xC3 0x01, the schema's CRC-64-AVRO fingerprint,
the body); with one it is the Confluent wire format (0x00, schema id, the body). `decode` accepts both. Records of
older schemas are read through Avro's resolution as long as their schema is known.
"""

from __future__ import annotations

import dataclasses
import io
import json
import typing
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import fastavro
from fastavro import schema as avro_schema

from kubecdc import records
from kubecdc.compiled import Compiler, Read, Write
from kubecdc.errors import KubecdcError, Misconfigured, Undecodable

SCHEMA_FILES = {
    records.RawEvent: "raw_event",
    records.Change: "change",
    records.UidState: "uid_state",
    records.StreamState: "stream_state",
    records.Progress: "progress",
    records.Position: "position",
}
# They share a topic, and a registry takes only versions of one record under one subject: each has a subject of its own.
SHARING = frozenset({records.UidState, records.StreamState, records.Progress})
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
        return packaged.read_text(encoding="utf-8")
    return (Path(__file__).parent.parent / "schemas" / f"{name}.avsc").read_text(encoding="utf-8")


def fingerprint(schema: Mapping[str, Any]) -> bytes:
    """CRC-64-AVRO of the parsing canonical form, little endian, as the single-object header has it."""
    canonical = avro_schema.to_parsing_canonical_form(dict(schema))
    return bytes.fromhex(avro_schema.fingerprint(canonical, "CRC-64-AVRO"))


@dataclasses.dataclass(frozen=True, slots=True)
class _Format:
    """Everything needed to write and read one record class."""

    cls: type[Any]
    text: str
    schema: dict[str, Any]
    header: bytes
    write: Write
    read: Read


def _format(cls: type[Any], name: str) -> _Format:
    text = schema_text(name)
    schema = typing.cast("dict[str, Any]", fastavro.parse_schema(json.loads(text)))
    header = SINGLE_OBJECT + fingerprint(json.loads(text))
    return _Format(cls, text, schema, header, *_COMPILER.pair(schema))


def _resolved(form: _Format, writer: dict[str, Any], body: bytes) -> bytes:
    """The body of a record of another schema as ours would have it, by Avro's rules of resolution."""
    stream, again = io.BytesIO(body), io.BytesIO()
    row = fastavro.schemaless_reader(stream, writer, form.schema)
    fastavro.schemaless_writer(again, form.schema, row)
    return again.getvalue() + stream.read()  # what is left over shows as such


def _is_ours(body: bytes) -> bool:
    """Whether it is the body of some record of ours, to the last byte. Progress is a single number: anything may be."""
    for form in (form for form in FORMATS.values() if form.cls is not records.Progress):
        try:
            if form.read(body, 0)[1] == len(body):
                return True
        except Exception:  # noqa: BLE001, S112 - whatever these bytes are, they are not this record
            continue
    return False


def _unreadable(error: Exception) -> Undecodable:
    return Undecodable(f"not a record of ours: {type(error).__name__}: {error}"[:300])


_COMPILER = Compiler(vars(records))
FORMATS: dict[type[Any], _Format] = {cls: _format(cls, name) for cls, name in SCHEMA_FILES.items()}
_HEAD = _COMPILER.chosen(FORMATS[records.UidState].schema, records.UidHead)
_BY_HEADER = {known.header: known for known in FORMATS.values()}


class Codec:
    """Writes and reads the records of one topic.

    With `registry` it writes the Confluent wire format, under the subject `<topic>-value`, or `<topic>-<record name>`
    where records of several classes share the topic (state). It reads either framing.
    """

    def __init__(self, topic: str = "", registry: SchemaIds | None = None) -> None:
        self._topic = topic
        self._registry = registry
        self._headers: dict[type[Any], bytes] = {}
        self._by_id: dict[int, tuple[_Format, dict[str, Any]]] = {}

    def register(self, *classes: type[Any]) -> None:
        """Learn now, not with the first record, what frames these classes have.

        Raises Unreachable, or Misconfigured where the Schema Registry refuses a schema.
        """
        for cls in classes:
            self._header(FORMATS[cls])

    def encode(self, record: Any) -> bytes:
        """Return the framed value of any record class of `kubecdc.records` that has a schema."""
        form = FORMATS[type(record)]
        return (self._headers.get(form.cls) or self._header(form)) + form.write(record)

    def decode(self, data: bytes) -> Any:
        """Return the record. Raises Undecodable with the reason, whatever the bytes are.

        Not where the record is sound: Unreachable is raised when a Schema Registry that is needed does not answer, and
        Misconfigured for a record of ours in the framing of a registry, when none is configured.
        """
        try:
            form, data, start = self._located(data)
            record, end = form.read(data, start)
            if end == len(data):
                return record
            raise Undecodable(f"{end - len(data):+d} bytes missing (+) or left over (-) at the end of the record")
        except KubecdcError:
            raise
        except Exception as error:
            raise _unreadable(error) from error

    def head(self, data: bytes) -> records.UidHead | None:
        """Return whose state the record is if it is a UidState, else None; the rest is not read. Raises as `decode`."""
        try:
            form, data, start = self._located(data)
            head: records.UidHead | None = _HEAD(data, start)[0] if form.cls is records.UidState else None
        except KubecdcError:
            raise
        except Exception as error:
            raise _unreadable(error) from error
        return head

    def _header(self, form: _Format) -> bytes:
        header = form.header
        if self._registry is not None:
            subject = f"{self._topic}-{form.schema['name'] if form.cls in SHARING else 'value'}"
            schema_id = self._registry.id_of(subject, form.text)
            header = CONFLUENT + schema_id.to_bytes(4, "big")
        self._headers[form.cls] = header
        return header

    def _located(self, data: bytes) -> tuple[_Format, bytes, int]:
        """Format, bytes and where the body begins."""
        form = _BY_HEADER.get(data[:10])
        return (form, data, 10) if form is not None else self._foreign(data)

    def _foreign(self, data: bytes) -> tuple[_Format, bytes, int]:
        """Format, bytes and where the body begins, of what is not in our own framing of a present schema."""
        if data[:2] == SINGLE_OBJECT:
            raise Undecodable(f"unknown schema fingerprint {data[2:10].hex()}")
        if data[:1] != CONFLUENT or len(data) <= 5:
            raise Undecodable(f"unknown framing, first bytes {data[:2].hex() or '(none)'}")
        form, writer = self._by_registry(int.from_bytes(data[1:5], "big"), data[5:])
        return (form, data, 5) if writer is form.schema else (form, _resolved(form, writer, data[5:]), 0)

    def _by_registry(self, schema_id: int, body: bytes) -> tuple[_Format, dict[str, Any]]:
        known = self._by_id.get(schema_id)
        if known is None:
            if self._registry is None:
                told = f"written with Schema Registry id {schema_id}: set --schema-registry to read it"
                raise Misconfigured(told) if _is_ours(body) else Undecodable(told)
            writer = json.loads(self._registry.schema_of(schema_id))
            name = str(writer.get("name", "")).rpartition(".")[2]
            form = next((form for cls, form in FORMATS.items() if cls.__name__ == name), None)
            if form is None:
                raise Undecodable(f"schema id {schema_id} describes {name!r}, not a record of ours")
            parsed = typing.cast("dict[str, Any]", fastavro.parse_schema(writer))
            same = fingerprint(writer) == form.header[2:]
            known = self._by_id[schema_id] = (form, form.schema if same else parsed)
        return known
