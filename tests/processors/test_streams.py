"""Coverage of a stream: G1, every interval is PROGRESS or a GAP that names bounds and cause."""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import Relist
from processors import streams
from tests.processors.raw import Feed, T, raw


def test_a_first_list_and_its_bookmarks_leave_no_hole():
    feed = Feed().relist("50", {"a": "10"}).send(T.PROGRESS, rv="60").send(T.PROGRESS, rv="60")
    assert feed.covered() == [(None, "50"), ("50", "60")]
    assert feed.gaps() == []


def test_a_completed_relist_names_its_window_from_the_last_safe_version():
    feed = Feed().relist("50", {"a": "10"}).relist("80", {"a": "10"}, previous="52", reason="expired")
    assert feed.covered() == [(None, "50"), ("50", "52")]
    assert feed.gaps() == [("RELIST_WINDOW", "52", "80")]


def test_a_hole_in_a_session_is_named_when_its_bounds_are_known_and_by_its_age():
    feed = Feed().relist("50", {}).send(T.ADDED, "b", "55", skip=2).send(T.PROGRESS, rv="60")
    assert feed.gaps() == [("TRANSPORT_LOSS", "50", "60")]
    assert feed.counters["records_missing"] == 2
    assert feed.send(T.PROGRESS, rv="70").covered()[-1] == ("60", "70")
    old = Feed().relist("50", {})
    week_and_more = 8 * 24 * 3600 * 1000
    old.put(raw(T.PROGRESS, rv="60", seq=old.seqs["s1"] + 1), timestamp_ms=0, now_ms=week_and_more)
    assert old.gaps() == [("COMPACTED", "50", "60")]


def test_a_hole_may_reach_above_the_first_progress_after_it():
    """A delete is sent before it counts as safe: lost at 65, it lies above PROGRESS 60 (found by the simulation)."""
    feed = Feed().relist("50", {}).send(T.PROGRESS, rv="60", skip=1).send(T.COVERAGE_LOST, rv="60")
    feed.send(T.PROGRESS, rv="70").send(T.PROGRESS, rv="80")
    lost = [("TRANSPORT_LOSS", "50", "60"), ("COVERAGE_LOST", "60", None), ("TRANSPORT_LOSS", "60", "70")]
    assert feed.gaps() == lost
    assert feed.covered()[-1] == ("70", "80")


def test_another_session_covers_a_hole():
    feed = Feed().relist("50", {})
    feed.send(T.RESUMED, rv="50", session="s2").send(T.ADDED, "b", "55", skip=1)
    feed.send(T.PROGRESS, rv="60", session="s2").send(T.PROGRESS, rv="58").send(T.PROGRESS, rv="65")
    assert feed.gaps() == []
    assert feed.covered()[-1] == ("60", "65")


def test_a_session_that_begins_above_the_floor_leaves_a_gap():
    feed = Feed().relist("50", {}).send(T.RESUMED, rv="70", session="s2").send(T.PROGRESS, rv="80", session="s2")
    assert feed.gaps() == [("TRANSPORT_LOSS", "50", "70")]
    assert feed.covered()[-1] == ("70", "80")


def test_a_log_that_begins_inside_a_session_says_so():
    feed = Feed().send(T.RESUMED, rv="70").send(T.ADDED, "a", "75").send(T.PROGRESS, rv="80")
    assert feed.gaps() == [("COMPACTED", None, "70")]
    assert feed.ops("a") == [("CREATED", "75", 1)]


def test_lost_coverage_is_open_once_and_closed_by_what_follows():
    feed = Feed().relist("50", {}).send(T.COVERAGE_LOST, rv="55").send(T.COVERAGE_LOST, rv="55")
    assert feed.gaps() == [("COVERAGE_LOST", "55", None)]
    feed.relist("90", {}, previous="55")
    assert feed.gaps()[1:] == [("RELIST_WINDOW", "55", "90")]


