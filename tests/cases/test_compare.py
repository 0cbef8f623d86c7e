"""The comparison refuses every log that a case does not allow: no rule of it passes whatever comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubecdc import wire
from kubecdc.records import Cause, Change, Gap, ObjectOmitted, Op, Source
from tests.cases import always, loader
from tests.cases.always import Logged
from tests.cases.compare import Outcome, compare, differences, partly, touches
from tests.cases.loader import Lane
from tests.cases.script import Seen

LANE = Lane("p1", "v1/configmaps", "")
CASE = loader.parse(
    {
        "id": "a",
        "settings": {"partitions": 1},
        "steps": [],
        "expect": {
            "changes": {
                "u": [
                    {"op": "SNAPSHOT", "rv": "5", "seq": 1},
                    {"op": "DELETED", "rv": "9", "seq": 2, "inferred": True, "after_rv": "5", "upto_rv": "9"},
                ],
                "v": {"any_of": [[{"op": "CREATED", "rv": "8", "seq": 1}], {"absent": True}]},
            },
            "gaps": [{"cause": "RELIST_WINDOW", "after_rv": "6", "upto_rv": "9"}],
            "converges": {"v": "8"},
            "resolved": "12",
            "order": [["u", "SNAPSHOT"], ["v", "CREATED"]],
            "counters": {"duplicate": {"any_of": [1, 2]}},
            "requests": {"max": 2, "refused_max": 0, "never": [{"to": "watch", "resourceVersion": "5"}]},
            "never_bytes": ["sentinel"],
        },
    }
)


def change(op, rv=None, uid=None, **rest):
    blank = Change(
        cluster="c", epoch=1, group="", version="v1", resource="configmaps", scope="", namespace="default", name="n",
        uid=uid, op=op, rv=rv, prev_rv=None, seq=None, inferred=False, after_rv=None, upto_rv=None, gap=None,
        noise=False, changed=(), changed_by=(), object="{}", object_omitted=None, digest="", count=None, observed_at=0,
        emitted_at=0, source=Source(0, 0, "s", 0),
    )  # fmt: skip
    return replace(blank, **rest)


def of_object(op, rv, uid, **rest):
    return Logged(0, uid.encode(), change(op, rv, uid, **rest))


def covered(after, upto, **rest):
    return Logged(0, wire.progress_key("c"), change(Op.PROGRESS, after_rv=after, upto_rv=upto, **rest))


def missing(after, upto, cause=Cause.RELIST_WINDOW, **rest):
    return Logged(0, wire.gap_key("c", cause, 7), change(Op.GAP, after_rv=after, upto_rv=upto, gap=Gap(cause), **rest))


def good():
    """A log, counters and requests that are as CASE expects."""
    return [
        of_object(Op.SNAPSHOT, "5", "u", seq=1),
        covered(None, "6"),
        of_object(Op.CREATED, "8", "v", seq=1),
        of_object(Op.DELETED, "9", "u", seq=2, prev_rv="5", inferred=True, after_rv="5", upto_rv="9"),
        Logged(0, b"u", None),
        missing("6", "9"),
        covered("9", "12"),
    ]


SEEN = (
    Seen(LANE, "list", {"limit": "500"}, "answered"),
    Seen(LANE, "watch", {"resourceVersion": "9", "allowWatchBookmarks": "true"}, "answered"),
)


def compared(log, *, counters=None, seen=SEEN, left=()):
    return compare(CASE, Outcome(log, {"duplicate": 1} if counters is None else counters, seen, left))


def test_what_is_expected_has_no_difference():
    assert compared(good()) == []


def without_progress(log):
    return [entry for entry in log if entry.change is None or entry.change.op is not Op.PROGRESS]


def conflicting(log):
    return [*log[:2], of_object(Op.CREATED, "8", "v", seq=1, gap=Gap(Cause.CONFLICT)), *log[3:]]


BAD_LOGS = {
    "a change is missing": ("u: DELETED@9, expected", lambda log: log[1:]),
    "a change too many": ("v: CREATED@8, UPDATED@11", lambda log: [*log, of_object(Op.UPDATED, "11", "v", seq=2)]),
    "an unknown UID": ("w: CREATED@11, expected", lambda log: [*log, of_object(Op.CREATED, "11", "w", seq=1)]),
    "another version": ("rv is '4'", lambda log: [of_object(Op.SNAPSHOT, "4", "u", seq=1), *log[1:]]),
    "a gap on a change": ("gap is Gap", conflicting),
    "no tombstone": ("no tombstone after", lambda log: log[:4] + log[5:]),
    "a tombstone of what lives": ("without a DELETED", lambda log: [*log, Logged(0, b"v", None)]),
    "a stream gap missing": ("gaps: []", lambda log: [*log[:5], covered("6", "9"), log[6]]),
    "a stream gap too many": ("gaps: [", lambda log: [*log[:6], missing("9", "10"), covered("10", "12")]),
    "a stream gap twice": ("not once in each", lambda log: [*log[:6], log[5], log[6]]),
    "a hole": ("leaves a hole after 6", lambda log: log[:5] + log[6:]),
    "a hole at the start": ("leaves a hole after None", lambda log: [log[0], covered("2", "6"), *log[2:]]),
    "an empty interval": ("is empty", lambda log: [*log, covered("12", "12")]),
    "resolved differs": ("resolved of", lambda log: [*log[:6], covered("9", "13")]),
    "nothing resolved": ("resolved of", without_progress),
    "another epoch": ("epoch: 2", lambda log: [*log, missing("12", "2", Cause.EPOCH_CHANGE, epoch=2)]),
    "the order differs": ("order: ", lambda log: [log[2], *log[:2], *log[3:]]),
    "an object under a wrong key": ("has the key b'x'", lambda log: [replace(log[0], key=b"x"), *log[1:]]),
    "a marker under a UID's key": ("as if it were an object", lambda log: [*log[:6], replace(log[6], key=b"v")]),
}


@pytest.mark.parametrize("name", BAD_LOGS)
def test_a_log_that_is_not_as_expected_is_refused(name):
    fault, spoil = BAD_LOGS[name]
    found = compared(spoil(good()))
    assert any(fault in one for one in found), found


@pytest.mark.parametrize("counters", [{"duplicate": 0}, {"duplicate": 3}, {"duplicate": 1, "conflict": 1}])
def test_counters_are_compared(counters):
    assert compared(good(), counters=counters)


BAD_REQUESTS = {
    "too many": SEEN[0],
    "refused": replace(SEEN[0], outcome="refused"),
    "never": Seen(LANE, "watch", {"resourceVersion": "5", "allowWatchBookmarks": "true"}, "idle"),
    "limit with a version": Seen(LANE, "list", {"limit": "5", "resourceVersion": "7"}, "idle"),
    "continue with a version": Seen(LANE, "list", {"continue": "x", "resourceVersion": "7"}, "idle"),
    "continue with a match": Seen(LANE, "list", {"continue": "x", "resourceVersionMatch": "Exact"}, "idle"),
    "from the cache": Seen(LANE, "list", {"resourceVersion": "0"}, "idle"),
    "from nowhere": Seen(LANE, "watch", {"allowWatchBookmarks": "true"}, "idle"),
    "no bookmarks": Seen(LANE, "watch", {"resourceVersion": "7"}, "idle"),
    "no match": Seen(LANE, "watchlist", {"sendInitialEvents": "true", "allowWatchBookmarks": "true"}, "idle"),
}


@pytest.mark.parametrize("name", BAD_REQUESTS)
def test_requests_are_compared(name):
    assert compared(good(), seen=(*SEEN, BAD_REQUESTS[name]))


def test_a_secret_is_found_wherever_it_is():
    assert compared(good(), left=[("a topic", b"...sentinel...")]) == ["never_bytes: 'sentinel' is in a topic"]


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ({"op": Op.UPDATED, "rv": "6", "seq": 3}, "seq"),
        ({"op": Op.UPDATED, "rv": "5", "seq": 2}, "comes after"),
        ({"op": Op.UPDATED, "rv": "4", "seq": 2}, "comes after"),
        ({"op": Op.UPDATED, "rv": "6", "seq": 1}, "seq"),
        ({"op": Op.GAP, "rv": "5", "seq": 2}, "GAP record has seq"),
        ({"op": Op.DELETED, "rv": "5", "seq": 2}, None),
        ({"op": Op.SNAPSHOT, "rv": "4", "seq": 2, "epoch": 2}, None),
        ({"op": Op.GAP, "rv": "5", "seq": None}, None),
    ],
)
def test_the_order_of_a_uid(second, fault):
    found = always.sequence("u", [change(Op.CREATED, "5", "u", seq=1), change(uid="u", **second)])
    assert (fault in found[0]) if fault else not found


def test_a_life_may_begin_again_after_a_delete():
    records = [change(Op.CREATED, "5", "u", seq=1), change(Op.DELETED, "6", "u", seq=2)]
    for seq in (1, 3):
        assert not always.sequence("u", [*records, change(Op.SNAPSHOT, "7", "u", seq=seq)])
    assert always.sequence("u", [*records, change(Op.SNAPSHOT, "7", "u", seq=2)])
    assert always.sequence("u", [*records, change(Op.DELETED, "6", "u", seq=3)])


def test_coverage_over_an_open_gap_and_a_new_epoch():
    log = [
        covered(None, "6"),
        missing("6", None, Cause.COVERAGE_LOST),
        missing("6", "9"),
        missing("9", "3", Cause.EPOCH_CHANGE, epoch=2),
        covered("3", "4", epoch=2),
    ]
    assert not always.coverage(log)
    assert always.coverage([*log[:2], covered("9", "10")])
    assert always.coverage([*log[:4], covered("4", "5", epoch=2)])


def test_a_stream_gap_belongs_in_every_partition():
    one = missing("6", "9")
    assert always.stream_gaps([one, replace(one, partition=1)], 2)[1] == []
    assert always.stream_gaps([one], 2)[1]
    assert always.stream_gaps([one, one, replace(one, partition=1)], 2)[1]


@pytest.mark.parametrize(
    ("reported", "expected", "fits"),
    [
        ([], [], True),
        (["/data/k"], [], False),
        ([], ["/data/k"], False),
        (["/data"], ["/data/k"], True),
        (["/data/k/x", "/data/k/y"], ["/data/k"], True),
        (["/data/kk"], ["/data/k"], False),
        (["/data/k"], ["/data/k", "/spec"], False),
    ],
)
def test_changed_paths(reported, expected, fits):
    assert touches(reported, expected) is fits


@pytest.mark.parametrize(
    ("value", "want", "fits"),
    [
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, True),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, False),
        ({}, {"a": None}, False),
        ({"a": 1}, {"a": {"any_of": [1, 2]}}, True),
        ({"a": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_objects_match_partly(value, want, fits):
    assert partly(value, want) is fits


def test_an_omitted_object():
    want = {"op": "UPDATED", "object_omitted": {"bytes_min": 10}}
    omitted = change(Op.UPDATED, object=None, object_omitted=ObjectOmitted("too-large", 10))
    assert not differences(omitted, want)
    assert differences(replace(omitted, object="{}"), want)
    assert differences(replace(omitted, object_omitted=ObjectOmitted("too-large", 9)), want)
    assert differences(replace(omitted, object_omitted=None), want)


def test_a_gap_is_free_on_an_inferred_delete_only():
    found = change(Op.DELETED, inferred=True, gap=Gap(Cause.AUDIT_DRIFT))
    assert not differences(found, {"op": "DELETED", "inferred": True})
    assert differences(found, {"op": "DELETED", "inferred": True, "gap": {"cause": "RELIST_WINDOW"}})
    assert differences(replace(found, inferred=False), {"op": "DELETED"})
    assert not differences(replace(found, inferred=False), {"op": "DELETED", "gap": "*"})
