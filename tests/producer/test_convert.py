"""Whatever an object is, one record comes out of it that is encodable, redacted and says what it left out."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.codec import Codec
from kubecdc.records import EventType, Manager, ObjectOmitted, RawEvent, Relist
from producer.convert import Context, absent, marker, remnant, to_event
from producer.frames import Broken, Item, Object, classify
from producer.redact import Redactor, parse_rules

SENTINEL = "sentinel-one-7f3a9c"
REDACTOR = Redactor(b"k" * 32)


def context(
    kind: str = "ConfigMap", group: str = "", limit: int = 1_000_000, redactor: Redactor = REDACTOR, version: str = "v1"
) -> Context:
    return Context("c", group, version, "things", kind, "", "s1", redactor.for_kind(group, kind), limit)


def item(**fields: Any) -> Item:
    metadata = {"uid": "u1", "resourceVersion": "7", "name": "n", "namespace": "ns", **fields.pop("metadata", {})}
    return Item("u1", "7", {"metadata": metadata, **fields})


def convert(ctx: Context, shown: Item | Object, kind: EventType = EventType.LISTED, **more: Any) -> RawEvent:
    event, _ = to_event(ctx, shown, kind, epoch=1, seq=4, observed_at=99, **more)
    assert Codec().decode(Codec().encode(event)) == event
    return event


def test_the_record_of_a_list_item_is_complete() -> None:
    managers = [
        {"manager": "kubectl", "operation": "Apply", "time": "t1"},
        {"manager": "kubelet", "subresource": "status"},
    ]
    shown = item(
        metadata={"generation": 3, "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": managers},
        data={"k": "žluť 🙂"},
    )
    relist = Relist("r", "first", None, "50", None)
    event = convert(context(), shown, relist=relist)
    assert (event.cluster, event.epoch, event.group, event.version, event.resource) == ("c", 1, "", "v1", "things")
    assert (event.scope, event.type, event.uid, event.namespace, event.name) == ("", EventType.LISTED, "u1", "ns", "n")
    assert (event.rv, event.session, event.seq, event.relist, event.observed_at) == ("7", "s1", 4, relist, 99)
    assert (event.generation, event.deletion_timestamp) == (3, "2026-01-01T00:00:00Z")
    assert event.managers == (Manager("kubectl", "Apply", "", "t1"), Manager("kubelet", "", "status", ""))
    assert event.object is not None
    assert orjson.loads(event.object) == {"kind": "ConfigMap", "apiVersion": "v1", **shown.obj}
    assert event.object_omitted is None
    assert set(orjson.loads(event.paths)) == {"/data/k", "/metadata/deletionTimestamp"}


def test_kind_and_api_version_are_filled_in_only_where_they_lack_and_change_no_digest() -> None:
    bare = convert(context("Widget", "example.io", version="v2"), item(spec={"a": 1}))
    full = convert(context("Widget", "example.io"), item(spec={"a": 1}, kind="Widget", apiVersion="example.io/v1"))
    assert bare.object is not None
    assert full.object is not None
    assert orjson.loads(bare.object)["apiVersion"] == "example.io/v2"
    assert orjson.loads(full.object)["apiVersion"] == "example.io/v1"
    assert (bare.digest, bare.paths) == (full.digest, full.paths)


def test_a_version_given_from_outside_replaces_the_items_own() -> None:
    assert convert(context(), item(), rv="25").rv == "25"


def test_an_apply_that_changes_only_a_managers_time_has_the_same_digest() -> None:
    one, two = (
        convert(context(), item(metadata={"resourceVersion": rv, "managedFields": [{"manager": "m", "time": rv}]}))
        for rv in ("7", "9")
    )
    assert one.digest == two.digest
    assert one.paths == two.paths
    assert one.managers != two.managers


@pytest.mark.parametrize("size", [1_400_000, 3_000_000])
def test_an_object_over_the_limit_is_left_out_with_its_size_and_still_digested(size: int) -> None:
    big, other = item(data={"blob": "x" * size, "k": "1"}), item(data={"blob": "y" * size, "k": "1"})
    event, changed = convert(context(), big), convert(context(), other)
    assert event.object is None
    assert event.object_omitted is not None
    assert event.object_omitted.reason == "too-large"
    assert event.object_omitted.bytes >= size
    before, after = orjson.loads(event.paths), orjson.loads(changed.paths)
    assert [path for path in before if before[path] != after[path]] == ["/data/blob"]
    assert event.digest != changed.digest


def test_the_limit_is_inclusive_and_counts_bytes_of_json() -> None:
    exact = convert(context(), item(data={"k": "漢"}))
    assert exact.object is not None
    size = len(exact.object.encode())
    assert convert(context(limit=size), item(data={"k": "漢"})).object == exact.object
    assert convert(context(limit=size - 1), item(data={"k": "漢"})).object_omitted == ObjectOmitted("too-large", size)


def test_no_part_of_a_secrets_record_holds_its_values_and_changes_stay_visible() -> None:
    def secret(value: str, **metadata: Any) -> RawEvent:
        applied = {"kubectl.kubernetes.io/last-applied-configuration": f'{{"stringData":{{"p":"{SENTINEL}"}}}}'}
        shown = item(metadata={"annotations": applied, **metadata}, data={"password": value}, stringData={"p": value})
        return convert(context("Secret"), shown)

    one, same, other = secret(SENTINEL), secret(SENTINEL, resourceVersion="9"), secret("other")
    assert SENTINEL.encode() not in Codec().encode(one)
    assert (one.digest, one.paths) == (same.digest, same.paths)
    assert one.digest != other.digest
    before, after = orjson.loads(one.paths), orjson.loads(other.paths)
    assert {path for path in before if before[path] != after[path]} == {"/data/password", "/stringData/p"}


def test_digests_under_two_keys_say_that_they_cannot_be_compared() -> None:
    shown = item(data={"password": SENTINEL})
    one = convert(context("Secret"), shown).digest
    other = convert(context("Secret", redactor=Redactor(b"j" * 32)), shown).digest
    assert one.partition("@")[2] == REDACTOR.key_id != other.partition("@")[2]
    assert "@" not in convert(context("ConfigMap"), shown).digest


def test_what_cannot_be_redacted_is_left_out_with_all_that_could_tell_its_content() -> None:
    redactor = Redactor(b"k" * 32, parse_rules(["W:$..token"]))
    managers = [{"manager": SENTINEL, "fieldsV1": {f"v:{SENTINEL}": {}}}]
    shown = item(metadata={"managedFields": managers}, spec={"token": SENTINEL})
    event = convert(context("W", redactor=redactor), shown)
    assert SENTINEL.encode() not in Codec().encode(event)
    assert event.object_omitted is not None
    assert event.object_omitted.reason == "redaction-failed"
    assert event.paths == "{}"
    other = convert(context("W", redactor=redactor), item(metadata={"managedFields": managers}, spec={"token": "x"}))
    assert event.digest != other.digest


@pytest.mark.parametrize(
    ("value", "kept"), [(True, None), (2**63, None), (1.0, None), ("3", None), (0, 0), (2**63 - 1, 2**63 - 1)]
)
def test_a_generation_is_kept_only_if_it_is_one(value: Any, kept: int | None) -> None:
    generation = convert(context(), item(metadata={"generation": value})).generation
    assert generation == kept
    assert type(generation) is type(kept)


HOSTILE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
FIELDS = ["name", "namespace", "generation", "deletionTimestamp", "managedFields", "annotations", "labels"]


@given(
    st.dictionaries(st.sampled_from(FIELDS), HOSTILE | st.lists(st.dictionaries(st.just("manager"), HOSTILE))),
    st.dictionaries(st.sampled_from(["kind", "apiVersion", "data", "stringData", "spec", "a/b~c"]), HOSTILE),
    st.sampled_from(["Secret", "Widget"]),
)
def test_no_object_that_the_frames_let_through_crashes_it(metadata: Any, fields: Any, kind: str) -> None:
    line = orjson.dumps(
        {"type": "ADDED", "object": {**fields, "metadata": {**metadata, "uid": "u", "resourceVersion": "7"}}}
    )
    frame = classify(line)
    assert not isinstance(frame, Broken)
    assert isinstance(frame, Object)
    redactor = Redactor(b"k" * 32, parse_rules(["Widget:$.spec.a", "Widget:$..name"]))
    event = convert(context(kind, redactor=redactor), frame, frame.type)
    assert event.uid == "u"


def test_the_deepest_object_is_kept_whole() -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"uid":"u","resourceVersion":"7"},"spec":' + b"[" * 1000 + b"]" * 1000
    frame = classify(line + b"}}")
    assert isinstance(frame, Object)
    event = convert(context(), frame, frame.type)
    assert event.object is not None
    assert f'"spec":{"[" * 1000}{"]" * 1000}' in event.object


def test_a_delete_found_by_an_audit_knows_the_uid_and_the_bounds_only() -> None:
    relist = Relist("a", "audit", None, "25", None)
    event = absent(context(), "u9", "25", epoch=2, seq=1, observed_at=5, relist=relist)
    assert Codec().decode(Codec().encode(event)) == event
    assert (event.type, event.uid, event.rv, event.relist) == (EventType.DELETED, "u9", "25", relist)
    assert (event.object, event.digest, event.paths) == (None, "", "{}")


@pytest.mark.parametrize("limit", [10, 10_000])
def test_what_a_tombstone_keeps_of_a_delete_is_an_event_that_says_where_its_content_went(limit: int) -> None:
    deleted = convert(context(limit=limit), item(data={"a": "1"}), EventType.DELETED)
    told = remnant(deleted)
    size = deleted.object_omitted.bytes if deleted.object_omitted else len(deleted.object or "")
    assert told.object_omitted == ObjectOmitted("compacted-away", size)
    assert (told.object, told.managers, told.paths) == (None, (), "{}")
    same = ("uid", "rv", "session", "seq", "epoch", "type", "name", "digest", "relist")
    assert [getattr(told, name) for name in same] == [getattr(deleted, name) for name in same]


def test_a_marker_has_no_object() -> None:
    event = marker(context(), EventType.COVERAGE_LOST, epoch=1, seq=0, observed_at=5, rv="8", detail="403 Forbidden")
    assert Codec().decode(Codec().encode(event)) == event
    assert (event.uid, event.rv, event.detail, event.type) == (None, "8", "403 Forbidden", EventType.COVERAGE_LOST)
