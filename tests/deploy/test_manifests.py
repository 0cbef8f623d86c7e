"""The manifests of deploy/ on a real API server, and their command lines on a real Kafka.

Guarantees: a server takes them without complaint, twice over; their pods satisfy the policy of their namespace; the
producer's account can list and watch everything and do nothing else; topics, producer and workers as written there
carry a cluster's objects to the changes topic, and end in order within their grace period.
"""

from __future__ import annotations

import base64
import copy
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubecdc.records import Change, Op, RawEvent
from local import ports
from local.apiserver import ApiServer, User
from local.broker import Broker, Quorum
from tests.deploy import pipeline
from tests.deploy.pipeline import DEPLOY, ROOT, Part, Topic

NAMESPACE = "kubecdc"
READS = {"list", "watch"}
SENTINEL = "deploy-sentinel-7f3a"
KEY = "0123456789abcdef" * 4
CRD = "gadgets.deploy.kubecdc.example.io"


def documents() -> list[dict[str, Any]]:
    """All objects, in the order of kustomization.yaml."""
    names = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    return [item for name in names for item in yaml.safe_load_all((DEPLOY / name).read_text())]


def found(kind: str, name: str) -> dict[str, Any]:
    (item,) = (d for d in documents() if d["kind"] == kind and d["metadata"]["name"] == name)
    return item


WORKLOADS = [d for d in documents() if d["kind"] in ("Deployment", "Job")]
EACH_WORKLOAD = pytest.mark.parametrize("workload", WORKLOADS, ids=lambda w: w["metadata"]["name"])


def container(workload: dict[str, Any]) -> dict[str, Any]:
    (only,) = workload["spec"]["template"]["spec"]["containers"]
    return only


