"""Every field of an object has one owner: whoever changed it last."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from local.sim_fields import Writer, owned

contents = st.dictionaries(
    st.sampled_from("abc"), st.integers(0, 2) | st.dictionaries(st.sampled_from("xy"), st.integers(0, 1))
)
writers = st.sampled_from(["one", "two", "three"])


def leaves(fields: dict[str, Any], path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    found = set()
    for key, below in fields.items():
        found |= leaves(below, (*path, key)) if below else {(*path, key)}
    return found


def shape(value: Any, path: tuple[str, ...] = ()) -> set[tuple[str, ...]]:
    if not isinstance(value, dict):
        return {path}
    inner = {leaf for key, part in value.items() for leaf in shape(part, (*path, f"f:{key}"))}
    return inner | {path}


@given(st.lists(st.tuples(contents, writers), max_size=6))
def test_each_field_has_exactly_one_owner(steps: list[tuple[dict[str, Any], str]]) -> None:
    old: dict[str, Any] | None = None
    for number, (content, manager) in enumerate(steps):
        new: dict[str, Any] = {"metadata": {"name": "x"}, "data": content}
        if old is not None and old["data"] == content:
            continue
        entries = owned(old, new, Writer(manager, "", "v1"), f"time {number}")
        # A map that is owned without any of its members stands as a leaf.
        claims = [leaf for entry in entries for leaf in leaves(entry["fieldsV1"])]
        claims = [leaf[:-1] if leaf[-1] == "." else leaf for leaf in claims]
        assert len(claims) == len(set(claims))
        assert set(claims) == shape({"data": content}) - {()}
        new["metadata"]["managedFields"] = entries
        old = new


def test_what_is_the_servers_own_belongs_to_nobody() -> None:
    new = {"metadata": {"name": "x", "uid": "u", "resourceVersion": "1", "labels": {"l": "1"}}}
    (entry,) = owned(None, new, Writer("me", "", "v1"), "now")
    assert entry["fieldsV1"] == {"f:metadata": {"f:labels": {".": {}, "f:l": {}}}}
