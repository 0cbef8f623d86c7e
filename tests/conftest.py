"""Fixtures that every test may use come from `tests.servers`; here is in which order files are run."""

from __future__ import annotations

import pytest

pytest_plugins = ["tests.servers"]

# By the minutes that they take; with --dist loadfile the last file to begin decides when a run ends.
LONGEST = (
    "chaos/test_chaos.py",
    "processors/test_app.py",
    "e2e/test_demo.py",
    "reports/test_public_reports.py",
    "processors/test_shells.py",
    "processors/test_plain.py",
    "cases/test_sentinel.py",
    "simulation/test_simulation.py",
    "simulation/test_mutations.py",
    "processors/test_rebuild.py",
    "local/test_cli.py",
)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long come first; within a file, and among all others, the order stays random."""
    items.sort(key=lambda item: next((n for n, name in enumerate(LONGEST) if item.path.match(name)), len(LONGEST)))
