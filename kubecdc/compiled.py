"""Avro bodies to records and back through one function per record class, written out from its schema at import.

Pure. The functions are specialised the way `dataclasses` writes `__init__`: the field order, the branches of a nullable
and the symbols of an enum are settled once, not for each record. fastavro, which must ask the schema each time, took
two thirds of a worker's time (CHANGELOG); it stays the judge: a test compares every byte with its output.

Known are the shapes our schemas use: records, enums, strings, booleans, longs and ints, arrays, and unions of null with
one of these. Anything else is a TypeError at import.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kubecdc.construct import constructor

Schema = Any  # a parsed Avro schema: a name, a union or a JSON object
Write = Callable[[Any], bytes]
Read = Callable[[bytes, int], tuple[Any, int]]

KEPT_NUMBERS = 1 << 14
KEPT_STRINGS = 20_000
KEPT_BYTES = 256  # of one string; names in Kubernetes are shorter
# Fields that take few values, many times: their bytes and strings are kept, which also makes them equal by identity.
REPEATING = frozenset(
    {"cluster", "group", "version", "resource", "scope", "namespace", "session", "manager", "operation", "subresource"}
)


# Fourteen bits as two bytes of seven: before others, and at the end of a number, where the second may be needless.
BEFORE = [bytes((n & 0x7F | 0x80, n >> 7 | 0x80)) for n in range(1 << 14)]
AT_END = [bytes((n,)) if n < 0x80 else bytes((n & 0x7F | 0x80, n >> 7)) for n in range(1 << 14)]


def varint(number: int) -> bytes:
    """Avro's long: zigzag, then seven bits a byte, lowest first."""
    rest = number << 1 if number >= 0 else ~(number << 1)
    if rest < 1 << 14:
        return AT_END[rest]
    out = BEFORE[rest & 0x3FFF]
    rest >>= 14
    while rest >= 1 << 14:
        out += BEFORE[rest & 0x3FFF]
        rest >>= 14
    return out + AT_END[rest]


class _Longs(dict[int, bytes]):
    """Number to its bytes: small ones are kept, others made."""

    def __missing__(self, number: int) -> bytes:
        return varint(number)


class _Strings(dict[str, bytes]):
    """String to its length and bytes; takes new ones until it is full."""

    def __missing__(self, text: str) -> bytes:
        data = text.encode()
        framed = varint(len(data)) + data
        if len(self) < KEPT_STRINGS and len(data) <= KEPT_BYTES:
            self[text] = framed
        return framed


class _Texts(dict[bytes, str]):
    """Bytes to their string; takes new ones until it is full."""

    def __missing__(self, data: bytes) -> str:
        text = data.decode()
        if len(self) < KEPT_STRINGS and len(data) <= KEPT_BYTES:
            self[data] = text
        return text


LONGS = _Longs((number, varint(number)) for number in range(-1, KEPT_NUMBERS))
STRINGS = _Strings()
TEXTS = _Texts()
# By first byte: the length of a string, or -1 where more bytes follow or the length is negative.
LENGTHS = [byte >> 1 if byte < 0x80 and not byte & 1 else -1 for byte in range(256)]


