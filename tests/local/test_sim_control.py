"""The control paths do over HTTP what the Python API does, and refuse mistakes with one clear error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.sim_api import Request
from local.sim_control import SimControl
from local.sim_faults import Faults
from local.sim_status import NoSuchPath, Refused
from local.sim_store import SimStore


class Console:
    def __init__(self) -> None:
        self.store = SimStore(seed=1)
        self.faults = Faults()
        self._control = SimControl(self.store, self.faults)

    def __call__(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        data = b"" if body is None else json.dumps(body).encode()
        return self._control.handle(Request(method, f"/_sim/{path}", query, {}, data)).body


@pytest.fixture
def console() -> Console:
    return Console()


def make(console: Console, name: str) -> None:
    console.store.create(console.store.kind("", "events"), {"metadata": {"name": name}}, namespace="default")


def test_faults_are_set_shown_and_cleared(console: Console) -> None:
    shown = console("POST", "faults", {"name": "cut", "resource": "pods", "count": 1, "after_bytes": 9})
    assert shown["active"] == [{"name": "cut", "resource": "pods", "count": 1, "after_bytes": 9}]
    assert console("DELETE", "faults", name="mute")["active"] == shown["active"]
    assert console("DELETE", "faults", name="cut")["active"] == []


def test_history_continues_where_it_was_left(console: Console) -> None:
    first = console("GET", "history")
    make(console, "a")
    second = console("GET", "history", after=str(first["next"]))
    (commit,) = second["commits"]
    assert (commit["revision"], commit["resource"], commit["name"]) == (console.store.revision, "events", "a")
    assert second["next"] == first["next"] + 1


def test_compact_expire_snapshot_and_restore(console: Console) -> None:
    make(console, "a")
    make(console, "b")
    backup = console("POST", "snapshot")["snapshot"]
    pairs = [["default", "a"], ["default", "b"]]
    expired = console("POST", "expire", {"resource": "events", "objects": pairs})["revision"]
    assert console("POST", "compact") == {"revision": expired}
    assert console("POST", "restore", {"snapshot": backup, "bump": 100}) == {
        "revision": expired - 1 + 100,
        "epoch": 2,
    }


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("faults", {"name": "none"}, "unknown fault"),
        ("faults", [], "must be a JSON object"),
        ("compact", {"revision": 10**9}, "cannot compact at"),
        ("expire", {"objects": []}, "missing or unknown: 'resource'"),
        ("expire", {"resource": "none", "objects": []}, "missing or unknown"),
        ("restore", {"snapshot": 3}, "out of range"),
    ],
)
def test_mistakes_are_refused(console: Console, path: str, body: Any, message: str) -> None:
    with pytest.raises(Refused, match=message) as refused:
        console("POST", path, body)
    assert refused.value.code == 400


def test_other_paths_do_not_exist(console: Console) -> None:
    with pytest.raises(NoSuchPath):
        console("GET", "nothing")
