"""Guarantees: a refusal has one meaning in all the spellings that servers have used for it."""

from __future__ import annotations

import pytest

from producer.answers import Answer, classify
from producer.frames import ServerError


@pytest.mark.parametrize(
    ("error", "meaning"),
    [
        (ServerError(410, "Expired", ""), Answer.EXPIRED),
        (ServerError(410, "Gone", ""), Answer.EXPIRED),
        (ServerError(0, "Expired", ""), Answer.EXPIRED),
        (ServerError(504, "Timeout", "", ("ResourceVersionTooLarge",)), Answer.TOO_LARGE),
        (ServerError(504, "ResourceVersionTooLarge", ""), Answer.TOO_LARGE),
        (ServerError(504, "Timeout", "Too large resource version: 9, current: 8"), Answer.TOO_LARGE),
        (ServerError(504, "Timeout", "slow"), Answer.UNAVAILABLE),
        (ServerError(429, "TooManyRequests", ""), Answer.THROTTLED),
        (ServerError(401, "Unauthorized", ""), Answer.UNAUTHORIZED),
        (ServerError(403, "Forbidden", ""), Answer.FORBIDDEN),
        (ServerError(404, "NotFound", ""), Answer.NOT_FOUND),
        (ServerError(500, "InternalError", ""), Answer.UNAVAILABLE),
        (ServerError(422, "Invalid", ""), Answer.OTHER),
        (ServerError(0, "", ""), Answer.OTHER),
    ],
)
def test_one_meaning(error: ServerError, meaning: Answer) -> None:
    assert classify(error) is meaning
