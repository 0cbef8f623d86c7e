"""Fixtures that every test may use come from `tests.servers`."""

pytest_plugins = ["tests.servers"]
