"""Patches follow their RFCs and leave their argument alone."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sim_kinds import BUILT_IN
from local.sim_patch import JSON_PATCH, MERGE, merged, patcher
from local.sim_status import Refused

CONFIG_MAPS = BUILT_IN[0]

values = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(values, values)
def test_merge_is_idempotent_and_leaves_no_null_members(target: Any, patch: Any) -> None:
    before = copy.deepcopy(target)
    once = merged(target, patch)
    assert target == before
    assert merged(once, patch) == once
    if isinstance(patch, dict):
        assert all(key not in once for key, value in patch.items() if value is None)


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([{"op": "add", "path": "/m/b", "value": 2}], {"m": {"a": 1, "b": 2}, "l": [1, 2]}),
        ([{"op": "remove", "path": "/m/a"}], {"m": {}, "l": [1, 2]}),
        ([{"op": "replace", "path": "/l/0", "value": 9}], {"m": {"a": 1}, "l": [9, 2]}),
        ([{"op": "add", "path": "/l/-", "value": 3}], {"m": {"a": 1}, "l": [1, 2, 3]}),
        ([{"op": "add", "path": "/m/x~1y", "value": 3}], {"m": {"a": 1, "x/y": 3}, "l": [1, 2]}),
    ],
)
def test_json_patch(operations: list[Any], expected: Any) -> None:
    obj = {"m": {"a": 1}, "l": [1, 2]}
    assert patcher(CONFIG_MAPS, JSON_PATCH, json.dumps(operations).encode())(obj) == expected
    assert obj == {"m": {"a": 1}, "l": [1, 2]}


@pytest.mark.parametrize(
    ("media", "body", "code"),
    [
        (MERGE, b"{bad", 400),
        (MERGE, b"[]", 400),
        (JSON_PATCH, b"{}", 400),
        ("application/json", b"{}", 415),
        ("application/apply-patch+yaml", b"{}", 415),
    ],
)
def test_what_cannot_be_read_is_refused(media: str, body: bytes, code: int) -> None:
    with pytest.raises(Refused) as refused:
        patcher(CONFIG_MAPS, media, body)
    assert refused.value.code == code


@pytest.mark.parametrize("operation", [{"op": "remove", "path": "/none"}, {"op": "move", "path": "/m", "from": "/l"}])
def test_operation_that_cannot_be_done_is_refused(operation: Any) -> None:
    apply = patcher(CONFIG_MAPS, JSON_PATCH, json.dumps([operation]).encode())
    with pytest.raises(Refused, match="cannot apply"):
        apply({"m": {}})
