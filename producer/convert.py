"""An object as the server showed it to the record of the events topic: redacted, measured, digested.

Pure, and it never fails: whatever JSON an object is, a record comes out that says what could not be kept. It does not
choose partitions, sequence numbers or versions; the caller passes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from kubecdc.records import (
    COMPACTED_AWAY,
    REDACTION_FAILED,
    TOO_LARGE,
    EventType,
    Manager,
    ObjectOmitted,
    RawEvent,
    Relist,
)
from producer.digests import content, digest, encode, paths
from producer.frames import Item, Object
from producer.redact import Redaction, RedactionFailed

LONG_MAX = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Context:
    """What all records of one session share. `scope` is empty or a namespace; `max_object_bytes` counts JSON."""

    cluster: str
    group: str
    version: str
    resource: str
    kind: str
    scope: str
    session: str
    redaction: Redaction
    max_object_bytes: int

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`, as objects name it."""
        return f"{self.group}/{self.version}" if self.group else self.version


@dataclass(frozen=True, slots=True)
class _Body:
    """What is published of an object's content."""

    metadata: dict[str, Any]
    text: str | None
    omitted: ObjectOmitted | None
    digest: str
    paths: str
    redacted: int


def to_event(
    ctx: Context,
    item: Object | Item,
    type: EventType,  # noqa: A002 - the record's own field name
    *,
    epoch: int,
    seq: int,
    observed_at: int,
    relist: Relist | None = None,
    rv: str | None = None,
) -> tuple[RawEvent, int]:
    """Return the record of one object, and how many values in it were redacted.

    `rv` replaces the item's own; `observed_at` is epoch ms.
    """
    body = _body(ctx, item.obj)
    metadata = body.metadata
    named = item.obj["metadata"]
    generation = metadata.get("generation")
    deletion = metadata.get("deletionTimestamp")
    event = RawEvent(
        cluster=ctx.cluster,
        epoch=epoch,
        group=ctx.group,
        version=ctx.version,
        resource=ctx.resource,
        scope=ctx.scope,
        type=type,
        uid=item.uid,
        namespace=_text(named.get("namespace")),
        name=_text(named.get("name")),
        rv=rv or item.rv,
        session=ctx.session,
        seq=seq,
        relist=relist,
        generation=generation if _is_long(generation) else None,
        deletion_timestamp=deletion if isinstance(deletion, str) else None,
        managers=_managers(metadata.get("managedFields")),
        object=body.text,
        object_omitted=body.omitted,
        digest=body.digest,
        paths=body.paths,
        detail="",
        observed_at=observed_at,
    )
    return event, body.redacted


def absent(ctx: Context, uid: str, rv: str, *, epoch: int, seq: int, observed_at: int, relist: Relist) -> RawEvent:
    """Return the DELETED of a UID that an audit's list of version `rv` does not show; nothing else is known of it."""
    bare = marker(ctx, EventType.DELETED, epoch=epoch, seq=seq, observed_at=observed_at, rv=rv, relist=relist)
    return replace(bare, uid=uid)


def remnant(deleted: RawEvent) -> RawEvent:
    """Return what the tombstone after a DELETED keeps of it: all that makes it an event, without content."""
    size = len(deleted.object.encode()) if deleted.object is not None else 0
    omitted = ObjectOmitted(COMPACTED_AWAY, deleted.object_omitted.bytes if deleted.object_omitted else size)
    return replace(deleted, object=None, object_omitted=omitted, managers=(), paths="{}")


def marker(
    ctx: Context,
    type: EventType,  # noqa: A002 - the record's own field name
    *,
    epoch: int,
    seq: int,
    observed_at: int,
    rv: str | None = None,
    relist: Relist | None = None,
    detail: str = "",
) -> RawEvent:
    """Return a marker for one partition; `detail` must hold no content of objects."""
    return RawEvent(
        cluster=ctx.cluster,
        epoch=epoch,
        group=ctx.group,
        version=ctx.version,
        resource=ctx.resource,
        scope=ctx.scope,
        type=type,
        uid=None,
        namespace="",
        name="",
        rv=rv,
        session=ctx.session,
        seq=seq,
        relist=relist,
        generation=None,
        deletion_timestamp=None,
        managers=(),
        object=None,
        object_omitted=None,
        digest="",
        paths="{}",
        detail=detail,
        observed_at=observed_at,
    )


def _is_long(value: object) -> bool:
    """An integer that an Avro long can hold; a JSON true is none."""
    return type(value) is int and -LONG_MAX <= value <= LONG_MAX


def _body(ctx: Context, obj: dict[str, Any]) -> _Body:
    redaction = ctx.redaction
    try:
        clean, count = redaction.apply(obj)
    except RedactionFailed:
        # Unkeyed digests of short secrets can be guessed, so nothing but a keyed one of the whole goes out.
        sealed = f"{digest(content(obj), redaction.key)}@{redaction.key_id}"
        return _Body({}, None, ObjectOmitted(REDACTION_FAILED, len(encode(obj))), sealed, "{}", 0)
    part = content(clean)
    # Replacements differ between keys though contents do not: only digests under one key may be compared.
    name = f"{digest(part)}@{redaction.key_id}" if count else digest(part)
    if not clean.get("kind") or not clean.get("apiVersion"):
        clean = {
            **clean,
            "kind": clean.get("kind") or ctx.kind,
            "apiVersion": clean.get("apiVersion") or ctx.api_version,
        }
    text = encode(clean)
    metadata = clean.get("metadata")
    if len(text) > ctx.max_object_bytes:
        kept, omitted = None, ObjectOmitted(TOO_LARGE, len(text))
    else:
        kept, omitted = text.decode(), None
    metadata = metadata if isinstance(metadata, dict) else {}
    return _Body(metadata, kept, omitted, name, encode(paths(part)).decode(), count)


def _managers(entries: object) -> tuple[Manager, ...]:
    if not isinstance(entries, list):
        return ()
    return tuple(
        [
            Manager(
                _text(entry.get("manager")),
                _text(entry.get("operation")),
                _text(entry.get("subresource")),
                _text(entry.get("time")),
            )
            for entry in entries
            if isinstance(entry, dict)
        ]
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
