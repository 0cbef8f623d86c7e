"""Streams bring every event once and in order, and each fault of streams looks as it does in life."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from local.sim_server import SimOptions, SimServer
from tests.local.sim_stream import Stream, names

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer(options=SimOptions(bookmark_s=0.1, too_large_wait_s=0.1)) as server:
        yield server


def make(server: SimServer, name: str) -> str:
    kind = server.store.kind("", "configmaps")
    obj = server.store.create(kind, {"metadata": {"name": name}}, namespace="default")
    return str(obj["metadata"]["resourceVersion"])


def open_watch(server: SimServer, **query: str) -> Stream:
    return Stream(server.url, PATH, resourceVersion=str(server.store.revision), **query)


def test_events_come_as_they_are_committed(server: SimServer) -> None:
    with open_watch(server) as stream:
        make(server, "a")
        assert names(stream.frame()) == [("ADDED", "a")]
        server.store.delete(server.store.kind("", "configmaps"), "default", "a")
        assert names(stream.frame()) == [("DELETED", "a")]


def test_each_frame_is_a_chunk_of_its_own(server: SimServer) -> None:
    make(server, "a")
    make(server, "b")
    with Stream(server.url, PATH, resourceVersion="1", timeoutSeconds="1") as stream:
        raw: Any = stream.response.fp
        sizes = []
        while size := int(raw.readline(), 16):
            sizes.append(size)
            assert raw.read(size).endswith(b"\n")
            assert raw.read(2) == b"\r\n"
    assert len(sizes) == 2


def test_many_watchers_see_one_order(server: SimServer) -> None:
    """Concurrent writers and watchers: every stream has all events, in strictly rising versions."""
    streams = [open_watch(server) for _ in range(5)]
    writers = [threading.Thread(target=lambda n=n: [make(server, f"w{n}-{i}") for i in range(20)]) for n in range(3)]
    for writer in writers:
        writer.start()
    seen = [[stream.frame()["object"]["metadata"]["resourceVersion"] for _ in range(60)] for stream in streams]
    for writer in writers:
        writer.join()
    for stream in streams:
        with stream:
            pass
    assert all(versions == seen[0] for versions in seen)
    assert [int(v) for v in seen[0]] == sorted({int(v) for v in seen[0]})


def test_bookmark_is_never_older_than_what_was_sent(server: SimServer) -> None:
    with open_watch(server, allowWatchBookmarks="true") as stream:
        version = int(make(server, "a"))
        frames = [stream.frame() for _ in range(3)]
        frame = next(f for f in frames[1:] if f["type"] == "BOOKMARK")
        assert int(frame["object"]["metadata"]["resourceVersion"]) >= version
        assert "uid" not in frame["object"]["metadata"]


def test_last_bookmark_comes_before_the_deadline(server: SimServer) -> None:
    with SimServer() as slow, open_watch(slow, allowWatchBookmarks="true", timeoutSeconds="3") as stream:
        make(slow, "a")
        frames = [stream.frame(), stream.frame()]
        assert [frame["type"] for frame in frames] == ["ADDED", "BOOKMARK"]


def test_events_get_no_periodic_bookmarks(server: SimServer) -> None:
    query = {"resourceVersion": str(server.store.revision), "allowWatchBookmarks": "true", "timeoutSeconds": "1"}
    with Stream(server.url, "/api/v1/events", **query) as stream:
        assert stream.line() == b""


def test_watch_list_ends_its_initial_events(server: SimServer) -> None:
    make(server, "a")
    query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
    with Stream(server.url, PATH, **query) as stream:
        frames = [stream.frame(), stream.frame()]
        assert names(*frames) == [("ADDED", "a"), ("BOOKMARK", "")]
        assert frames[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        make(server, "b")
        assert ("ADDED", "b") in names(stream.frame(), stream.frame())


def test_watch_list_can_be_switched_off() -> None:
    with (
        SimServer(options=SimOptions(watchlist=False)) as server,
        Stream(server.url, PATH, sendInitialEvents="true", resourceVersionMatch="NotOlderThan") as stream,
    ):
        assert stream.response.status == 422


def test_restore_ends_open_watches(server: SimServer) -> None:
    backup = server.store.snapshot()
    with open_watch(server) as stream:
        make(server, "a")
        stream.frame()
        server.store.restore(backup)
        assert stream.line() == b""


def test_watch_beyond_the_present_drops_what_comes_until_then(server: SimServer) -> None:
    ahead = str(server.store.revision + 2)
    with Stream(server.url, PATH, resourceVersion=ahead) as stream:
        for name in "abc":
            make(server, name)
        assert names(stream.frame()) == [("ADDED", "c")]


@pytest.mark.parametrize(("mode", "line"), [("stream", True), ("close", False)])
def test_expired_ends_new_and_open_streams(server: SimServer, mode: str, line: bool) -> None:
    with open_watch(server) as stream:
        server.faults.set("expired_410", "configmaps", count=2, mode=mode)
        with open_watch(server) as other:
            for ended in (stream, other):
                if line:
                    frame = ended.frame()
                    assert (frame["type"], frame["object"]["code"], frame["object"]["reason"]) == (
                        "ERROR",
                        410,
                        "Expired",
                    )
                assert ended.line() == b""
    assert server.faults.fired == {"expired_410": 2}


def test_cut_tears_an_open_stream_at_once(server: SimServer) -> None:
    with open_watch(server) as stream:
        server.faults.set("cut", count=1)
        with pytest.raises(ConnectionError):
            stream.line()


def test_cut_after_bytes_tears_within_a_frame(server: SimServer) -> None:
    server.faults.set("cut", count=1, after_bytes=20)
    with open_watch(server) as stream:
        make(server, "a")
        with pytest.raises(ConnectionError):
            stream.line()
    assert server.faults.fired == {"cut": 1}


def test_mute_stream_stays_open_and_goes_on_once_cleared(server: SimServer) -> None:
    with open_watch(server, allowWatchBookmarks="true") as stream:
        server.faults.set("mute", count=1)
        wait_until_fired(server, "mute")
        make(server, "a")
        with open_watch(server) as other:
            make(server, "b")
            assert names(other.frame()) == [("ADDED", "b")]
        server.faults.clear("mute")
        frames = [stream.frame() for _ in range(3)]
        assert [pair for pair in names(*frames) if pair[0] == "ADDED"] == [("ADDED", "a"), ("ADDED", "b")]


def test_duplicate_sends_a_frame_twice(server: SimServer) -> None:
    with open_watch(server) as stream:
        server.faults.set("duplicate", count=1)
        make(server, "a")
        make(server, "b")
        assert names(*(stream.frame() for _ in range(3))) == [("ADDED", "a"), ("ADDED", "a"), ("ADDED", "b")]


def test_garbage_takes_the_place_of_a_frame(server: SimServer) -> None:
    with open_watch(server) as stream:
        server.faults.set("garbage", count=1, data="{broken")
        make(server, "a")
        make(server, "b")
        assert stream.line() == b"{broken\n"
        assert names(stream.frame()) == [("ADDED", "b")]


def test_instant_close_is_an_empty_success(server: SimServer) -> None:
    server.faults.set("instant_close", count=1)
    with open_watch(server) as stream:
        assert (stream.response.status, stream.line()) == (200, b"")


def wait_until_fired(server: SimServer, name: str) -> None:
    ticks = -1
    for _ in range(100):
        if server.faults.fired.get(name):
            return
        ticks = server.store.pulse.wait(ticks, 0.05)
    raise AssertionError(f"{name} never fired")
