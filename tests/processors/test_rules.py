"""What one event means: G3 (each version once, in order) and G4 (a list never overwrites what is newer)."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kubecdc.records import Cause, Op, Relist, UidState
from processors import rules, streams
from processors.changes import next_state
from processors.rules import Verdict
from tests.processors.raw import T, manager, raw

STREAM = replace(streams.opened(raw(T.ADDED, "u", "1")), complete=True, floor="50")


def known(rv: str, **fields: object) -> UidState:
    state = next_state(frozenset(), None, raw(T.MODIFIED, "u", rv, generation=2), 4, deleted=False)
    return replace(state, **fields)  # type: ignore[arg-type]  # field names are checked by replace itself


def listed(rv: str, list_rv: str | None, reason: str = "expired", **fields: object):
    return raw(T.LISTED, "u", rv, relist=Relist("r", reason, None, list_rv), **fields)


@pytest.mark.parametrize(
    ("event", "op", "cause"),
    [
        (raw(T.ADDED, "u", "60"), Op.CREATED, None),
        (raw(T.MODIFIED, "u", "60"), Op.UPDATED, Cause.MISSED_CREATE),
        (raw(T.DELETED, "u", "60"), Op.DELETED, Cause.MISSED_CREATE),
        (listed("60", "70"), Op.CREATED, Cause.RELIST_WINDOW),
        (listed("40", "70"), Op.CREATED, Cause.RESURRECTED),
        (listed("40", "70", "audit"), Op.CREATED, Cause.AUDIT_DRIFT),
    ],
)
def test_an_unknown_uid_is_named_by_what_was_missed(event, op, cause):
    outcome = rules.decide(None, event, STREAM)
    assert (outcome.op, outcome.gap.cause if outcome.gap else None) == (op, cause)


@pytest.mark.parametrize("kind", [T.ADDED, T.MODIFIED, T.DELETED])
def test_at_or_below_the_floor_an_unknown_uid_is_a_deleted_one(kind):
    assert rules.decide(None, raw(kind, "u", "50"), STREAM).verdict is Verdict.STALE


def test_a_list_below_the_floor_is_no_evidence_of_life():
    assert rules.decide(None, listed("40", "45"), STREAM).verdict is Verdict.STALE


def test_a_streamed_list_is_no_evidence_of_life_before_it_tells_its_version():
    """Another producer may have shown the delete already (found by the simulation: a false RESURRECTED)."""
    assert rules.decide(None, listed("40", None), STREAM).verdict is Verdict.STALE
    assert rules.decide(known("60", deleted=True), listed("40", None), STREAM).verdict is Verdict.STALE


def test_a_list_item_is_a_snapshot_until_the_first_list_is_complete():
    outcome = rules.decide(None, listed("40", "70"), replace(STREAM, complete=False, floor=None))
    assert (outcome.op, outcome.gap) == (Op.SNAPSHOT, None)


@pytest.mark.parametrize(
    ("kind", "rv", "verdict"),
    [
        (T.ADDED, "100", Verdict.EMITTED),
        (T.MODIFIED, "99", Verdict.DUPLICATE),
        (T.LISTED, "99", Verdict.DUPLICATE),
        (T.MODIFIED, "98", Verdict.STALE),
        (T.LISTED, "9", Verdict.STALE),
        (T.DELETED, "98", Verdict.STALE),
        (T.DELETED, "99", Verdict.EMITTED),
    ],
)
def test_versions_compare_by_length_then_bytes(kind, rv, verdict):
    relist = Relist("r", "expired", None, "500") if kind is T.LISTED else None
    assert rules.decide(known("99"), raw(kind, "u", rv, relist=relist), STREAM).verdict is verdict


def test_an_added_of_a_live_uid_is_an_update():
    assert rules.decide(known("99"), raw(T.ADDED, "u", "100"), STREAM).op is Op.UPDATED


def test_a_newer_list_item_carries_the_relist_window():
    outcome = rules.decide(known("99"), listed("100", "200"), STREAM)
    assert outcome.op is Op.UPDATED
    assert outcome.gap is not None
    assert outcome.gap.cause is Cause.RELIST_WINDOW


def test_a_jump_of_the_generation_tells_how_many_are_missing():
    outcome = rules.decide(known("99"), raw(T.MODIFIED, "u", "100", generation=5), STREAM)
    assert outcome.gap is not None
    assert (outcome.gap.cause, outcome.gap.missed_at_least) == (Cause.GENERATION_JUMP, 2)


def test_other_content_of_the_same_version_is_a_conflict_once():
    event = raw(T.MODIFIED, "u", "99", digest="other")
    assert rules.decide(known("99"), event, STREAM).verdict is Verdict.CONFLICT
    assert rules.decide(known("99", conflict="other"), event, STREAM).verdict is Verdict.DUPLICATE


def test_digests_under_different_redaction_keys_are_no_conflict():
    event = raw(T.MODIFIED, "u", "99", digest="aa@key2")
    assert rules.decide(known("99", digest="bb@key1"), event, STREAM).verdict is Verdict.DUPLICATE
    assert rules.decide(known("99", digest="bb@key2"), event, STREAM).verdict is Verdict.CONFLICT


def test_another_api_version_of_the_same_version_is_a_duplicate():
    event = raw(T.MODIFIED, "u", "99", digest="other", version="v2")
    assert rules.decide(known("99"), event, STREAM).verdict is Verdict.DUPLICATE


def test_an_event_of_an_older_epoch_is_stale_and_of_a_newer_one_new():
    stream = replace(STREAM, epoch=2, complete=False, floor=None)
    assert rules.decide(known("99"), raw(T.MODIFIED, "u", "200"), stream).verdict is Verdict.STALE
    outcome = rules.decide(known("99"), listed("7", "70", epoch=2), stream)
    assert outcome.op is Op.SNAPSHOT


def test_what_a_later_list_shows_of_an_object_of_the_epoch_before_is_labelled():
    """The first list of the epoch was lost with the log's beginning (found by chaos with forced compaction)."""
    stream = replace(STREAM, epoch=2)
    outcome = rules.decide(known("99"), listed("7", "70", epoch=2), stream)
    assert (outcome.op, outcome.gap and outcome.gap.cause) == (Op.UPDATED, Cause.RELIST_WINDOW)
    outcome = rules.decide(known("99", deleted=True), listed("7", "70", epoch=2), stream)
    assert (outcome.op, outcome.gap and outcome.gap.cause) == (Op.CREATED, Cause.RESURRECTED)


