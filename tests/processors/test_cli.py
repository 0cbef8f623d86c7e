"""`kubecdc process`: one sentence for each fault, status 2, no traceback; an orderly end is status 0."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from local.children import poll
from local.ports import free_port
from tests.processors import workers
from tests.processors.log import Log


@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_a_broker_that_is_away_is_told_in_one_line(runtime):
    done = workers.run(["--runtime", runtime, "--bootstrap", f"127.0.0.1:{free_port()}"])
    assert done.returncode == 2
    lines = [line for line in done.stderr.splitlines() if line]
    assert len(lines) == 1, done.stderr
    assert "does not answer" in lines[0]


def test_faults_of_the_command_line_are_told_together():
    done = workers.run(["--noise", "loud", "--session-timeout", "1"])
    assert done.returncode == 2
    assert "--bootstrap is required" in done.stderr
    assert "one of emit, drop" in done.stderr
    assert "--session-timeout must be between" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_a_signal_ends_it_in_order(kafka_broker, runtime):
    log = Log(kafka_broker.bootstrap, partitions=2)
    log.first_list(["u1", "u2"])
    log.flush()
    command = [sys.executable, "-m", "kubecdc", "process", "--runtime", runtime, "--log-level", "warning"]
    command += ["--bootstrap", log.bootstrap, "--prefix", log.prefix]
    worker = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert poll(lambda: worker.poll() is not None or log.written(), 60, 0.3)
        worker.send_signal(signal.SIGTERM)
        _, errors = worker.communicate(timeout=40)
    finally:
        worker.kill()
    assert worker.returncode == 0, errors
    assert "Traceback" not in errors
    assert log.exact()
