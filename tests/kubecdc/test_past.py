"""The state at an earlier version: exactly what lived then, or a word on what cannot be known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.folding import Fold, Resolved, Resource
from kubecdc.past import Past
from kubecdc.records import Cause, Gap, Op
from tests.kubecdc.making import change, entry, gap, progress

PODS = Resource("c", "", "pods")


def at(rv, *log, epoch=1):
    past = Past({(PODS, ""): Resolved(epoch, rv)})
    for place, item in enumerate(log):
        past.step(entry(item, at=place))
    return past


def test_what_came_later_is_left_out_and_what_was_deleted_later_lives():
    log = [change(rv="10"), change(Op.UPDATED, rv="12", seq=2, prev_rv="10")]
    log += [change(Op.DELETED, rv="14", seq=3, prev_rv="12"), None]
    assert [at(rv, *log).objects.get("u1") for rv in ("9", "10", "11", "12", "13", "14")] == [
        *(None, log[0], log[0], log[1], log[1], None)
    ]


def test_a_version_that_compaction_has_taken_is_told():
    assert at("11", change(Op.UPDATED, rv="12", seq=4, prev_rv="10")).compacted == {"u1"}
    assert at("12", change(Op.UPDATED, rv="12", seq=4, prev_rv="10")).compacted == set()
    assert at("11", change(rv="12")).compacted == set()


def test_what_may_have_happened_before_or_after_is_uncertain():
    inferred = change(Op.DELETED, rv="20", seq=2, prev_rv="10", inferred=True, after_rv="10", upto_rv="20")
    assert at("15", change(rv="10"), inferred).uncertain == {"u1"}
    assert at("20", change(rv="10"), inferred).uncertain == set()
    missed = change(Op.UPDATED, rv="20", seq=2, prev_rv="10", gap=Gap(Cause.RELIST_WINDOW))
    assert at("15", change(rv="10"), missed).uncertain == {"u1"}


def test_a_version_inside_a_gap_of_the_stream_is_told_and_at_its_end_all_is_known():
    window = gap(Cause.RELIST_WINDOW, "10", "20")
    assert [bool(at(rv, window).inside) for rv in ("10", "11", "19", "20")] == [False, True, True, False]
    restored = gap(Cause.EPOCH_CHANGE, "90", "20", epoch=2)
    assert [bool(at(rv, restored, epoch=2).inside) for rv in ("15", "20")] == [True, False]


def test_of_an_epoch_before_everything_counts():
    old = change(rv="900")
    assert at("5", old, epoch=2).objects == {"u1": old}


def test_other_streams_are_left_out():
    assert at("50", change(rv="10", scope="ns"), progress(None, "60")).objects == {}


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=30), st.integers(0, 31))
def test_the_state_at_any_version_is_what_a_reader_of_that_time_had(script, cut):
    log, alive = [], {}
    for number, (uid, deleted) in enumerate(script):
        before = alive.get(uid)
        if deleted and before is None:
            continue
        op = Op.DELETED if deleted else Op.UPDATED if before else Op.CREATED
        seq = before.seq + 1 if before else 1
        item = change(op, uid=uid, rv=str(10 + number), seq=seq, prev_rv=before.rv if before else None)
        alive[uid] = None if deleted else item
        log.append(item)
    then = Fold(1)
    for item in log:
        if int(item.rv) <= 10 + cut:
            then.step(entry(item))
    past = at(str(10 + cut), *log)
    assert past.objects == then.objects
    assert not past.compacted | past.uncertain
