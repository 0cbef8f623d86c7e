"""What the scripted server answers outside the script: refusals, tokens, discovery, single objects.

It waits for nothing and counts nothing; which requests are steps is the business of `tests.cases.script`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tests.cases import bodies
from tests.cases.loader import REQUESTS, Case, Lane, lane_of


@dataclass(frozen=True, slots=True)
class Refused:
    """Answer this status."""

    code: int
    reason: str = ""


class Outside:
    """All of it for one play. Methods may be called from any thread."""

    def __init__(self, case: Case, token: str) -> None:
        self.watchlist = bool(case.settings["watchlist"])
        self._resources = case.resources
        self._lock = threading.Lock()
        self._refusals: dict[Lane, tuple[frozenset[str], int]] = {}
        self._token = token
        self._served = case.resources
        self._unread: set[str] = set()
        self._shown: dict[tuple[str, str, str], dict[str, Any]] = {}

    def refuse(self, step: Mapping[str, Any]) -> None:
        """From now on refuse the lane's requests of these verbs, whoever asks."""
        with self._lock:
            self._refusals[self._anyone(step)] = (frozenset(step.get("verbs") or REQUESTS), step["status"])

    def accept(self, step: Mapping[str, Any]) -> None:
        """End a refusal."""
        with self._lock:
            self._refusals.pop(self._anyone(step), None)

    def accept_token(self, token: str) -> None:
        """From now on only this token is good."""
        with self._lock:
            self._token = token

    def refusal(self, lane: Lane, kind: str, token: str) -> Refused | None:
        """How a request is refused, None if it is not."""
        with self._lock:
            if token != self._token:
                return Refused(401)
            verbs, code = self._refusals.get(replace(lane, by=""), (frozenset(), 0))
            return Refused(code) if kind in verbs else None

    def known_token(self, token: str) -> bool:
        """The token is the one that is good now."""
        with self._lock:
            return token == self._token

    def serve(self, resources: tuple[str, ...]) -> None:
        """From now on discovery shows these resources."""
        with self._lock:
            self._served = resources
            self._unread = bodies.documents(resources)

    def discovered(self) -> bool:
        """Discovery has been read once since it changed."""
        with self._lock:
            return not self._unread

    def discovery(self, path: str) -> bytes | None:
        """A discovery document, None where there is none."""
        with self._lock:
            document = bodies.discovery(path, self._served)
            if path == "/api":  # a reader begins here: what it read before this belongs to an earlier round
                self._unread = bodies.documents(self._served) if self._unread else set()
            self._unread.discard(path)
            return document

    def show(self, resource: str, objects: list[dict[str, Any]]) -> None:
        """These objects have been shown."""
        head = {"kind": bodies.kind(resource), "apiVersion": bodies.api_version(resource)}
        with self._lock:
            for obj in objects:
                metadata = obj["metadata"]
                self._shown[resource, metadata["namespace"], metadata["name"]] = head | obj

    def shown(self, resource: str, ns: str, name: str) -> dict[str, Any] | None:
        """An object as the script last showed it."""
        with self._lock:
            return self._shown.get((resource, ns, name))

    def _anyone(self, step: Mapping[str, Any]) -> Lane:
        return replace(lane_of(step, self._resources), by="")
