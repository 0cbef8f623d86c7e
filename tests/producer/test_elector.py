"""Guarantees: on a simulated and on a real API server one candidate leads, and the next one follows when it goes.

A server that is away ends the lead in time; one that never lets us have a lease is one clear error.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.apiserver import ApiServer, User
from local.sim_server import SimServer
from producer.cluster import Cluster
from producer.elector import Elector, own_namespace
from producer.settings import ClusterSettings, ElectionSettings
from tests.producer.front import Front
from tests.producer.running import until

QUICK = ElectionSettings(duration_s=3.0)


class Candidate:
    """An elector and what it has said."""

    def __init__(self, cluster: Cluster, settings: ElectionSettings = QUICK) -> None:
        self.said: list[bool] = []
        self.elector = Elector(cluster, settings, self.said.append)
        self.elector.start()

    @property
    def leads(self) -> bool:
        return self.said[-1:] == [True]

    def vanish(self) -> None:
        """End without handing over, as a killed process does."""
        self.elector._closing.set()
        self.elector.join(10)


@pytest.fixture
def stand(request: pytest.FixtureRequest) -> Iterator[Callable[..., Candidate]]:
    begun: list[Candidate] = []

    def begin(cluster: Cluster, settings: ElectionSettings = QUICK) -> Candidate:
        begun.append(Candidate(cluster, settings))
        return begun[-1]

    yield begin
    for candidate in begun:
        candidate.elector.release()


def at(server: SimServer) -> Cluster:
    return Cluster(ClusterSettings("c", server=server.url))


def stored(server: SimServer, name: str = QUICK.name) -> dict[str, Any]:
    return dict(server.store.get(server.store.kind("coordination.k8s.io", "leases"), "default", name))


def test_one_leads_and_hands_over_at_once(stand: Callable[..., Candidate]):
    with SimServer() as server:
        one = stand(at(server))
        until(lambda: one.leads)
        two = stand(at(server))
        first = stored(server)
        until(lambda: stored(server)["spec"]["renewTime"] != first["spec"]["renewTime"])
        assert stored(server)["spec"]["acquireTime"] == first["spec"]["acquireTime"]
        assert two.said == []
        began = time.monotonic()
        one.elector.release()
        until(lambda: two.leads)
        assert time.monotonic() - began < QUICK.duration_s
        spec = stored(server)["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == (two.elector.identity, 1)


def test_one_that_vanishes_is_followed_when_its_lease_has_run_out(stand: Callable[..., Candidate]):
    with SimServer() as server:
        one = stand(at(server))
        until(lambda: one.leads)
        two = stand(at(server))
        one.vanish()
        until(lambda: two.leads)
        assert one.leads
        assert stored(server)["spec"]["holderIdentity"] == two.elector.identity


REFUSALS = {
    "a failing server": (500, b'{"kind":"Status","code":500}'),
    "throttled": (429, b"{}"),
    "token expired": (401, b"{}"),
    "forbidden": (403, b"{}"),
    "garbage": (200, b"<html>"),
    "no object": (200, b"[]"),
}


@pytest.mark.parametrize("answer", list(REFUSALS.values()), ids=list(REFUSALS))
def test_a_server_that_refuses_for_a_while_ends_the_lead_in_time(
    stand: Callable[..., Candidate], answer: tuple[int, bytes]
):
    with SimServer() as server, Front(server.url) as front:
        one = stand(Cluster(ClusterSettings("c", server=front.url)))
        until(lambda: one.leads)
        front.answer = answer
        began = time.monotonic()
        until(lambda: one.said == [True, False])
        assert time.monotonic() - began < QUICK.duration_s
        front.answer = None
        until(lambda: one.leads)


def test_a_server_that_hangs_ends_the_lead_before_the_lease_runs_out(stand: Callable[..., Candidate]):
    with SimServer() as server, Front(server.url) as front:
        one = stand(Cluster(ClusterSettings("c", server=front.url)))
        until(lambda: one.leads)
        front.stalled = True
        began = time.monotonic()
        until(lambda: one.said == [True, False])
        assert time.monotonic() - began < QUICK.duration_s


def test_a_server_that_goes_away_ends_the_lead_in_time(stand: Callable[..., Candidate]):
    with SimServer() as server:
        one = stand(at(server))
        until(lambda: one.leads)
    until(lambda: one.said == [True, False], QUICK.duration_s)


def test_a_fault_of_ours_ends_the_lead_and_is_told(stand: Callable[..., Candidate]):
    """Nobody renews once the thread is gone: who went on to lead would do so beside the next one."""

    class Faulty(Cluster):
        faulty = False

        def send(self, *arguments: Any) -> Any:
            if self.faulty:
                raise RuntimeError("a fault")
            return super().send(*arguments)

    with SimServer() as server:
        cluster = Faulty(ClusterSettings("c", server=server.url))
        one = stand(cluster)
        until(lambda: one.leads)
        cluster.faulty = True
        until(lambda: one.said == [True, False])
        assert str(one.elector.failure) == "the election: RuntimeError"


def test_many_at_once_are_one_leader(stand: Callable[..., Candidate]):
    with SimServer() as server:
        together = [stand(at(server)) for _ in range(6)]
        until(lambda: any(candidate.leads for candidate in together))
        until(lambda: stored(server)["metadata"]["resourceVersion"] > "0")
        (leader,) = (candidate for candidate in together if candidate.leads)
        assert stored(server)["spec"]["holderIdentity"] == leader.elector.identity


def test_what_can_never_work_is_told(stand: Callable[..., Candidate]):
    with SimServer() as server, Front(server.url) as front:
        front.answer = (403, b"{}")
        one = stand(Cluster(ClusterSettings("c", server=front.url)))
        until(lambda: one.elector.failure)
        assert "deploy/elect" in str(one.elector.failure)
        two = stand(at(server), ElectionSettings(namespace="absent", duration_s=3.0))
        until(lambda: two.elector.failure)
        assert "absent/kubecdc-producer" in str(two.elector.failure)


def test_a_real_api_server_takes_our_leases(
    stand: Callable[..., Candidate], envtest_folder: Path, tmp_path: Path, apiserver: ApiServer
):
    kubeconfig = tmp_path / "kubeconfig"
    apiserver.write_kubeconfig(kubeconfig, User("admin", apiserver.admin_token))
    lease = ElectionSettings(name="elector-test", duration_s=3.0)
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/elector-test"
    try:
        one, two = (stand(Cluster(ClusterSettings("c", kubeconfig=kubeconfig)), lease) for _ in range(2))
        until(lambda: one.leads or two.leads)
        first, second = (one, two) if one.leads else (two, one)
        code, before = apiserver.request("GET", path)
        assert (code, before["spec"]["holderIdentity"]) == (200, first.elector.identity)
        until(lambda: apiserver.request("GET", path)[1]["spec"]["renewTime"] != before["spec"]["renewTime"])
        assert second.said == []
        first.elector.release()
        until(lambda: second.leads)
        taken = apiserver.request("GET", path)[1]["spec"]
        assert (taken["holderIdentity"], taken["leaseTransitions"]) == (second.elector.identity, 1)
        second.vanish()
        third = stand(Cluster(ClusterSettings("c", kubeconfig=kubeconfig)), lease)
        until(lambda: third.leads)
        assert apiserver.request("GET", path)[1]["spec"]["leaseTransitions"] == 2
    finally:
        apiserver.request("DELETE", path)


def test_outside_of_a_pod_the_lease_is_in_the_default_namespace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "namespace"
    monkeypatch.setattr("producer.elector.POD_NAMESPACE", file)
    assert own_namespace() == "default"
    file.write_text("kubecdc\n")
    assert own_namespace() == "kubecdc"
