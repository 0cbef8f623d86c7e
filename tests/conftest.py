"""Fixtures that every test may use come from `tests.servers`; here is in which order files are run."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.servers"]

# By the minutes that they take; with --dist loadfile the last file to begin decides when a run ends.
LONGEST = (
    "chaos/test_chaos.py",
    "reports/test_public_reports.py",
    "processors/test_shells.py",
    "simulation/test_simulation.py",
    "e2e/test_demo.py",
    "processors/test_app.py",
    "processors/test_rebuild.py",
    "local/test_cli.py",
    "processors/test_task.py",
    "cases/test_cases.py",
    "cases/test_sentinel.py",
    "deploy/test_manifests.py",
    "processors/test_plain.py",
    "simulation/test_mutations.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first; within a file, and among all others, the order stays random."""
    items.sort(key=lambda item: next((n for n, name in enumerate(LONGEST) if item.path.match(name)), len(LONGEST)))
