"""Deletes that nobody showed: each arrives with bounds and cause (G2), none of an object that may live (G5)."""

from __future__ import annotations

from kubecdc.records import Cause, Op, Relist
from tests.processors.raw import Feed, T


def test_a_complete_list_deletes_what_it_lacks_with_bounds():
    feed = Feed().relist("12", {"u1": "10", "u2": "11"}).relist("50", {"u2": "11"}, previous="12")
    gone = feed.of("u1")[-1]
    assert (gone.op, gone.rv, gone.seq, gone.inferred) == (Op.DELETED, "50", 2, True)
    assert (gone.after_rv, gone.upto_rv, gone.prev_rv) == ("10", "50", "10")
    assert feed.counters["duplicate"] == 1
    assert [value for key, value in feed.log if key == b"u1"][-1] is None


def test_a_list_spares_what_is_newer_than_it_and_what_is_out_of_its_scope():
    feed = Feed().relist("50", {"a": "10"}, scope="").send(T.ADDED, "b", "90")
    feed.relist("80", {"a": "10"}, session="s2")
    assert feed.ops("b") == [("CREATED", "90", 1)]
    scoped = Feed().relist("50", {"a": "10"}, namespace="team-a")
    scoped.send(T.RELIST_START, scope="team-b", session="s2", relist=Relist("x", "start", None, "60"))
    scoped.send(T.RELIST_END, scope="team-b", session="s2", relist=Relist("x", "start", None, "60", 0))
    assert scoped.ops("a") == [("SNAPSHOT", "10", 1)]


def test_a_reused_name_ends_the_old_uid_first():
    feed = Feed().relist("6", {"u1": "5"}, name="n").relist("20", {"u2": "18"}, name="n", previous="6")
    order = [(key, c.op) for key, c in feed.log if c is not None and c.uid]
    assert order == [(b"u1", Op.SNAPSHOT), (b"u1", Op.DELETED), (b"u2", Op.CREATED)]


def test_the_real_delete_after_an_inferred_one_is_dropped_and_counted():
    feed = Feed().relist("12", {"u1": "10"}).relist("70", {}, session="s2", previous=None)
    feed.send(T.DELETED, "u1", "60")
    assert feed.ops("u1")[-1] == ("DELETED", "70", 2)
    assert feed.counters.get("duplicate", 0) + feed.counters.get("stale", 0) == 1


def test_memory_is_bounded_by_what_lives():
    feed = Feed().relist("1", {})
    for number in range(10, 200, 2):
        uid = f"u{number}"
        feed.send(T.ADDED, uid, str(number)).send(T.DELETED, uid, str(number + 1))
    feed.send(T.PROGRESS, rv="500")
    assert feed.partition.uids == 0
    assert not [key for key in feed.state if not key.startswith(b"__")]


def compacted(feed: Feed, uid: str) -> Feed:
    """A DELETED that compaction has taken away, and the tombstone after it."""
    feed.seqs["s1"] = feed.seqs.get("s1", 0) + 1
    return feed.put(None, key=uid.encode())


def test_a_delete_of_which_only_the_tombstone_is_left_is_inferred():
    """Nothing else would ever say it: the producer has sent it, so neither a list nor an audit comes (G2)."""
    feed = compacted(Feed().relist("6", {"u": "5", "v": "4"}), "u").send(T.PROGRESS, rv="20")
    assert feed.ops("u")[-1][0] != "DELETED", "the delete may lie above the first PROGRESS after it"
    feed.restarted().send(T.PROGRESS, rv="30")
    gone = feed.of("u")[-1]
    assert (gone.op, gone.inferred, gone.after_rv, gone.upto_rv) == (Op.DELETED, True, "5", "30")
    assert gone.gap is not None
    assert gone.gap.cause is Cause.COMPACTED
    assert [value for key, value in feed.log if key == b"u"][-1] is None
    assert feed.ops("v") == [("SNAPSHOT", "4", 1)]


def test_the_tombstone_of_a_delete_that_was_judged_is_nothing_new():
    """Whatever the verdict was, and whoever lives by the time it comes."""
    feed = Feed().relist("6", {"u": "5"}).send(T.DELETED, "u", "9").put(None, key=b"u")
    feed.send(T.DELETED, "u", "9", session="s2").relist("12", {"u": "8"}, session="s3", previous="6")
    assert feed.ops("u")[-1][0] == "CREATED", "a consistent list shows it alive: RESURRECTED"
    feed.restarted().put(None, key=b"u").send(T.PROGRESS, rv="20").send(T.PROGRESS, rv="30")
    assert feed.ops("u")[-1][0] == "CREATED"
    feed.send(T.DELETED, "u", "7").put(None, key=b"u").send(T.PROGRESS, rv="40").send(T.PROGRESS, rv="50")
    assert feed.ops("u")[-1][0] == "CREATED", "a stale DELETED has a tombstone as well"


def test_an_object_that_is_shown_alive_again_is_not_deleted_for_an_old_tombstone():
    feed = compacted(Feed().relist("6", {"u": "5"}), "u").send(T.MODIFIED, "u", "15")
    feed.send(T.PROGRESS, rv="20").send(T.PROGRESS, rv="30")
    assert feed.ops("u")[-1] == ("UPDATED", "15", 2)


def test_a_tombstone_says_nothing_before_the_hole_of_its_own_session_is_mended():
    """Another session may go on below the delete, and show it later (found by the simulation)."""
    feed = Feed().relist("6", {"u": "5"}).relist("6", {"u": "5"}, session="s2")
    feed = compacted(feed, "u").send(T.PROGRESS, rv="10", session="s2").send(T.DELETED, "u", "14", session="s2")
    feed.put(None, key=b"u").send(T.PROGRESS, rv="20").send(T.PROGRESS, rv="30")
    assert feed.ops("u")[1:] == [("DELETED", "14", 2)]
