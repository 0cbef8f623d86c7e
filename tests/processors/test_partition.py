"""One partition folded: G2 (every delete), G3 (seq), G5 (partial lists delete nothing), and restarts at any point."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubecdc.errors import Undecodable
from kubecdc.records import Op, Relist
from processors.partition import Partition
from tests.processors.raw import Feed, T, raw


def test_a_restored_server_begins_an_epoch_like_a_first_start():
    feed = Feed().relist("50", {}).send(T.ADDED, "x", "100").send(T.ADDED, "z", "145").send(T.DELETED, "x", "150")
    feed.relist("1000000110", {"x": "100"}, epoch=2, previous="145", reason="epoch")
    assert [(c.op, c.epoch, c.seq) for c in feed.of("x")][-1] == (Op.SNAPSHOT, 2, 3)
    gap = feed.of("x")[-1].gap
    assert gap is not None
    assert gap.cause == "RESURRECTED"
    assert [(c.op, c.epoch, c.inferred) for c in feed.of("z")][-1] == (Op.DELETED, 2, True)
    assert feed.gaps() == [("EPOCH_CHANGE", "145", "1000000110")]


def test_unreadable_records_are_recorded_with_their_offset():
    feed = Feed().put(Undecodable("rubbish")).put(raw(T.ADDED, "u", "007")).put(raw(T.ADDED, None, "7")).put(None)
    details = [c.gap.detail for _, c in feed.log if c is not None and c.gap]
    assert [d.split(": ")[0] for d in details] == [f"events partition 0 offset {n}" for n in range(3)]
    assert (feed.counters["undecodable"], feed.counters["tombstone"]) == (3, 1)


def test_dropped_noise_keeps_the_chain_of_emitted_versions():
    feed = Feed(partition=Partition(0, noise="drop")).relist("5", {"u": "4"}, digest="d")
    feed.send(T.MODIFIED, "u", "6", digest="d").send(T.MODIFIED, "u", "7", digest="e")
    last = feed.of("u")[-1]
    assert (last.rv, last.prev_rv, last.seq) == ("7", "4", 2)
    assert feed.counters["noise_dropped"] == 1


def test_a_conflict_has_a_key_of_its_own():
    feed = Feed().relist("5", {"u": "4"}).send(T.MODIFIED, "u", "4", digest="other")
    key, change = feed.log[-1]
    assert key == b"__gap__/u"
    assert change is not None
    assert (change.op, change.uid, change.rv, change.seq) == (Op.GAP, "u", "4", None)
    assert feed.counters["conflict"] == 1


def test_what_was_truncated_is_a_compacted_gap():
    feed = Feed().relist("50", {"a": "10"})
    feed.partition.truncated(feed.offset + 5)
    feed.offset += 5
    feed.send(T.PROGRESS, rv="80", skip=3)
    assert feed.gaps() == [("COMPACTED", "50", "80")]


EVENTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["put", "delete"]), st.booleans(), st.booleans()), max_size=40
)


@given(EVENTS, st.integers(0, 39))
@settings(deadline=None)
def test_repeats_and_a_restart_anywhere_leave_the_log_of_a_naive_oracle(script, restart_at):
    """Each committed version once and in order, whatever is repeated and wherever the worker dies (G3)."""
    feed, oracle, alive, generation = Feed().relist("1", {}), [], {}, {}
    for number, (name, action, repeated, progress) in enumerate(script):
        rv, uid = str(number + 10), f"{name}{generation.get(name, 0)}"
        if action == "delete" and name not in alive:
            continue
        kind = T.DELETED if action == "delete" else (T.MODIFIED if name in alive else T.ADDED)
        for _ in range(2 if repeated else 1):
            feed.send(kind, uid, rv, name=name)
        seq = alive.get(name, 0) + 1
        oracle.append((uid, rv, seq))
        if kind is T.DELETED:
            del alive[name]
            generation[name] = generation.get(name, 0) + 1
        else:
            alive[name] = seq
        if progress:
            feed.send(T.PROGRESS, rv=rv)
        if number == restart_at:
            feed.restarted()
    got = [(c.uid, c.rv, c.seq) for _, c in feed.log if c is not None and c.uid]
    assert got == oracle
    assert feed.gaps() == []


def counts(feed: Feed) -> list[tuple[str | None, str | None, int | None]]:
    return [(c.after_rv, c.upto_rv, c.count) for _, c in feed.log if c is not None and c.op is Op.PROGRESS]


def test_progress_counts_every_change_of_an_object_inferred_ones_too():
    """`count` is what a reader adds up: a delete that was inferred for a name or by a list is a record like others."""
    feed = Feed().relist("6", {"u1": "5"}, name="n").send(T.ADDED, "u2", "18", name="n").send(T.PROGRESS, rv="20")
    assert feed.ops("u1")[-1][0] == "DELETED"
    assert counts(feed) == [(None, "6", 1), ("6", "20", 2)]


def test_progress_of_a_first_list_counts_what_it_swept():
    feed = Feed().send(T.RELIST_START, relist=Relist("r0", "start", None, "5"))
    feed.send(T.LISTED, "gone", "4", relist=Relist("r0", "start", None, "5"))
    feed.send(T.RELIST_ABORTED, relist=Relist("r0", "start", None, "5")).relist("9", {"u": "7"})
    assert feed.ops("gone")[-1][0] == "DELETED"
    assert counts(feed) == [(None, "9", 3)]


def test_deletes_of_a_list_that_proves_nothing_new_count_for_the_next_progress():
    feed = Feed().relist("5", {"u": "4"}).send(T.PROGRESS, rv="9")
    feed.relist("9", {}, session="s2", previous="9").send(T.PROGRESS, rv="12", session="s2")
    assert feed.ops("u")[-1][0] == "DELETED"
    assert counts(feed)[-1] == ("9", "12", 1)


ALL, ONE = {"session": "all"}, {"session": "one", "scope": "default"}


def in_both_scopes() -> Feed:
    """All namespaces are followed, and one of them by itself: two settings at once, or one after the other."""
    feed = Feed().relist("10", {"u": "5"}, **ALL)
    relist = Relist("one.1", "start", None, "10")
    feed.send(T.RELIST_START, relist=relist, **ONE).send(T.LISTED, "u", "5", relist=relist, **ONE)
    return feed.send(T.RELIST_END, relist=replace(relist, expected=1), **ONE)


def test_lists_of_overlapping_scopes_delete_nothing_that_each_of_them_has_shown():
    feed = in_both_scopes()
    wide, narrow = Relist("all.2", "expired", "10", "50"), Relist("one.2", "expired", "10", "52")
    feed.send(T.RELIST_START, relist=wide, **ALL).send(T.LISTED, "u", "5", relist=wide, **ALL)
    feed.send(T.RELIST_START, relist=narrow, **ONE).send(T.LISTED, "u", "5", relist=narrow, **ONE)
    feed.send(T.MODIFIED, "u", "49", **ONE)
    feed.send(T.RELIST_END, relist=replace(wide, expected=1), **ALL)
    feed.send(T.RELIST_END, relist=replace(narrow, expected=1), **ONE)
    assert feed.ops("u") == [(Op.SNAPSHOT, "5", 1), (Op.UPDATED, "49", 2)]


def test_a_life_that_one_scope_has_told_to_its_end_is_not_told_again_by_another():
    """Its UID was forgotten at the floor of the scope that told it; the other scope is behind."""
    feed = in_both_scopes()
    feed.send(T.ADDED, "v", "20", **ALL).send(T.DELETED, "v", "30", **ALL).send(T.PROGRESS, rv="40", **ALL)
    feed.send(T.ADDED, "v", "20", **ONE).send(T.DELETED, "v", "30", **ONE).send(T.PROGRESS, rv="40", **ONE)
    assert feed.ops("v") == [(Op.CREATED, "20", 1), (Op.DELETED, "30", 2)]
    feed.relist("25", {"u": "5", "v": "20"}, session="late", reason="start")
    assert len(feed.of("v")) == 2
    feed.relist("60", {"u": "5", "v": "20"}, session="late", reason="expired")
    assert [c.gap and c.gap.cause for c in feed.of("v")][2:] == ["RESURRECTED"]  # a newer list proves that it lives


@pytest.mark.parametrize(("rv", "namespace"), [("25", "default"), ("3", "elsewhere")])
def test_the_first_list_of_a_wider_scope_is_a_snapshot_where_nobody_told_before(rv: str, namespace: str):
    relist = Relist("one.1", "start", None, "10")
    feed = Feed().send(T.RELIST_START, relist=relist, **ONE)
    feed.send(T.RELIST_END, relist=replace(relist, expected=0), **ONE)
    feed.relist("30", {"w": rv}, namespace=namespace, **ALL).relist("31", {"w": rv}, namespace=namespace, **ALL)
    assert feed.ops("w") == [(Op.SNAPSHOT, rv, 1)]


def test_digests_that_nobody_can_read_are_recorded_and_the_partition_goes_on():
    feed = Feed().relist("10", {"u": "5"}).send(T.MODIFIED, "u", "20", paths="rubbish").send(T.MODIFIED, "u", "21")
    assert feed.ops("u")[1:] == [(Op.UPDATED, "21", 2)]
    assert feed.counters["undecodable"] == 1
    assert [cause for cause, _, _ in feed.gaps()] == ["UNDECODABLE"]
