"""G7 at its source: no value that must not leave is in what leaves, and changes of it stay visible."""

from __future__ import annotations

import base64
import copy
import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonpath_ng.jsonpath import Fields

from kubecdc.errors import Misconfigured
from producer.digests import encode
from producer.redact import MARK, RedactionFailed, Redactor, parse_rules

KEY = b"k" * 32
SENTINEL = "sentinel-one-7f3a9c"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(obj: dict[str, Any], *rules: str, group: str = "", kind: str = "Secret") -> tuple[dict[str, Any], int]:
    return Redactor(KEY, parse_rules(rules)).for_kind(group, kind).apply(obj)


HIDDEN = st.recursive(
    st.just(SENTINEL),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


ANNOTATIONS = st.just(SENTINEL) | st.lists(HIDDEN) | HIDDEN.map(lambda hidden: {LAST_APPLIED: hidden})


@given(data=HIDDEN, strings=HIDDEN, annotations=ANNOTATIONS)
def test_no_value_of_a_secret_leaks_whatever_its_shape(data: Any, strings: Any, annotations: Any) -> None:
    obj = {"metadata": {"uid": "u", "annotations": annotations}, "data": data, "stringData": strings}
    before = copy.deepcopy(obj)
    clean, _ = apply(obj)
    assert SENTINEL.encode() not in encode(clean)
    assert obj == before


def test_names_stay_and_values_become_a_keyed_digest() -> None:
    clean, count = apply({"metadata": {"uid": "u"}, "type": "Opaque", "data": {"a": SENTINEL, "b": SENTINEL, "c": "x"}})
    assert count == 3
    assert clean["type"] == "Opaque"
    data = clean["data"]
    assert data["a"] == data["b"] != data["c"]
    assert all(value.startswith(MARK) and len(value) == len(MARK) + 32 for value in data.values())
    again, _ = apply({"metadata": {}, "data": {"z": SENTINEL}})
    assert again["data"]["z"] == data["a"]
    other, _ = Redactor(b"j" * 32).for_kind("", "Secret").apply({"metadata": {}, "data": {"a": SENTINEL}})
    assert other["data"]["a"] != data["a"]


def test_a_text_and_another_value_of_the_same_json_do_not_look_equal() -> None:
    clean, _ = apply({"data": {"a": "1", "b": 1, "c": '"1"', "d": True, "e": None}})
    assert len(set(clean["data"].values())) == 5


@pytest.mark.parametrize(
    "annotation",
    [
        LAST_APPLIED,
        "kapp.k14s.io/original",
        "objectset.rio.cattle.io/applied",
        "banzaicloud.com/last-applied",
        "app.oam.dev/last-applied-configuration",
        "kopf.zalando.org/last-handled-configuration",
        "operator.example.io/last-handled-configuration",
    ],
)
def test_copies_of_the_manifest_are_hidden_in_every_kind(annotation: str) -> None:
    obj = {"metadata": {"annotations": {annotation: SENTINEL, "team": "a"}}, "data": {"k": "v"}}
    clean, count = apply(obj, kind="ConfigMap")
    assert count == 1
    assert SENTINEL.encode() not in encode(clean)
    assert clean["metadata"]["annotations"]["team"] == "a"
    assert clean["data"] == {"k": "v"}


B64 = base64.b64encode(SENTINEL.encode()).decode()
QUOTED = 'with "quotes" in it'


@pytest.mark.parametrize(
    "value", [SENTINEL, B64, f"token={SENTINEL};", json.dumps({"a": [B64]}), json.dumps({"a": QUOTED}), "abc", QUOTED]
)
def test_an_annotation_that_repeats_a_value_of_the_secret_is_hidden_under_whatever_name(value: str) -> None:
    annotations = {"example.io/copy": value, "team": "payments"}
    obj = {
        "metadata": {"uid": "u", "annotations": annotations},
        "data": {"a": B64},
        "stringData": {"b": QUOTED, "c": "abc"},
    }
    clean, count = apply(obj)
    assert count == 4
    assert clean["metadata"]["annotations"]["example.io/copy"].startswith(MARK)
    assert clean["metadata"]["annotations"]["team"] == "payments"
    assert obj["metadata"]["annotations"] == annotations


def test_short_values_hide_what_equals_them_and_not_what_holds_them() -> None:
    annotations = {"a": "yes", "b": "yes, of course", "openshift.io/token-secret.value": "of-another-secret"}
    clean, _ = apply({"metadata": {"annotations": annotations}, "data": {"enabled": base64.b64encode(b"yes").decode()}})
    assert [value.startswith(MARK) for value in clean["metadata"]["annotations"].values()] == [True, False, True]


def test_an_annotation_that_repeats_what_a_rule_hides_is_hidden_as_well() -> None:
    obj = {"metadata": {"annotations": {"copy": f"[{SENTINEL}]"}}, "spec": {"token": SENTINEL}}
    clean, count = apply(obj, "Widget:$.spec.token", group="example.io", kind="Widget")
    assert count == 2
    assert SENTINEL.encode() not in encode(clean)


def test_only_the_core_kind_is_a_secret() -> None:
    obj = {"metadata": {}, "data": {"k": "v"}}
    assert apply(obj, group="example.io") == (obj, 0)
    assert apply(obj, kind="ConfigMap")[0] is obj


def test_an_object_with_nothing_to_hide_is_returned_as_it_is() -> None:
    plain: list[dict[str, Any]] = [{"metadata": {"annotations": None}}, {"metadata": "x"}, {}, {"data": None}]
    for obj in plain:
        assert apply(obj) == (obj, 0)


RULED = {
    "metadata": {
        "uid": "u",
        "labels": {"owner": SENTINEL},
        "managedFields": [
            {"manager": "m", "fieldsV1": {"f:spec": {f'k:{{"name":"{SENTINEL}"}}': {}}}},
            {"manager": "n", "fieldsV1": {"f:spec": {f'v:"{SENTINEL}"': {}}}},
            {"manager": "o", "fieldsV1": {"f:spec": {"f:other": {}}}},
        ],
    },
    "spec": {"env": [{"name": "A", "value": SENTINEL}, {"name": "B", "value": "open"}], "names": [SENTINEL]},
    "status": {"deep": {"token": SENTINEL}},
}


def test_rules_of_users_reach_every_value_that_they_find() -> None:
    rules = (
        "Widget.example.io:$.spec.env[?(@.name=='A')].value",
        "Widget:$.spec.names[*]",
        "*:$.metadata.labels.owner",
        "Widget:$..token",
        "Widget:$.spec.nothing",
    )
    before = copy.deepcopy(RULED)
    clean, count = apply(RULED, *rules, group="example.io", kind="Widget")
    assert before == RULED
    assert count == 4
    assert SENTINEL.encode() not in encode(clean)
    assert clean["spec"]["env"][1] == {"name": "B", "value": "open"}
    fields = [entry["fieldsV1"] for entry in clean["metadata"]["managedFields"]]
    assert fields == [{}, {}, {"f:spec": {"f:other": {}}}]


@pytest.mark.parametrize(
    ("path", "count"),
    [
        ("$.spec.x", 1),
        ("spec.x", 1),
        ("$.spec['x','n']", 2),
        ("$.spec.*", 5),
        ("$..x", 2),
        ("$.spec.y[*]", 2),
        ("$.spec.y[-1]", 1),
        ("$.spec.y[0:2]", 2),
        ("$.spec.y[0,1]", 2),
        ("$.spec.m[*][*]", 1),
        ("$.spec.l[*].x", 1),
        ("$.spec.l[?(@.x)]", 1),
        ("$.spec.l[?(@.x=='sentinel-one-7f3a9c')].x", 1),
        ("$.spec.nothing.here", 0),
    ],
)
def test_each_kind_of_path_replaces_what_it_finds_and_nothing_else(path: str, count: int) -> None:
    obj = {"metadata": {}, "spec": {"x": SENTINEL, "n": 5, "y": ["a", "b"], "m": [["c"]], "l": [{"x": SENTINEL}]}}
    clean, replaced = apply(obj, f"W:{path}", kind="W")
    assert replaced == count
    assert encode(clean).count(MARK.encode()) == count


class LateFinder(Fields):
    """A path that misses at the first look what it shows at the second."""

    looks = 0

    def find(self, datum: Any) -> list[Any]:
        self.looks += 1
        return super().find(datum) if self.looks > 1 else []


def test_what_is_still_found_after_replacing_is_not_let_through() -> None:
    redaction = replace(Redactor(KEY).for_kind("", "W"), paths=(LateFinder("spec"),))
    with pytest.raises(RedactionFailed):
        redaction.apply({"metadata": {}, "spec": SENTINEL})


def test_a_whole_map_may_be_hidden_with_its_names() -> None:
    obj = {"metadata": {"managedFields": [{"fieldsV1": {"f:data": {f"f:{SENTINEL}": {}}}}]}, "data": {SENTINEL: "v"}}
    clean, _ = apply(obj, "ConfigMap:$.data", kind="ConfigMap")
    assert SENTINEL.encode() not in encode(clean)


def test_rules_that_overlap_agree() -> None:
    obj = {"metadata": {}, "spec": {"token": SENTINEL}}
    once, _ = apply(obj, "W:$.spec.token", kind="W")
    twice, count = apply(obj, "W:$.spec.token", "W:$..token", kind="W")
    assert once == twice
    assert count == 1


def test_rules_of_other_kinds_are_not_applied() -> None:
    rules = ("Widget.example.io:$.spec", "Gadget:$.spec")
    assert apply(RULED, *rules, group="other.io", kind="Widget") == (RULED, 0)


def test_what_cannot_be_redacted_raises_without_content() -> None:
    broken = copy.deepcopy(RULED)
    broken["metadata"]["managedFields"][0]["fieldsV1"] = {f"v:{SENTINEL}": {}}  # type: ignore[index]
    with pytest.raises(RedactionFailed) as caught:
        apply(broken, "W:$..token", kind="W")
    assert SENTINEL not in repr(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("rule", ["W:$..token", "W:$..a", "W:$.spec"])
def test_a_very_deep_object_is_clean_or_left_out(rule: str) -> None:
    bottom = b'{"token":"' + SENTINEL.encode() + b'"}'
    deep = orjson.loads(b'{"metadata":{},"spec":' + b'{"a":' * 900 + bottom + b"}" * 900 + b"}")
    try:
        clean, _ = apply(deep, rule, kind="W")
    except RedactionFailed as failed:
        assert SENTINEL not in repr(failed)  # noqa: PT017 - both outcomes are right
    else:
        assert SENTINEL.encode() not in encode(clean)


def test_all_faults_of_rules_are_told_at_once() -> None:
    wrong = ["Secret", ":$.a", "Secret:", "Secret:$.[", "W:$", "W:$.metadata.uid", "W:metadata.name", "W:$.metadata"]
    wrong += ["W:$.a|$.b", "W:$.a & $.b", "W:$.a.`parent`", "W:$.a.`sub(/x/, y)`", "W:$.a + 1", "W:$.a.`sorted`"]
    with pytest.raises(Misconfigured) as caught:
        parse_rules(["W:$.spec.ok", *wrong])
    assert len(caught.value.problems) == len(wrong)
    assert all(repr(text) in problem for text, problem in zip(wrong, caught.value.problems, strict=True))


@pytest.mark.parametrize("size", [0, 15, 65])
def test_a_key_of_a_wrong_size_is_refused(size: int) -> None:
    with pytest.raises(Misconfigured):
        Redactor(b"k" * size)


def test_the_key_shows_neither_in_its_name_nor_in_a_repr() -> None:
    redactor = Redactor(KEY)
    assert len(redactor.key_id) == 8
    assert redactor.key_id != Redactor(b"j" * 32).key_id
    assert KEY.decode() not in repr(redactor.for_kind("", "Secret"))
