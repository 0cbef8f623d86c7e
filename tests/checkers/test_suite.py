"""Each checker holds for a sound history and refuses what breaks its guarantee; a broken checker proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kubecdc.errors import Undecodable
from kubecdc.records import Cause, Change, Gap, Op
from local.verdicts import ObjectId, Status
from tests.checkers.build import (
    AGAIN,
    CHANGES,
    COUNTERS,
    EVENTS,
    PODS,
    STREAM,
    TRUTH,
    Applied,
    Raw,
    T,
    at,
    changed,
    event,
    history,
    records,
    without,
)
from tests.checkers.gaps import empty_windows
from tests.checkers.history import History, Living, judge
from tests.checkers.suite import CHECKERS, check_all
from tests.local.logs import change, delete, gap, progress, put

RAW = history().raw
END = len(EVENTS) - 1


def status(name: str, given: History) -> tuple[Status, tuple[str, ...]]:
    verdict = judge(name, CHECKERS[name], given)
    return verdict.status, verdict.findings


@pytest.mark.parametrize("name", list(CHECKERS))
def test_a_sound_history_holds(name: str):
    assert status(name, history()) == (Status.HOLDS, ())


def test_a_checker_that_breaks_cannot_tell():
    def broken(_: History):
        raise ValueError("a fault of the checker")

    verdict = judge("G1", broken, history())
    assert verdict.status is Status.UNKNOWN
    assert "a fault of the checker" in verdict.findings[0]


def test_no_fault_of_one_checker_keeps_another_from_being_asked():
    verdicts = check_all(history(log=without(4), faults=("worker 0: stuck",)))
    assert {name for name, verdict in verdicts.items() if verdict.status is Status.FAILS} == {
        "G1 coverage",
        "G3 order",
        "errors",
        "consumer",
    }


OTHER_EPOCH = (PODS, "", 2)
SECOND = (*TRUTH[:3], put("d", 14))
EPOCHS = [
    *CHANGES[:6],
    at(7, replace(change(Op.DELETED, "c", 15, seq=2, prev=13, epoch=2, gap=Cause.EPOCH_CHANGE), inferred=True,
                  after_rv="13", upto_rv="15")),
    at(8, replace(change(Op.SNAPSHOT, "d", 14, seq=1, epoch=2))),
    at(10, replace(gap(13, 15, Cause.EPOCH_CHANGE), epoch=2)),
]  # fmt: skip


def in_two_epochs(**fields: object) -> History:
    return history(truth={STREAM: TRUTH[:4], OTHER_EPOCH: SECOND}, log=records(EPOCHS), **fields)


def test_an_epoch_is_held_to_the_commits_of_its_own_era():
    assert status("G1 coverage", in_two_epochs())[0] is Status.HOLDS
    assert status("G2 deletes", in_two_epochs())[1] == ("there was nothing to judge",)  # c ended with its epoch


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param(history(log=without(3)), "in no record and no gap", id="a version is missing"),
        pytest.param(history(log=without(7)), "unnamed", id="a window is not named"),
        pytest.param(history(log=records(CHANGES[:-1])), "coverage ends at", id="coverage ends early"),
        pytest.param(history(log=()), "says nothing", id="nothing at all"),
        pytest.param(history(log=changed(4, rv="14")), "never committed", id="an invented version"),
        pytest.param(
            in_two_epochs(expected=((PODS, "alpha"),)), "says nothing of it", id="nothing of a scope that is watched"
        ),
        pytest.param(
            history(
                truth={STREAM: TRUTH[:4], OTHER_EPOCH: SECOND},
                log=records([*EPOCHS[:8], replace(EPOCHS[8], after_rv="99")]),
            ),
            "begins after 99",
            id="an epoch that begins above where the one before was covered",
        ),
        pytest.param(
            history(
                truth={STREAM: TRUTH[:4], OTHER_EPOCH: (*SECOND, put("e", 17))},
                log=records([*EPOCHS, at(12, replace(progress(15, 18), epoch=2))]),
            ),
            "at 17 is in no record and no gap",
            id="a version of the later epoch is missing",
        ),
    ],
)
def test_coverage_refuses(given: History, says: str):
    found, findings = status("G1 coverage", given)
    assert found is Status.FAILS
    assert any(says in finding for finding in findings)


def test_a_version_that_the_server_withheld_is_not_owed():
    assert status("G1 coverage", history(log=without(3)))[0] is Status.FAILS
    withheld = frozenset({("pods", "a", "12")})
    log = records([made for number, made in enumerate(CHANGES) if number != 3])
    assert status("G1 coverage", history(log=log, withheld=withheld))[0] is Status.HOLDS


def test_an_epoch_of_two_eras_cannot_be_told():
    assert status("G1 coverage", history(truth={STREAM: None}))[0] is Status.UNKNOWN


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"log": changed(7, gap=Gap(Cause.TRANSPORT_LOSS))}, "no record of this partition was lost"),
        ({"log": changed(7, gap=Gap(Cause.COMPACTED))}, "no record of this partition was lost"),
        ({"log": changed(7, gap=Gap(Cause.COVERAGE_LOST))}, "nothing of the kind happened"),
        ({"log": changed(7, gap=Gap(Cause.EPOCH_CHANGE))}, "nothing of the kind happened"),
        ({"log": changed(3, gap=Gap(Cause.GENERATION_JUMP, 1))}, "0 versions lie between, 1 are claimed"),
        ({"log": changed(4, gap=Gap(Cause.MISSED_CREATE))}, "no earlier version"),
        ({"log": changed(4, gap=Gap(Cause.CONFLICT))}, "one content"),
    ],
)
def test_gaps_refuses_what_did_not_happen(fields: dict[str, object], says: str):
    found, findings = status("G1 gaps", history(**fields))
    assert found is Status.FAILS
    assert says in findings[0]


def test_a_window_that_held_nothing_is_counted_and_not_refused():
    assert empty_windows(history()) == 0  # b was deleted in it
    assert empty_windows(history(truth={STREAM: TRUTH[:4]})) == 1


def restored(first: tuple[Change, ...], **fields: object) -> History:
    """Epoch 1 misses the delete of c at 15; in epoch 2 the store has gone back behind it."""
    log = [
        *CHANGES[:6],
        *first,
        at(8, replace(change(Op.SNAPSHOT, "c", 13, seq=2), epoch=2)),
        at(10, replace(gap(16, 14, Cause.EPOCH_CHANGE), epoch=2)),
    ]
    truth = {STREAM: (*TRUTH[:4], delete("c", 15)), OTHER_EPOCH: TRUTH[:4]}
    return history(truth=truth, log=records(log), **fields)


def test_a_delete_in_a_gap_is_not_owed_once_the_store_went_back_behind_it():
    """No list of its epoch could show it any more, and the gap names it (found by the simulation)."""
    found, findings = status("G2 deletes", restored((at(7, progress(13, 16)),)))
    assert found is Status.FAILS
    assert "was deleted at 15, the log ends with CREATED" in findings[0]
    assert status("G2 deletes", restored((at(7, gap(13, 14)), at(7, progress(14, 16)))))[0] is Status.FAILS
    assert status("G2 deletes", restored((at(7, gap(13, 16)),)))[0] is not Status.FAILS
    withheld = frozenset({("pods", "c", "15")})
    assert status("G2 deletes", restored((at(7, progress(13, 16)),), withheld=withheld))[0] is not Status.FAILS


@pytest.mark.parametrize(
    ("given", "says"),
    [
        pytest.param(history(log=without(8)), "the log ends with CREATED", id="a delete is missing"),
        pytest.param(history(log=changed(6, after_rv="18")), "outside the inferred bounds", id="bounds that miss it"),
        pytest.param(
            history(log=records([*CHANGES, at(12, change(Op.DELETED, "a", 22, seq=3, prev=12))])),
            "but it was not deleted",
            id="an invented delete",
        ),
    ],
)
def test_deletes_refuses(given: History, says: str):
    found, findings = status("G2 deletes", given)
    assert found is Status.FAILS
    assert says in findings[0]


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (changed(3, seq=3), "seq 3 follows 1"),
        (changed(3, rv="9"), "at version 9 follows"),
        (records([*CHANGES, at(12, change(Op.CREATED, "c", 23, seq=1))]), "without RESURRECTED"),
    ],
)
def test_order_refuses(log, says: str):
    found, findings = status("G3 order", history(log=log))
    assert found is Status.FAILS
    assert says in findings[0]


def test_order_after_a_restore_of_which_nobody_knew_cannot_be_told():
    log = records([*CHANGES, at(12, change(Op.CREATED, "c", 13, seq=1, gap=Cause.RESURRECTED))])
    assert status("G3 order", history(log=log))[0] is Status.FAILS
    assert status("G3 order", history(log=log, truth={STREAM: None}))[0] is Status.UNKNOWN


def test_what_a_list_that_was_given_up_brought_back_is_not_held_against_its_epoch():
    """Its pages showed a store that went back before anybody could know; the next epoch tells the rest."""
    listed = event(T.LISTED, "c", "13", 13, AGAIN)
    back = at(13, change(Op.CREATED, "c", 13, seq=3, prev=21, gap=Cause.RESURRECTED))
    given = history(log=records([*CHANGES, back]), raw=(*RAW, Raw(0, END + 1, listed)))
    for name in ("G3 order", "G4 labels"):
        assert status(name, given)[0] is Status.FAILS
        assert status(name, replace(given, loose={STREAM: ()}))[0] is Status.UNKNOWN
    assert status("G2 deletes", given)[0] is Status.FAILS
    later = replace(given, loose={STREAM: ()}, truth={STREAM: TRUTH, OTHER_EPOCH: SECOND})
    assert status("G2 deletes", later)[0] is Status.HOLDS


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (changed(0, op=Op.CREATED), "without a label"),
        (changed(4, op=Op.SNAPSHOT), "SNAPSHOT from ADDED"),
        (records([*CHANGES[:4], at(8, change(Op.SNAPSHOT, "a", 9, seq=3, prev=12)), *CHANGES[4:]]), "overwrites"),
        (changed(4, source=replace(CHANGES[4].source, offset=99)), "its source is no record"),
    ],
)
def test_labels_refuses(log, says: str):
    found, findings = status("G4 labels", history(log=log))
    assert found is Status.FAILS
    assert says in findings[0]


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        pytest.param(
            {"raw": (*RAW[:9], Raw(0, 9, event(T.RELIST_ABORTED, None, "20", 9, AGAIN)), *RAW[10:])},
            "was aborted",
            id="aborted",
        ),
        pytest.param({"raw": (*RAW[:9], Raw(0, 9, None), *RAW[10:])}, "1 of 2 items", id="partial"),
        pytest.param(
            {"raw": (*RAW[:9], Raw(0, 9, event(T.LISTED, "b", "8", 9, AGAIN)), *RAW[10:])},
            "shows it",
            id="it was in the list",
        ),
        pytest.param({"truth": {STREAM: TRUTH[:4]}}, "it lived at that version", id="it lived"),
        pytest.param({"truth": {STREAM: (*TRUTH[:4], delete("b", 25))}}, "it lived at that version", id="stale"),
        pytest.param({"raw": ()}, "its source is no record", id="no list at all"),
    ],
)
def test_lists_refuses(fields: dict[str, object], says: str):
    found, findings = status("G5 lists", history(**fields))
    assert found is Status.FAILS
    assert any(says in finding for finding in findings)


A, B = ObjectId("", "pods", "a"), ObjectId("", "pods", "b")
LIVING = history().living or {}


@pytest.mark.parametrize(
    ("living", "says"),
    [
        ({}, "is gone"),
        ({**LIVING, B: Living("8", b"{}", "default")}, "the log has it dead"),
        ({A: replace(LIVING[A], rv="14")}, "lives at 14"),
        ({A: replace(LIVING[A], body=b'{"spec":{"n":3}}')}, "another content"),
    ],
)
def test_convergence_refuses(living, says: str):
    found, findings = status("G8 convergence", history(living=living))
    assert found is Status.FAILS
    assert says in findings[0]
    assert status("G8 convergence", history(living=living, truth={STREAM: None}))[0] is Status.UNKNOWN


def test_convergence_without_a_cluster_to_compare_with_cannot_be_told():
    assert status("G8 convergence", history(living=None))[0] is Status.UNKNOWN


@pytest.mark.parametrize(
    ("log", "says"),
    [
        (records([*CHANGES[:4], CHANGES[5], CHANGES[4], *CHANGES[6:]]), "source offset 5 comes after 6"),
        (records([*CHANGES[:5], CHANGES[4], *CHANGES[5:]]), "answered twice by CREATED of c"),
        ((*records(CHANGES)[:7], replace(records(CHANGES)[7], transaction=1), *records(CHANGES)[8:]),
         "answered by two transactions"),
        (changed(4, source=replace(CHANGES[4].source, partition=1)), "its source is of partition 1"),
    ],
)  # fmt: skip
def test_offsets_refuses(log, says: str):
    found, findings = status("offsets", history(log=log))
    assert found is Status.FAILS
    assert says in findings[0]


EVERY = tuple(range(END + 1))


@pytest.mark.parametrize(
    ("batches", "says"),
    [
        ((Applied(0, EVERY, {**COUNTERS, "marker": 5}, END),), "13 records, 12 verdicts"),
        ((Applied(0, EVERY, {**COUNTERS, "marker": 5, "stale": 1}, END),), "more verdicts on objects than the 7"),
        ((Applied(0, EVERY[:-1], {**COUNTERS, "marker": 5}, END - 1),), "offset 12 was never accounted for"),
        ((Applied(0, EVERY, COUNTERS, END), Applied(0, (END,), {"marker": 1}, END)), "accounted for before"),
        ((Applied(0, EVERY, COUNTERS, END, "aborted"),), "offset 0 was never accounted for"),
    ],
)
def test_accounting_refuses(batches, says: str):
    found, findings = status("accounting", history(batches=batches))
    assert found is Status.FAILS
    assert any(says in finding for finding in findings)


def test_what_compaction_took_need_not_be_accounted_for():
    raw = (*RAW[:-1], replace(RAW[-1], gone="compacted"))
    batches = (Applied(0, EVERY[:-1], {**COUNTERS, "marker": 5}, END - 1),)
    assert status("accounting", history(raw=raw, batches=batches))[0] is Status.HOLDS


def test_an_undecodable_record_is_accounted_for_by_a_verdict_of_its_own():
    raw = (*RAW, Raw(0, END + 1, Undecodable("not Avro")))
    batches = (Applied(0, (*EVERY, END + 1), {**COUNTERS, "undecodable": 1}, END + 1),)
    assert status("accounting", history(raw=raw, batches=batches))[0] is Status.HOLDS


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"log": (replace(records(CHANGES)[0], transaction=None),)}, "outside a transaction"),
        ({"batches": (Applied(0, EVERY, COUNTERS, END, "open"),)}, "is open"),
        ({"batches": (Applied(0, EVERY, COUNTERS, None),)}, "has no progress"),
        ({"batches": (Applied(0, EVERY, COUNTERS, 3),)}, "says 3, its last record is 12"),
        ({"batches": (Applied(0, EVERY, COUNTERS, END), Applied(0, (3,), {}, 3))}, "goes back to 3"),
    ],
)
def test_transactions_refuses(fields: dict[str, object], says: str):
    found, findings = status("transactions", history(**fields))
    assert found is Status.FAILS
    assert any(says in finding for finding in findings)


@pytest.mark.parametrize(
    ("log", "says"),
    [(changed(3, seq=3), "seq broken"), (without(7), "coverage broken"), (changed(5, count=9), "count")],
)
def test_a_reader_refuses(log, says: str):
    found, findings = status("consumer", history(log=log))
    assert found is Status.FAILS
    assert any(says in finding for finding in findings)
