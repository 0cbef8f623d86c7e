"""Builders of ground truths and canonical logs for the checkers' tests: a history is read in one glance."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kubecdc.records import Cause, Change, Gap, Op, Source
from local.history import Committed
from local.verdicts import Entry, Evidence

PARTITIONS = 1  # every UID belongs to partition 0


def put(uid: str, rv: int, *, resource: str = "pods") -> Committed:
    return Committed("", resource, "default", f"name-{uid}", uid, str(rv), "PUT")


def delete(uid: str, rv: int, *, resource: str = "pods") -> Committed:
    return replace(put(uid, rv, resource=resource), kind="DELETE")


def change(
    op: Op,
    uid: str | None,
    rv: int | None,
    *,
    seq: int | None = None,
    prev: int | None = None,
    gap: Cause | None = None,
    resource: str = "pods",
    epoch: int = 1,
) -> Change:
    return Change(
        cluster="here",
        epoch=epoch,
        group="",
        version="v1",
        resource=resource,
        scope="",
        namespace="default" if uid else "",
        name=f"name-{uid}" if uid else "",
        uid=uid,
        op=op,
        rv=_text(rv),
        prev_rv=_text(prev),
        seq=seq,
        inferred=False,
        after_rv=None,
        upto_rv=None,
        gap=Gap(gap) if gap else None,
        noise=False,
        changed=(),
        changed_by=(),
        object=None,
        object_omitted=None,
        digest="",
        count=None,
        observed_at=0,
        emitted_at=0,
        source=Source(0, 0, "session", 0),
    )


def inferred(uid: str, after: int, upto: int, *, seq: int) -> Change:
    deleted = change(Op.DELETED, uid, upto, seq=seq, prev=after, gap=Cause.RELIST_WINDOW)
    return replace(deleted, inferred=True, after_rv=str(after), upto_rv=str(upto))


def progress(after: int | None, upto: int, *, resource: str = "pods") -> Change:
    said = change(Op.PROGRESS, None, None, resource=resource)
    return replace(said, after_rv=_text(after), upto_rv=str(upto), count=0)


def gap(after: int | None, upto: int | None, cause: Cause = Cause.RELIST_WINDOW) -> Change:
    said = change(Op.GAP, None, None, gap=cause)
    return replace(said, after_rv=_text(after), upto_rv=_text(upto))


def evidence(
    truth: Iterable[Committed] | None, log: Iterable[Change], expected: Iterable[tuple[str, str]] = ()
) -> Evidence:
    entries = tuple(Entry(0, offset, each) for offset, each in enumerate(log))
    return Evidence(None if truth is None else tuple(truth), entries, PARTITIONS, tuple(expected))


def _text(rv: int | None) -> str | None:
    return None if rv is None else str(rv)