def test_coverage_lost_before_any_list_is_closed_by_the_session_that_begins_it():
    """Else losing it once more would leave no record."""
    feed = Feed().send(T.COVERAGE_LOST, rv="10").send(T.RESUMED, rv="12").send(T.COVERAGE_LOST, rv="15")
    assert [gap for gap in feed.gaps() if gap[0] == "COVERAGE_LOST"] == [
        ("COVERAGE_LOST", None, None),
        ("COVERAGE_LOST", "15", None),
    ]


def test_a_count_that_is_wrong_is_a_gap_and_deletes_nothing():
    feed = Feed().relist("50", {"a": "10", "b": "11"}).relist("80", {"a": "10"}, expected=2)
    assert feed.gaps() == [("RELIST_INCOMPLETE", "50", "80")]
    assert feed.ops("b") == [("SNAPSHOT", "11", 1)]


def test_a_whole_list_after_an_incomplete_first_one_claims_nothing_of_what_lies_between():
    feed = Feed().relist("50", {"a": "10"}, expected=2).relist("80", {"a": "10"}, session="s2")
    assert feed.gaps() == [("RELIST_INCOMPLETE", None, "50"), ("RELIST_WINDOW", "50", "80")]
    assert feed.covered() == []


def test_after_an_incomplete_first_list_too_what_was_forgotten_stays_dead():
    """Found by the simulation: a second producer's DELETED began a second life."""
    feed = Feed().relist("50", {}, expected=1).send(T.RESUMED, rv="50", session="s2")
    for session in ("s1", "s2"):
        feed.send(T.ADDED, "a", "52", session=session).send(T.DELETED, "a", "55", session=session)
        feed.send(T.PROGRESS, rv="60", session=session)
    assert feed.ops("a") == [("CREATED", "52", 1), ("DELETED", "55", 2)]


def test_an_aborted_list_leaves_no_record_and_no_deletes():
    feed = Feed().relist("50", {"a": "10"})
    feed.send(T.RELIST_START, relist=Relist("x", "expired", "50", "60"))
    feed.send(T.RELIST_ABORTED, relist=Relist("x", "expired"))
    feed.send(T.RELIST_END, relist=Relist("x", "expired", "50", "60", 0))
    assert feed.ops("a") == [("SNAPSHOT", "10", 1)]
    assert [gap[0] for gap in feed.gaps()] == ["RELIST_INCOMPLETE"]


def test_an_older_list_lowers_nothing():
    feed = Feed().relist("50", {"a": "10"}).send(T.PROGRESS, rv="90").relist("70", {"a": "10"}, session="s2")
    assert feed.gaps() == []
    assert feed.covered()[-1] == ("50", "90")


def test_sessions_are_bounded():
    stream = streams.opened(raw(T.RESUMED, rv="1"))
    for number in range(100):
        session, _ = streams.enter(stream, raw(T.RESUMED, rv="1", session=f"s{number}"))
        stream = streams.advance(stream, session)
    assert [s.id for s in stream.sessions] == [f"s{n}" for n in range(100 - streams.SESSIONS_MAX, 100)]


def test_a_repeated_delivery_is_counted_and_changes_nothing():
    feed = Feed().relist("50", {"a": "10"})
    again = raw(T.LISTED, "a", "10", seq=1, relist=Relist("r50", "start", None, "50"))
    before = len(feed.log)
    feed.put(again)
    assert feed.counters["repeated"] == 1
    assert len(feed.log) == before


def test_a_second_session_that_finds_the_same_restore_raises_nothing_of_the_epoch_before():
    feed = Feed().relist("1200", {}).send(T.RESUMED, rv="1200", session="s2")
    feed.relist("1005", {}, epoch=2, previous="1200", reason="epoch")
    feed.relist("1006", {}, epoch=2, previous="1200", reason="epoch", session="s2")
    assert feed.gaps() == [("EPOCH_CHANGE", "1200", "1005"), ("RELIST_WINDOW", "1005", "1006")]
    assert feed.send(T.ADDED, "n", "1010", epoch=2).ops("n") == [("CREATED", "1010", 1)]


