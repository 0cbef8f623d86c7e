"""Changes for the tests of the reading half: short to write, complete when made."""

from __future__ import annotations

from typing import Any

from kubecdc.chain import Entry
from kubecdc.records import Cause, Change, Gap, Op, Source

NOW_MS = 1_800_000_000_000


def change(op: Op = Op.CREATED, uid: str | None = "u1", rv: str | None = "10", **fields: Any) -> Change:
    """A change of a pod; `fields` replace what it has by default."""
    values: dict[str, Any] = {
        "cluster": "c",
        "epoch": 1,
        "group": "",
        "version": "v1",
        "resource": "pods",
        "scope": "",
        "namespace": "ns" if uid else "",
        "name": f"pod-{uid}" if uid else "",
        "uid": uid,
        "op": op,
        "rv": rv,
        "prev_rv": None,
        "seq": 1 if uid else None,
        "inferred": False,
        "after_rv": None,
        "upto_rv": None,
        "gap": None,
        "noise": False,
        "changed": (),
        "changed_by": (),
        "object": '{"kind":"Pod","spec":{"nodeName":"a"}}' if uid else None,
        "object_omitted": None,
        "digest": "d",
        "count": None,
        "observed_at": NOW_MS,
        "emitted_at": NOW_MS,
        "source": Source(0, 0, "s", 0),
    }
    return Change(**{**values, **fields})


def progress(after: str | None, upto: str, **fields: Any) -> Change:
    """A PROGRESS of the pods."""
    return change(Op.PROGRESS, None, None, after_rv=after, upto_rv=upto, **{"count": 0, **fields})


def gap(cause: Cause, after: str | None, upto: str | None, **fields: Any) -> Change:
    """A GAP of the pods."""
    return change(Op.GAP, None, None, after_rv=after, upto_rv=upto, gap=Gap(cause), **fields)


def entry(what: Change | None, *, key: str = "u1", at: int = 0, partition: int = 0, ms: int = NOW_MS) -> Entry:
    """A record in its place; `what` None is a tombstone of `key`."""
    named = what.uid if what is not None and what.uid else key
    return Entry(partition, at, ms, named.encode(), what)
