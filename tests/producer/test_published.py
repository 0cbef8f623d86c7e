"""The map of what was shown is exact and small, a restore is proven by it, and an audit accuses nobody falsely."""

from __future__ import annotations

import random
import tracemalloc
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubecdc.versions import newer
from producer.frames import Item
from producer.published import AuditRun, Drift, Older, Published, Versions, pack_uid, unpack_uid


def item(uid: str, rv: str) -> Item:
    return Item(uid, rv, {"metadata": {"uid": uid, "resourceVersion": rv}})


def published(live: dict[str, str], since: str | None = None, **more: Any) -> Published:
    known = Published(since, **more)
    for uid, rv in live.items():
        known.note(uid, rv)
    return known


@given(st.uuids().map(str) | st.uuids().map(lambda uid: str(uid).upper()) | st.text(min_size=1, max_size=40))
def test_packing_a_uid_is_exact(uid: str) -> None:
    assert unpack_uid(pack_uid(uid)) == uid


def test_a_uuid_with_leading_zeros_and_near_misses_are_exact() -> None:
    for uid in ("0" * 8 + "-0000-0000-0000-" + "0" * 11 + "a", "a" * 32, "0" * 36, "{" + "a" * 34 + "}"):
        assert unpack_uid(pack_uid(uid)) == uid


@given(st.from_regex(r"[1-9][0-9]{0,60}", fullmatch=True))
def test_versions_of_any_length_are_exact(rv: str) -> None:
    versions = Versions()
    for known in (rv, "9" * 5_000):
        versions.put("u", known)
        assert versions.get("u") == known
    assert "u" in versions
    assert "v" not in versions


@pytest.mark.parametrize("count", [43_691, 87_382, 100_000])
def test_an_object_takes_at_most_150_bytes(count: int) -> None:
    seeded = random.Random(7)
    pairs = [(str(uuid.UUID(int=seeded.getrandbits(128))), str(seeded.randrange(10**8, 10**10))) for _ in range(count)]
    tracemalloc.start()
    try:
        known = Published()
        for uid, rv in pairs:
            known.note(uid, rv)
        size, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(known) == count
    assert size / count <= 150


def test_what_was_shown_before_this_session_is_taken_over_where_it_knows_no_better() -> None:
    known = published({"a": "20", "b": "20"}, since="15")
    known.deleted("c", "18")
    before = Versions()
    for uid, rv in (("a", "12"), ("b", "21"), ("c", "12"), ("d", "12")):
        before.put(uid, rv)
    deleted = Versions()
    for uid, rv in (("a", "30"), ("e", "14")):
        deleted.put(uid, rv)
    known.recall(before, deleted)
    assert dict(known.live()) == {"a": "20", "b": "21", "d": "12"}
    assert (known.deleted_rv("a"), known.deleted_rv("e")) == (None, "14")
    assert known.since == "15"


def test_a_late_or_repeated_version_changes_nothing() -> None:
    known = published({"u": "9"})
    known.note("u", "9")
    known.note("u", "8")
    assert known.rv_of("u") == "9"
    known.note("u", "10")
    assert known.rv_of("u") == "10"
    known.deleted("u", "9")
    assert known.rv_of("u") == "10"


def test_a_deleted_uid_is_remembered_with_the_version_of_its_delete() -> None:
    known = published({"u": "9"})
    known.deleted("u", "12")
    assert (known.rv_of("u"), known.deleted_rv("u"), len(known)) == (None, "12", 0)
    known.note("u", "11")
    assert known.rv_of("u") is None
    known.note("u", "13")
    assert (known.rv_of("u"), known.deleted_rv("u")) == ("13", None)


def test_a_delete_may_repeat_the_last_version() -> None:
    known = published({"u": "9"})
    known.deleted("u", "9")
    assert (known.rv_of("u"), known.deleted_rv("u")) == (None, "9")


def test_recent_deletes_are_bounded_and_what_was_pushed_out_is_known_to_be_so() -> None:
    known = Published(deleted_max=10)
    for n in range(1, 31):
        known.deleted(f"u{n}", str(n))
    assert sum(known.deleted_rv(f"u{n}") is not None for n in range(1, 31)) == 10
    assert known.may_have_forgotten("19")
    assert not known.may_have_forgotten("20")


