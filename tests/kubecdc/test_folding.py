"""The fold of a log: what lives, how far each kind is resolved, each gap once."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.folding import Fold, Resolved, Resource, resource_of, sorted_objects
from kubecdc.records import Cause, Change, Gap, Op
from tests.kubecdc.making import change, entry, gap, progress

PODS = Resource("c", "", "pods")


def folded(*log: tuple[int, Change | None], partitions: int = 2) -> Fold:
    fold = Fold(partitions)
    for at, (partition, item) in enumerate(log):
        fold.step(entry(item, at=at, partition=partition))
    return fold


def test_the_latest_version_of_what_lives():
    newest = change(Op.UPDATED, rv="12", seq=2)
    gone = change(Op.DELETED, uid="u2", rv="13", seq=2)
    fold = folded((0, change()), (0, change(uid="u2")), (0, newest), (0, gone))
    assert fold.objects == {"u1": newest}


def test_a_tombstone_ends_an_object_whose_deleted_was_compacted_away():
    assert folded((0, change()), (0, None)).objects == {}


def test_what_is_said_of_an_object_without_being_its_change_is_no_state():
    conflict = change(Op.GAP, seq=None, object=None, gap=Gap(Cause.CONFLICT))
    assert folded((0, change()), (0, conflict)).objects == {"u1": change()}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([Op.CREATED, Op.UPDATED, Op.SNAPSHOT, Op.DELETED])), max_size=40
    )
)
def test_objects_against_a_dictionary(steps: list[tuple[int, Op]]):
    fold, model = Fold(1), {}
    for rv, (number, op) in enumerate(steps, 1):
        made = change(op, f"u{number}", str(rv))
        fold.step(entry(made, at=rv))
        model[f"u{number}"] = made
    assert fold.objects == {uid: made for uid, made in model.items() if made.op is not Op.DELETED}


def test_resolved_is_the_smallest_over_partitions_and_counts_gaps_with_bounds():
    fold = folded((0, progress(None, "9")), (0, progress("9", "100")), (1, gap(Cause.RELIST_WINDOW, None, "20")))
    assert fold.resolved() == {PODS: Resolved(1, "20")}


def test_resolved_is_unknown_while_a_partition_is_silent():
    assert folded((0, progress(None, "9"))).resolved() == {PODS: None}


def test_a_kind_is_known_from_where_its_first_list_was_read_in_every_partition():
    stream = (PODS, "")
    log = [(0, progress(None, "9")), (0, progress("9", "30")), (1, gap(Cause.RELIST_INCOMPLETE, None, "8"))]
    assert folded(*log).since(stream, 1) is None
    log += [(1, gap(Cause.RELIST_WINDOW, "8", "12")), (1, progress("12", "30"))]
    assert folded(*log).since(stream, 1) == Resolved(1, "12")
    restored = [(p, gap(Cause.EPOCH_CHANGE, "30", "5", epoch=2)) for p in (0, 1)]
    assert folded(*log, restored[0]).since(stream, 1) == Resolved(1, "12")
    assert folded(*log, *restored).since(stream, 2) == Resolved(2, "5")


def test_a_list_of_all_namespaces_is_one_of_each():
    log = [(0, progress(None, "9")), (0, progress(None, "40", scope="a"))]
    assert folded(*log, partitions=1).since((PODS, "a"), 1) == Resolved(1, "9")
    assert folded(*log, partitions=1).since((PODS, ""), 1) == Resolved(1, "9")


def test_resolved_is_the_smallest_over_scopes():
    both = [(p, progress(None, upto, scope=scope)) for p in (0, 1) for scope, upto in (("a", "9"), ("b", "8"))]
    assert folded(*both).resolved() == {PODS: Resolved(1, "8")}
    assert folded(*both, (0, progress(None, "7", scope="c"))).resolved() == {PODS: None}


def test_what_covers_all_namespaces_covers_one_that_nobody_follows_any_more():
    """A producer had `--namespace` once: how far it had come then must not hold everything for ever."""
    fold = folded((0, replace(progress(None, "9"), scope="n")), (0, progress(None, "1000")), partitions=1)
    assert fold.resolved() == {PODS: Resolved(1, "1000")}
    assert fold.streams() == {(PODS, "n"): Resolved(1, "1000"), (PODS, ""): Resolved(1, "1000")}
    ahead = folded((0, replace(progress(None, "90"), scope="n")), (0, progress(None, "10")), partitions=1)
    assert ahead.resolved() == {PODS: Resolved(1, "10")}


def test_a_later_epoch_is_later_whatever_its_versions():
    log = [(p, progress(None, "900")) for p in (0, 1)]
    new = gap(Cause.EPOCH_CHANGE, "900", "5", epoch=2)
    assert folded(*log, (0, new)).resolved() == {PODS: Resolved(1, "900")}
    assert folded(*log, (0, new), (1, new)).resolved() == {PODS: Resolved(2, "5")}


def test_a_gap_of_a_stream_is_told_once_with_its_partitions():
    window = gap(Cause.RELIST_WINDOW, "9", "20")
    other = gap(Cause.RELIST_WINDOW, "20", "30")
    fold = folded((0, window), (1, window), (0, other), (0, window))
    assert [(found.upto_rv, found.partitions) for found in fold.gaps()] == [("20", (0, 1)), ("30", (0,))]


def test_coverage_that_is_lost_is_open_until_every_partition_goes_on():
    lost, back = gap(Cause.COVERAGE_LOST, "9", None), gap(Cause.RELIST_WINDOW, "9", "20")
    begun = [(p, progress(None, "9")) for p in (0, 1)]
    fold = folded(*begun, (0, lost), (1, lost), (0, back))
    assert [found.open for found in fold.gaps()] == [True, False]
    fold.step(entry(back, partition=1))
    assert [found.open for found in fold.gaps()] == [False, False]


def test_coverage_lost_before_anything_was_covered_is_open():
    assert folded((0, gap(Cause.COVERAGE_LOST, None, None))).gaps()[0].open


def test_gaps_of_objects_name_object_and_bounds():
    late = change(Op.UPDATED, rv="30", prev_rv="20", seq=2, gap=Gap(Cause.GENERATION_JUMP, 2))
    gone = change(Op.DELETED, "u2", "40", inferred=True, after_rv="31", upto_rv="40", gap=Gap(Cause.RELIST_WINDOW))
    first, second = folded((0, late), (0, gone)).gaps()
    assert (first.uid, first.after_rv, first.upto_rv, first.missed_at_least) == ("u1", "20", "30", 2)
    assert (second.uid, second.after_rv, second.upto_rv, second.cause) == ("u2", "31", "40", Cause.RELIST_WINDOW)


def test_objects_are_ordered_as_people_look_for_them():
    made = [
        change(uid=uid, name=name, namespace=ns)
        for uid, name, ns in (("1", "b", "x"), ("2", "a", "x"), ("3", "c", "a"))
    ]
    ordered = sorted_objects({each.uid or "": each for each in made})
    assert [each.name for each in ordered] == ["c", "a", "b"]


def test_kinds_are_named_as_kubectl_names_them():
    assert str(resource_of(change())) == "pods"
    assert str(resource_of(change(group="apps", resource="deployments"))) == "deployments.apps"
