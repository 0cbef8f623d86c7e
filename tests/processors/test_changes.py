"""How records are built: bounds of inferred deletes, marks of relists."""

from __future__ import annotations

from dataclasses import replace

from kubecdc.records import Cause, Gap, Op, Relist, RelistState
from processors import changes, streams
from tests.processors.raw import T, raw

LISTED = raw(T.LISTED, "u", "7", relist=Relist("r2", "start"))
STREAM = replace(streams.opened(LISTED), relists=(RelistState("r2", "s1", "start", 1, "9", 0),))


def test_only_running_relists_mark_a_uid():
    before = replace(changes.next_state(STREAM, None, LISTED, 1, deleted=False), listed=("r1",))
    assert changes.listed_in(STREAM, before, LISTED) == ("r2",)
    assert changes.listed_in(streams.opened(LISTED), before, LISTED) == ()


def test_an_inferred_delete_lies_between_the_last_version_and_its_bound():
    state = changes.next_state(STREAM, None, LISTED, 3, deleted=False)
    at = changes.At(2, 40, LISTED, 99)
    change = changes.inferred_delete(at, state, 1, "12", Gap(Cause.RELIST_WINDOW))
    assert (change.op, change.after_rv, change.upto_rv, change.rv, change.seq) == (Op.DELETED, "7", "12", "12", 4)
    assert (change.source.partition, change.source.offset) == (2, 40)


def test_an_undecodable_record_names_partition_and_offset():
    change = changes.undecodable(3, 77, "rubbish", 5)
    assert change.gap is not None
    assert change.gap.detail == "events partition 3 offset 77: rubbish"
    assert (change.source.partition, change.source.offset, change.uid) == (3, 77, None)
