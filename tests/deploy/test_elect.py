"""The component deploy/elect on a real API server.

Guarantees: it gives the producer's account its one lease and nothing more, an election works with exactly that, and the
patch leaves the producer as it was but for the election.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from local.apiserver import ApiServer, User
from producer.cluster import Cluster
from producer.elector import Elector
from producer.settings import ClusterSettings, ElectionSettings
from tests.deploy import test_manifests as manifests
from tests.deploy.pipeline import DEPLOY

ELECT = DEPLOY / "elect"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{manifests.NAMESPACE}/leases"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{manifests.NAMESPACE}/deployments/kubecdc-producer"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ELECT / name).read_text()))


def lease(name: str = "kubecdc-producer") -> dict[str, Any]:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


@pytest.fixture(scope="module")
def cluster(apiserver: ApiServer) -> Iterator[ApiServer]:
    """The API server with the manifests but not the component."""
    applied = [item for item in manifests.documents() if item["kind"] != "Job"]
    for item in applied:
        manifests.apply(apiserver, item)
    yield apiserver
    manifests.remove(apiserver, applied)


@pytest.fixture(scope="module")
def token(cluster: ApiServer) -> str:
    path = f"{manifests.ACCOUNT}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    code, answer = cluster.request("POST", path, body)
    assert code == 201, answer
    return str(answer["status"]["token"])


@pytest.fixture
def role(cluster: ApiServer) -> Iterator[None]:
    """The Role of the component."""
    for item in documents("rbac.yaml"):
        manifests.apply(cluster, item)
    yield
    manifests.remove(cluster, documents("rbac.yaml"))
    cluster.request("DELETE", LEASES)


def test_the_component_names_every_file() -> None:
    component = yaml.safe_load((ELECT / "kustomization.yaml").read_text())
    named = [*component["resources"], *(patch["path"] for patch in component["patches"])]
    assert sorted([*named, "kustomization.yaml"]) == sorted(path.name for path in ELECT.iterdir())


def test_without_it_the_producer_has_no_lease(cluster: ApiServer, token: str) -> None:
    assert cluster.request("POST", LEASES, lease(), token=token)[0] == 403
    assert cluster.request("GET", f"{LEASES}/kubecdc-producer", token=token)[0] == 403


def test_with_it_the_producer_has_one_lease_and_no_other(cluster: ApiServer, role: None, token: str) -> None:
    assert cluster.request("POST", LEASES, lease(), token=token)[0] == 201
    assert cluster.request("POST", LEASES, lease("other"), token=token)[0] == 201  # who may create cannot be named
    own, other = f"{LEASES}/kubecdc-producer", f"{LEASES}/other"
    code, read = cluster.request("GET", own, token=token)
    assert code == 200
    assert cluster.request("PUT", own, read, token=token)[0] == 200
    for method, path, body in (
        *(("GET", other, None), ("PUT", other, lease("other")), ("DELETE", own, None), ("DELETE", other, None)),
        ("PATCH", own, {"spec": {}}),
        ("POST", LEASES.replace(manifests.NAMESPACE, "default"), lease()),
        ("GET", f"/api/v1/namespaces/{manifests.NAMESPACE}/configmaps/kubecdc", None),
    ):
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        assert cluster.request(method, path, body, content_type=kind, token=token)[0] == 403, (method, path)


def test_an_election_works_with_exactly_these_rights(
    cluster: ApiServer, role: None, token: str, tmp_path: Path
) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    cluster.write_kubeconfig(kubeconfig, User("producer", token))
    said: list[bool] = []
    settings = ElectionSettings(namespace=manifests.NAMESPACE, duration_s=3.0)
    elector = Elector(Cluster(ClusterSettings("c", kubeconfig=kubeconfig)), settings, said.append)
    elector.start()
    deadline = time.monotonic() + 20
    while said != [True]:
        assert elector.failure is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    elector.release()
    code, left = cluster.request("GET", f"{LEASES}/kubecdc-producer")
    assert (code, left["spec"].get("holderIdentity", "")) == (200, "")


def test_the_patch_adds_the_election_and_keeps_the_rest(cluster: ApiServer) -> None:
    (patch,) = documents("producer.yaml")
    _, before = cluster.request("GET", DEPLOYMENT)
    code, after = cluster.request(
        "PATCH", f"{DEPLOYMENT}?fieldValidation=Strict", patch, content_type="application/strategic-merge-patch+json"
    )
    assert code == 200, after
    env = {item["name"]: item for item in manifests.container(after)["env"]}
    assert env.pop("KUBECDC_ELECT") == {"name": "KUBECDC_ELECT", "value": "true"}
    assert list(env.values()) == manifests.container(before)["env"]
    assert (after["spec"]["replicas"], after["spec"]["strategy"]["type"]) == (2, "RollingUpdate")
    assert manifests.container(after)["image"] == manifests.container(before)["image"]