def read_long(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at `at` and where it ends. Raises ValueError beyond 64 bits, IndexError at the end."""
    byte = data[at]
    if byte < 0x80:
        return byte >> 1 ^ -(byte & 1), at + 1
    value, byte = byte & 0x7F, data[at + 1]
    if byte < 0x80:
        value |= byte << 7
        return value >> 1 ^ -(value & 1), at + 2
    value |= (byte & 0x7F) << 7
    at += 2
    shift = 14
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 63:
            break
    if byte >= 0x80 or value >> 64:
        raise ValueError("a number of more than 64 bits")
    return value >> 1 ^ -(value & 1), at


def read_length(data: bytes, at: int) -> tuple[int, int]:
    """Return a length and where it ends. Raises ValueError where it is negative."""
    length, at = read_long(data, at)
    if length < 0:
        raise ValueError("a negative length")
    return length, at


class Compiler:
    """Makes a writer and a reader for each record class in `classes` (schema name to class) that it is asked for."""

    def __init__(self, classes: Mapping[str, type[Any]]) -> None:
        self._classes = classes
        self._named: dict[str, Schema] = {}
        self._scope: dict[str, Any] = {
            "LONGS": LONGS,
            "STRINGS": STRINGS,
            "TEXTS": TEXTS,
            "LENGTHS": LENGTHS,
            "TRUTH": {0: False, 1: True},
            "read_long": read_long,
            "read_length": read_length,
        }

    def pair(self, schema: Schema) -> tuple[Write, Read]:
        """Writer and reader of a record schema; the reader returns the record and where it ends."""
        name = self._define(schema)
        return self._scope[f"write_{name}"], self._scope[f"read_{name}"]

    def chosen(self, schema: Schema, cls: type[Any]) -> Read:
        """Reader of the fields of a record that `cls` has; it goes no further than to the last of them.

        Raises StopIteration at import where the record lacks one.
        """
        wanted = {field.name for field in dataclasses.fields(cls)}
        lines = [f"def read_{cls.__name__}(b, i):"]
        fields = iter(schema["fields"])
        while wanted:
            field = next(fields)
            lines += ["    " + line for line in self._reading(field["type"], f"f_{field['name']}", field["name"])]
            wanted.discard(field["name"])
        arguments = ", ".join(f"f_{field.name}" for field in dataclasses.fields(cls))
        self._scope[f"make_{cls.__name__}"] = constructor(cls)
        exec("\n".join([*lines, f"    return make_{cls.__name__}({arguments}), i"]), self._scope)  # noqa: S102 - as below
        read: Read = self._scope[f"read_{cls.__name__}"]
        return read

    def _define(self, schema: Schema) -> str:
        """Make the functions of a named schema once; returns its short name."""
        name = str(schema["name"]).rpartition(".")[2]
        self._named[str(schema["name"])] = self._named[name] = schema
        cls = self._classes[name]
        if schema["type"] == "enum":
            symbols = schema["symbols"]
            self._scope[f"SYMBOL_{name}"] = {cls(symbol): varint(at) for at, symbol in enumerate(symbols)}
            self._scope[f"MEMBER_{name}"] = {2 * at: cls(symbol) for at, symbol in enumerate(symbols)}
            return name
        self._scope[f"make_{name}"] = constructor(cls)
        written = [self._written(f["type"], f"r.{f['name']}", f["name"]) for f in schema["fields"]]
        lines = [f"def write_{name}(r):", f"    return b''.join(({', '.join(written)},))", f"def read_{name}(b, i):"]
        lines += ["    " + line for line in self._reading(schema, "record", name)]
        exec("\n".join([*lines, "    return record, i"]), self._scope)  # noqa: S102 - made from our own schemas only
        return name

    def _resolved(self, schema: Schema) -> Schema:
        return self._named.get(schema, schema) if isinstance(schema, str) else schema

    def _kind(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        kind = "union" if isinstance(schema, list) else schema if isinstance(schema, str) else schema["type"]
        if kind not in {"union", "string", "boolean", "int", "long", "record", "enum", "array"}:
            raise TypeError(f"a schema of ours has a shape that is not known here: {schema}")
        return str(kind)

    def _name(self, schema: Schema) -> str:
        schema = self._resolved(schema)
        name = str(schema["name"]).rpartition(".")[2]
        return name if name in self._named else self._define(schema)

    def _branch(self, union: list[Schema]) -> Schema:
        if len(union) != 2 or union[0] != "null":
            raise TypeError(f"a union of ours is null and one other: {union}")
        return union[1]

    def _written(self, schema: Schema, value: str, field: str) -> str:
        """Expression of the bytes of `value`."""
        kind = self._kind(schema)
        if kind == "string":
            if field in REPEATING:
                return f"STRINGS[{value}]"
            return f"LONGS[len(v := {value}.encode())], v"
        if kind == "union":
            inner = self._written(self._branch(schema), value, field).split(", ", 1)
            return f"b'\\0' if {value} is None else b'\\2' + {' + '.join(inner)}"
        if kind == "array":
            item = self._written(schema["items"], "x", field)
            joined = f"b''.join([b''.join(({item},)) for x in {value}])"
            return f"(LONGS[len({value})] + {joined} + b'\\0') if {value} else b'\\0'"
        simple = {"boolean": "b'\\1' if {0} else b'\\0'", "int": "LONGS[{0}]", "long": "LONGS[{0}]"}
        if kind in simple:
            return simple[kind].format(value)
        name = self._name(schema)
        return f"SYMBOL_{name}[{value}]" if kind == "enum" else f"write_{name}({value})"

    def _reading(self, schema: Schema, target: str, field: str) -> list[str]:
        """Statements that read from `b` at `i` into `target` and move `i`."""
        kind = self._kind(schema)
        if kind == "string":
            text = "TEXTS[b[i:i + n]]" if field in REPEATING else "b[i:i + n].decode()"
            return [
                "n = LENGTHS[b[i]]",
                "if n < 0: n, i = read_length(b, i)",
                "else: i += 1",
                f"{target} = {text}",
                "i += n",
            ]
        if kind == "union":
            inner = self._reading(self._branch(schema), target, field)
            return [
                "k = b[i]",
                "i += 1",
                "if k == 2:",
                *("    " + line for line in inner),
                "elif k: raise ValueError('a union has no such branch')",
                f"else: {target} = None",
            ]
        if kind == "array":
            return self._blocks(schema["items"], target, field)
        if kind in ("int", "long"):
            return [f"{target} = LENGTHS[b[i]]", f"if {target} < 0: {target}, i = read_long(b, i)", "else: i += 1"]
        if kind == "record":
            self._name(schema)
            fields = list(enumerate(self._resolved(schema)["fields"]))
            inner = [line for n, f in fields for line in self._reading(f["type"], f"{target}_{n}", f["name"])]
            arguments = ", ".join(f"{target}_{n}" for n, _ in fields)
            return [*inner, f"{target} = make_{self._name(schema)}({arguments})"]
        table = "TRUTH" if kind == "boolean" else f"MEMBER_{self._name(schema)}"
        return [f"{target} = {table}[b[i]]", "i += 1"]

    def _blocks(self, item: Schema, target: str, field: str) -> list[str]:
        """Items come in blocks until an empty one; a block with a negative count tells its size in bytes as well."""
        one = self._reading(item, f"{target}_x", field)
        return [
            "if not b[i]:",
            f"    {target} = ()",
            "    i += 1",
            "else:",
            f"    {target}_all = []",
            "    while True:",
            "        n, i = read_long(b, i)",
            "        if not n: break",
            "        if n < 0: _, i = read_length(b, i)",
            "        for _ in range(abs(n)):",
            *("            " + line for line in one),
            f"            {target}_all.append({target}_x)",
            f"    {target} = tuple({target}_all)",
        ]
