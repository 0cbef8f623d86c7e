"""The checkers see what they must: every planted bug is caught within 200 seeds.

`MUTATIONS` names the decision that each one breaks. Seeds that are likely to show a bug are tried first; a search may
go through all of the 200.
"""

from __future__ import annotations

import pytest

from tests.simulation.judge import run_seed
from tests.simulation.mutations import MUTATIONS, likely, planted

SEEDS = 200


@pytest.mark.parametrize("name", list(MUTATIONS))
@pytest.mark.timeout(900)
def test_a_planted_bug_is_caught(name: str):
    with planted(name):
        assert any(run_seed(seed).failed for seed in likely(name, SEEDS))


def test_a_planted_bug_is_taken_out_again():
    from processors import rules  # noqa: PLC0415 - the function must be looked up now

    before = rules.decide
    with planted("equal_version_is_emitted"):
        assert rules.decide is not before
    assert rules.decide is before
