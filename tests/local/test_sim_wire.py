"""Objects on the wire: a frame is a line, a bookmark has no uid, both events groups tell the same story.

And nothing that the API takes can break what it sends: one odd object would fail every list and stream of its kind.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.sim_kinds import BUILT_IN, Kind, kind_of_crd
from local.sim_wire import bookmark, decoded, encoded, shown, stored

KINDS = {(kind.group, kind.plural): kind for kind in BUILT_IN}
NEW_EVENTS = KINDS["events.k8s.io", "events"]
CORE_EVENTS = KINDS["", "events"]
WIDGETS = kind_of_crd(
    {
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True}, {"name": "v1beta1", "served": True}],
        }
    }
)
META = {"name": "x", "uid": "u", "resourceVersion": "7"}

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


@given(values)
def test_whatever_is_taken_is_sent_as_one_line_that_reads_back_the_same(value: Any) -> None:
    """Bodies as any client may write them: with escapes, with every integer, with halves of surrogate pairs."""
    taken = decoded(json.dumps(value, ensure_ascii=True).encode())
    line = encoded(taken)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decoded(line) == taken
    assert json.loads(line) == taken


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        # Read off a kube-apiserver 1.36, from custom resources.
        ("123456789012345678901234567890", 1.2345678901234568e29),
        ("9223372036854775807", 9223372036854775807),
        ("9223372036854775808", 9223372036854775808.0),
        ("18446744073709551615", 18446744073709552000.0),
        ("-9223372036854775808", -9223372036854775808),
        ("1e3", 1000),
        ("1.0", 1),
        ("0.5", 0.5),
        (r'"\ud800x"', "\N{REPLACEMENT CHARACTER}x"),
        (r'"\ud83d\ude00"', "\N{GRINNING FACE}"),
        (r'{"\udfff": ["\ud800\ud800\udc00"]}', {"\ufffd": ["\ufffd\U00010000"]}),
        (r'"\\ud800"', r"\ud800"),
    ],
)
def test_numbers_and_strings_become_what_the_real_server_makes_of_them(sent: str, expected: Any) -> None:
    found = decoded(sent.encode())
    assert found == expected
    assert isinstance(found, float) is isinstance(expected, float)
    assert decoded(encoded(found)) == expected


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert decoded(b'"a\xffb"') == "a\ufffdb"


@pytest.mark.parametrize("sent", ["NaN", "-Infinity", '{"n": Infinity}', "1e400", "9" * 400, "{bad", "", "\ufeff{}"])
def test_what_is_no_json_is_refused(sent: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decoded(sent.encode())


@given(st.floats())
def test_no_number_becomes_another_or_none(number: float) -> None:
    """JSON has no infinities: an encoder that writes null for them would lose the value in silence."""
    text = json.dumps(number).encode()
    if math.isfinite(number):
        assert decoded(encoded(decoded(text))) == number
    else:
        with pytest.raises(ValueError, match="invalid character"):
            decoded(text)


@pytest.mark.parametrize("kind", [*BUILT_IN, WIDGETS], ids=lambda kind: kind.qualified)
def test_bookmark_has_a_version_and_nothing_that_names_an_object(kind: Kind) -> None:
    """Keyed by uid downstream: a bookmark that carried one would be taken for an object."""
    sent = bookmark(kind, kind.versions[0], 42, {})
    assert sent["metadata"] == {"resourceVersion": "42"}
    assert (sent["kind"], sent["apiVersion"]) == (kind.kind, kind.api_version(kind.versions[0]))
    ended = bookmark(kind, kind.versions[0], 42, {"k8s.io/initial-events-end": "true"})
    assert ended["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert "annotations" not in bookmark(kind, kind.versions[0], 43, {})["metadata"]


def test_bookmark_of_a_custom_kind_has_no_fields_and_a_built_in_one_its_empty_ones() -> None:
    assert bookmark(WIDGETS, "v1beta1", 1, {}).keys() == {"kind", "apiVersion", "metadata"}
    assert bookmark(KINDS["", "pods"], "v1", 1, {})["spec"] == {"containers": None}


def test_items_of_a_list_say_what_they_are_only_if_custom() -> None:
    """Clients fill the gap from the list's own kind; an exporter that does not has records without a kind."""
    assert shown(KINDS["", "pods"], "v1", {"metadata": META}, listed=True) == {"metadata": META}
    whole = {"kind": "Widget", "apiVersion": "example.io/v1", "metadata": META}
    assert shown(WIDGETS, "v1", {"metadata": META}, listed=True) == whole
    assert shown(KINDS["", "pods"], "v1", {"metadata": META})["kind"] == "Pod"


def test_object_is_shown_in_the_version_that_was_asked_for_and_stays_the_same() -> None:
    obj = {"metadata": META, "spec": {"n": 1}}
    versions = [shown(WIDGETS, version, obj) for version in WIDGETS.versions]
    assert [found.pop("apiVersion") for found in versions] == ["example.io/v1", "example.io/v1beta1"]
    assert versions[0] == versions[1]
    assert obj == {"metadata": META, "spec": {"n": 1}}


def test_event_has_the_names_of_its_group() -> None:
    old = {
        "metadata": META,
        "involvedObject": {"name": "p"},
        "message": "m",
        "source": {"component": "c"},
        "firstTimestamp": "t1",
        "lastTimestamp": "t2",
        "count": 3,
        "reportingComponent": "r",
        "reason": "Started",
        "type": "Normal",
    }
    new = {
        "metadata": META,
        "regarding": {"name": "p"},
        "note": "m",
        "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": "t1",
        "deprecatedLastTimestamp": "t2",
        "deprecatedCount": 3,
        "reportingController": "r",
        "reason": "Started",
        "type": "Normal",
    }
    assert shown(NEW_EVENTS, "v1", old, listed=True) == new
    assert shown(CORE_EVENTS, "v1", old, listed=True) == old
    assert stored(NEW_EVENTS, new) == old
    assert stored(CORE_EVENTS, old) == old


@given(
    st.dictionaries(st.sampled_from(["metadata", "regarding", "note", "deprecatedCount", "action", "series"]), values)
)
def test_event_written_through_the_new_group_is_read_back_from_it(sent: dict[str, Any]) -> None:
    assert shown(NEW_EVENTS, "v1", stored(NEW_EVENTS, sent), listed=True) == sent
