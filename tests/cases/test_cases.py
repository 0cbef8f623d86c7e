"""Every case of the shared folder, and of `own`, played against the real producer and processor: the log is as it says.

The guarantees G1 to G5 and G7 hold in each of them (cases/README.md 5). NOT_YET names cases that are known to fail, and
why; one that begins to pass fails here, so that the list stays true.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases import loader
from tests.cases.compare import compare
from tests.cases.harness import Harness

NOT_YET: dict[str, str] = {}
OWN = Path(__file__).parent / "own"
SHARED = loader.files(loader.folder())
FILES = [*SHARED, *loader.files(OWN)]


def _plays():
    for path in FILES:
        try:
            case = loader.load(path)
        except loader.CaseError as error:
            yield pytest.param(error, None, id=path.stem)
            continue
        marks = [pytest.mark.xfail(reason=NOT_YET[case.id], strict=True)] if case.id in NOT_YET else []
        for point in case.crash_points or (None,):
            yield pytest.param(case, point, id=f"{case.id}-{point}" if point else case.id, marks=marks)


def test_the_cases_are_there():
    """Those of `own` are played everywhere; the shared ones lie beside the checkout, and in CI they must."""
    missing = f"no cases in {loader.folder()}: set {loader.FOLDER_VARIABLE} to the folder of the case files"
    if not SHARED and os.environ.get("CI") != "true":
        pytest.skip(missing)
    assert SHARED, missing


def test_not_yet_names_cases_that_exist():
    assert set(NOT_YET) <= {path.stem for path in FILES}


@pytest.mark.parametrize(("case", "crash_at"), list(_plays()))
def test_case(case, crash_at, tmp_path, capfd):
    if isinstance(case, loader.CaseError):
        raise case
    outcome = Harness(case, tmp_path, crash_at).play()
    printed = capfd.readouterr()
    left = [*outcome.left, ("standard output", printed.out.encode()), ("standard error", printed.err.encode())]
    wrong = compare(case, replace(outcome, left=left))
    assert not wrong, "\n".join(wrong)
