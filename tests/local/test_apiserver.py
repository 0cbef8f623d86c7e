"""The real API server: ready means usable, history is ours to drop, users are what they are."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from local import children, ports
from local.apiserver import ASSETS_VARIABLE, ApiServer, User
from local.errors import BinariesMissing, LocalError, PortTaken, ServerDied

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
NOBODY = User("nobody", "token-of-nobody", ("visitors",))


@pytest.fixture(scope="module")
def own_server(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    """One that tests of this module may kill and compact; each leaves it running."""
    folder = tmp_path_factory.mktemp("own")
    with ApiServer(folder, binaries=envtest_folder, users=[NOBODY]) as server:
        yield server


def make_config_map(server: ApiServer, name: str) -> dict[str, Any]:
    status, made = server.request("POST", CONFIGMAPS, {"metadata": {"name": name}})
    assert status == 201, made
    return dict(made["metadata"])


def test_ready_server_takes_objects_in_namespace_default(apiserver: ApiServer) -> None:
    made = make_config_map(apiserver, "apiserver-ready")
    assert int(made["resourceVersion"]) <= apiserver.revision()
    pod = {
        "metadata": {"name": "apiserver-pod"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    status, answer = apiserver.request("POST", "/api/v1/namespaces/default/pods", pod)
    assert status == 201, answer


def test_service_account_tokens_are_signed_by_our_key(apiserver: ApiServer) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    assert apiserver.request("POST", accounts, {"metadata": {"name": "apiserver-sa"}})[0] == 201
    status, answer = apiserver.request("POST", f"{accounts}/apiserver-sa/token", {"spec": {}})
    assert status == 201, answer
    status, answer = apiserver.request("GET", CONFIGMAPS, token=answer["status"]["token"])
    assert status == 403
    assert "system:serviceaccount:default:apiserver-sa" in answer["message"]


def test_users_are_known_by_token_and_bound_by_rbac(own_server: ApiServer) -> None:
    status, answer = own_server.request("GET", CONFIGMAPS, token=NOBODY.token)
    assert status == 403
    assert '"nobody"' in answer["message"]
    assert own_server.request("GET", CONFIGMAPS, token="wrong")[0] == 401
    role = {"metadata": {"name": "look"}, "rules": []}
    role["rules"] = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    binding = {
        "metadata": {"name": "look"},
        "roleRef": {"kind": "ClusterRole", "name": "look", "apiGroup": "rbac.authorization.k8s.io"},
        "subjects": [{"kind": "Group", "name": "visitors", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    assert own_server.request("POST", f"{rbac}/clusterroles", role)[0] == 201
    assert own_server.request("POST", f"{rbac}/clusterrolebindings", binding)[0] == 201
    assert children.poll(lambda: own_server.request("GET", CONFIGMAPS, token=NOBODY.token)[0] == 200, 10, 0.05)


def test_kubeconfig_names_server_and_user_and_is_private(own_server: ApiServer, tmp_path: Path) -> None:
    own_server.write_kubeconfig(tmp_path / "config", NOBODY)
    config = json.loads((tmp_path / "config").read_text())
    assert config["clusters"][0]["cluster"]["server"] == own_server.url
    assert config["users"][0]["user"]["token"] == NOBODY.token
    assert (tmp_path / "config").stat().st_mode & 0o077 == 0
    admin = json.loads(own_server.kubeconfig.read_text())
    assert admin["users"][0]["user"]["token"] == own_server.admin_token


def test_objects_survive_a_crash_and_a_restart(own_server: ApiServer) -> None:
    uid = make_config_map(own_server, "survives")["uid"]
    own_server.kill_apiserver()
    assert not own_server.alive
    own_server.start_apiserver()
    assert own_server.request("GET", f"{CONFIGMAPS}/survives")[1]["metadata"]["uid"] == uid
    own_server.restart_apiserver()
    assert own_server.request("GET", f"{CONFIGMAPS}/survives")[1]["metadata"]["uid"] == uid


def test_compaction_and_restart_force_410(own_server: ApiServer) -> None:
    old = int(make_config_map(own_server, "compacted-0")["resourceVersion"])
    for number in range(1, 5):
        make_config_map(own_server, f"compacted-{number}")
    watch = f"/api/v1/configmaps?watch=1&timeoutSeconds=1&resourceVersion={old}"
    status, answer = own_server.request("GET", watch)
    assert status == 200
    assert "compacted-4" in answer
    own_server.compact(own_server.revision())
    own_server.restart_apiserver()
    status, answer = own_server.request("GET", watch)
    code = answer["object"]["code"] if status == 200 else answer["code"]
    assert code == 410


def test_compaction_in_the_future_is_refused(own_server: ApiServer) -> None:
    with pytest.raises(LocalError, match="future revision"):
        own_server.compact(own_server.revision() + 1000)


def test_second_start_is_refused(own_server: ApiServer) -> None:
    with pytest.raises(LocalError, match="runs already"):
        own_server.start()


def test_stop_ends_both_processes(envtest_folder: Path, tmp_path: Path) -> None:
    before = {child.pid for child in psutil.Process().children()}
    server = ApiServer(tmp_path, binaries=envtest_folder).start()
    started = [child for child in psutil.Process().children() if child.pid not in before]
    assert {child.name() for child in started} == {"etcd", "kube-apiserver"}
    server.stop()
    assert not any(child.is_running() for child in started)


def test_taken_port_is_refused(envtest_folder: Path, tmp_path: Path) -> None:
    with socket.create_server((ports.HOST, 0)) as listener:
        port = listener.getsockname()[1]
        server = ApiServer(tmp_path, binaries=envtest_folder, port=port)
        with pytest.raises(PortTaken, match=f"port {port} for kube-apiserver"):
            server.start()


def test_server_that_dies_at_its_start_shows_its_log(envtest_folder: Path, tmp_path: Path) -> None:
    running = {child.pid for child in psutil.Process().children()}
    server = ApiServer(tmp_path, binaries=envtest_folder, flags=["--no-such-flag"])
    with pytest.raises(ServerDied, match=r"(?s)kube-apiserver ended at its start.*no-such-flag"):
        server.start()
    assert {child.pid for child in psutil.Process().children()} == running


def test_missing_programs_are_named_with_the_way_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ASSETS_VARIABLE, raising=False)
    with pytest.raises(BinariesMissing, match=ASSETS_VARIABLE):
        ApiServer(tmp_path)
    with pytest.raises(BinariesMissing, match=r"kube-apiserver and none named etcd"):
        ApiServer(tmp_path, binaries=tmp_path)


def test_a_restore_goes_back_in_revisions_and_objects(envtest_folder: Path, tmp_path: Path) -> None:
    with ApiServer(tmp_path / "server", binaries=envtest_folder) as server:
        make_config_map(server, "kept")
        before = server.revision()
        server.snapshot(tmp_path / "snapshot")
        after = server.revision()  # the API server writes for itself all the time
        late = make_config_map(server, "lost")
        server.restore(tmp_path / "snapshot")
        assert before <= server.revision() <= after < int(late["resourceVersion"])
        server.start_apiserver()
        assert server.request("GET", f"{CONFIGMAPS}/kept")[0] == 200
        assert server.request("GET", f"{CONFIGMAPS}/lost")[0] == 404
