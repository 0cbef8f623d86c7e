"""`kubecdc verify` end to end: while a cluster changes, the log at R equals LIST at R; what is planted is found."""

from __future__ import annotations

import itertools
import threading
import uuid
from dataclasses import replace

import orjson
import pytest
from confluent_kafka import Producer

from kubecdc import kafka, reading, topics, wire
from kubecdc.cli import main
from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured
from kubecdc.verbs_verify import verified
from local.children import poll
from local.kube_client import MERGE_PATCH, KubeClient
from local.pipeline import Pipeline, Wiring
from local.sim_server import SimOptions, SimServer
from tests.kubecdc.logs import Log
from tests.kubecdc.making import change

PATH = "/api/v1/namespaces/default"


class Storm:
    """Creates, changes and deletes ConfigMaps and Secrets until told to stop."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        with KubeClient.from_kubeconfig(self.kubeconfig) as client:
            for number in itertools.count():
                kind, plural = (("Secret", "secrets"), ("ConfigMap", "configmaps"))[number % 2]
                body = {"apiVersion": "v1", "kind": kind, "metadata": {"name": f"n{number}"}}
                client.request("POST", f"{PATH}/{plural}", body | {"data": {"k": "djE="}})
                if number % 3 == 0:
                    patch = {"data": {"k": "djI="}}
                    client.request("PATCH", f"{PATH}/{plural}/n{number}", patch, content_type=MERGE_PATCH)
                if number > 40:
                    client.request("DELETE", f"{PATH}/{plural}/n{number - 40}")
                if self.stop.wait(0.05):
                    return

    def end(self):
        self.stop.set()
        self.thread.join(30)


@pytest.fixture(params=["simulated", "real"])
def kubeconfig(request, tmp_path):
    if request.param == "real":
        yield request.getfixturevalue("apiserver").kubeconfig
        return
    with SimServer(options=SimOptions(bookmark_s=1.0)) as server:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        yield tmp_path / "kubeconfig"


def plant(bootstrap, prefix, change):
    """A change of an object that the cluster does not have."""
    producer = Producer({**kafka.connection(bootstrap), "transactional.id": f"{prefix}-plant"})
    producer.init_transactions(30)
    producer.begin_transaction()
    names = topics.TopicNames.under(prefix)
    partition = wire.partition_of(change.uid, 2)
    producer.produce(names.changes, Codec().encode(change), change.uid.encode(), partition)
    producer.commit_transaction(30)


def test_nothing_differs_while_the_cluster_changes_and_what_is_planted_is_found(
    kafka_broker, kubeconfig, tmp_path, capsys
):
    bootstrap, prefix = kafka_broker.bootstrap, f"v{uuid.uuid4().hex[:8]}"
    kafka.create_topics(bootstrap, topics.table(prefix, 2, 1))
    wiring = Wiring(bootstrap, prefix, kubeconfig, "here", "plain", ["configmaps", "secrets"], ("default",))
    pipeline = Pipeline(tmp_path, wiring)
    command = ["verify", "--bootstrap", bootstrap, "--prefix", prefix, "--kubeconfig", str(kubeconfig)]
    command += ["--cluster", "here", "--redaction-key-file", str(tmp_path / "redaction-key")]
    storm = Storm(kubeconfig)
    try:
        pipeline.start_producer()
        pipeline.start_worker()
        assert poll(lambda: pipeline.check() or len(resolved(bootstrap, prefix)) == 2, 90, 1)
        for _ in range(2):
            assert main([*command, "-o", "json"]) == 0
            told = orjson.loads(capsys.readouterr().out)
            assert told["differences"] == []
            assert sorted(row["resource"] for row in told["streams"]) == ["configmaps", "secrets"]
            assert all(row["equal"] > 0 and row["unlike_keys"] == 0 for row in told["streams"])
        (some, *_) = reading.state(bootstrap, prefix=prefix).objects
        ghost = replace(some, uid=str(uuid.uuid4()), name="ghost", seq=1, prev_rv=None)
        plant(bootstrap, prefix, ghost)
        assert main(command) == 1
        out = capsys.readouterr().out
        assert "extra" in out
        assert "ghost" in out
    finally:
        storm.end()
        pipeline.stop_all()
    assert main([*command, "--wait", "1", "--resource", "configmaps"]) in (1, 2)  # nobody resolves further


def resolved(bootstrap, prefix):
    return [at for at in reading.state(bootstrap, prefix=prefix).resolved.values() if at is not None]


class NoLists:
    """A lister of cluster `c` that nobody asks for anything."""

    cluster = "c"


@pytest.mark.parametrize(
    ("cluster", "told"),
    [
        ("c", "nothing of what is asked for is resolved"),
        ("d", "no cluster c in what was read, only d"),
    ],
)
def test_nothing_to_compare_is_told_with_what_the_log_has(kafka_broker, cluster, told):
    log = Log(kafka_broker.bootstrap)
    log.write(change(cluster=cluster))
    values = {"bootstrap": log.bootstrap, "prefix": log.prefix, "schema_registry": None, "kafka_property": ()}
    with pytest.raises(Misconfigured, match=f"there is nothing to compare: {told}"):
        verified({**values, "resource": (), "wait": 1.0, "noise": "emit"}, NoLists())