def test_items_below_known_versions_are_found_alive_or_deleted() -> None:
    known = published({"x": "140", "y": "9"})
    known.deleted("z", "150")
    found = known.older_items([item("x", "105"), item("y", "9"), item("z", "100"), item("new", "1")], "1000")
    assert found == (Older("x", "105", "140", deleted=False), Older("z", "100", "150", deleted=True))


def test_what_was_shown_beyond_the_list_proves_no_restore() -> None:
    known = published({"x": "140"})
    known.deleted("z", "150")
    items = [item("x", "105"), item("z", "100")]
    assert known.older_items(items, "139", below_list=True) == ()
    assert [older.uid for older in known.older_items(items, "145", below_list=True)] == ["x"]


def test_what_was_deleted_at_its_last_version_and_is_in_a_later_list_is_back() -> None:
    """Old servers show a delete at that version. An audit may have been read before the delete, and proves nothing."""
    known = published({})
    known.deleted("z", "150")
    back = (Older("z", "150", "150", deleted=True),)
    assert known.older_items([item("z", "150")], "151") == back
    assert known.older_items([item("z", "150")], "150") == ()
    assert known.older_items([item("z", "150")], "151", below_list=True) == ()


def test_a_complete_list_forgets_what_it_does_not_show() -> None:
    known = published({"stays": "5", "gone": "6", "later": "70"}, since="4")
    known.begin_list()
    known.listed("stays", "5")
    known.listed("new", "40")
    assert known.end_list("60") == 1
    assert dict(known.live()) == {"stays": "5", "new": "40", "later": "70"}
    assert known.deleted_rv("gone") == "60"
    assert known.since is None


def test_an_aborted_list_forgets_nothing() -> None:
    known = published({"a": "5", "b": "6"}, since="4")
    known.begin_list()
    known.listed("a", "5")
    known.abort_list()
    assert dict(known.live()) == {"a": "5", "b": "6"}
    assert known.since == "4"
    with pytest.raises(RuntimeError):
        known.end_list("9")
    with pytest.raises(RuntimeError):
        known.listed("a", "5")


def test_a_list_revives_a_uid_at_a_version_below_its_delete() -> None:
    known = published({})
    known.deleted("x", "150")
    known.begin_list()
    known.listed("x", "100")
    known.end_list("200")
    assert (known.rv_of("x"), known.deleted_rv("x")) == ("100", None)


def test_a_new_epoch_knows_nothing() -> None:
    known = published({"x": "5"}, since="3", deleted_max=1)
    known.deleted("y", "9")
    known.deleted("z", "9")
    known.new_epoch()
    assert (len(known), known.deleted_rv("z"), known.since, known.may_have_forgotten("1")) == (0, None, None, False)


class PublishedMachine(RuleBasedStateMachine):
    """One server's history, delivered in order with repeats, against a dict of what is alive."""

    UIDS = st.sampled_from(["a", "b", str(uuid.UUID(int=5))])

    def __init__(self) -> None:
        super().__init__()
        self.known = Published()
        self.truth: dict[str, str] = {}
        self.now = 8
        self.events: list[tuple[str, str, bool]] = []

    @rule(uid=UIDS)
    def write(self, uid: str) -> None:
        self.now += 1
        self.truth[uid] = str(self.now)
        self.events.append((uid, str(self.now), True))
        self.known.note(uid, str(self.now))

    @rule(uid=UIDS)
    def delete(self, uid: str) -> None:
        if self.truth.pop(uid, None):
            self.now += 1
            self.events.append((uid, str(self.now), False))
            self.known.deleted(uid, str(self.now))

    @rule(back=st.integers(1, 4))
    def replay(self, back: int) -> None:
        for uid, rv, alive in self.events[-back:]:
            (self.known.note if alive else self.known.deleted)(uid, rv)

    @rule()
    def list_all(self) -> None:
        items = [item(uid, rv) for uid, rv in self.truth.items()]
        assert self.known.older_items(items, str(self.now)) == ()
        self.known.begin_list()
        for listed in items:
            self.known.listed(listed.uid, listed.rv)
        assert self.known.end_list(str(self.now)) == 0

    @rule()
    def audit(self) -> None:
        run = AuditRun(str(self.now))
        run.page([item(uid, rv) for uid, rv in self.truth.items()], self.known)
        assert run.judge(self.known, str(self.now)) == Drift()

    @invariant()
    def shows_what_lives(self) -> None:
        assert dict(self.known.live()) == self.truth
        assert len(self.known) == len(self.truth)


