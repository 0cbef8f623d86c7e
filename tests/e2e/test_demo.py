"""The whole product as a user starts it: real Kafka, a real or simulated API server, kill -9, 410, and the checkers.

G1, G2 and G3 against the server's own history, for both runtimes.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

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


@pytest.mark.timeout(240)
def test_the_demo_holds_on_the_simulated_server():
    report = _demo("--cluster", "sim", "--seconds", "15", "--seed", "11")
    _holds(report)
    assert (report["cluster"], report["runtime"], report["seed"]) == ("sim", "faust", 11)
