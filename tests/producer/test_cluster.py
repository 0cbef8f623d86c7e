"""Guarantees: requests have the parameters that the API demands, answers become typed values, no wait is endless.

The other end is a scripted HTTP server.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes.config import ConfigException

from kubecdc.errors import Misconfigured, Unreachable
from producer import signals
from producer.cluster import Cluster, Stream, StreamBroken
from producer.frames import Broken, Page, ServerError
from producer.selection import ResourceInfo
from producer.settings import ClusterSettings

PODS = ResourceInfo("", "v1", "pods", "Pod", namespaced=True, verbs=frozenset({"list", "watch"}))
Answer = Callable[[BaseHTTPRequestHandler], None]


class Scripted:
    """Answers every request with `answer`, and remembers path, parameters and authorization."""

    def __init__(self) -> None:
        self.answer: Answer = lambda handler: reply(handler, 404, {})
        self.seen: list[tuple[str, dict[str, str], str | None]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                url = urlsplit(self.path)
                params = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
                outer.seen.append((url.path, params, self.headers.get("Authorization")))
                outer.answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def reply(handler: BaseHTTPRequestHandler, status: int, body: Any, **headers: str) -> None:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def chunked(*chunks: bytes, end: bool = True, then: Callable[[], object] = lambda: None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for chunk in chunks:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            handler.wfile.flush()
        then()
        if end:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True

    return answer


@pytest.fixture
def server() -> Iterator[Scripted]:
    scripted = Scripted()
    yield scripted
    scripted.close()


def cluster(server: Scripted, **settings: Any) -> Cluster:
    return Cluster(ClusterSettings("c", server=server.url, **settings), inactivity_s=0.5)


def opened(server: Scripted) -> Stream:
    stream = cluster(server).watch(PODS, "", "7")
    assert isinstance(stream, Stream)
    return stream


def test_lists_send_limit_and_token_and_never_a_version(server: Scripted) -> None:
    item = {"metadata": {"uid": "u", "resourceVersion": "3"}}
    server.answer = lambda handler: reply(
        handler, 200, {"metadata": {"resourceVersion": "9", "continue": "t"}, "items": [item]}
    )
    page = cluster(server).list_page(PODS, "ns", 50, "")
    assert isinstance(page, Page)
    assert (page.rv, page.continue_, page.items[0].uid) == ("9", "t", "u")
    cluster(server).list_page(PODS, "", 50, "t")
    assert server.seen[0][:2] == ("/api/v1/namespaces/ns/pods", {"limit": "50"})
    assert server.seen[1][:2] == ("/api/v1/pods", {"limit": "50", "continue": "t"})


def test_watches_ask_for_bookmarks_and_a_timeout(server: Scripted) -> None:
    server.answer = chunked(b"one\n", b"two\n")
    stream = opened(server)
    assert [stream.read(), stream.read(), stream.read()] == [b"one\n", b"two\n", b""]
    params = server.seen[0][1]
    assert 300 <= int(params.pop("timeoutSeconds")) <= 600
    assert params == {"watch": "1", "resourceVersion": "7", "allowWatchBookmarks": "true"}
    cluster(server).watch_list(PODS, "")
    params = server.seen[1][1]
    assert params.pop("timeoutSeconds")
    assert params == {
        "watch": "1",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


@pytest.mark.parametrize("ask", [lambda c: c.list_page(PODS, "", 5, ""), lambda c: c.watch(PODS, "", "7")])
def test_a_status_is_read_with_its_retry_after(server: Scripted, ask: Callable[[Cluster], object]) -> None:
    status = {"kind": "Status", "code": 429, "reason": "TooManyRequests"}
    server.answer = lambda handler: reply(handler, 429, status, Retry_After="3")
    answer = ask(cluster(server))
    assert isinstance(answer, ServerError)
    assert (answer.code, answer.reason, answer.retry_after) == (429, "TooManyRequests", 3.0)


def test_an_answer_of_a_proxy_is_a_refusal_too(server: Scripted) -> None:
    server.answer = lambda handler: reply(handler, 503, b"<html>busy</html>")
    assert cluster(server).watch(PODS, "", "7") == ServerError(503, "", "", (), None)


def test_a_page_that_is_no_list_is_broken(server: Scripted) -> None:
    server.answer = lambda handler: reply(handler, 200, b"\xff")
    assert isinstance(cluster(server).list_page(PODS, "", 5, ""), Broken)


def test_a_torn_page_is_no_page(server: Scripted) -> None:
    def torn(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"metadata": {"resourceVersion": "9"}, "items": []}')
        handler.close_connection = True

    server.answer = torn
    assert isinstance(cluster(server).list_page(PODS, "", 5, ""), signals.Unreachable)


def test_a_torn_stream_is_no_regular_end(server: Scripted) -> None:
    server.answer = chunked(b"one\n", end=False)
    stream = opened(server)
    assert stream.read() == b"one\n"
    with pytest.raises(StreamBroken):
        stream.read()


def test_a_mute_stream_is_given_up(server: Scripted) -> None:
    release = threading.Event()
    server.answer = chunked(b"one\n", then=lambda: release.wait(10))
    stream = opened(server)
    assert stream.read() == b"one\n"
    started = time.monotonic()
    with pytest.raises(StreamBroken, match="imeout"):
        stream.read()
    assert time.monotonic() - started < 5
    release.set()


def test_a_read_in_another_thread_can_be_interrupted(server: Scripted) -> None:
    release = threading.Event()
    server.answer = chunked(b"one\n", then=lambda: release.wait(20))
    stream = Cluster(ClusterSettings("c", server=server.url), inactivity_s=15.0).watch(PODS, "", "7")
    assert isinstance(stream, Stream)
    assert stream.read() == b"one\n"
    ended = threading.Event()

    def read() -> None:
        with contextlib.suppress(StreamBroken):
            stream.read()
        ended.set()

    threading.Thread(target=read, daemon=True).start()
    stream.interrupt()
    assert ended.wait(5)
    stream.interrupt()
    stream.close()
    release.set()


def test_a_token_file_is_read_again_for_every_request(server: Scripted, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one\n")
    rotating = cluster(server, token_file=token)
    rotating.watch(PODS, "", "7")
    token.write_text("two\n")
    rotating.watch(PODS, "", "7")
    assert [seen[2] for seen in server.seen] == ["Bearer one", "Bearer two"]
    for bad in ("two\nlines", "na\u00efve"):
        token.write_text(bad)
        answer = rotating.list_page(PODS, "", 1, "")
        assert isinstance(answer, signals.Unreachable)
        assert "a token holds characters that no token has" in answer.why
    token.unlink()
    answer = rotating.watch(PODS, "", "7")
    assert isinstance(answer, signals.Unreachable)
    assert "token file" in answer.why


def test_credentials_that_cannot_be_read_for_a_moment_are_no_answer(
    server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hook of `kubernetes` reads a pod's token file once a minute, and raises when it is empty just then."""

    def empty(_: object) -> None:
        raise ConfigException("Token file exists but empty.")

    rotating = cluster(server)
    monkeypatch.setattr(rotating._configuration, "refresh_api_key_hook", empty)
    monkeypatch.setitem(rotating._configuration.api_key, "authorization", "Bearer one")
    assert rotating.list_page(PODS, "", 1, "") == signals.Unreachable(
        "OSError: credentials cannot be read: ConfigException"
    )


