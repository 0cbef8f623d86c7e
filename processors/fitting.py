"""A canonical record that is too large for its topic goes out without what makes it so, and says that.

Pure. A change holds the object of its event, which fitted, and beside it what changed since the version before: both
together may exceed what the topic takes. The version must be in the log all the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kubecdc.records import TOO_LARGE, Change, ObjectOmitted
from kubecdc.topics import MAX_MESSAGE_BYTES

# Key, headers and the frames of record and batch count as well; they are far smaller.
ROOM_BYTES = 4096
LIMIT_BYTES = MAX_MESSAGE_BYTES - ROOM_BYTES
WHOLE = ("",)  # the JSON pointer of the root: somewhere in the whole object
COUNTER = "object_omitted"


def fit(change: Change, encode: Callable[[Change], bytes], limit: int = LIMIT_BYTES) -> tuple[bytes, bool]:
    """The bytes of the change, and whether the object, or the list of changed paths, had to be left out.

    At most `limit` bytes, unless what remains (names, versions, managers) is larger; the producer bounds those.
    """
    value = encode(change)
    if len(value) <= limit:
        return value, False
    if change.object is not None:
        size = len(change.object.encode())
        change = replace(change, object=None, object_omitted=ObjectOmitted(TOO_LARGE, size))
        value = encode(change)
    if len(value) > limit and change.changed:
        value = encode(replace(change, changed=WHOLE))
    return value, True
