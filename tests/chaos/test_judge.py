"""The judge refuses a log for each thing that can be wrong with it, and accepts one that is right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kubecdc.records import Cause, Change, Op
from local.check_coverage import coverages
from local.verdicts import Entry, Status
from tests.chaos import judge
from tests.chaos.epochs import parts
from tests.chaos.judge import Acked, Case
from tests.checkers.history import Record
from tests.local.logs import change, delete, gap, inferred, progress, put

PODS = ("", "pods")


def log_of(changes: Sequence[Change]) -> list[Record]:
    """Each made of an event of its own."""
    return [
        Record(0, offset, 0, (each.uid or "").encode(), replace(each, source=replace(each.source, offset=offset)))
        for offset, each in enumerate(changes)
    ]


GOOD = (
    progress(None, 1),
    change(Op.CREATED, "a", 2, seq=1),
    change(Op.UPDATED, "a", 3, seq=2, prev=2),
    change(Op.CREATED, "b", 4, seq=1),
    change(Op.DELETED, "b", 5, seq=2, prev=4),
    progress(1, 5),
)
TRUTH = (put("a", 2), put("a", 3), put("b", 4), delete("b", 5))


def case(changes: Sequence[Change] = GOOD, **other) -> Case:
    given = {
        "truths": [TRUTH],
        "records": log_of(changes),  # offset n made of event n
        "events": [],
        "partitions": 1,
        "expected": [PODS],
        "acked": [Acked(1, "a", "3")],
        "comparable": {0: 0},
        "listed": {"a": "3"},
        "positions": {0: 9},  # done, of events 0 to 9
        "ends": {0: 10},
        "open_transactions": [],
        "struck": {},
        "verify": (0, ""),
        "late": [],
    }
    return Case(**{**given, **other})


def status(name: str, given: Case) -> Status:
    return judge.verdicts(given)[name].status


def test_a_good_log_is_accepted():
    found = judge.verdicts(case())
    own = {name: found[name].status for name in ("G1", "G2", "G3", *judge.CHECKS) if found[name].judged}
    assert set(own.values()) == {Status.HOLDS}


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("G1", case([*GOOD[:2], *GOOD[3:]])),
        ("G2", case([*GOOD[:4], GOOD[5]])),
        ("G3", case([GOOD[0], GOOD[2], GOOD[1], *GOOD[3:]])),
        ("exactly once", case([*GOOD[:3], GOOD[2], *GOOD[3:]])),
        ("acknowledged", case(acked=[Acked(1, "a", "7")])),
        ("G8 converged", case(listed={"a": "3", "c": "9"})),
        ("G8 converged", case(listed={})),
        ("G8 verify", case(verify=(1, "pods differ"))),
        ("in time", case(late=["pods, epoch 1, partition 0: 4 of 5"])),
        ("lag 0", case(ends={0: 11})),
        ("no open transaction", case(open_transactions=["changes [0]"])),
        ("undisturbed", case(comparable={})),
    ],
    ids=["loss", "delete", "order", "twice", "truth", "missing", "surplus", "verify", "late", "lag", "open", "other"],
)
def test_what_is_wrong_is_refused(name: str, given: Case):
    assert status(name, given) is Status.FAILS


def test_what_verify_cannot_tell_is_not_called_equal():
    assert status("G8 verify", case(verify=(2, "resolved up to 4 only"))) is Status.UNKNOWN


def test_an_event_that_is_processed_late_is_refused():
    *before, last = log_of(GOOD)
    late = replace(last.change, source=replace(last.change.source, offset=1))
    assert status("source order", case(records=[*before, replace(last, change=late)])) is Status.FAILS


RESTORED = (
    *GOOD,
    replace(gap(5, 4, Cause.EPOCH_CHANGE), epoch=2),
    replace(change(Op.SNAPSHOT, "a", 3, seq=3, prev=3), epoch=2),
    replace(inferred("c", 5, 4, seq=2), epoch=2),
    replace(progress(4, 6), epoch=2),
)


def entries(changes: Sequence[Change]) -> list[Entry]:
    return [Entry(each.partition, each.offset, each.change) for each in log_of(changes)]


def test_a_restore_is_judged_by_two_histories():
    restored = (put("a", 2), put("a", 3), put("a", 6))
    first, second = parts(entries(RESTORED), [TRUTH, restored], [PODS])
    assert [entry.change.op for entry in first.log][-1] is Op.GAP
    assert first.log[-1].change.upto_rv is None
    assert not first.last
    assert [entry.change.op for entry in second.log] == [Op.PROGRESS, Op.SNAPSHOT, Op.DELETED, Op.PROGRESS]
    assert second.log[0].change.after_rv is None
    assert (second.truth, second.last) == (list(restored), True)


def test_an_epoch_whose_first_list_lost_items_begins_with_that_gap():
    """The border then claims nothing that the gap has not named: versions before the complete list stay in gaps."""
    broken = replace(gap(None, 3, Cause.RELIST_INCOMPLETE), epoch=2)
    border = replace(RESTORED[6], upto_rv="4")
    _, second = parts(entries([*GOOD, broken, border, *RESTORED[7:]]), [TRUTH, TRUTH], [PODS])
    named = [(e.change.op, e.change.after_rv, e.change.upto_rv) for e in second.log if e.change.uid is None]
    assert named == [(Op.GAP, None, "3"), (Op.GAP, "3", "4"), (Op.PROGRESS, "4", "6")]
    assert not coverages(second.log)[next(iter(coverages(second.log)))].holes


def test_deletes_of_what_a_restore_took_away_are_not_asked_for_a_commit():
    before = (*TRUTH, put("c", 5))
    restored = (put("a", 2), put("a", 3))
    _, second = parts(entries(RESTORED), [before, restored], [PODS])
    assert Op.DELETED not in [entry.change.op for entry in second.log]


def test_a_resource_that_saw_no_restore_goes_on_in_its_epoch():
    (only,) = parts(entries(GOOD), [(), TRUTH], [PODS])
    assert (only.truth, only.last) == (list(TRUTH), True)


def test_an_epoch_without_a_restore_is_refused():
    assert status("G1", case(RESTORED)) is Status.FAILS
