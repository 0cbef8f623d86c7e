"""The whole product as a user starts it: real Kafka, a real or simulated API server, kill -9, 410, and the checkers.

G1, G2 and G3 against the server's own history, for both runtimes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from local.broker import Broker

KEYS = {
    *("ok", "cluster", "runtime", "seed", "events", "changes", "duplicates", "stale", "inferred_deletes"),
    *("gaps", "faults", "verdicts", "seconds"),
}


def _demo(*arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "kubecdc", "demo", "-o", "json", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=220, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def _holds(report: dict[str, object]) -> None:
    assert set(report) == KEYS
    assert report["ok"] is True
    assert report["verdicts"] == {"G1": "holds", "G2": "holds", "G3": "holds"}
    assert report["events"] > 0
    assert report["changes"] > 0
    faults = report["faults"]
    assert all(count > 0 for count in faults.values())
    assert len(faults) >= 5
    gaps = report["gaps"]
    assert [gap for gap in gaps if gap["cause"] == "RELIST_WINDOW" and gap["after_rv"] and gap["upto_rv"]]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_the_demo_holds_on_a_real_api_server(runtime: str, envtest_folder: object):
    _holds(_demo("--cluster", "envtest", "--seconds", "20", "--seed", "7", "--runtime", runtime))


@pytest.mark.timeout(300)
def test_the_demo_holds_on_the_simulated_server_and_its_log_can_be_replayed(tmp_path: Path):
    data = tmp_path / "kafka"
    report = _demo("--cluster", "sim", "--seconds", "15", "--seed", "11", "--data", str(data))
    _holds(report)
    assert (report["cluster"], report["runtime"], report["seed"]) == ("sim", "faust", 11)
    with Broker(data) as broker:
        replay = ["replay", "--bootstrap", broker.bootstrap, "--from", "beginning", "-o", "ndjson"]
        done = subprocess.run(
            [sys.executable, "-m", "kubecdc", *replay], capture_output=True, text=True, timeout=120, check=True
        )
    records = [json.loads(line) for line in done.stdout.splitlines()]
    lives: dict[str, list[dict[str, object]]] = {}
    for record in records:
        if record["op"] in ("CREATED", "SNAPSHOT", "UPDATED", "DELETED"):
            lives.setdefault(record["uid"], []).append(record)
    whole = [life for life in lives.values() if (life[0]["op"], life[-1]["op"]) == ("CREATED", "DELETED")]
    assert whole
    assert all([r["seq"] for r in life] == list(range(1, len(life) + 1)) for life in whole)
    bounds = {(r["gap"]["cause"], r["after_rv"], r["upto_rv"]) for r in records if r["op"] == "GAP"}
    assert {(g["cause"], g["after_rv"], g["upto_rv"]) for g in report["gaps"]} <= bounds
