"""The scripted server puts on the wire what a step says: pieces, silence, torn connections, discovery."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from tests.cases import loader
from tests.cases.outside import Outside
from tests.cases.script import Script
from tests.cases.server import Listener

WATCH = "?watch=1&resourceVersion=5&allowWatchBookmarks=true"


@contextlib.contextmanager
def playing(steps, **rest):
    case = loader.parse({"id": "a", "steps": steps, "expect": {}} | rest)
    outside = Outside(case, "t")
    script = Script(case, outside)
    for act in case.acts:
        script.begin(act)
    listener = Listener(script, outside, "p1")
    try:
        yield script, listener
    finally:
        script.fail("over")
        listener.hang_up()


def get(listener, path, token="t", **headers):
    request = urllib.request.Request(listener.url + path, headers={"Authorization": f"Bearer {token}", **headers})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read(), answer.headers
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), error.headers


def raw(listener, path):
    """Send a request; the socket, for what HTTP libraries would hide."""
    connection = socket.create_connection(listener.server_address, timeout=10)
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\r\n".encode())
    return connection


def until(holds):
    """Poll a condition for some seconds; whether it came to hold."""
    end = time.monotonic() + 5
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return bool(holds())


def received(connection):
    """Everything until the end, and whether that was a reset."""
    data = b""
    while True:
        try:
            piece = connection.recv(65536)
        except ConnectionResetError:
            return data, True
        if not piece:
            return data, False
        data += piece
        if data.endswith(b"\r\n0\r\n\r\n"):
            return data, False


def test_a_list_has_items_without_kind_where_it_is_built_in():
    item = {"uid": "x", "rv": "3", "gen": 2, "labels": {"a": "b"}, "data": {"k": "ž"}}
    steps = [{"to": "list", "resource": r, "list": {"rv": "5", "items": [item], "continue": "c"}}
             for r in ("v1/configmaps", "example.io/v1/widgets")]  # fmt: skip
    with playing(steps, resources=["v1/configmaps", "example.io/v1/widgets"]) as (_, listener):
        status, body, _ = get(listener, "/api/v1/configmaps?limit=500")
        assert status == 200
        assert "ž".encode() in body
        page = json.loads(body)
        assert page["metadata"] == {"resourceVersion": "5", "continue": "c"}
        [shown] = page["items"]
        assert "kind" not in shown
        assert shown["data"] == {"k": "ž"}
        assert shown["metadata"] | {"generation": 2, "namespace": "default", "name": "x"} == shown["metadata"]
        [custom] = json.loads(get(listener, "/apis/example.io/v1/widgets")[1])["items"]
        assert (custom["kind"], custom["apiVersion"]) == ("Widget", "example.io/v1")
        alone = json.loads(get(listener, "/api/v1/namespaces/default/configmaps/x")[1])
        assert alone == shown | {"kind": "ConfigMap", "apiVersion": "v1"}
        assert get(listener, "/api/v1/namespaces/default/configmaps/y")[0] == 404


def test_a_stream_of_every_frame():
    frames = [
        {"A": {"uid": "x", "rv": "6"}, "chunk": 7},
        {"raw": b"\n"},
        {"BEND": "7"},
        {"D": {"uid": "x", "rv": "8"}, "bytes": 9},
        {"E": {"code": 410, "reason": "Expired"}},
    ]
    with playing([{"to": "watch", "stream": frames}]) as (script, listener):
        lines = get(listener, "/api/v1/configmaps" + WATCH)[1].split(b"\n")
        assert json.loads(lines[0])["object"]["kind"] == "ConfigMap"
        assert lines[1] == b""
        assert json.loads(lines[2])["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert lines[3].startswith(b'{"type":"{"type":"ERROR"')
        assert until(lambda: not script.pending())


def test_pieces_are_sent_one_by_one():
    with playing([{"to": "watch", "stream": [{"B": "6", "chunk": 3}, "close"]}]) as (_, listener):
        with raw(listener, "/api/v1/configmaps" + WATCH) as connection:
            data, reset = received(connection)
        pieces = data.partition(b"\r\n\r\n")[2].split(b"\r\n")[::2]
        assert set(pieces[:-3]) == {b"3"}
        assert not reset


@pytest.mark.parametrize("stream", [True, False])
def test_a_cut_gives_what_was_written_and_then_a_reset(stream):
    step = (
        {"to": "watch", "stream": [{"A": {"uid": "x", "rv": "6"}}, "cut"]}
        if stream
        else {"to": "list", "list": {"rv": "5", "items": []}, "cut_after": 12}
    )
    with playing([step]) as (_, listener):
        with raw(listener, "/api/v1/configmaps" + (WATCH if stream else "")) as connection:
            data, reset = received(connection)
        assert reset
        body = data.partition(b"\r\n\r\n")[2]
        assert body.endswith(b"\n\r\n") if stream else len(body) == 12


@pytest.mark.parametrize("leaves", [True, False])
def test_a_silent_client_fails_the_case_and_one_that_leaves_does_not(leaves):
    with (
        playing([{"to": "watch", "stream": [{"mute": 0.3}]}]) as (script, listener),
        raw(listener, "/api/v1/configmaps" + WATCH) as connection,
    ):
        connection.recv(10)
        if leaves:
            connection.close()
        assert until(lambda: not script.pending() or script.failure)
        assert bool(script.failure) is not leaves


def test_a_stream_stays_open_for_more_frames():
    steps = [{"to": "watch", "stream": []}, {"to": "open", "stream": [{"B": "6"}, "close"]}]
    with playing(steps) as (script, listener):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(get(listener, "/api/v1/configmaps" + WATCH)))
        thread.start()
        assert until(lambda: not script.pending())
        thread.join(5)
        assert json.loads(answers[0][1])["type"] == "BOOKMARK"


def test_a_status():
    step = {"to": "list", "status": 429, "reason": "TooManyRequests", "cause": "Why", "retry_after": 1}
    with playing([step]) as (_, listener):
        code, body, headers = get(listener, "/api/v1/configmaps")
        status = json.loads(body)
        assert (code, status["code"], status["reason"]) == (429, 429, "TooManyRequests")
        assert status["details"]["causes"][0]["reason"] == "Why"
        assert headers["Retry-After"] == "1"


def test_seen_frames_can_be_left_out():
    frames = [{"B": "5"}, {"A": {"uid": "x", "rv": "10"}}, "close"]
    with playing([{"to": "watch", "skip_seen": True, "stream": frames}]) as (_, listener):
        [line] = get(listener, "/api/v1/configmaps" + WATCH)[1].splitlines()
        assert json.loads(line)["object"]["metadata"]["resourceVersion"] == "10"


def test_discovery_shows_what_is_served():
    resources = ["v1/configmaps", "example.io/v2/widgets", "example.io/v1/widgets"]
    with playing([], resources=resources) as (_, listener):
        [group] = json.loads(get(listener, "/apis")[1])["groups"]
        assert group["preferredVersion"]["version"] == "v2"
        assert json.loads(get(listener, "/apis/example.io/v1")[1])["resources"][0]["kind"] == "Widget"
        assert json.loads(get(listener, "/version")[1])["minor"] == "30"
        listener.outside.serve(("v1/configmaps",))
        assert json.loads(get(listener, "/apis")[1])["groups"] == []
        assert get(listener, "/apis/example.io/v1")[0] == 404
        assert get(listener, "/api", token="other")[0] == 401


def test_namespaces_are_lanes_of_their_own():
    steps = [{"to": "list", "ns": ns, "list": {"rv": rv, "items": []}} for ns, rv in (("a", "1"), ("b", "2"))]
    with playing(steps) as (_, listener):
        for ns, rv in (("b", "2"), ("a", "1")):
            page = json.loads(get(listener, f"/api/v1/namespaces/{ns}/configmaps")[1])
            assert page["metadata"]["resourceVersion"] == rv


def test_an_object_can_be_filled():
    fill = {"path": "/data/blob", "bytes": 100_000, "char": "x"}
    with playing([{"to": "list", "list": {"rv": "5", "items": [{"uid": "x", "rv": "3", "fill": fill}]}}]) as (
        _,
        listener,
    ):
        [item] = json.loads(get(listener, "/api/v1/configmaps")[1])["items"]
        assert item["data"] == {"blob": "x" * 100_000}
