"""What goes into a watch session and what comes out of it, as values.

Inputs are answers of the API server (with the frames of `producer.frames`), alarms that rang, and orders of the
service. Outputs are requests, alarms and records to publish. Nothing here decides or does anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from kubecdc.records import EventType, Relist
from producer import frames
from producer.published import Versions


class Lane(StrEnum):
    """A session has at most one request under way on each."""

    MAIN = "main"
    AUDIT = "audit"


class Verb(StrEnum):
    """The questions that a session asks: three of the API server, and what the log holds of its objects."""

    LIST = "list"
    WATCH = "watch"
    WATCHLIST = "watchlist"
    RECALL = "recall"


# --- inputs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Start:
    """Begin, after the stored position `rv` of `epoch`, or without one (rv None)."""

    rv: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer, or one that broke off: connection refused, reset, time-out, not HTTP, not JSON."""

    why: str


@dataclass(frozen=True, slots=True)
class StreamOpened:
    """The server accepted a watch (status 200)."""


@dataclass(frozen=True, slots=True)
class StreamEnded:
    """An accepted watch is over after `lasted_s` seconds; `clean` is the regular end of the response."""

    lasted_s: float
    clean: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Recalled:
    """What the log held of the stream's objects in `epoch` before this session began; `why` it cannot be known."""

    versions: Versions
    epoch: int
    why: str = ""
    deleted: Versions = field(default_factory=Versions)


@dataclass(frozen=True, slots=True)
class AuditAnswer:
    """The answer to a request on the audit lane."""

    answer: frames.Page | frames.Broken | frames.ServerError | Unreachable | Recalled


@dataclass(frozen=True, slots=True)
class RetryDue:
    """The wait before the next request is over."""


@dataclass(frozen=True, slots=True)
class ProgressDue:
    """It is time to tell how far the session is."""


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """A streamed list has had all the time it may take."""


@dataclass(frozen=True, slots=True)
class AuditDue:
    """It is time for an audit list."""


@dataclass(frozen=True, slots=True)
class Gone:
    """Discovery says that the kind is not served any more."""


@dataclass(frozen=True, slots=True)
class Back:
    """Discovery says that the kind is served again."""


@dataclass(frozen=True, slots=True)
class Moved:
    """The kind is served in another API version from now on; it is the same resource."""


@dataclass(frozen=True, slots=True)
class Overtaken:
    """Another producer found the server restored: it has begun `epoch`, and come to `rv` in it (None: nowhere yet)."""

    rv: str | None
    epoch: int


@dataclass(frozen=True, slots=True)
class Stop:
    """The producer is leaving."""


Alarmed = RetryDue | ProgressDue | DeadlinePassed | AuditDue
Input = (
    Start
    | frames.Page
    | Unreachable
    | StreamOpened
    | StreamEnded
    | AuditAnswer
    | Recalled
    | Alarmed
    | Gone
    | Back
    | Moved
    | Overtaken
    | Stop
    | frames.Object
    | frames.Bookmark
    | frames.ServerError
    | frames.Broken
)

# --- outputs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Request:
    """Ask. LIST takes `token`, WATCH takes `rv`, WATCHLIST and RECALL neither."""

    lane: Lane
    verb: Verb
    rv: str = ""
    token: str = ""


@dataclass(frozen=True, slots=True)
class Cancel:
    """Drop what is under way on a lane; nothing of it may reach the session any more."""

    lane: Lane


@dataclass(frozen=True, slots=True)
class Alarm:
    """Deliver `rings` after `seconds`; a later alarm of the same kind replaces it.

    `exact` alarms must not ring early (a Retry-After); others may be spread by a jitter.
    """

    rings: Alarmed
    seconds: float
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Publish:
    """A record of one object, as a frame or a list item showed it."""

    type: EventType
    epoch: int
    item: frames.Object | frames.Item
    relist: Relist | None = None


@dataclass(frozen=True, slots=True)
class PublishAbsent:
    """A DELETED that an audit found: only the UID is known; `rv` is the version of the list without it."""

    epoch: int
    uid: str
    rv: str
    relist: Relist


@dataclass(frozen=True, slots=True)
class Mark:
    """A marker for every partition. On RELIST_END the publisher fills in what each partition was sent."""

    type: EventType
    epoch: int
    rv: str | None
    relist: Relist | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`rv` may be stored as the position once everything published before this is acknowledged."""

    epoch: int
    rv: str


@dataclass(frozen=True, slots=True)
class EpochBegun:
    """Nothing of `epoch` may be published before all producers can know of it: it is stored, and acknowledged."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Count:
    """Something happened that a metric counts: `what` is its name, `label` its reason where it has one."""

    what: str
    label: str = ""


Output = Request | Cancel | Alarm | Publish | PublishAbsent | Mark | Checkpoint | EpochBegun | Count
