"""What the changes topic alone says of a stream: never a version more than is proven, whatever compaction has taken."""

from __future__ import annotations

from kubecdc.records import Op
from processors.coverage import BEGINS_INSIDE, Coverage
from tests.processors.raw import Feed, T


def covered(feed, *, kept=lambda change: True):
    coverage = Coverage("v1", 1)
    for place, (_, change) in enumerate(feed.log):
        if change is not None and kept(change):
            if change.uid is None:
                coverage.stream(change, place)
            else:
                coverage.object(change)
    return coverage


def last_progress_only(feed):
    last = [change for _, change in feed.log if change is not None and change.op is Op.PROGRESS][-1]
    return lambda change: change.op is not Op.PROGRESS or change is last


def test_a_first_list_is_complete_also_when_its_record_was_compacted_away():
    feed = Feed().relist("10", {"a": "5"}).send(T.MODIFIED, "a", "12").send(T.PROGRESS, rv="20")
    for kept in (lambda change: True, last_progress_only(feed)):
        coverage = covered(feed, kept=kept)
        assert (coverage.floor, coverage.complete, coverage.before_epoch) == ("20", True, None)


def test_a_first_list_that_was_incomplete_stays_so_until_one_is_complete():
    feed = Feed().relist("10", {"a": "5"}, expected=2).send(T.PROGRESS, rv="20")
    assert (covered(feed).floor, covered(feed).complete) == ("20", False)
    feed.relist("30", {"a": "5"}, previous="20").send(T.PROGRESS, rv="40")
    feed.relist("50", {"a": "5"}, previous=None, session="s2")
    assert covered(feed).complete


def test_a_log_that_begins_inside_a_session_covers_from_there():
    """The detail of that gap is what tells it from one that begins nowhere."""
    feed = Feed().send(T.RESUMED, rv="10", skip=3)
    assert [change.gap.detail for _, change in feed.log if change and change.gap] == [BEGINS_INSIDE]
    assert covered(feed).complete
    holed = Feed().send(T.PROGRESS, rv="10", skip=3)
    assert (covered(holed).floor, covered(holed).complete) == ("10", False)


def test_lost_coverage_is_open_until_the_floor_rises():
    feed = Feed().relist("10", {}).send(T.COVERAGE_LOST, rv="12")
    assert covered(feed).lost
    feed.relist("30", {}, previous="12")
    assert not covered(feed).lost


def test_an_epoch_that_has_begun_remembers_where_the_one_before_ended():
    feed = Feed().relist("10", {"a": "5"}).send(T.MODIFIED, "a", "7", epoch=2)
    coverage = covered(feed)
    assert (coverage.epoch, coverage.floor, coverage.complete, coverage.before_epoch) == (2, None, False, "10")
    feed.relist("9", {"a": "7"}, epoch=2, previous=None)
    assert (covered(feed).floor, covered(feed).complete, covered(feed).before_epoch) == ("9", True, None)
