"""A kubeconfig becomes a connection, or one clear error; a server that is away is told from one that refuses."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from local.errors import LocalError
from local.kube_client import Away, KubeClient
from local.ports import free_port
from local.sim_server import SimServer


def kubeconfig(path: Path, cluster: dict[str, Any], user: dict[str, Any]) -> Path:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return path


def pods_status(config: Path) -> int:
    with KubeClient.from_kubeconfig(config) as client:
        return client.request("GET", "/api/v1/pods")[0]


def test_a_token_from_the_file_is_sent(tmp_path: Path) -> None:
    with SimServer(token="right") as server:
        server.write_kubeconfig(tmp_path / "good")
        server.write_kubeconfig(tmp_path / "bad", token="wrong")
        assert pods_status(tmp_path / "good") == 200
        assert pods_status(tmp_path / "bad") == 401
        (tmp_path / "token").write_text("right\n")
        named = kubeconfig(tmp_path / "file", {"server": server.url}, {"tokenFile": "token"})
        assert pods_status(named) == 200


def test_inline_certificates_become_files_that_go_with_the_client(tmp_path: Path) -> None:
    data = base64.b64encode(b"not a certificate").decode()
    path = kubeconfig(tmp_path / "config", {"server": "https://127.0.0.1:1", "certificate-authority-data": data}, {})
    client = KubeClient.from_kubeconfig(path)
    client.close()
    with pytest.raises((Away, OSError)):
        client.request("GET", "/")


@pytest.mark.parametrize(
    ("user", "says"),
    [({"exec": {"command": "x"}}, "plug-in"), ({"tokenFile": "absent"}, "absent")],
)
def test_users_that_cannot_be_used_are_refused(tmp_path: Path, user: dict[str, Any], says: str) -> None:
    path = kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}, user)
    with pytest.raises(LocalError, match=says):
        KubeClient.from_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [("[]", "no mapping"), ("{", "cannot be read"), ("{}", "no context named ''"), ("contexts: 3", "no context")],
)
def test_a_file_that_is_no_kubeconfig_is_refused(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(LocalError, match=says):
        KubeClient.from_kubeconfig(path)


def test_an_absent_file_or_context_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="absent"):
        KubeClient.from_kubeconfig(tmp_path / "absent")
    path = kubeconfig(tmp_path / "config", {"server": "http://127.0.0.1:1"}, {})
    with pytest.raises(LocalError, match="no context named 'other'"):
        KubeClient.from_kubeconfig(path, "other")


def test_a_server_that_is_away_is_told_from_one_that_refuses() -> None:
    with KubeClient(f"http://127.0.0.1:{free_port()}") as client, pytest.raises(Away):
        client.request("GET", "/version")
