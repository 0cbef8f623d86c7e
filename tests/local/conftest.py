"""The two API servers that are compared; the real one is started once, and each module may compact and restart it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from local.apiserver import ApiServer
from local.sim_server import SimOptions, SimServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def real(envtest_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    with ApiServer(tmp_path_factory.mktemp("compared"), binaries=envtest_folder) as server:
        yield server


@pytest.fixture
def sim() -> Iterator[SimServer]:
    with SimServer(options=SimOptions(too_large_wait_s=0.2)) as server:
        yield server
