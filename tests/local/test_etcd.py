"""The calls to etcd's gateway: what is committed, what compaction takes away, and one clear error when etcd is away."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local import etcd, ports
from local.errors import LocalError
from local.etcd_server import EtcdServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def url(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One that tests of this module may compact."""
    server = EtcdServer(tmp_path_factory.mktemp("etcd"), envtest_folder / "etcd")
    server.start()
    yield server.url
    server.stop()


def call(url: str, path: str, **body: Any) -> dict[str, Any]:
    with closing(etcd.connect(url)) as connection:
        connection.request("POST", path, json.dumps(body))
        return dict(json.loads(connection.getresponse().read()))


def put(url: str, key: bytes, value: bytes) -> int:
    answer = call(url, "/v3/kv/put", key=etcd.encode(key), value=etcd.encode(value))
    return int(answer["header"]["revision"])


def at(url: str, key: bytes, revision: int) -> dict[str, Any]:
    return call(url, "/v3/kv/range", key=etcd.encode(key), revision=str(revision))


def test_revision_is_that_of_the_last_commit_of_any_key(url: str) -> None:
    first = put(url, b"a", b"1")
    assert etcd.revision(url) == first
    assert put(url, b"b", b"1") == first + 1 == etcd.revision(url)
    call(url, "/v3/kv/deleterange", key=etcd.encode(b"a"))
    assert etcd.revision(url) == first + 2


def test_reading_commits_nothing(url: str) -> None:
    assert etcd.revision(url) == etcd.revision(url)
    assert etcd.is_ready(url)


def test_bytes_that_are_no_text_survive_the_gateway(url: str) -> None:
    """Keys of etcd are bytes; base64 of JSON has two alphabets, and only one is understood."""
    value = bytes(range(256)) + b"\xfb\xff\xfe"
    revision = put(url, value[:200], value)
    (found,) = at(url, value[:200], revision)["kvs"]
    assert (etcd.decode(found["key"]), etcd.decode(found["value"])) == (value[:200], value)


def test_what_is_current_at_the_compacted_revision_stays_readable_and_nothing_before(url: str) -> None:
    old = put(url, b"compacted", b"1")
    new = put(url, b"compacted", b"2")
    put(url, b"other", b"1")
    etcd.compact(url, new)
    (found,) = at(url, b"compacted", new)["kvs"]
    assert etcd.decode(found["value"]) == b"2"
    assert "has been compacted" in at(url, b"compacted", old)["message"]
    assert etcd.revision(url) == new + 1  # compaction is no commit


@pytest.mark.parametrize(("ahead", "message"), [(1000, "future revision"), (0, "has been compacted")])
def test_compaction_out_of_range_is_refused_in_etcds_words(url: str, ahead: int, message: str) -> None:
    now = put(url, b"range", b"1")
    etcd.compact(url, now)
    with pytest.raises(LocalError, match=f"refused /v3/kv/compaction: .*{message}"):
        etcd.compact(url, now + ahead)


def test_etcd_that_is_away_is_not_ready_and_an_error_that_names_it() -> None:
    url = f"http://{ports.HOST}:{ports.free_port()}"
    assert not etcd.is_ready(url)
    with pytest.raises(LocalError, match=f"etcd at {url} does not answer /v3/kv/range"):
        etcd.revision(url)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[str]:
    """A server that gives one answer to everything: what another program on that port would do."""

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST  # noqa: N815 - a name of http.server

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer((ports.HOST, 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://{ports.HOST}:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("status", "body"), [(200, b"<html>"), (200, b"[]"), (200, b"{}"), (404, b"404 page not found"), (503, b"{}")]
)
def test_another_program_on_the_port_is_an_error_and_never_a_revision(status: int, body: bytes) -> None:
    with answering(status, body) as url:
        assert not etcd.is_ready(url)
        with pytest.raises(LocalError, match=f"etcd at {url}"):
            etcd.revision(url)


def test_connection_torn_within_an_answer_is_an_error_that_names_it() -> None:
    with socket.create_server((ports.HOST, 0)) as listener:

        def tear() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")

        thread = threading.Thread(target=tear)
        thread.start()
        url = f"http://{ports.HOST}:{listener.getsockname()[1]}"
        with pytest.raises(LocalError, match=f"etcd at {url} does not answer"):
            etcd.revision(url)
        thread.join()


@given(st.binary())
def test_encoding_can_be_undone(value: bytes) -> None:
    assert etcd.decode(etcd.encode(value)) == value