TestPublished = PublishedMachine.TestCase


def audited(known: Published, list_rv: str, listed: dict[str, str], safe: str = "99", held: int = 10) -> Drift | None:
    run = AuditRun(list_rv, held)
    run.page([item(uid, rv) for uid, rv in listed.items()], known)
    return run.judge(known, safe)


def test_a_lost_delete_a_lost_update_and_a_lost_create_are_drift() -> None:
    known = published({"ghost": "5", "stale": "7", "fine": "9"})
    drift = audited(known, "25", {"stale": "20", "fine": "9", "new": "22"})
    assert drift == Drift(("ghost",), (item("stale", "20"),), (item("new", "22"),))
    assert drift


def test_nothing_is_judged_before_the_stream_has_passed_the_list() -> None:
    known = published({"ghost": "5"})
    run = AuditRun("25")
    run.page([item("new", "22")], known)
    assert run.judge(known, "24") is None
    known.note("new", "22")
    known.deleted("ghost", "24")
    assert run.judge(known, "25") == Drift()


def test_what_happened_after_the_list_is_no_drift() -> None:
    known = published({"changed": "5", "removed": "6", "same": "7"})
    run = AuditRun("25")
    run.page([item(uid, rv) for uid, rv in known.live()], known)
    known.note("changed", "30")
    known.note("created", "31")
    known.deleted("removed", "32")
    assert run.judge(known, "40") == Drift()


def test_a_wrong_delete_is_drift() -> None:
    known = published({"x": "5"})
    known.deleted("x", "10")
    assert audited(known, "25", {"x": "5"}) == Drift(unknown=(item("x", "5"),))
    known.revive("x", "5")
    assert audited(known, "26", {"x": "5"}) == Drift()


def test_an_item_below_its_known_version_is_evidence_of_a_restore() -> None:
    known = published({"x": "20", "later": "60"})
    assert audited(known, "50", {"x": "5", "later": "6"}) == Drift(older=(Older("x", "5", "20", deleted=False),))


def test_after_a_resume_older_items_become_known_and_newer_ones_are_drift() -> None:
    known = published({"seen": "40"}, since="30")
    known.deleted("dead", "45")
    drift = audited(known, "50", {"old": "10", "seen": "40", "lost": "35"}, safe="50")
    assert drift == Drift(unknown=(item("lost", "35"),))
    assert known.rv_of("old") == "10"
    assert known.since is None
    assert audited(known, "60", {"seen": "40"}, safe="60") == Drift(missing=("old",))


def test_a_list_older_than_the_resume_teaches_nothing() -> None:
    known = Published(since="30")
    assert audited(known, "20", {"old": "10"}, safe="30") == Drift()
    assert (len(known), known.since) == (0, "30")


def test_deletes_that_were_pushed_out_are_not_taken_for_lost_creates() -> None:
    known = published({}, deleted_max=1)
    for uid, rv in (("x", "30"), ("y", "31")):
        known.deleted(uid, rv)
    assert audited(known, "25", {"x": "5", "y": "6"}) == Drift()


def test_more_finds_than_are_kept_are_counted() -> None:
    drift = audited(published({}), "25", {f"u{n}": str(n) for n in range(1, 20)}, held=5)
    assert drift is not None
    assert (len(drift.unknown), drift.unheld) == (5, 14)


@given(st.dictionaries(st.sampled_from("abcd"), st.integers(1, 20).map(str)), st.integers(1, 25).map(str))
def test_drift_is_exactly_the_difference_up_to_the_lists_version(listed: dict[str, str], list_rv: str) -> None:
    listed = {uid: rv for uid, rv in listed.items() if not newer(rv, list_rv)}
    live = {"a": "5", "b": "11", "c": "19"}
    drift = audited(published(live), list_rv, listed)
    assert drift is not None
    assert set(drift.missing) == {uid for uid, rv in live.items() if uid not in listed and not newer(rv, list_rv)}
    assert {one.uid for one in drift.unknown} == listed.keys() - live.keys()
    assert {one.uid for one in drift.newer} == {uid for uid in listed.keys() & live if newer(listed[uid], live[uid])}