@pytest.mark.parametrize(
    ("event", "verdict", "cause"),
    [
        (raw(T.DELETED, "u", "98"), Verdict.DUPLICATE, None),
        (raw(T.MODIFIED, "u", "98"), Verdict.STALE, None),
        (raw(T.MODIFIED, "u", "99"), Verdict.DUPLICATE, None),
        (raw(T.MODIFIED, "u", "100"), Verdict.EMITTED, Cause.RESURRECTED),
        (listed("90", "95"), Verdict.STALE, None),
        (listed("90", "120"), Verdict.EMITTED, Cause.RESURRECTED),
        (listed("90", "120", "audit"), Verdict.EMITTED, Cause.AUDIT_DRIFT),
    ],
)
def test_a_deleted_uid_returns_only_on_evidence(event, verdict, cause):
    outcome = rules.decide(known("99", deleted=True), event, STREAM)
    assert (outcome.verdict, outcome.gap.cause if outcome.gap else None) == (verdict, cause)


@pytest.mark.parametrize(("item_rv", "verdict"), [("99", Verdict.STALE), ("90", Verdict.EMITTED)])
def test_a_list_at_the_version_of_a_delete_that_old_servers_show_may_be_from_before_it(item_rv, verdict):
    """Such a delete has the version of the object, as this list has (found by the simulation: a false RESURRECTED)."""
    assert rules.decide(known("99", deleted=True), listed(item_rv, "99"), STREAM).verdict is verdict


def test_equal_content_is_noise_and_names_its_manager():
    event = raw(T.MODIFIED, "u", "100", digest="digest-99", managers=(manager("k", "t2"),))
    outcome = rules.decide(known("99", managers=(manager("k"),)), event, STREAM)
    assert (outcome.noise, outcome.changed, outcome.changed_by) == (True, (), (manager("k", "t2"),))


def test_changed_paths_are_named_once_and_not_below_each_other():
    before = json.dumps({"/data/a": "1", "/data/b": "2", "/spec": "3"})
    after = json.dumps({"/data": "9", "/spec": "4"})
    assert rules.changed_paths(before, after) == ("/data", "/spec")
    assert rules.changed_paths(before, before) == ()
