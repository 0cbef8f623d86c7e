"""All checkers of the guarantees that a canonical log can be held to: one call, one verdict each.

G1 coverage, G2 deletes, G3 order. Pure; each checker is a module of its own that knows nothing of the others' verdicts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from local import check_coverage, check_deletes, check_order
from local.verdicts import Evidence, Notes, Verdict, judge

CHECKERS: Mapping[str, Callable[[Evidence], Notes]] = {
    "G1": check_coverage.check,
    "G2": check_deletes.check,
    "G3": check_order.check,
}


def check_all(evidence: Evidence) -> dict[str, Verdict]:
    """Judge every guarantee; no fault of one checker keeps another from being asked."""
    return {name: judge(name, check, evidence) for name, check in CHECKERS.items()}
