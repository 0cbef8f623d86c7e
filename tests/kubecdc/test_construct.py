"""A constructor makes what the class makes, only faster: equal, of the same type, as frozen."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc import records
from kubecdc.construct import constructor

CLASSES = [thing for thing in vars(records).values() if isinstance(thing, type) and dataclasses.is_dataclass(thing)]


@pytest.mark.parametrize("cls", CLASSES)
def test_what_is_made_is_what_the_class_makes(cls: type[Any]):
    make = constructor(cls)
    values = [f"value {number}" for number, _ in enumerate(dataclasses.fields(cls))]
    made, same = make(*values), cls(*values)
    assert made == same
    assert type(made) is cls
    assert repr(made) == repr(same)
    assert hash(made) == hash(same)
    assert make(**dataclasses.asdict(same)) == same
    assert dataclasses.replace(made) == same
    assert copy.copy(made) == same
    assert pickle.loads(pickle.dumps(made)) == same
    name = dataclasses.fields(cls)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, name, "other")
    with pytest.raises((AttributeError, TypeError)):  # the latter in Python before 3.12: cpython#91126
        made.no_such_field = 1


@given(st.lists(st.integers(), max_size=5))
def test_defaults_and_arguments_are_those_of_the_class(values: list[int]):
    make: Any = constructor(records.Relist)
    try:
        expected: Any = records.Relist(*values)  # type: ignore[arg-type]  # a dataclass checks no types
    except TypeError:
        with pytest.raises(TypeError):
            make(*values)
    else:
        assert make(*values) == expected


@dataclasses.dataclass(frozen=True)
class NoSlots:
    a: int


@dataclasses.dataclass(frozen=True, slots=True)
class Checked:
    a: int

    def __post_init__(self) -> None:
        if self.a < 0:
            raise ValueError


@dataclasses.dataclass(frozen=True, slots=True)
class Factory:
    a: list[int] = dataclasses.field(default_factory=list)


@pytest.mark.parametrize("cls", [NoSlots, Checked, Factory])
def test_classes_that_do_more_are_refused(cls: type[Any]):
    with pytest.raises(TypeError, match="more than keep its arguments"):
        constructor(cls)
