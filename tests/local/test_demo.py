"""On a cluster that is not ours the demo harms nothing, and says "unknown" where it cannot know.

That a demo on our own clusters holds is tested in `tests/e2e` and `tests/local/test_cli.py`.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from local.demo import Plan, run
from local.kube_client import KubeClient
from local.live import Screen
from local.sim_server import SimServer
from local.verdicts import Status


def test_a_found_cluster_is_left_as_it_was_and_its_truth_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SimServer(token="secret") as server, KubeClient(server.url, token="secret") as client:
        server.write_kubeconfig(tmp_path / "config")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "config"))
        other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs"}}
        assert client.request("POST", "/api/v1/namespaces/default/configmaps", other)[0] == 201
        plan = Plan("kubeconfig", "plain", seconds=4, seed=5)
        with Screen(Console(file=io.StringIO())) as screen:
            report = run(plan, screen)
        namespace = client.request("GET", f"/api/v1/namespaces/{plan.namespace}")
        outside = [commit for commit in server.store.history() if commit.namespace not in ("", plan.namespace)]
        assert server.faults.fired == {}
    assert not report.ok
    assert report.verdicts["G3"].status is Status.HOLDS, report.verdicts["G3"].findings
    assert {report.verdicts[name].status for name in ("G1", "G2")} == {Status.UNKNOWN}
    assert namespace[0] == 404 or namespace[1]["metadata"]["deletionTimestamp"]
    assert [commit.name for commit in outside if commit.resource == "configmaps"] == ["theirs"]
    assert set(report.faults) == {
        "kill -9 of the worker",
        "kill -9 of the producer",
        "delete while the producer is down",
    }
    assert report.changes > 0
    assert report.events > 0
