"""`python -m kubecdc` (kubecdc/__main__.py) hands on arguments and exit status."""

from __future__ import annotations

import subprocess
import sys


def test_arguments_and_status_go_through():
    command = [sys.executable, "-m", "kubecdc", "replay", "--from", "nowhere", "-o", "xml"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env={})
    assert (result.returncode, result.stdout) == (2, "")
    assert [line.split(":")[1].strip() for line in result.stderr.splitlines()] == [
        "--bootstrap is required",
        "--from 'nowhere'",
        "--output 'xml'",
    ]
