"""Guarantees: long lists are told on a terminal and in a log, short ones are not worth a word."""

from __future__ import annotations

import logging

import pytest

from producer.progress import ListProgress


def test_long_lists_are_logged_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    progress = ListProgress(terminal=False)
    with caplog.at_level(logging.INFO):
        progress("pods", 500, 500)
        assert caplog.messages == []
        for items in range(500, 5000, 500):
            progress("pods", items, 5000 - items)
        progress("pods", 5000, None)
    assert caplog.messages == ["listing pods: 500 items, about 4500 to come", "listed pods: 5000 items"]


def test_a_terminal_shows_bars_and_is_left_clean(capsys: pytest.CaptureFixture[str]) -> None:
    progress = ListProgress(terminal=True)
    progress("pods", 500, 4500)
    progress("nodes", 500, 4500)
    progress("pods", 5000, None)
    progress("nodes", 5000, None)
    progress("pods", 2500, 500)
    progress.close()
    assert capsys.readouterr().out == ""
