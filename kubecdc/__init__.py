"""Change data capture for Kubernetes: the contract, and the reading of the canonical change log.

Names are imported when they are first used, so that `import kubecdc` costs nothing and touches no other package.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubecdc.blaming import Blame, Field, blame, diff
    from kubecdc.chain import Break, Entry
    from kubecdc.errors import ChainBroken, KubecdcError, Misconfigured, Undecodable, Unreachable
    from kubecdc.folding import GapReport, Resolved, Resource
    from kubecdc.matching import Match
    from kubecdc.reading import History, State, Subscription, gaps, history, replay, state, subscribe
    from kubecdc.records import Cause, Change, Gap, Manager, ObjectOmitted, Op

_HOMES = {
    "Blame": "blaming",
    "Break": "chain",
    "Cause": "records",
    "ChainBroken": "errors",
    "Change": "records",
    "Entry": "chain",
    "Field": "blaming",
    "Gap": "records",
    "GapReport": "folding",
    "History": "reading",
    "KubecdcError": "errors",
    "Manager": "records",
    "Match": "matching",
    "Misconfigured": "errors",
    "ObjectOmitted": "records",
    "Op": "records",
    "Resolved": "folding",
    "Resource": "folding",
    "State": "reading",
    "Subscription": "reading",
    "Undecodable": "errors",
    "Unreachable": "errors",
    "blame": "blaming",
    "diff": "blaming",
    "gaps": "reading",
    "history": "reading",
    "replay": "reading",
    "state": "reading",
    "subscribe": "reading",
}
__all__ = [
    "Blame",
    "Break",
    "Cause",
    "ChainBroken",
    "Change",
    "Entry",
    "Field",
    "Gap",
    "GapReport",
    "History",
    "KubecdcError",
    "Manager",
    "Match",
    "Misconfigured",
    "ObjectOmitted",
    "Op",
    "Resolved",
    "Resource",
    "State",
    "Subscription",
    "Undecodable",
    "Unreachable",
    "blame",
    "diff",
    "gaps",
    "history",
    "replay",
    "state",
    "subscribe",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
