"""What a refusal by the API server means, in whichever of its spellings.

Pure and without state: it reads one Status, sent as an HTTP answer or inside a stream, and names it. What to do about
it depends on the session's phase and is decided there. Servers have spelled the same thing in several ways over the
years (kubernetes.md, "Error table").
"""

from __future__ import annotations

from enum import StrEnum

from producer.frames import ServerError


class Answer(StrEnum):
    """The refusals that differ in what has to follow."""

    EXPIRED = "expired"  # history is gone: list again
    TOO_LARGE = "version-too-large"  # the server has not reached the version, or was restored
    THROTTLED = "throttled"  # says nothing about history
    UNAUTHORIZED = "unauthorized"  # a fresh token may help
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not-found"  # says nothing by itself; discovery knows whether the kind is gone
    UNAVAILABLE = "unavailable"
    OTHER = "refused"


_BY_CODE = {
    429: Answer.THROTTLED,
    401: Answer.UNAUTHORIZED,
    403: Answer.FORBIDDEN,
    404: Answer.NOT_FOUND,
}


def classify(error: ServerError) -> Answer:
    """Name a refusal."""
    if error.too_large:
        return Answer.TOO_LARGE
    if error.gone:
        return Answer.EXPIRED
    if error.code >= 500:
        return Answer.UNAVAILABLE
    return _BY_CODE.get(error.code, Answer.OTHER)