def test_a_later_epoch_whose_list_is_compacted_away_begins_with_a_gap():
    feed = Feed().relist("1200", {"a": "900"}).send(T.PROGRESS, rv="1300")
    feed.send(T.PROGRESS, rv="1100", epoch=2, skip=5)
    assert feed.gaps() == [("COMPACTED", None, "1100")]
    assert feed.send(T.ADDED, "n", "1110", epoch=2).ops("n") == [("CREATED", "1110", 1)]


def test_a_version_that_comes_late_while_another_session_lacks_records_stands_in_a_gap():
    """Nobody has told it: the other lacks it, and told of a later one before (found by the simulation)."""
    feed = Feed().relist("50", {"a": "45"}).relist("50", {"a": "45"}, session="s2")
    feed.send(T.DELETED, "a", "66", session="s2", skip=1)
    feed.send(T.MODIFIED, "a", "62").send(T.DELETED, "a", "66").send(T.PROGRESS, rv="70").send(T.PROGRESS, rv="80")
    assert feed.gaps() == [("TRANSPORT_LOSS", "50", "70")]
    assert feed.covered()[1:] == [("70", "80")]


def test_a_version_that_comes_late_is_a_copy_where_the_other_session_lacks_nothing():
    feed = Feed().relist("50", {"a": "45"}).relist("50", {"a": "45"}, session="s2")
    feed.send(T.MODIFIED, "a", "62", session="s2").send(T.DELETED, "a", "66", session="s2")
    feed.send(T.MODIFIED, "a", "62").send(T.DELETED, "a", "66").send(T.PROGRESS, rv="70")
    assert (feed.gaps(), feed.covered()[1:]) == ([], [("50", "70")])


def test_what_comes_late_from_the_epoch_before_casts_no_doubt_on_its_session():
    """Its version says nothing of this epoch."""
    late = raw(T.LISTED, "a", "45", session="s2", relist=Relist("r50", "first", None, "50"))
    stream = streams.opened(replace(late, epoch=2))
    session = streams.make_session("s2", 1, None, False)
    assert streams.doubted(stream, session, late) == session
    assert streams.doubted(stream, session, replace(late, epoch=2)).holed


def test_what_another_session_lacked_below_the_floor_casts_no_doubt():
    """A producer that died with a hole says nothing more; the floor has passed it (no gap where nothing is missed)."""
    feed = Feed().relist("50", {"a": "45"}).relist("50", {"a": "45"}, session="s2")
    feed.send(T.MODIFIED, "a", "55", session="s2", skip=1).send(T.MODIFIED, "a", "55").send(T.PROGRESS, rv="60")
    feed.send(T.MODIFIED, "a", "66", session="s3").send(T.MODIFIED, "a", "62").send(T.PROGRESS, rv="70")
    assert (feed.gaps(), feed.covered()[1:]) == ([], [("50", "60"), ("60", "70")])


def test_a_first_list_whose_items_another_list_has_overtaken_claims_nothing():
    """The log has the later versions only, so the state at this list's version cannot be told (simulation)."""
    first, second = Relist("r50", "first", None, "50"), Relist("r70", "first", None, "70")
    feed = Feed().send(T.RELIST_START, relist=first).send(T.RELIST_START, session="s2", relist=second)
    feed.send(T.LISTED, "a", "65", session="s2", relist=second).send(T.LISTED, "a", "45", relist=first)
    feed.send(T.RELIST_END, relist=replace(first, expected=1))
    feed.send(T.RELIST_END, session="s2", relist=replace(second, expected=1)).send(T.PROGRESS, rv="80")
    assert feed.gaps() == [("RELIST_WINDOW", None, "50"), ("RELIST_WINDOW", "50", "70")]
    assert feed.covered() == [("70", "80")]
