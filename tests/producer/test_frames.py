"""The bytes of a stream become the same frames however they are cut, and nothing unusable passes as usable."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.records import EventType
from producer.frames import (
    Bookmark,
    Broken,
    Item,
    LineTooLong,
    Object,
    Page,
    ServerError,
    Splitter,
    classify,
    page,
    server_error,
)

SECRET = "sentinel-7f3a9c"


def obj(**metadata: Any) -> dict[str, Any]:
    return {"metadata": {"uid": "u1", "resourceVersion": "7", **metadata}}


def line(kind: Any, body: Any) -> bytes:
    return orjson.dumps({"type": kind, "object": body})


def cut(data: bytes, sizes: list[int]) -> list[bytes]:
    chunks, at = [], 0
    for size in sizes:
        chunks.append(data[at : at + size])
        at += size
    return [*chunks, data[at:]]


@given(st.lists(st.sampled_from([b"", b" ", b"\r", b"{}", "ž漢🙂".encode(), b"a" * 40])), st.lists(st.integers(0, 9)))
def test_any_chunking_gives_the_lines_of_a_plain_split(parts: list[bytes], sizes: list[int]) -> None:
    data = b"\n".join(parts)
    splitter = Splitter()
    lines = [found for chunk in cut(data, sizes) for found in splitter.feed(chunk)]
    *whole, tail = data.split(b"\n")
    assert lines == [part for part in whole if part.strip()]
    assert splitter.finish() == len(tail)
    assert splitter.finish() == 0


def test_a_line_of_megabytes_in_single_bytes_takes_linear_time() -> None:
    def seconds(size: int) -> float:
        splitter, data = Splitter(), b"x" * size + b"\n"
        begun = time.perf_counter()
        lines = [found for at in range(len(data)) for found in splitter.feed(data[at : at + 1])]
        assert lines == [b"x" * size]
        return time.perf_counter() - begun

    small = min(seconds(30_000) for _ in range(3))
    assert min(seconds(480_000) for _ in range(2)) < 16 * small * 4


def test_an_endless_line_is_refused_after_what_came_before_it() -> None:
    splitter = Splitter(limit=10)
    assert splitter.feed(b"{}\n" + b"x" * 11) == [b"{}"]
    with pytest.raises(LineTooLong):
        splitter.feed(b"\n")


@pytest.mark.parametrize("kind", ["ADDED", "MODIFIED", "DELETED"])
def test_an_object_event_carries_its_identity(kind: str) -> None:
    assert classify(line(kind, obj())) == Object(EventType(kind), "u1", "7", obj())


BROKEN_LINES = [
    b'{"type":"MODIFIED","object":{"kind":"sentinel-7f3a9c",',
    b"\xff" + line("ADDED", obj()),
    line("ADDED", obj(name="x")).replace(b'"x"', b'"\xc3"'),
    line("ADDED", obj(name="x")).replace(b'"x"', rb'"\ud800"'),
    b"[]",
    b"null",
    b'"sentinel-7f3a9c"',
    b"NaN",
    line(SECRET, obj()),
    line("LISTED", obj()),
    line("added", obj()),
    line(7, obj()),
    line(None, obj()),
    b"{}",
    line("ADDED", None),
    line("ADDED", [SECRET]),
    line("ADDED", {"metadata": SECRET}),
    line("ADDED", obj(uid="")),
    line("ADDED", obj(uid=None)),
    line("ADDED", obj(uid=7)),
    line("ADDED", obj(uid="__progress__")),
    *(
        line("ADDED", obj(resourceVersion=rv))
        for rv in (None, 7, "", "0", "007", "-1", "+1", " 1", "1e3", "1_0", "\uff11")
    ),
    line("BOOKMARK", {"metadata": {"resourceVersion": "0"}}),
    line("BOOKMARK", {"metadata": {}}),
    line("BOOKMARK", {"metadata": [SECRET]}),
    line("BOOKMARK", None),
]


@pytest.mark.parametrize("data", BROKEN_LINES)
def test_a_broken_frame_says_why_without_its_content(data: bytes) -> None:
    frame = classify(data)
    assert isinstance(frame, Broken)
    assert frame.why
    assert SECRET not in frame.why


@given(st.binary(max_size=60))
def test_no_bytes_crash_the_judges(data: bytes) -> None:
    classify(data)
    page(data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["metadata", "uid", "code"]), inner),
    max_leaves=8,
)


@given(st.sampled_from(["ADDED", "BOOKMARK", "ERROR", "X"]), JSON)
def test_no_json_crashes_the_judges(kind: str, body: Any) -> None:
    frame = classify(line(kind, body))
    assert isinstance(frame, ServerError) is (kind == "ERROR")
    page(orjson.dumps(body))


@pytest.mark.parametrize(
    ("value", "ends"), [("true", True), ("false", False), (True, False), (None, False), ("", False)]
)
def test_only_the_text_true_ends_the_initial_events(value: Any, ends: bool) -> None:
    body = {"metadata": {"resourceVersion": "9", "annotations": {"k8s.io/initial-events-end": value}}}
    assert classify(line("BOOKMARK", body)) == Bookmark("9", ends)


def test_a_bookmark_needs_neither_uid_nor_annotations() -> None:
    assert classify(line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})) == Bookmark("9", initial_events_end=False)
    hostile = {"metadata": {"resourceVersion": "9", "annotations": "x"}}
    assert classify(line("BOOKMARK", hostile)) == Bookmark("9", initial_events_end=False)


def test_an_error_frame_is_read_from_its_status() -> None:
    status = {
        "code": 429,
        "reason": "TooManyRequests",
        "message": "slow down",
        "details": {"retryAfterSeconds": 3, "causes": [{"reason": "Busy"}, "x"]},
    }
    frame = classify(line("ERROR", status))
    assert frame == ServerError(429, "TooManyRequests", "slow down", ("Busy",), 3.0)


@pytest.mark.parametrize(
    ("status", "gone"),
    [
        ({"code": 410}, True),
        ({"code": 410, "reason": "Expired"}, True),
        ({"code": 410, "reason": "Gone"}, True),
        ({"reason": "Expired"}, True),
        ({"code": 504}, False),
        ({"code": True, "reason": 410}, False),
        ("410", False),
    ],
)
def test_gone_in_every_spelling(status: Any, gone: bool) -> None:
    assert server_error(status).gone is gone


@pytest.mark.parametrize(
    ("status", "too_large"),
    [
        ({"code": 504, "details": {"causes": [{"reason": "ResourceVersionTooLarge"}]}}, True),
        ({"code": 504, "reason": "Timeout", "message": "Too large resource version: 9, current: 5"}, True),
        ({"code": 504, "reason": "Timeout", "message": "too large resource version"}, True),
        ({"code": 504, "reason": "Timeout", "message": "gateway timed out"}, False),
        ({"code": 500, "message": "Too large resource version"}, False),
        ({"code": 504}, False),
    ],
)
def test_too_large_in_every_spelling(status: Any, too_large: bool) -> None:
    assert server_error(status).too_large is too_large


def test_the_answer_of_http_outweighs_its_body_and_a_label_holds_no_free_text() -> None:
    error = server_error({"code": 500, "reason": f"a {SECRET}", "message": SECRET}, code=503, retry_after=2.5)
    assert (error.code, error.retry_after) == (503, 2.5)
    assert error.label() == "503"
    assert server_error({"code": 410, "reason": "Expired"}).label() == "410 Expired"
    assert server_error(None, code=502).label() == "502"


def test_a_page_carries_checked_items_and_tells_whether_it_is_the_last() -> None:
    body = {"metadata": {"resourceVersion": "50", "continue": "t", "remainingItemCount": 3}, "items": [obj()]}
    assert page(orjson.dumps(body)) == Page("50", "t", 3, (Item("u1", "7", obj()),))
    last = {"metadata": {"resourceVersion": "50"}, "items": None}
    assert page(orjson.dumps(last)) == Page("50", "", None, ())


@pytest.mark.parametrize(
    "body",
    [
        {"metadata": {"resourceVersion": "50"}},
        {"metadata": {"resourceVersion": "50"}, "items": {}},
        {"metadata": {"resourceVersion": "0"}, "items": []},
        {"metadata": {"resourceVersion": ""}, "items": []},
        {"metadata": {"resourceVersion": "50", "continue": 7}, "items": []},
        {"items": []},
        [],
        {"metadata": {"resourceVersion": "50"}, "items": [obj(), obj(resourceVersion=SECRET)]},
        {"metadata": {"resourceVersion": "50"}, "items": [obj(uid=None)]},
    ],
)
def test_a_page_with_anything_unusable_is_unusable_as_a_whole(body: Any) -> None:
    found = page(orjson.dumps(body))
    assert isinstance(found, Broken)
    assert SECRET not in found.why


def test_an_object_of_three_megabytes_passes() -> None:
    big = {**obj(), "data": {"blob": "y" * 3_000_000}}
    assert classify(line("ADDED", big)) == Object(EventType.ADDED, "u1", "7", big)
