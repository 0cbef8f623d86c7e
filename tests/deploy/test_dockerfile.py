"""deploy/Dockerfile without Docker: what it copies is enough to install, and the result runs.

Guarantee: a wheel built from the copied paths alone holds the command, its parts and the schemas.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from tests.deploy.pipeline import DEPLOY, ROOT

LINES = (DEPLOY / "Dockerfile").read_text().splitlines()


def copied() -> list[str]:
    return [path for line in LINES if line.startswith("COPY ") for path in line.split()[1:-1]]


def test_the_copied_paths_make_a_complete_package(tmp_path: Path) -> None:
    source, site = tmp_path / "src", tmp_path / "site"
    source.mkdir()
    for path in copied():
        copy = shutil.copytree if (ROOT / path).is_dir() else shutil.copy
        copy(ROOT / path, source / path)
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(site), str(source)]
    done = subprocess.run(install, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    # -P: not the checkout. The dependencies are those of this environment.
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import kubecdc.codec, kubecdc.cli, producer.cli, processors.cli, local.cli\n"
        "parts = (kubecdc.codec, kubecdc.cli, producer.cli, processors.cli, local.cli)\n"
        "assert all(part.__file__.startswith(sys.argv[1]) for part in parts)\n"
        "print(len(kubecdc.codec.schema_text('change')))"
    )
    ran = subprocess.run(
        [sys.executable, "-P", "-c", program, str(site)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) > 0
    assert (site / "bin" / "kubecdc").exists()


def test_it_is_the_python_of_the_package_and_not_root() -> None:
    (base,) = (line for line in LINES if line.startswith("FROM "))
    assert base == "FROM python:3.11-slim"
    (user,) = (line.split()[1] for line in LINES if line.startswith("USER "))
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
