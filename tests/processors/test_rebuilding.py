"""A lost state topic, rebuilt: no version is lost, written twice or out of order; what is unknown ends in a gap."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kubecdc.records import Cause, Op
from processors.rebuilding import Rebuild
from tests.processors.raw import Feed, T
from tests.processors.rebuilt import STEPS, Script, compacted, folded, loaded, rebuilt

NOISE = st.sampled_from(["emit", "drop"])


def numbered(log):
    return [(offset, event) for offset, (_, event) in enumerate(log)]


@given(STEPS, st.floats(0, 1), NOISE)
@settings(deadline=None, max_examples=400)
def test_of_whole_topics_the_state_is_rebuilt_to_the_letter(steps, part, noise):
    """Nothing compacted: what is rebuilt is what a worker had stored after the last event that left a change."""
    events = numbered(Script().run(steps).events)
    cut = int(len(events) * part)
    before = folded(events[:cut], noise)
    rebuild = rebuilt(before.changes, events[:cut], noise)
    truth = folded(events[: rebuild.src_offset + 1], noise)
    assert dict(rebuild.records()) == (truth.state if before.changes else {})
    after = loaded(rebuild, noise).feed(events)
    assert before.changes + after.changes == folded(events, noise).changes


def spans(log, op):
    """Versions that records of this op claim, as (epoch, version); closed intervals of streams only."""
    claimed = set()
    for _, change in log:
        if change is not None and change.uid is None and change.op is op and change.upto_rv and change.cluster:
            claimed |= {(change.epoch, rv) for rv in range(int(change.after_rv or 0) + 1, int(change.upto_rv) + 1)}
    return claimed


def objects(log):
    return [change for _, change in log if change is not None and change.uid is not None and change.op is not Op.GAP]


def version(change):
    return change.uid, change.epoch, change.rv, change.op is Op.DELETED


def causes(log):
    return {change.gap.cause for _, change in log if change is not None and change.gap is not None}


@given(STEPS, st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), NOISE)
@settings(deadline=None, max_examples=600)
def test_of_compacted_topics_nothing_is_lost_twice_or_deleted_and_what_is_unknown_is_a_gap(
    steps, part, raw_part, log_part, noise
):
    log = Script().run(steps).events
    events = numbered(log)
    cut = int(len(events) * part)
    before = folded(events[:cut], noise)
    left = [(key, change) for _, key, change in compacted(before.changes, int(len(before.changes) * log_part))]
    kept = [(offset, event) for offset, _, event in compacted(log, int(cut * raw_part))]
    rebuild = rebuilt(left, kept, noise)
    after = loaded(rebuild, noise).feed(events)
    truth = folded(events, noise)
    tail = truth.changes[len(before.changes) :]

    standing = {version(change) for change in objects(left)}
    written = {version(change) for change in objects(before.changes)}
    cut_off = left[-1:] != before.changes[-1:] or rebuild.report().cut
    for change in objects(after.changes):
        assert version(change) not in standing
        named = rebuild.report().vanished and causes([(b"", change)]) == {Cause.MISSED_CREATE}
        assert version(change) not in written or named or cut_off
        if change.inferred:
            assert version(change) in {version(c) for c in objects(truth.changes if cut_off else tail)}
    wanted = {version(change) for change in objects(tail) if not change.inferred}
    assert wanted <= {version(change) for change in objects(after.changes)}
    missing = {version(c) for c in objects(tail)} - {version(c) for c in objects(after.changes)}
    assert not missing or Cause.RELIST_INCOMPLETE in causes(after.changes)
    numbers = {version(change): (change.seq, change.prev_rv) for change in objects(tail)}
    for change in objects(after.changes):
        if version(change) in numbers and not rebuild.report().vanished and not cut_off:
            assert numbers[version(change)] == (change.seq, change.prev_rv)
    claimed = spans(after.changes, Op.PROGRESS) - spans(before.changes + after.changes, Op.GAP)
    assert claimed <= spans(truth.changes, Op.PROGRESS) - spans(truth.changes, Op.GAP)


def test_what_is_not_exact_is_counted():
    feed = Feed().relist("10", {"a": "5", "b": "6"}).send(T.MODIFIED, "a", "12").send(T.DELETED, "b", "13")
    rebuild = Rebuild(0)
    for key, change in feed.log:
        if not (change is not None and change.uid == "b"):  # compacted away, but for the tombstone
            rebuild.change(key, change)
    report = rebuild.report()
    assert (report.src_offset, report.uids, report.dead, report.streams) == (4, 1, 0, 1)
    assert (report.bare, report.vanished, report.holed, report.cut) == (1, 1, 0, True)
    assert Rebuild(0).records() == []


def test_a_log_whose_last_records_are_gone_is_told():
    """Then what was processed last does not show: the lives that ended there are in the log no more."""
    for last, high, cut in ((8, 10, False), (8, 11, True)):
        rebuild = Rebuild(0)
        for key, change in Feed().relist("10", {"a": "5"}).log:
            rebuild.change(key, change)
        rebuild.end(last, high)
        assert rebuild.report().cut == cut
