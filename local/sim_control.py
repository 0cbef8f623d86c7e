"""The control paths of the simulated API server, for whoever drives it from another process.

Decides: `/_sim/faults`, `/_sim/history`, `/_sim/compact`, `/_sim/expire`, `/_sim/snapshot` and
`/_sim/restore`. Deliberately does not know how faults act.

- `GET /_sim/faults` → `{active, fired}`; `POST` a fault (`name`, `resource`, `count`, `verb` and
  the options of `sim_faults.FAULTS`); `DELETE`, with `name` and `resource` as parameters or not
- `GET /_sim/history?after=N` → `{commits, next}`: all commits after the first N
- `POST /_sim/compact` `{revision}`, by default the current one
- `POST /_sim/expire` `{group, resource, objects: [[namespace, name], …]}`: many deletes, one version
- `POST /_sim/snapshot` → `{snapshot}`; `POST /_sim/restore` `{snapshot, bump}`
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from local.sim_api import Answer, Request
from local.sim_faults import Faults
from local.sim_kinds import Json
from local.sim_reads import whole_number
from local.sim_status import NoSuchPath, bad_request
from local.sim_store import SimStore, Snapshot


class SimControl:
    """The control paths over one store and its faults."""

    def __init__(self, store: SimStore, faults: Faults) -> None:
        self._store = store
        self._faults = faults
        self._snapshots: list[Snapshot] = []

    def handle(self, request: Request) -> Answer:
        """Answer a control request. Raises NoSuchPath, and Refused (400) for what it cannot do."""
        actions = {
            ("GET", "faults"): self._show_faults,
            ("POST", "faults"): self._set_fault,
            ("DELETE", "faults"): self._clear_faults,
            ("GET", "history"): self._history,
            ("POST", "compact"): self._compact,
            ("POST", "expire"): self._expire,
            ("POST", "snapshot"): self._snapshot,
            ("POST", "restore"): self._restore,
        }
        action = actions.get((request.method, request.path.removeprefix("/_sim/")))
        if action is None:
            raise NoSuchPath
        try:
            return Answer(200, action(request))
        except (ValueError, TypeError, KeyError, IndexError) as error:
            missing = isinstance(error, KeyError)
            raise bad_request(f"missing or unknown: {error}" if missing else str(error)) from None

    def _show_faults(self, _: Request) -> Json:
        return {"active": self._faults.active(), "fired": self._faults.fired}

    def _set_fault(self, request: Request) -> Json:
        self._faults.set(**_body(request))
        return self._show_faults(request)

    def _clear_faults(self, request: Request) -> Json:
        self._faults.clear(request.query.get("name"), request.query.get("resource"))
        return self._show_faults(request)

    def _history(self, request: Request) -> Json:
        after = whole_number(request.query, "after") or 0
        commits = self._store.history(after)
        shown = [dataclasses.asdict(commit) for commit in commits]
        return {"commits": shown, "next": after + len(commits)}

    def _compact(self, request: Request) -> Json:
        return {"revision": self._store.compact(_body(request).get("revision"))}

    def _expire(self, request: Request) -> Json:
        body = _body(request)
        kind = self._store.kind(body.get("group", ""), body["resource"])
        objects = [(str(namespace), str(name)) for namespace, name in body["objects"]]
        return {"revision": self._store.expire(kind, objects)}

    def _snapshot(self, _: Request) -> Json:
        self._snapshots.append(self._store.snapshot())
        return {"snapshot": len(self._snapshots) - 1}

    def _restore(self, request: Request) -> Json:
        body = _body(request)
        self._store.restore(self._snapshots[body["snapshot"]], body.get("bump"))
        return {"revision": self._store.revision, "epoch": self._store.epoch}


def _body(request: Request) -> dict[str, Any]:
    body = json.loads(request.body or b"{}")
    if not isinstance(body, dict):
        raise TypeError("the body must be a JSON object")
    return body
