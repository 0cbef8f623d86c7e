"""Producer and worker run as processes, without the user's own settings; one that dies by itself is an error."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from local.errors import ServerDied
from local.pipeline import Pipeline, Wiring
from local.ports import free_port


def wiring(tmp_path: Path) -> Wiring:
    nobody = f"127.0.0.1:{free_port()}"
    return Wiring(nobody, "kubecdc", tmp_path / "absent", "here", "plain", ["pods", "deployments.apps"])


def last_words(pipeline: Pipeline) -> str:
    deadline = time.monotonic() + 60
    try:
        while time.monotonic() < deadline:
            pipeline.check()
            time.sleep(0.05)
    except ServerDied as error:
        return str(error)
    return "it still runs"


def test_a_process_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, wiring(tmp_path))
    try:
        pipeline.start_producer()  # no kubeconfig: it must refuse to start
        said = last_words(pipeline)
        assert "the producer ended by itself (exit code 2)" in said
        assert "absent" in said
        assert "Traceback" not in said
    finally:
        pipeline.stop_all()


def test_what_was_stopped_or_killed_is_not_missed(tmp_path: Path) -> None:
    pipeline = Pipeline(tmp_path, wiring(tmp_path))
    try:
        pipeline.start_producer()
        pipeline.kill("producer")
        pipeline.check()
        pipeline.start_worker()
        pipeline.stop("worker")
        pipeline.stop("worker")
        pipeline.check()
    finally:
        pipeline.stop_all()


def test_settings_of_a_real_deployment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECDC_SERVER", "https://production")
    monkeypatch.setenv("KUBECDC_RESOURCES", "no-such-kind")
    pipeline = Pipeline(tmp_path, wiring(tmp_path))
    try:
        pipeline.start_producer()
        said = last_words(pipeline)
        assert "ended by itself" in said
        assert "production" not in said
        assert "no-such-kind" not in said
    finally:
        pipeline.stop_all()
