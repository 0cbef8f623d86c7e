"""Bytes of a watch stream or of a list page to typed values, and what makes them unusable.

Pure: it cuts lines and judges each one alone. It does not know the session, the order of versions or what follows
from a broken frame. A `Broken.why` never holds content of the stream, so that it may be logged and published.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from kubecdc.records import EventType
from kubecdc.versions import well_formed
from kubecdc.wire import RESERVED

LINE_BYTES_MAX = 256 * 1024 * 1024
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_TYPES = {kind.value: kind for kind in (EventType.ADDED, EventType.MODIFIED, EventType.DELETED)}


class LineTooLong(ValueError):  # noqa: N818 - named by what was found
    """The stream sent more than the limit without a line end: treat it as a broken frame."""


@dataclass(frozen=True, slots=True)
class Object:
    """An ADDED, MODIFIED or DELETED. `uid` and `rv` are checked, nothing else of `obj` is."""

    type: EventType
    uid: str
    rv: str
    obj: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bookmark:
    """Everything up to `rv` has been sent; `initial_events_end` closes the initial part of a WatchList."""

    rv: str
    initial_events_end: bool


@dataclass(frozen=True, slots=True)
class ServerError:
    """A Status, in the stream or as an answer. `message` is for judging only: it may quote content, never log it."""

    code: int
    reason: str
    message: str
    causes: tuple[str, ...] = ()
    retry_after: float | None = None

    @property
    def gone(self) -> bool:
        """The version asked for is no longer in the server's history (spelled Expired or Gone)."""
        return self.code == 410 or self.reason in ("Expired", "Gone")

    @property
    def too_large(self) -> bool:
        """The version asked for lies in the server's future; older servers say so only in the message."""
        if "ResourceVersionTooLarge" in (self.reason, *self.causes):
            return True
        return self.code in (0, 504) and "too large resource version" in self.message.lower()

    def label(self) -> str:
        """Code and reason, safe to log: a reason is one word."""
        return f"{self.code} {self.reason if self.reason.isalnum() else ''}".strip()[:60]


@dataclass(frozen=True, slots=True)
class Broken:
    """The line or page cannot be used; `why` names the rule that it breaks."""

    why: str


Frame = Object | Bookmark | ServerError | Broken


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a list, with uid and rv checked."""

    uid: str
    rv: str
    obj: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list. `continue_` is empty on the last one; `remaining` is the server's estimate."""

    rv: str
    continue_: str
    remaining: int | None
    items: tuple[Item, ...]


class Splitter:
    """Cuts a byte stream into lines in one pass over the bytes, however it is chunked."""

    def __init__(self, limit: int = LINE_BYTES_MAX) -> None:
        self._limit = limit
        self._tail = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that `chunk` completes, without line ends and without blank ones.

        Raises LineTooLong once the unfinished line is longer than the limit; lines before it were returned.
        """
        if len(self._tail) > self._limit:
            raise LineTooLong(f"a line of more than {self._limit} bytes")
        *whole, rest = chunk.split(b"\n")
        if whole and self._tail:
            self._tail += whole[0]
            whole[0] = bytes(self._tail)
            self._tail = bytearray()
        self._tail += rest
        return [line for line in whole if line and not line.isspace()]

    def finish(self) -> int:
        """Forget the unfinished last line, which belongs to the lost connection, and return its size in bytes."""
        size = len(self._tail)
        self._tail = bytearray()
        return size


def classify(line: bytes) -> Frame:
    """Judge one line of a watch stream."""
    try:
        frame = orjson.loads(line)
    except orjson.JSONDecodeError:
        return Broken(f"not JSON in UTF-8 ({len(line)} bytes)")
    if not isinstance(frame, dict):
        return Broken("not a JSON object")
    kind, obj = frame.get("type"), frame.get("object")
    if not isinstance(kind, str):
        return Broken("no event type")
    if kind == "ERROR":
        return server_error(obj)
    if kind == "BOOKMARK":
        return _bookmark(obj)
    event = _TYPES.get(kind)
    if event is None:
        return Broken("unknown event type")
    found = _identity(obj)
    return found if isinstance(found, Broken) else Object(event, found.uid, found.rv, found.obj)


def page(body: bytes) -> Page | Broken:
    """Judge the body of a list answer; one unusable item makes the page unusable."""
    try:
        answer = orjson.loads(body)
    except orjson.JSONDecodeError:
        return Broken(f"list is not JSON in UTF-8 ({len(body)} bytes)")
    metadata = answer.get("metadata") if isinstance(answer, dict) else None
    if not isinstance(metadata, dict):
        return Broken("list without metadata")
    rv, token, remaining = (metadata.get(key) for key in ("resourceVersion", "continue", "remainingItemCount"))
    if not isinstance(rv, str) or not well_formed(rv):
        return Broken("list whose resourceVersion is not well formed")
    if token is not None and not isinstance(token, str):
        return Broken("list whose continue token is no string")
    listed = answer.get("items", ())
    # Go writes an empty list as null.
    if listed is not None and "items" not in answer:
        return Broken("list without items")
    if not isinstance(listed, list | None):
        return Broken("list whose items are no array")
    items = []
    for obj in listed or ():
        item = _identity(obj)
        if isinstance(item, Broken):
            return Broken(f"list item with {item.why}")
        items.append(item)
    return Page(rv, token or "", remaining if type(remaining) is int else None, tuple(items))


def server_error(status: object, code: int = 0, retry_after: float | None = None) -> ServerError:
    """Read a Status of any shape. `code` and `retry_after` (seconds) are those of the HTTP answer, if it was one."""
    body = status if isinstance(status, dict) else {}
    details = body.get("details")
    if not isinstance(details, dict):
        details = {}
    causes = details.get("causes")
    if not isinstance(causes, list):
        causes = []
    told = details.get("retryAfterSeconds")
    if retry_after is None and type(told) is int and told > 0:
        retry_after = float(told)
    inner = body.get("code")
    return ServerError(
        code or (inner if type(inner) is int else 0),
        _text(body.get("reason")),
        _text(body.get("message"))[:1000],
        tuple(_text(cause.get("reason")) for cause in causes if isinstance(cause, dict)),
        retry_after,
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _bookmark(obj: object) -> Bookmark | Broken:
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    if not isinstance(metadata, dict):
        return Broken("bookmark without metadata")
    rv, annotations = metadata.get("resourceVersion"), metadata.get("annotations")
    if not isinstance(rv, str) or not well_formed(rv):
        return Broken("bookmark whose resourceVersion is not well formed")
    # Only the string "true" ends the initial events (KEP-3157); a boolean or "false" is a plain bookmark.
    ends = isinstance(annotations, dict) and annotations.get(INITIAL_EVENTS_END) == "true"
    return Bookmark(rv, ends)


def _identity(obj: object) -> Item | Broken:
    if not isinstance(obj, dict):
        return Broken("no object")
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict):
        return Broken("no metadata")
    uid, rv = metadata.get("uid"), metadata.get("resourceVersion")
    if not isinstance(uid, str) or not uid:
        return Broken("no metadata.uid")
    if uid.startswith(RESERVED):
        return Broken("a metadata.uid that begins like one of our own keys")
    if not isinstance(rv, str) or not well_formed(rv):
        return Broken("a resourceVersion that is not well formed")
    return Item(uid, rv, obj)
