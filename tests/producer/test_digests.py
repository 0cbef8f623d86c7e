"""Digests are equal when nothing but noise differs, and differ where content does; pointers name the place."""

from __future__ import annotations

import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producer.digests import CHILDREN_MAX, content, digest, encode, paths

KEYS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)
NOISE = {
    "resourceVersion": "9",
    "generation": 4,
    "selfLink": "/x",
    "managedFields": [{"manager": "m", "operation": "Apply", "time": "2026-01-01T00:00:03Z"}],
}


def shuffled(value: Any, order: random.Random) -> Any:
    if isinstance(value, dict):
        entries = [(key, shuffled(child, order)) for key, child in value.items()]
        order.shuffle(entries)
        return dict(entries)
    return [shuffled(child, order) for child in value] if isinstance(value, list) else value


@given(st.dictionaries(KEYS, JSON, max_size=5), st.dictionaries(KEYS, JSON, max_size=4), st.randoms())
def test_noise_and_the_order_of_keys_change_no_digest(obj: Any, metadata: Any, order: random.Random) -> None:
    metadata = {key: value for key, value in metadata.items() if key not in NOISE}
    plain = {**obj, "metadata": metadata}
    noisy = shuffled({**plain, "kind": "X", "apiVersion": "x/v1", "metadata": {**metadata, **NOISE}}, order)
    assert digest(content(noisy)) == digest(content(plain))
    assert paths(content(noisy)) == paths(content(plain))


@given(st.dictionaries(KEYS, JSON, max_size=5), st.dictionaries(KEYS, JSON, max_size=5))
def test_content_that_differs_has_another_digest_and_another_path(one: Any, other: Any) -> None:
    one.pop("metadata", None), other.pop("metadata", None)
    same = encode(content(one), sort=True) == encode(content(other), sort=True)
    assert (digest(content(one)) == digest(content(other))) is same
    assert (paths(content(one)) == paths(content(other))) is same


def test_paths_are_two_deep_and_labels_one_deeper() -> None:
    obj = {
        "metadata": {"uid": "u", "name": "n", "labels": {"tier": "a"}, "annotations": {}, "finalizers": ["f"]},
        "spec": {"replicas": 1, "template": {"spec": {}}},
        "data": {"a/b~c": "x"},
        "immutable": True,
        "status": {},
        "list": [1],
    }
    assert set(paths(content(obj))) == {
        "/metadata/labels/tier",
        "/metadata/annotations",
        "/metadata/finalizers",
        "/spec/replicas",
        "/spec/template",
        "/data/a~1b~0c",
        "/immutable",
        "/status",
        "/list",
    }


def test_values_that_look_alike_have_paths_that_differ() -> None:
    values: list[Any] = [1, True, "1", "true", None, "null", [], {}, "", 0, False, 1.5]
    assert len({paths({"spec": {"a": value}})["/spec/a"] for value in values}) == len(values)


def test_a_crowded_level_is_one_path_of_its_parent() -> None:
    fits = {f"k{n}": "v" for n in range(CHILDREN_MAX)}
    assert len(paths({"data": fits})) == CHILDREN_MAX
    assert list(paths({"data": {**fits, "more": "v"}})) == ["/data"]
    assert list(paths({"metadata": {"labels": {**fits, "more": "v"}}})) == ["/metadata/labels"]
    assert list(paths({"data": {"k" * 300: "v"}})) == ["/data"]
    assert list(paths({**fits, "more": "v"})) == [""]


def test_the_paths_of_any_object_are_bounded() -> None:
    wide = {f"{'k' * 200}{n}": {f"{'c' * 200}{m}": m for m in range(32)} for n in range(32)}
    assert len(orjson.dumps(paths(wide))) < 600_000


@pytest.mark.parametrize("metadata", [None, "x", [], 7])
def test_metadata_of_another_shape_is_content_like_any_other(metadata: Any) -> None:
    assert digest(content({"metadata": metadata, "a": 1}))
    assert paths(content({"metadata": metadata, "a": 1}))


@given(JSON)
def test_encode_gives_json_of_the_same_value(value: Any) -> None:
    assert orjson.loads(encode(value)) == value
    deep: Any = {"b": value, "a": [value, {}]}
    for _ in range(300):
        deep = [deep]
    text = encode(deep, sort=True)
    assert text == b"[" * 300 + orjson.dumps({"b": value, "a": [value, {}]}, option=orjson.OPT_SORT_KEYS) + b"]" * 300


def test_the_deepest_json_that_can_be_read_can_be_written_and_digested() -> None:
    line = b'{"metadata":{},"spec":' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}"
    obj = orjson.loads(line)
    assert encode(obj) == line
    assert digest(content(obj)) != digest(content({**obj, "x": 1}))
    assert set(paths(content(obj))) == {"/metadata", "/spec/a"}


def test_key_makes_another_digest() -> None:
    assert digest({"a": 1}, b"k" * 16) != digest({"a": 1})
    assert json.loads(encode({"a": 1})) == {"a": 1}
