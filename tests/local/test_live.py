"""What arrives is drawn on a terminal, and told in a line now and then elsewhere; what is said stays in both."""

from __future__ import annotations

import io

from rich.console import Console

from kubecdc.records import Op
from local.live import Screen
from local.verdicts import Entry
from tests.local.logs import change, progress

LOG = [Entry(0, 0, change(Op.CREATED, "a", 7, seq=1)), Entry(0, 1, progress(5, 7))]


def test_elsewhere_it_is_lines_without_control_codes() -> None:
    out = io.StringIO()
    with Screen(Console(file=out, width=200)) as screen:
        screen.say("fault: cut [all]")
        for _ in range(3):
            screen.show(LOG)
    lines = out.getvalue().splitlines()
    assert len(lines) == 2  # the same log is not told again
    assert lines[0].endswith("s  fault: cut [all]")
    assert lines[1].endswith("CREATED 1, PROGRESS 1; last: CREATED pods default/name-a at 7")
    assert "\x1b" not in out.getvalue()


def test_on_a_terminal_it_is_a_table() -> None:
    out = io.StringIO()
    with Screen(Console(file=out, width=160, force_terminal=True)) as screen:
        screen.show(LOG)
        screen.say("said")
    assert "default/name-a" in out.getvalue()
    assert "said" in out.getvalue()
