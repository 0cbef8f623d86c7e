"""The simulated server as others meet it: over HTTP, through the `kubernetes` client, as a process."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kubernetes import client, config
from kubernetes.dynamic import DynamicClient

from local.sim_server import SimServer, main
from tests.local.sim_compare import Client, Operation, Reply
from tests.local.sim_stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/api/v1/namespaces/default/configmaps"
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def server() -> Iterator[SimServer]:
    with SimServer(seed=1) as server:
        yield server


def call(server: SimServer, method: str, path: str, body: Any = None) -> Reply:
    return Client(server.url).call(Operation(method, path, body), {})


def get(server: SimServer, headers: dict[str, str], path: str = PATH) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        response.read()
        return response


def test_connection_serves_several_requests(server: SimServer) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    for path in ("/version", "/foo", PATH):
        connection.request("GET", path)
        assert connection.getresponse().read()
    first = connection.sock
    connection.request("GET", "/readyz")
    assert connection.getresponse().read() == b"ok"
    assert connection.sock is first
    connection.close()


def test_token_is_checked_where_one_is_set() -> None:
    with SimServer(token="right") as server:
        sent = [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Bearer right"}]
        assert [get(server, headers).status for headers in sent] == [403, 401, 200]
        assert get(server, {}, "/readyz").status == 200
        assert get(server, {}, "/_sim/history").status == 403


def test_aggregated_discovery_gets_the_plain_documents(server: SimServer) -> None:
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    assert get(server, {"Accept": wanted}, "/apis").status == 406
    assert get(server, {"Accept": f"{wanted},application/json"}, "/apis").status == 200


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("throttle_429", 429, "TooManyRequests"),
        ("error_500", 500, "InternalError"),
        ("forbidden_403", 403, "Forbidden"),
        ("unauthorized_401", 401, "Unauthorized"),
    ],
)
def test_fault_of_a_request_hits_lists_and_watches(server: SimServer, name: str, code: int, reason: str) -> None:
    server.faults.set(name, "configmaps", count=2)
    replies = [call(server, "GET", path) for path in (PATH, f"{PATH}?watch=1&timeoutSeconds=1")]
    assert [(reply.code, reply.body["reason"]) for reply in replies] == [(code, reason)] * 2
    assert call(server, "GET", PATH).code == 200
    assert server.faults.fired == {name: 2}


def test_throttled_request_says_when_to_come_again(server: SimServer) -> None:
    server.faults.set("throttle_429", retry_after=7, count=1)
    response = get(server, {})
    assert response.getheader("Retry-After") == "7"


def test_expired_as_status_and_as_answer_to_a_list(server: SimServer) -> None:
    server.faults.set("expired_410", count=1, verb="watch", mode="status")
    assert call(server, "GET", f"{PATH}?watch=1&timeoutSeconds=1").code == 410
    server.faults.set("expired_410")
    assert call(server, "GET", PATH).code == 200  # lists are what mends a 410
    server.faults.set("expired_410", count=1, verb="list")
    assert call(server, "GET", PATH).body["reason"] == "Expired"


def test_list_is_torn_after_so_many_bytes(server: SimServer) -> None:
    server.faults.set("cut", verb="list", count=1, after_bytes=10)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        get(server, {})


def test_list_can_be_late_or_garbage(server: SimServer) -> None:
    server.faults.set("late", verb="list", count=1, seconds=0.2)
    began = time.monotonic()
    assert call(server, "GET", PATH).code == 200
    assert time.monotonic() - began >= 0.2
    server.faults.set("garbage", verb="list", count=1, data="{half")
    assert call(server, "GET", PATH).body == "{half"


def test_stop_ends_open_streams_and_frees_the_port() -> None:
    server = SimServer().start()
    with Stream(server.url, PATH, resourceVersion="5") as stream:
        server.stop()
        with contextlib.suppress(ConnectionError):
            assert stream.line() == b""
    again = SimServer(server.port)
    again.stop()


def test_port_that_is_taken_is_one_clear_error(server: SimServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--port", str(server.port)]) == 2
    assert f"cannot listen on port {server.port}" in capsys.readouterr().err


def test_kubernetes_client_discovers_lists_and_writes(tmp_path: Path) -> None:
    with SimServer(token="secret") as server:
        file = tmp_path / "kubeconfig"
        server.write_kubeconfig(file)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        with config.new_client_from_config(str(file)) as api:
            core = client.CoreV1Api(api)
            core.create_namespaced_config_map("default", {"metadata": {"name": "a"}, "data": {"k": "v"}})
            assert [item.metadata.name for item in core.list_config_map_for_all_namespaces().items] == ["a"]
            crds = client.ApiextensionsV1Api(api)
            crds.create_custom_resource_definition(widgets())
            dynamic = DynamicClient(api)
            kinds = dynamic.resources.get(api_version="example.io/v1", kind="Widget")
            kinds.create(
                {"apiVersion": "example.io/v1", "kind": "Widget", "metadata": {"name": "w"}}, namespace="default"
            )
            assert [item.metadata.name for item in kinds.get().items] == ["w"]
            assert dynamic.resources.get(api_version="apps/v1", kind="Deployment").namespaced


def widgets() -> dict[str, Any]:
    version = {"served": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {
            "group": "example.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [version | {"name": "v1", "storage": True}, version | {"name": "v2alpha1", "storage": False}],
        },
    }


def test_process_of_its_own_is_driven_over_http_and_ends_on_sigterm(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    argv = [sys.executable, "-m", "local.sim_server", "--kubeconfig", str(file), "--seed", "3"]
    with subprocess.Popen(
        argv, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": "."}
    ) as child:
        try:
            assert child.stdout is not None
            url = child.stdout.readline().split()[-1]
            server = json.loads(file.read_text())["clusters"][0]["cluster"]["server"]
            assert server == url
            api = Client(url)
            made = api.call(Operation("POST", PATH, {"metadata": {"name": "a"}}), {})
            assert made.code == 201
            history = api.call(Operation("GET", "/_sim/history?after=4"), {}).body
            assert [(c["kind"], c["name"]) for c in history["commits"]] == [("PUT", "a")]
            api.call(Operation("POST", "/_sim/faults", {"name": "error_500", "count": 1}), {})
            assert api.call(Operation("GET", PATH), {}).code == 500
            assert api.call(Operation("GET", "/_sim/faults"), {}).body == {"active": [], "fired": {"error_500": 1}}
        finally:
            child.send_signal(signal.SIGTERM)
        assert child.wait(10) == 0
