"""The workload writes what it says, on the simulator and on a real API server, the same for the same seed."""

from __future__ import annotations

import threading
import time

import pytest

from local.apiserver import ApiServer
from local.history import HistoryRecorder
from local.kube_client import Away, KubeClient
from local.sim_server import SimServer
from local.workload import Workload, resources

ACTIONS = {
    "rollout",
    "scale",
    "crash loop",
    "config change",
    "no-op apply",
    "delete",
    "finalizer",
    "name reuse",
}


def played(seed: int, actions: int) -> tuple[Workload, list[tuple[str, str, str]]]:
    with SimServer() as server, KubeClient(server.url) as client:
        workload = Workload(client, "demo", seed=seed)
        workload.begin()
        for _ in range(actions):
            workload.act()
        workload.last_word()
        return workload, [(c.kind, c.resource, c.name) for c in server.store.history() if c.namespace == "demo"]


def test_every_action_is_done_and_the_simulator_takes_every_write() -> None:
    workload, history = played(seed=1, actions=150)
    assert set(workload.counts) == ACTIONS
    assert workload.refused == 0
    assert workload.writes > 200
    assert {resource for _, resource, _ in history} == {resource for _, resource in resources()}
    assert {kind for kind, _, _ in history} == {"PUT", "DELETE"}


def test_the_same_seed_writes_the_same() -> None:
    assert played(seed=7, actions=40)[1] == played(seed=7, actions=40)[1]
    assert played(seed=7, actions=40)[1] != played(seed=8, actions=40)[1]


def test_a_name_is_reused_by_another_object() -> None:
    with SimServer() as server, KubeClient(server.url) as client:
        workload = Workload(client, "demo", seed=1)
        workload.begin()
        for _ in range(120):
            workload.act()
        uids = {commit.uid for commit in server.store.history() if commit.name == "reused"}
    assert len(uids) > 1


def test_the_newest_version_of_every_kind_is_no_delete_after_the_last_word() -> None:
    _, history = played(seed=3, actions=60)
    newest = {resource: kind for kind, resource, _ in history}
    assert set(newest.values()) == {"PUT"}


def test_delete_some_deletes_what_lives() -> None:
    with SimServer() as server, KubeClient(server.url) as client:
        workload = Workload(client, "demo", seed=1)
        workload.begin()
        before = server.store.revision
        gone = workload.delete_some(4)
        deletes = [c for c in server.store.history() if c.revision > before and c.kind == "DELETE"]
    assert gone == len(deletes) == 4


def test_a_server_that_is_away_only_delays_it() -> None:
    with SimServer() as server, KubeClient(server.url) as client:
        workload = Workload(client, "demo", seed=1)
        workload.begin()
        server.stop()
        assert workload.act() == "away"
        with pytest.raises(Away):
            client.request("GET", "/version")
        with SimServer(port=server.port, store=server.store):
            assert workload.act() in ACTIONS


def test_it_keeps_its_rate_and_stops_when_told() -> None:
    with SimServer() as server, KubeClient(server.url) as client:
        workload = Workload(client, "demo", seed=1, rate=20)
        workload.begin()
        stop = threading.Event()
        thread = threading.Thread(target=workload.run, args=(stop,))
        thread.start()
        deadline = time.monotonic() + 30
        while workload.counts.total() < 10 and time.monotonic() < deadline:
            stop.wait(0.05)
        stop.set()
        thread.join(10)
    assert not thread.is_alive()
    assert workload.counts.total() >= 10


def test_a_real_server_takes_every_write_and_commits_both_kinds(apiserver: ApiServer) -> None:
    config = apiserver.kubeconfig
    with HistoryRecorder(apiserver.etcd_url) as recorder, KubeClient.from_kubeconfig(config) as client:
        workload = Workload(client, "workload", seed=1)
        workload.begin()
        for _ in range(80):
            workload.act()
        workload.last_word()
        assert workload.refused == 0
        recorder.wait_for(apiserver.revision())
        mine = [commit for commit in recorder.records() if commit.namespace == "workload"]
    assert {commit.resource for commit in mine} == {resource for _, resource in resources()}
    assert {commit.kind for commit in mine} == {"PUT", "DELETE"}
