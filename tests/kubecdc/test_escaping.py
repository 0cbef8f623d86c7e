"""What a terminal would obey is shown instead, and everything else stays as it is."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.escaping import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2Jgone", "\\x1b[2Jgone"),
        ("\x1b]52;c;AAAA\x07", "\\x1b]52;c;AAAA\\x07"),
        ("a\tb\nc\rd", "a\\tb\\nc\\rd"),
        ("\x7f\x9b31m", "\\x7f\\x9b31m"),
        ("user\u202egnp.exe\u2066", "user\\u202egnp.exe\\u2066"),
        ("a\u2028b\ud800", "a\\u2028b\\ud800"),
        ("größe 名 😀", "größe 名 😀"),
    ],
)
def test_what_is_shown(text: str, shown: str):
    assert visible(text) == shown


@given(st.text())
def test_nothing_is_left_that_acts(text: str):
    shown = visible(text)
    assert not {"Cc", "Cs", "Zl", "Zp"} & {unicodedata.category(character) for character in shown}
    assert not {"RLO", "LRO", "RLE", "LRE", "PDF", "RLI", "LRI", "FSI", "PDI"} & set(
        map(unicodedata.bidirectional, shown)
    )
