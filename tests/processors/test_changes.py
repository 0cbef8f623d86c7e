"""How records are built: bounds of inferred deletes, marks of relists."""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import Cause, Gap, Op, Relist
from processors import changes
from tests.processors.raw import T, raw

LISTED = raw(T.LISTED, "u", "7", relist=Relist("r2", "start"))
RUNNING = frozenset({"r2", "of-another-scope"})


def test_only_running_relists_mark_a_uid():
    before = replace(changes.next_state(RUNNING, None, LISTED, 1, deleted=False), listed=("r1", "of-another-scope"))
    assert changes.listed_in(RUNNING, before, LISTED) == ("of-another-scope", "r2")
    assert changes.listed_in(frozenset(), before, LISTED) == ()


def test_a_delete_without_a_name_is_of_the_name_that_was_known():
    """An audit tells of the UID only; the name must not stay with it."""
    before = changes.next_state(RUNNING, None, LISTED, 1, deleted=False)
    nameless = raw(T.DELETED, "u", "9", name="", namespace="")
    after = changes.next_state(RUNNING, before, nameless, 2, deleted=True)
    assert (after.namespace, after.name) == (before.namespace, before.name)


def test_an_inferred_delete_lies_between_the_last_version_and_its_bound():
    state = changes.next_state(RUNNING, None, LISTED, 3, deleted=False)
    at = changes.At(2, 40, LISTED, 99)
    change = changes.inferred_delete(at, state, 1, "12", Gap(Cause.RELIST_WINDOW))
    assert (change.op, change.after_rv, change.upto_rv, change.rv, change.seq) == (Op.DELETED, "7", "12", "12", 4)
    assert (change.source.partition, change.source.offset) == (2, 40)


def test_an_undecodable_record_names_partition_and_offset():
    change = changes.undecodable(3, 77, "rubbish", 5)
    assert change.gap is not None
    assert change.gap.detail == "events partition 3 offset 77: rubbish"
    assert (change.source.partition, change.source.offset, change.uid) == (3, 77, None)
