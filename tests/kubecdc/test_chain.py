"""G1 and G3 as a reader checks them: whatever is taken out of, or put into, a sound log is noticed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc import chain
from kubecdc.chain import Break, Chain, Entry, Kind
from kubecdc.records import Cause, Change, Gap, Op
from tests.kubecdc.making import NOW_MS, change, entry, gap, progress

ALL_PROVEN = 0
NOTHING_PROVEN = NOW_MS * 2
LIFE = [
    change(Op.CREATED, rv="10", seq=1),
    change(Op.UPDATED, rv="11", seq=2),
    change(Op.UPDATED, rv="100", seq=3),
    change(Op.DELETED, rv="101", seq=4),
]


def breaks(
    log: Iterable[Change | Entry | None], *, whole: bool = True, horizon_ms: int = ALL_PROVEN
) -> list[tuple[Kind, int]]:
    return [(found.kind, found.offset) for found in all_breaks(log, whole=whole, horizon_ms=horizon_ms)]


def all_breaks(
    log: Iterable[Change | Entry | None], *, whole: bool = True, horizon_ms: int = ALL_PROVEN
) -> list[Break]:
    reader = Chain([0] if whole else [])
    placed = [item if isinstance(item, Entry) else entry(item, at=at) for at, item in enumerate(log)]
    return [found for item in placed for found in reader.step(item, horizon_ms)]


def test_a_sound_log_has_no_break():
    log = [
        LIFE[0],
        progress(None, "10", count=1),
        LIFE[1],
        gap(Cause.COVERAGE_LOST, "10", None),
        gap(Cause.RELIST_WINDOW, "10", "50"),
        progress("50", "60"),
        LIFE[2],
        LIFE[3],
        None,
        progress("60", "101", count=2),
    ]
    assert breaks(log) == []


@pytest.mark.parametrize("horizon_ms", [ALL_PROVEN, NOTHING_PROVEN])
@pytest.mark.parametrize(("rv", "epoch"), [("101", 1), ("10", 1)])
def test_a_life_that_begins_again_no_later_than_it_ended_is_noticed(rv: str, epoch: int, horizon_ms: int):
    """One that returns carries RESURRECTED (G3); compaction explains no record that comes twice."""
    again = change(Op.CREATED, rv=rv, seq=1, epoch=epoch)
    assert breaks([*LIFE, again], horizon_ms=horizon_ms) == [(Kind.ORDER, 4)]
    returned = replace(again, gap=Gap(Cause.RESURRECTED))
    assert breaks([*LIFE, returned], horizon_ms=horizon_ms) == []


def test_a_life_that_begins_again_later_or_in_a_later_epoch_is_sound():
    for again in (change(Op.CREATED, rv="102", seq=1), change(Op.CREATED, rv="5", seq=1, epoch=2)):
        assert breaks([*LIFE, again]) == []


@given(st.integers(0, 2))
def test_each_missing_record_of_a_life_is_noticed_by_the_next_one(missing: int):
    log = [each for at, each in enumerate(LIFE) if at != missing]
    assert breaks(log) == [(Kind.SEQ, missing)]


def test_a_record_that_comes_twice_is_noticed():
    assert breaks([LIFE[0], LIFE[0]]) == [(Kind.SEQ, 1), (Kind.ORDER, 1)]


def test_versions_compare_as_numbers_of_any_length():
    assert breaks([change(rv="9", seq=1), change(Op.UPDATED, rv="10", seq=2)]) == []
    assert breaks([change(rv="10", seq=1), change(Op.UPDATED, rv="9", seq=2)]) == [(Kind.ORDER, 1)]


def test_a_new_epoch_may_have_lower_versions_and_an_old_one_may_not_return():
    assert breaks([change(rv="10"), change(Op.SNAPSHOT, rv="3", seq=2, epoch=2)]) == []
    assert breaks([change(rv="10", epoch=2), change(Op.UPDATED, rv="30", seq=2)]) == [(Kind.ORDER, 1)]


def test_a_deleted_may_repeat_the_version_before_it_and_nothing_else_may():
    assert breaks([change(rv="10"), change(Op.DELETED, rv="10", seq=2)]) == []
    assert breaks([change(rv="10"), change(Op.UPDATED, rv="10", seq=2)]) == [(Kind.ORDER, 1)]


@pytest.mark.parametrize("seq", [1, 5])
def test_a_resurrected_uid_begins_a_life_anew_or_goes_on_counting(seq: int):
    back = change(Op.CREATED, rv="90", seq=seq, gap=Gap(Cause.RESURRECTED))
    assert breaks([*LIFE, None, back, change(Op.UPDATED, rv="200", seq=seq + 1)]) == []


def test_a_uid_that_goes_on_after_its_end_without_a_reason_is_noticed():
    assert breaks([*LIFE, None, change(Op.UPDATED, rv="200", seq=5)]) == [(Kind.SEQ, 5)]


def test_a_life_begins_with_1_where_all_of_the_log_was_read():
    assert breaks([change(Op.UPDATED, seq=3)]) == [(Kind.SEQ, 0)]


def test_reading_from_the_middle_accepts_the_first_record_and_no_later_hole():
    assert breaks([LIFE[1], LIFE[3]], whole=False) == [(Kind.SEQ, 1)]


def test_what_compaction_may_have_taken_is_no_break():
    assert breaks([LIFE[0], LIFE[2], progress("50", "60"), progress("70", "80")], horizon_ms=NOTHING_PROVEN) == []
    assert breaks([LIFE[2], LIFE[1]], horizon_ms=NOTHING_PROVEN) == [(Kind.SEQ, 1), (Kind.ORDER, 1)]


def test_only_the_record_after_the_hole_must_be_old_for_compaction_to_explain_it():
    old = entry(LIFE[0], at=0, ms=NOW_MS - 1000)
    assert breaks([old, entry(LIFE[2], at=1)], horizon_ms=NOW_MS - 500) == [(Kind.SEQ, 1)]
    assert breaks([old, entry(LIFE[2], at=1, ms=NOW_MS - 600)], horizon_ms=NOW_MS - 500) == []


def test_a_tombstone_ends_a_life_whose_deleted_was_compacted_away():
    back = change(Op.CREATED, rv="90", seq=1, gap=Gap(Cause.RESURRECTED))
    assert breaks([LIFE[0], None, back], horizon_ms=NOTHING_PROVEN) == []
    assert breaks([LIFE[0], change(rv="90")]) == [(Kind.SEQ, 1)]


@pytest.mark.parametrize(
    "second",
    [
        progress("11", "20"),
        gap(Cause.RELIST_WINDOW, "11", "20"),
        gap(Cause.COVERAGE_LOST, "11", None),
        progress(None, "20"),
    ],
)
def test_coverage_that_leaves_versions_unnamed_is_noticed(second: Change):
    assert breaks([progress(None, "10"), second]) == [(Kind.COVERAGE, 1)]


def test_coverage_of_partitions_scopes_and_kinds_is_apart():
    log = [
        entry(progress(None, "10"), at=0),
        entry(progress(None, "4"), at=1, partition=1),
        entry(progress(None, "5", scope="a"), at=2),
        entry(progress(None, "6", resource="secrets"), at=3),
        entry(progress("4", "8"), at=4, partition=1),
    ]
    assert breaks(log) == []


def test_coverage_that_overlaps_is_fine():
    assert breaks([progress(None, "10"), gap(Cause.RELIST_INCOMPLETE, "8", "10"), progress("10", "12")]) == []


def test_an_epoch_begins_coverage_anew():
    log = [
        progress(None, "100"),
        change(Op.SNAPSHOT, rv="7", epoch=2),
        gap(Cause.EPOCH_CHANGE, "100", "8", epoch=2),
        progress("8", "9", epoch=2),
    ]
    assert breaks(log) == []
    assert breaks([*log, progress("100", "101")]) == [(Kind.COVERAGE, 4)]


def test_the_first_coverage_says_where_it_begins():
    assert breaks([progress("5", "10")]) == [(Kind.COVERAGE, 0)]
    assert breaks([progress("5", "10")], whole=False) == []


def test_fewer_records_than_progress_claims_are_noticed():
    other = change(uid="u2", rv="12")
    assert breaks([progress(None, "10"), other, progress("10", "20", count=1)]) == []
    assert breaks([progress(None, "10"), progress("10", "20", count=1)]) == [(Kind.COUNT, 1)]
    assert breaks([progress(None, "10"), progress("10", "20", count=1)], horizon_ms=NOTHING_PROVEN) == []


def test_records_about_a_single_object_or_offset_are_no_coverage():
    conflict = change(Op.GAP, "u1", "10", seq=None, gap=Gap(Cause.CONFLICT))
    undecodable = gap(Cause.UNDECODABLE, None, None, cluster="", resource="", epoch=0)
    assert breaks([LIFE[0], conflict, undecodable, undecodable, LIFE[1]]) == []


def test_an_object_without_version_or_seq_is_a_break():
    assert breaks([change(rv=None), change(uid="u2", rv="010"), change(uid="u3", seq=None)]) == [
        (Kind.SEQ, 0),
        (Kind.SEQ, 1),
        (Kind.SEQ, 2),
    ]


def test_a_break_names_object_and_place():
    (found,) = all_breaks([LIFE[0], LIFE[2]])
    assert str(found) == "seq broken at partition 0 offset 1: pods ns/pod-u1 (u1) has seq 3 after 1"


def test_memory_of_ended_lives_is_bounded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(chain, "ENDED_MAX", 10)
    reader = Chain([0])
    for number in range(100):
        uid = f"u{number}"
        assert reader.step(entry(change(uid=uid, rv=f"{1000 + 2 * number}"), at=0), 0) == []
        assert reader.step(entry(change(Op.DELETED, uid=uid, rv=f"{1001 + 2 * number}", seq=2), at=0), 0) == []
        assert reader.step(entry(None, key=uid, at=0), 0) == []
    assert len(reader._ended) == 10
    assert not reader._lives


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=30), st.data())
def test_any_one_record_lost_before_another_of_its_uid_is_noticed(steps: list[tuple[int, bool]], data: st.DataObject):
    """Against a model: lives of three UIDs that begin, change and end in any order."""
    log: list[Change] = []
    seqs: dict[int, int] = {}
    for rv, (uid, end) in enumerate(steps, 1):
        seq = seqs.get(uid, 0) + 1
        op = Op.CREATED if seq == 1 else Op.DELETED if end else Op.UPDATED
        seqs[uid] = 0 if op is Op.DELETED else seq
        log.append(change(op, f"u{uid}", str(rv), seq=seq))
    assert breaks(log) == []
    if not log:
        return
    lost = data.draw(st.integers(0, len(log) - 1))
    gone = log.pop(lost)
    later = [each for each in log[lost:] if each.uid == gone.uid]
    assert bool(breaks(log)) == bool(later)