def collection(server: ApiServer, item: dict[str, Any]) -> str:
    """Path of an object's collection, as the server's own discovery has it."""
    version = item["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    code, served = server.request("GET", root)
    assert code == 200, served
    (kind,) = (r for r in served["resources"] if r["kind"] == item["kind"] and "/" not in r["name"])
    assert kind["namespaced"] == ("namespace" in item["metadata"]), item["metadata"]
    scope = f"/namespaces/{item['metadata']['namespace']}" if kind["namespaced"] else ""
    return f"{root}{scope}/{kind['name']}"


def apply(server: ApiServer, item: dict[str, Any]) -> dict[str, Any]:
    """Server-side apply that refuses fields which the server does not know."""
    path = f"{collection(server, item)}/{item['metadata']['name']}?fieldManager=deploy-test&fieldValidation=Strict"
    code, answer = server.request("PATCH", path, item, content_type="application/apply-patch+yaml")
    assert code in (200, 201), f"{item['kind']} {item['metadata']['name']}: {answer}"
    return dict(answer)


def remove(server: ApiServer, items: list[dict[str, Any]]) -> None:
    """Delete what `apply` made, the last first; namespaces stay, since nothing here would end their termination."""
    for item in reversed(items):
        if item["kind"] != "Namespace":
            server.request("DELETE", f"{collection(server, item)}/{item['metadata']['name']}")


@pytest.fixture(scope="module")
def cluster(apiserver: ApiServer) -> Iterator[ApiServer]:
    """The API server with all manifests, a secret to hide, and a custom resource."""
    for item in documents():
        apply(apiserver, item)
    extra = [
        secret("kubecdc-redaction", key=KEY),
        secret("hidden", password=SENTINEL),
        custom_kind(),
    ]
    for item in extra:
        apply(apiserver, item)
    gadget = {"apiVersion": "deploy.kubecdc.example.io/v1", "kind": "Gadget", "metadata": {"name": "one"}}
    gadgets = "/apis/deploy.kubecdc.example.io/v1/gadgets"
    assert pipeline.children.poll(lambda: apiserver.request("GET", gadgets)[0] == 200, 20, 0.1)
    code, answer = apiserver.request("POST", gadgets, gadget)
    assert code == 201, answer
    yield apiserver
    remove(apiserver, [*documents(), *extra])  # the CRD takes its objects along


def secret(name: str, **values: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": values}


def custom_kind() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": "deploy.kubecdc.example.io",
            "scope": "Cluster",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture(scope="module")
def token(cluster: ApiServer) -> str:
    """A token of the producer's account, issued by the server as for its pod."""
    account = found("Deployment", "kubecdc-producer")["spec"]["template"]["spec"]["serviceAccountName"]
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    code, answer = cluster.request("POST", path, body)
    assert code == 201, answer
    return str(answer["status"]["token"])


# --- the files ------------------------------------------------------------------------------------------------------


def test_the_kustomization_names_every_file() -> None:
    listed = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())["resources"]
    assert sorted([*listed, "kustomization.yaml"]) == sorted(path.name for path in DEPLOY.glob("*.yaml"))


def test_applying_again_changes_nothing(cluster: ApiServer) -> None:
    for item in documents():
        before, after = apply(cluster, item), apply(cluster, item)
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"], item["kind"]


def test_a_misspelt_field_would_be_refused(cluster: ApiServer) -> None:
    wrong = copy.deepcopy(found("Deployment", "kubecdc-producer"))
    container(wrong)["imagePullPolice"] = "Always"
    with pytest.raises(AssertionError, match="imagePullPolice"):
        apply(cluster, wrong)


@EACH_WORKLOAD
def test_images_are_of_this_version(workload: dict[str, Any]) -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert container(workload)["image"] == f"kubecdc:{version}"


@EACH_WORKLOAD
def test_a_pod_is_admitted_to_its_namespace(cluster: ApiServer, workload: dict[str, Any]) -> None:
    assert pod_admitted(cluster, workload) == (201, "")


@EACH_WORKLOAD
def test_a_pod_that_may_run_as_root_is_not_admitted(cluster: ApiServer, workload: dict[str, Any]) -> None:
    loose = copy.deepcopy(workload)
    del loose["spec"]["template"]["spec"]["securityContext"]["runAsNonRoot"]
    code, message = pod_admitted(cluster, loose)
    assert code == 403
    assert "runAsNonRoot" in message


def pod_admitted(server: ApiServer, workload: dict[str, Any]) -> tuple[int, str]:
    """What the API server says to a pod of the template, without keeping it."""
    template = copy.deepcopy(workload["spec"]["template"])
    metadata = {**template.get("metadata", {}), "name": workload["metadata"]["name"], "namespace": NAMESPACE}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}
    path = f"/api/v1/namespaces/{NAMESPACE}/pods?dryRun=All&fieldValidation=Strict"
    code, answer = server.request("POST", path, pod)
    return code, answer.get("message", "")


@EACH_WORKLOAD
def test_the_root_file_system_is_read_only_and_memory_bounded(workload: dict[str, Any]) -> None:
    only = container(workload)
    assert only["securityContext"]["readOnlyRootFilesystem"] is True
    assert only["resources"]["requests"].keys() == {"cpu", "memory"}
    assert "memory" in only["resources"]["limits"]


def test_only_the_producer_gets_a_token() -> None:
    accounts = {
        w["metadata"]["name"]: w["spec"]["template"]["spec"].get("serviceAccountName")
        for w in WORKLOADS
        if w["spec"]["template"]["spec"].get("automountServiceAccountToken", True)
    }
    assert accounts == {"kubecdc-producer": "kubecdc-producer"}


# --- what the producer may do ---------------------------------------------------------------------------------------

