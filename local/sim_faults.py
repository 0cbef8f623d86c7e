"""The fault switchboard of the simulated API server: what goes wrong, where, and how often.

Decides: which fault hits which request or open stream, and counts each that fired. Deliberately
does not know how a fault is carried out (`sim_server` and `sim_watch` do that).
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_HALF_A_FRAME = '{"type":"MODIFIED","object":{"metadata":{"name":'

# name -> its options with their defaults. Every fault also takes `verb` ("list" or "watch").
FAULTS: Mapping[str, Mapping[str, Any]] = {
    # mode: "status" for new watches only, "close" is the 410 that shows as nothing; lists are hit only
    # where `verb` says so, since it is a list that has to mend a 410.
    "expired_410": {"mode": "stream"},
    "cut": {"after_bytes": 0},  # reset the connection after so many more bytes of the body
    "mute": {"seconds": None},  # the stream stays open and silent, for ever when None
    "duplicate": {},  # the frame is sent twice
    "late": {"seconds": 1.0},  # the answer, or the frame, comes later
    "throttle_429": {"retry_after": 1},
    "error_500": {"message": "etcdserver: leader changed"},
    "instant_close": {},  # 200 and the end
    "forbidden_403": {},
    "unauthorized_401": {},
    "garbage": {"data": _HALF_A_FRAME},  # sent in place of the next frame, or of the list
}

_VERBS = ("", "list", "watch")
_MODES = ("status", "stream", "close")


@dataclass(slots=True)
class Fault:
    """One scripted fault. `remaining` None: until cleared. `over` is set once it is cleared."""

    name: str
    resource: str
    remaining: int | None
    verb: str
    options: dict[str, Any] = field(default_factory=dict)
    over: bool = False

    def hits(self, resource: str, verb: str) -> bool:
        """Say whether a request for `pods` or `deployments.apps` is meant."""
        return self.resource in ("*", resource) and self.verb in ("", verb)

    def show(self) -> dict[str, Any]:
        """Return the fault as JSON, as it can be set again."""
        shown = {"name": self.name, "resource": self.resource, "count": self.remaining}
        return shown | ({"verb": self.verb} if self.verb else {}) | self.options


class Faults:
    """All faults in force. Safe to use from several threads; `on_change` is called after a change.

    Faults of the same kind apply in the order in which they were set.
    """

    def __init__(self, on_change: Callable[[], None] = lambda: None) -> None:
        self._on_change = on_change
        self._lock = threading.Lock()
        self._faults: list[Fault] = []
        self._fired: Counter[str] = Counter()

    def set(
        self,
        name: str,
        resource: str = "*",
        count: int | None = None,
        *,
        verb: str = "",
        **options: Any,
    ) -> Fault:
        """Put a fault in force for `count` times, or until cleared.

        `resource` is `*`, `pods`, or `deployments.apps`. Raises ValueError, naming what is
        allowed, for a fault or an option that does not exist.
        """
        fault = _checked(name, resource, count, verb, options)
        with self._lock:
            self._faults.append(fault)
        self._on_change()
        return fault

    def clear(self, name: str | None = None, resource: str | None = None) -> None:
        """End faults: all, those of a name, those of a resource."""
        with self._lock:
            for fault in self._faults:
                named = name in (None, fault.name)
                fault.over |= named and resource in (None, fault.resource)
            self._faults = [fault for fault in self._faults if not fault.over]
        self._on_change()

    def take(
        self,
        names: tuple[str, ...],
        resource: str,
        verb: str,
        suits: Callable[[Fault], bool] = lambda _: True,
    ) -> Fault | None:
        """Return the first fault in force among `names` that hits and suits; count it as fired."""
        with self._lock:
            for fault in self._faults:
                meant = fault.name in names and fault.remaining != 0 and fault.hits(resource, verb)
                if meant and suits(fault):
                    if fault.remaining is not None:
                        fault.remaining -= 1
                    self._fired[fault.name] += 1
                    return fault
        return None

    @property
    def fired(self) -> dict[str, int]:
        """How often each fault has fired since the start."""
        with self._lock:
            return dict(self._fired)

    def active(self) -> list[dict[str, Any]]:
        """Return the faults that can still fire, as JSON."""
        with self._lock:
            return [fault.show() for fault in self._faults if fault.remaining != 0]


def _checked(name: str, resource: str, count: int | None, verb: str, options: dict[str, Any]) -> Fault:
    known = FAULTS.get(name)
    if known is None:
        raise ValueError(f"unknown fault {name!r}: use one of {', '.join(sorted(FAULTS))}")
    if strange := sorted(options.keys() - known.keys()):
        allowed = ", ".join(("verb", *known))
        raise ValueError(f"fault {name} has no option {', '.join(strange)}: it takes {allowed}")
    if verb not in _VERBS:
        raise ValueError(f"verb {verb!r} of fault {name} must be list, watch, or empty for both")
    if options.get("mode", "stream") not in _MODES:
        raise ValueError(f"mode {options['mode']!r} must be one of {', '.join(_MODES)}")
    if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
        raise ValueError(f"count {count!r} of fault {name} must be a whole number from 1, or null")
    for option in ("seconds", "after_bytes", "retry_after"):
        value = options.get(option)
        if value is not None and (not isinstance(value, int | float) or value < 0):
            raise ValueError(f"{option} {value!r} of fault {name} must be a number from 0")
    return Fault(name, resource, count, verb, dict(known) | options)
