"""The end of a worker names the reason, and tells by its status who can mend it."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("reason", "status", "told"),
    [
        ("Misconfigured('a', 'b')", 2, "error: a\nerror: b\n"),
        ("Unreachable('no Kafka')", 2, "error: no Kafka\n"),
        ("Fenced('taken over')", 1, "error: taken over\n"),
    ],
)
def test_reason_and_status(reason, status, told):
    code = (
        "from kubecdc.errors import *; from processors.errors import *; from processors.ending import end_process\n"
        "import threading; threading.Thread(target=threading.Event().wait).start()\n"  # a thread that hangs
        f"end_process({reason})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stderr) == (status, told)


def test_what_hangs_is_told_before_the_end():
    """The reason says that nothing moves; where, only the stacks tell."""
    code = (
        "import asyncio, threading; from processors.ending import end_stuck\n"
        "async def standing(): await asyncio.Event().wait()\n"
        "async def main():\n"
        "    loop, task = asyncio.get_running_loop(), asyncio.ensure_future(standing())\n"
        "    await asyncio.sleep(0)\n"
        "    threading.Thread(target=end_stuck, args=('no progress', [loop])).start()\n"
        "    await task\n"
        "asyncio.run(main())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "error: no progress"
    assert "standing" in done.stderr
    assert "most recent call first" in done.stderr


def test_an_end_that_hangs_has_an_end():
    code = "import threading; from processors.ending import end_within; end_within(0.5); threading.Event().wait()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: the orderly end hung for 0.5 s")


def test_an_end_that_comes_in_time_is_left_alone():
    code = "from processors.ending import end_within; end_within(30)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=False)
    assert (done.returncode, done.stderr) == (0, "")