COLLECTIONS = (
    *("/api/v1/pods", f"/api/v1/namespaces/{NAMESPACE}/pods", "/api/v1/secrets", "/api/v1/nodes"),
    *("/apis/apps/v1/deployments", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/deploy.kubecdc.example.io/v1/gadgets",
)
DOCUMENTS = ("/version", "/api", "/api/v1", "/apis", "/apis/apps/v1", "/apis/deploy.kubecdc.example.io/v1")


@pytest.mark.parametrize("path", COLLECTIONS)
def test_the_producer_may_list_and_watch(cluster: ApiServer, token: str, path: str) -> None:
    code, listed = cluster.request("GET", path, token=token)
    assert code == 200, listed
    version = listed["metadata"]["resourceVersion"]
    watch = f"{path}?watch=1&resourceVersion={version}&timeoutSeconds=1"
    assert cluster.request("GET", watch, token=token)[0] == 200


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_producer_may_discover(cluster: ApiServer, token: str, path: str) -> None:
    assert cluster.request("GET", path, token=token)[0] == 200


SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
ACCOUNT = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/kubecdc-producer"
DENIED = (
    ("POST", SECRETS, secret("new", a="b")),
    ("PUT", f"{SECRETS}/hidden", secret("hidden", a="b")),
    ("PATCH", f"{SECRETS}/hidden", {"stringData": {"a": "b"}}),
    ("DELETE", f"{SECRETS}/hidden", None),
    ("DELETE", SECRETS, None),
    ("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}),
    ("POST", "/apis/deploy.kubecdc.example.io/v1/gadgets", {"metadata": {"name": "two"}}),
    ("DELETE", "/apis/deploy.kubecdc.example.io/v1/gadgets/one", None),
    ("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}", None),
    ("POST", "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": {"name": "l"}}),
    ("POST", f"{ACCOUNT}/token", {"spec": {}}),
    ("PATCH", "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubecdc-producer", {"rules": []}),
    ("GET", f"{PODS}/p/exec?command=id&stdout=true", None),  # executes, for who may "get" it
    ("GET", f"{PODS}/p/log", None),
    ("GET", "/api/v1/nodes/n/proxy/run", None),
    ("GET", "/metrics", None),
)


@pytest.mark.parametrize(("method", "path", "body"), DENIED, ids=[f"{m} {p}" for m, p, _ in DENIED])
def test_the_producer_may_do_nothing_else(cluster: ApiServer, token: str, method: str, path: str, body: Any) -> None:
    kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
    code, answer = cluster.request(method, path, body, content_type=kind, token=token)
    assert code == 403, answer
    assert cluster.request("GET", f"{SECRETS}/hidden")[0] == 200


def test_all_rights_of_the_producer_are_to_read(cluster: ApiServer, token: str) -> None:
    """The server's own summary; what every account may do (ask about itself) aside."""
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": NAMESPACE}}
    code, answer = cluster.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", body, token=token)
    assert code == 201, answer
    assert not answer["status"]["incomplete"]
    about_itself = {"authorization.k8s.io", "authentication.k8s.io"}
    rules = [rule for rule in answer["status"]["resourceRules"] if not set(rule["apiGroups"]) <= about_itself]
    assert {verb for rule in rules for verb in rule["verbs"]} == READS
    assert {verb for rule in answer["status"]["nonResourceRules"] for verb in rule["verbs"]} == {"get"}


# --- the command lines ----------------------------------------------------------------------------------------------


def part(server: ApiServer, workload: dict[str, Any], **addresses: str) -> Part:
    """A workload's container with its environment as the API server has it."""
    only, pod = container(workload), workload["spec"]["template"]["spec"]
    env = {}
    for source in only.get("envFrom", []):
        env |= read(server, "configmaps", source["configMapRef"]["name"])["data"]
    for item in only.get("env", []):
        if "value" in item:
            env[item["name"]] = item["value"]
        else:
            wanted = item["valueFrom"]["secretKeyRef"]
            data = read(server, "secrets", wanted["name"])["data"]
            env[item["name"]] = base64.b64decode(data[wanted["key"]]).decode()
    grace = pod.get("terminationGracePeriodSeconds", 30)
    return Part(workload["metadata"]["name"], tuple(only["args"]), env, grace).at(**addresses)


def read(server: ApiServer, plural: str, name: str) -> dict[str, Any]:
    code, answer = server.request("GET", f"/api/v1/namespaces/{NAMESPACE}/{plural}/{name}")
    assert code == 200, answer
    return dict(answer)


@pytest.fixture(scope="module")
def three_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Kafka with the three brokers that the topics' replication wants; its bootstrap address."""
    voters = {node: ports.free_port() for node in (1, 2, 3)}
    folder = tmp_path_factory.mktemp("three-brokers")
    brokers = [Broker(folder / str(node), quorum=Quorum(node, voters)) for node in voters]
    try:
        for broker in brokers:
            broker.launch()
        for broker in brokers:
            broker.wait_ready()
        yield ",".join(broker.bootstrap for broker in brokers)
    finally:
        for broker in brokers:
            broker.kill()


def check_probes(running: pipeline.Running, workload: dict[str, Any], port: str) -> None:
    only = container(workload)
    named = {p["name"]: p["containerPort"] for p in only["ports"]}
    for probe in ("livenessProbe", "readinessProbe"):
        get = only[probe]["httpGet"]
        assert str(named[get["port"]]) == found("ConfigMap", "kubecdc")["data"]["KUBECDC_METRICS_PORT"]
        running.wait(f"{probe} {get['path']}", lambda path=get["path"]: pipeline.status(port, path) == 200)


@pytest.mark.timeout(480)  # servers and three processes start one after another on few cores
def test_the_command_lines_carry_a_cluster_to_the_changes_topic(
    cluster: ApiServer, token: str, three_brokers: str, tmp_path: Path
) -> None:
    job, producer, workers = (
        found(kind, f"kubecdc-{name}")
        for kind, name in (("Job", "topics"), ("Deployment", "producer"), ("Deployment", "workers"))
    )
    kubeconfig = tmp_path / "kubeconfig"
    cluster.write_kubeconfig(kubeconfig, User("producer", token))  # the pod finds the same account in its file system
    kafka = {"KUBECDC_BOOTSTRAP": three_brokers}
    pipeline.run(part(cluster, job, **kafka), tmp_path)
    pipeline.run(part(cluster, job, **kafka), tmp_path)  # a Job may run twice

    metrics = str(ports.free_port())
    written = part(cluster, producer, **kafka, KUBECONFIG=str(kubeconfig), KUBECDC_METRICS_PORT=metrics)
    with pipeline.started(written, tmp_path) as running, Topic(three_brokers, "kubecdc.events") as events:
        gadget = pipeline.arrived(
            events,
            running,
            "custom resource",
            lambda r: isinstance(r, RawEvent) and r.resource == "gadgets" and r.name == "one",
        )
        assert gadget.cluster == found("ConfigMap", "kubecdc")["data"]["KUBECDC_CLUSTER"]
        check_probes(running, producer, metrics)
        assert running.stop() == 0, running.tail()
        assert list(running.folder.iterdir()) == [], "its file system is read-only"
        log = running.log.read_text()
        assert all(json.loads(line) for line in log.splitlines())
        assert SENTINEL not in log

    with Topic(three_brokers, "kubecdc.events") as events:
        seen = events.read_to_end()
    (hidden,) = (r for r in seen if r.resource == "secrets" and r.name == "hidden")
    assert re.search(r'"password":"hmac:[0-9a-f]+', hidden.object)
    assert not any(SENTINEL in (record.object or "") for record in seen)

    metrics = str(ports.free_port())
    written = part(cluster, workers, **kafka, KUBECDC_METRICS_PORT=metrics)
    with pipeline.started(written, tmp_path) as running, Topic(three_brokers, "kubecdc.changes") as changes:
        change = pipeline.arrived(changes, running, "change", lambda r: isinstance(r, Change) and r.uid == gadget.uid)
        assert (change.op, change.seq, change.rv) == (Op.SNAPSHOT, 1, gadget.rv)
        check_probes(running, workers, metrics)
        assert running.stop() == 0, running.tail()
