"""Deletes that nobody showed: each arrives with bounds and cause (G2), none of an object that may live (G5)."""

from __future__ import annotations

from kubecdc.records import Op, Relist
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


def test_objects_without_a_name_take_it_from_nobody():
    feed = Feed().relist("10", {}).send(T.ADDED, "u1", "20", name="").send(T.ADDED, "u2", "21", name="")
    assert feed.ops("u1") == [(Op.CREATED, "20", 1)]


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


def unread(feed: Feed, uid: str, rv: str, **fields: object) -> Feed:
    """A DELETED that compaction has taken away, and the tombstone after it."""
    return feed.tombstone(uid, rv, seq=feed.seqs.get(str(fields.get("session", "s1")), 0), **fields)


def test_a_delete_of_which_only_the_tombstone_is_left_arrives_at_its_version():
    """Nothing else would ever say it: the producer has sent it, so neither a list nor an audit comes (G2)."""
    feed = unread(Feed().relist("6", {"u": "5", "v": "4"}), "u", "9").send(T.PROGRESS, rv="20")
    gone = feed.of("u")[-1]
    assert (gone.op, gone.rv, gone.prev_rv, gone.seq, gone.inferred) == (Op.DELETED, "9", "5", 2, False)
    assert gone.object_omitted is not None
    assert gone.object_omitted.reason == "compacted-away"
    assert [value for key, value in feed.log if key == b"u"][-1] is None
    assert feed.ops("v") == [("SNAPSHOT", "4", 1)]
    assert (feed.gaps(), feed.covered()[-1]) == ([], ("6", "20")), "nothing is missing"


def test_the_tombstone_of_a_delete_that_was_judged_is_nothing_new():
    """Whatever the verdict was, whoever lives by the time it comes, and over a restart."""
    feed = Feed().relist("6", {"u": "5"}).send(T.DELETED, "u", "9").tombstone("u", "9")
    assert feed.counters["tombstone"] == 1
    feed.send(T.DELETED, "u", "9", session="s2").relist("12", {"u": "8"}, session="s3", previous="6")
    assert feed.ops("u")[-1][0] == "CREATED", "a consistent list shows it alive: RESURRECTED"
    feed.restarted().tombstone("u", "9", session="s2").send(T.DELETED, "u", "7").tombstone("u", "7")
    assert feed.ops("u")[-1][0] == "CREATED"
    assert feed.counters["tombstone"] == 3
    assert "repeated" not in feed.counters


def test_the_tombstone_of_an_older_delete_does_not_end_what_is_known_to_live():
    feed = Feed().relist("6", {"u": "5"}).relist("30", {"u": "20"}, session="s2", previous="6")
    unread(feed, "u", "9")
    assert feed.ops("u")[-1] == ("UPDATED", "20", 2)
    assert feed.counters["stale"] == 1


def test_what_was_compacted_away_before_the_delete_is_a_gap_and_the_delete_arrives():
    """The object's last versions went with its DELETED; those are named, not the delete (G1, G2)."""
    feed = Feed().relist("6", {"u": "5"})
    feed.seqs["s1"] += 3
    unread(feed, "u", "12").send(T.PROGRESS, rv="20").send(T.PROGRESS, rv="30")
    assert feed.ops("u") == [("SNAPSHOT", "5", 1), ("DELETED", "12", 2)]
    assert feed.gaps() == [("TRANSPORT_LOSS", "6", "20")]
    assert feed.covered()[-1] == ("20", "30")


def test_a_whole_life_that_was_compacted_away_ends_in_the_log():
    feed = Feed().relist("6", {})
    feed.seqs["s1"] += 2
    unread(feed, "u", "12")
    assert [(c.op, c.gap.cause if c.gap else None) for c in feed.of("u")] == [(Op.DELETED, "MISSED_CREATE")]


def test_a_tombstone_that_tells_nothing_is_counted():
    """Of a producer from before headers, or of somebody else."""
    feed = Feed().relist("6", {"u": "5"}).put(None)
    assert (feed.counters["tombstone"], feed.ops("u")) == (1, [("SNAPSHOT", "5", 1)])


def test_the_deleted_are_remembered_until_a_list_was_complete():
    """Else the first list of a slower producer, from before the delete, brings one back (seed 486, G3)."""
    feed = Feed().relist("10", {"u": "5"}, expected=2).send(T.DELETED, "u", "12").send(T.PROGRESS, rv="15")
    feed.restarted().relist("8", {"u": "5"}, session="s2")
    assert feed.ops("u") == [("SNAPSHOT", "5", 1), ("DELETED", "12", 2)]
    feed.send(T.PROGRESS, rv="20")
    assert feed.partition.uids == 0