def kubeconfig(path: Path, url: str, token_file: Path) -> Path:
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "x",
                "contexts": [{"name": "x", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": url}}],
                "users": [{"name": "u", "user": {"tokenFile": str(token_file)}}],
            }
        )
    )
    return path


def test_a_cluster_is_called_as_its_context_unless_it_is_told_otherwise(server: Scripted, tmp_path: Path) -> None:
    """Two clusters of one name would delete each other's objects from the log."""
    (tmp_path / "token").write_text("t")
    file = kubeconfig(tmp_path / "config", server.url, tmp_path / "token")
    assert Cluster(ClusterSettings("", kubeconfig=file)).name == "x"
    assert Cluster(ClusterSettings("prod", kubeconfig=file)).name == "prod"
    assert Cluster(ClusterSettings("", kubeconfig=file, context="x")).name == "x"
    assert Cluster(ClusterSettings("", server=server.url)).name == "default"
    file.write_text(file.read_text().replace('"x"', '"arn:aws:eks:eu-1:7:cluster/shop"'))
    assert Cluster(ClusterSettings("", kubeconfig=file)).name == "arn:aws:eks:eu-1:7:cluster_shop"


def test_after_a_401_the_kubeconfig_is_read_again(server: Scripted, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    file = kubeconfig(tmp_path / "config", server.url, token)
    configured = Cluster(ClusterSettings("c", kubeconfig=file))
    time.sleep(1.05)  # the configuration is read at most once a second
    token.write_text("two")
    server.answer = lambda handler: reply(handler, 401, {})
    configured.watch(PODS, "", "7")
    configured.watch(PODS, "", "7")
    assert [seen[2] for seen in server.seen] == ["Bearer one", "Bearer two"]


def test_a_missing_or_unusable_kubeconfig_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="does not exist"):
        Cluster(ClusterSettings("c", kubeconfig=tmp_path / "absent"))
    broken = tmp_path / "broken"
    broken.write_text('{"half": [')
    with pytest.raises(Misconfigured, match="cannot be used"):
        Cluster(ClusterSettings("c", kubeconfig=broken))
    broken.write_text("{}")
    with pytest.raises(Misconfigured, match="cannot be used"):
        Cluster(ClusterSettings("c", kubeconfig=broken))
    file = kubeconfig(tmp_path / "config", "http://127.0.0.1:9", tmp_path / "token")
    (tmp_path / "token").write_text("t")
    with pytest.raises(Misconfigured, match="cannot be used"):
        Cluster(ClusterSettings("c", kubeconfig=file, context="other"))


