"""All checkers: one call, one verdict each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from local.verdicts import Notes, Verdict
from tests.checkers import (
    accounting,
    consumer,
    convergence,
    coverage,
    deletes,
    gaps,
    labels,
    lists,
    offsets,
    order,
    transactions,
)
from tests.checkers.history import History, judge


def errors(history: History) -> Notes:
    """No process of ours ended by an error of its own."""
    return Notes(1, list(history.faults))


CHECKERS: Mapping[str, Callable[[History], Notes]] = {
    "G1 coverage": coverage.check,
    "G1 gaps": gaps.check,
    "G2 deletes": deletes.check,
    "G3 order": order.check,
    "G4 labels": labels.check,
    "G5 lists": lists.check,
    "G8 convergence": convergence.check,
    "offsets": offsets.check,
    "accounting": accounting.check,
    "transactions": transactions.check,
    "consumer": consumer.check,
    "errors": errors,
}


def check_all(history: History) -> dict[str, Verdict]:
    """Judge every guarantee; no fault of one checker keeps another from being asked."""
    return {name: judge(name, check, history) for name, check in CHECKERS.items()}
