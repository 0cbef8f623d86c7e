"""A child never outlives its parent, and outlives the thread that asked for it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from local import children
from local.errors import FolderUnusable, NotReady, ServerDied

SLEEP = [sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(600)"]
PARENT = """
import pathlib, sys, time
from local import children
child = children.spawn(sys.argv[2:], log=pathlib.Path(sys.argv[1]))
print(child.pid, flush=True)
time.sleep(600)
"""
CLAIMING_PARENT = """
import pathlib, sys, time
from local import children
log = pathlib.Path(sys.argv[1])
with children.claimed(log.parent) as lock:
    child = children.spawn(sys.argv[2:], log=log, keep=[lock])
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "child.log"


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_child_dies_when_its_parent_is_killed(log: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(log), *SLEEP],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        # Once it speaks, the child is the program, no longer what starts it.
        assert children.poll(lambda: b"hello" in log.read_bytes(), 20, 0.02)
        assert not gone(pid)
        parent.send_signal(signal.SIGKILL)
    assert children.poll(lambda: gone(pid), 10, 0.02)


def test_child_outlives_the_thread_that_spawned_it(log: Path) -> None:
    started: list[children.Child] = []
    thread = threading.Thread(target=lambda: started.append(children.spawn(SLEEP, log=log)))
    thread.start()
    thread.join()
    child = started[0]
    try:
        assert children.poll(lambda: "hello" in child.tail(), 20, 0.02)
        assert child.alive
    finally:
        child.kill()
    assert not child.alive
    assert child.exit_code == -signal.SIGKILL


def test_stop_kills_a_child_that_ignores_the_request(log: Path) -> None:
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True);"
    child = children.spawn([sys.executable, "-c", deaf + "time.sleep(600)"], log=log)
    assert children.poll(lambda: "deaf" in child.tail(), 20, 0.02)
    child.stop(grace_seconds=0.2)
    assert child.exit_code == -signal.SIGKILL


def test_frozen_child_can_be_stopped(log: Path) -> None:
    child = children.spawn(SLEEP, log=log)
    assert children.poll(lambda: "hello" in child.tail(), 20, 0.02)
    child.freeze()
    assert children.poll(lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, 10, 0.02)
    child.stop(grace_seconds=20)
    assert child.exit_code == -signal.SIGTERM


def test_an_aborted_child_tells_where_its_threads_stood(log: Path) -> None:
    child = children.spawn(SLEEP, log=log, env={**os.environ, "PYTHONFAULTHANDLER": "1"})
    assert children.poll(lambda: "hello" in child.tail(), 20, 0.02)
    child.abort()
    assert children.poll(lambda: not child.alive, 20, 0.02)
    assert child.exit_code == -signal.SIGABRT
    assert "most recent call first" in child.tail()


def test_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(FolderUnusable, match="choose another folder"):
        children.prepare_folder(tmp_path / "file" / "data")


def test_a_folder_is_claimed_as_long_as_the_child_that_keeps_it_lives(tmp_path: Path) -> None:
    with children.claimed(tmp_path) as lock:
        child = children.spawn(SLEEP, log=tmp_path / "child.log", keep=[lock])
    try:
        with pytest.raises(FolderUnusable, match="another server runs on"), children.claimed(tmp_path):
            pass
    finally:
        child.kill()
    with children.claimed(tmp_path):
        pass


def test_a_folder_is_free_when_its_child_dies_with_its_parent(tmp_path: Path) -> None:
    arguments = [sys.executable, "-c", CLAIMING_PARENT, str(tmp_path / "child.log"), *SLEEP]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline())
        with pytest.raises(FolderUnusable), children.claimed(tmp_path):
            pass
        process.send_signal(signal.SIGKILL)
    with children.claimed(tmp_path):
        pass


def test_a_folder_that_cannot_be_claimed_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").mkdir()
    with pytest.raises(FolderUnusable, match=r"cannot be locked .*: choose another folder"), children.claimed(tmp_path):
        pass


def test_tail_shows_this_run_only(log: Path) -> None:
    log.write_text("an earlier run\n")
    child = children.spawn([sys.executable, "-c", "print('one'); print('two')"], log=log)
    assert children.poll(lambda: not child.alive, 20, 0.02)
    assert child.tail() == "one\ntwo"
    assert child.tail(lines=1) == "two"


def test_program_that_is_missing_is_seen_in_its_log(log: Path) -> None:
    child = children.spawn(["/no/such/program"], log=log)
    assert children.poll(lambda: not child.alive, 20, 0.02)
    assert child.exit_code != 0
    assert "No such file" in child.tail()


def test_child_that_ends_before_it_is_ready_shows_its_log_and_its_exit_code(log: Path) -> None:
    child = children.spawn([sys.executable, "-c", "print('bad flag'); raise SystemExit(3)"], log=log)
    with pytest.raises(ServerDied, match=r"(?s)thing ended at its start \(exit code 3\).*child\.log.*bad flag"):
        children.wait_ready(child, "thing", lambda: False, 20)


def test_child_that_is_not_ready_in_time_is_left_running_and_named(log: Path) -> None:
    child = children.spawn(SLEEP, log=log)
    try:
        with pytest.raises(NotReady, match=r"thing did not answer within 0 s"):
            children.wait_ready(child, "thing", lambda: False, 0.1)
        assert child.alive
        children.wait_ready(child, "thing", lambda: "hello" in child.tail(), 20)
    finally:
        child.kill()