def test_discovery_reads_what_it_can_and_names_what_it_cannot(server: Scripted) -> None:
    pod = {"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list", "watch"]}
    served = {
        "/api": {"versions": ["v1"]},
        "/apis": {"groups": [{"name": "x.io", "versions": [{"version": "v1"}], "preferredVersion": {"version": "v1"}}]},
        "/api/v1": {"resources": [pod]},
    }

    def answer(handler: BaseHTTPRequestHandler) -> None:
        document = served.get(urlsplit(handler.path).path)
        reply(handler, 503 if document is None else 200, document)

    server.answer = answer
    found = cluster(server).discover()
    assert [info.name for info in found.resources] == ["pods"]
    assert found.unreadable == {"x.io/v1"}


def test_who_refuses_us_or_is_not_there_is_told(server: Scripted) -> None:
    server.answer = lambda handler: reply(handler, 401, {})
    with pytest.raises(Misconfigured, match="401"):
        cluster(server).version()
    with pytest.raises(Misconfigured, match="401"):
        cluster(server).discover()
    server.answer = lambda handler: reply(handler, 200, b"<html>")
    with pytest.raises(Unreachable, match="not JSON"):
        cluster(server).version()
    server.answer = lambda handler: reply(handler, 200, {"major": "1", "minor": "30+"})
    assert cluster(server).version() == (1, 30)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        with pytest.raises(Unreachable, match="does not answer"):
            Cluster(ClusterSettings("c", server=url)).version()


def test_what_cannot_be_read_as_an_answer_is_not_quoted() -> None:
    """The rest of an answer that was longer than announced comes first on the kept connection: it may hold a Secret."""

    def longer_than_announced(connection: socket.socket) -> None:
        requests = connection.makefile("rb")
        bodies = [b'{"metadata":{"resourceVersion":"10","continue":"t"},"items":[]}', b'"password":"c2VudGluZWw="}\r\n']
        for number, body in enumerate(bodies):
            while requests.readline() not in (b"\r\n", b""):
                pass
            head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall((head if number == 0 else b"") + body)
        connection.close()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=lambda: longer_than_announced(listener.accept()[0]), daemon=True).start()
        cluster = Cluster(ClusterSettings("c", server=f"http://127.0.0.1:{listener.getsockname()[1]}"), 5.0)
        first = cluster.list_page(PODS, "", 500, "")
        assert isinstance(first, Page)
        second = cluster.list_page(PODS, "", 500, "t")
    assert second == signals.Unreachable("ProtocolError: BadStatusLine")
