"""Each cluster of the demo starts, tells what was committed, and shows the faults that it says it shows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from local import clusters
from local.clusters import Cluster, FoundCluster, RealCluster, SimulatedCluster
from local.errors import LocalError
from local.kube_client import KubeClient
from local.sim_server import SimServer

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}
PATH = "/api/v1/namespaces/default/configmaps"


@contextmanager
def running(cluster: Cluster) -> Iterator[Cluster]:
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def written_and_forgotten(cluster: Cluster) -> None:
    """Write, delete, forget: the truth keeps both commits, the API server only says that they are gone."""
    status, made = cluster.client.request("POST", PATH, CONFIG_MAP)
    assert status == 201
    assert cluster.client.request("DELETE", f"{PATH}/one")[0] == 200
    assert cluster.forget()
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    truth = cluster.truth()
    assert truth is not None
    mine = [commit for commit in truth if commit.uid == uid]
    assert [commit.kind for commit in mine] == ["PUT", "DELETE"]
    assert mine[0].rv == version
    with KubeClient.from_kubeconfig(cluster.kubeconfig) as reader:  # as the producer reaches it
        before = int(version) - 1
        status, answer = reader.request("GET", f"{PATH}?watch=true&resourceVersion={before}&timeoutSeconds=2")
    said = answer["object"] if isinstance(answer, dict) and answer.get("type") == "ERROR" else answer
    assert (status, said["code"], said["reason"]) in {(200, 410, "Expired"), (410, 410, "Expired"), (410, 410, "Gone")}


def test_the_simulated_cluster_forgets_but_its_truth_does_not(tmp_path: Path) -> None:
    with running(SimulatedCluster(tmp_path, seed=1)) as cluster:
        written_and_forgotten(cluster)
        cluster.annoy()
        with KubeClient.from_kubeconfig(cluster.kubeconfig) as reader:
            assert reader.request("GET", f"{PATH}?watch=true&timeoutSeconds=1")[0] == 500
        assert cluster.faults == {"sim error_500": 1}


def test_the_real_cluster_forgets_but_its_truth_does_not(
    tmp_path: Path, envtest_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(envtest_folder))
    with running(RealCluster(tmp_path)) as cluster:
        written_and_forgotten(cluster)
        assert cluster.faults["API server restart"] == 1


def test_a_found_cluster_is_read_and_never_harmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SimServer() as server:
        server.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        with running(FoundCluster()) as cluster:
            assert not cluster.forget()
            assert cluster.truth() is None
            assert cluster.faults == {}


def test_without_a_kubeconfig_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "absent"))
    with pytest.raises(LocalError, match=r"no kubeconfig at .*absent: set KUBECONFIG, or use --cluster sim"):
        FoundCluster()


def test_a_user_who_is_refused_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "c", "user": {"token": "x"}}],
        }
    )
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
    with pytest.raises(LocalError, match="does not answer"), running(FoundCluster()):
        pass


def test_binaries_are_found_where_tools_keep_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert clusters.find_binaries() is None
    folder = tmp_path / "kubebuilder-envtest" / "k8s" / "1.36.0"
    folder.mkdir(parents=True)
    for name in ("kube-apiserver", "etcd"):
        assert clusters.find_binaries() is None
        (folder / name).touch(mode=0o755)
    assert clusters.find_binaries() == folder
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "somewhere")
    assert clusters.find_binaries() is None
