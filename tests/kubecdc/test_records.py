"""The contract in Python and in Avro are one: each class mirrors its schema, field by field and type by type."""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
from pathlib import Path
from typing import Any

import pytest

from kubecdc import codec, records
from kubecdc.codec import SCHEMA_FILES

SCHEMAS = Path(__file__).parents[2] / "schemas"
PRIMITIVES = {str: "string", int: "long", bool: "boolean"}


def as_avro(hint: Any) -> Any:
    """The Avro type that a field's annotation stands for; names of records and enums are expanded."""
    if hint in PRIMITIVES:
        return PRIMITIVES[hint]
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return {"enum": hint.__name__, "symbols": [member.value for member in hint]}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return as_record(hint)
    if isinstance(hint, types.UnionType):
        (inner,) = (arg for arg in typing.get_args(hint) if arg is not type(None))
        return ["null", as_avro(inner)]
    if typing.get_origin(hint) is tuple:
        return {"array": as_avro(typing.get_args(hint)[0])}
    raise AssertionError(f"{hint} has no Avro type in the contract")


def as_record(cls: type[Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(cls)
    return {"record": cls.__name__, "fields": [(f.name, as_avro(hints[f.name])) for f in dataclasses.fields(cls)]}


def reduced(schema: Any, names: dict[str, Any]) -> Any:
    """The same shape made from a schema file."""
    if isinstance(schema, list):
        return [reduced(branch, names) for branch in schema]
    if isinstance(schema, str):
        return names.get(schema.rpartition(".")[2], schema)
    if schema["type"] == "array":
        return {"array": reduced(schema["items"], names)}
    if schema["type"] == "enum":
        names[schema["name"]] = {"enum": schema["name"], "symbols": schema["symbols"]}
        return names[schema["name"]]
    fields = [(field["name"], reduced(field["type"], names)) for field in schema["fields"]]
    names[schema["name"]] = {"record": schema["name"], "fields": fields}
    return names[schema["name"]]


@pytest.mark.parametrize(("cls", "name"), SCHEMA_FILES.items(), ids=str)
def test_each_class_mirrors_its_schema(cls: type[Any], name: str):
    schema = json.loads((SCHEMAS / f"{name}.avsc").read_text())
    assert reduced(schema, {}) == as_record(cls)
    assert schema["namespace"] == "io.kubecdc"
    assert schema["doc"], "readers in other languages have nothing else"


def test_there_is_a_class_for_each_schema_file_and_nothing_else_in_the_folder():
    assert sorted(path.name for path in SCHEMAS.iterdir()) == sorted(f"{name}.avsc" for name in SCHEMA_FILES.values())


@pytest.mark.parametrize(("cls", "name"), SCHEMA_FILES.items(), ids=str)
def test_what_may_be_missing_has_a_default_so_that_schemas_can_grow(cls: type[Any], name: str):
    del cls
    for field in json.loads(codec.schema_text(name))["fields"]:
        if isinstance(field["type"], list):
            assert field["default"] is None, field["name"]


def test_records_are_values():
    for cls in vars(records).values():
        if isinstance(cls, type) and dataclasses.is_dataclass(cls):
            assert cls.__dataclass_params__.frozen, cls  # type: ignore[attr-defined]
            assert "__slots__" in vars(cls), cls


def test_only_object_events_count_as_such():
    markers = {"RESUMED", "PROGRESS", "RELIST_START", "RELIST_END", "RELIST_ABORTED", "COVERAGE_LOST"}
    assert {kind.value for kind in records.EventType} - {kind.value for kind in records.OBJECT_TYPES} == markers
