"""Several values in one text: whatever a value holds comes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.separated import joined, split

VALUES = st.text(st.sampled_from("ab=;\\\\ ,"), min_size=1).map(str.strip).filter(bool)


def test_what_separates_and_what_is_kept():
    assert split("a=1; b=2;;", ";") == ["a=1", "b=2"]
    assert split(r"password=x\;y;b=2", ";") == ["password=x;y", "b=2"]
    assert split(r"path=C:\dir\x;b=\\2", ";") == [r"path=C:\dir\x", r"b=\\2"]
    assert split(r"ends=with\\;b=2", ";") == [r"ends=with" + "\\", "b=2"]
    assert split("", ";") == []


@given(st.lists(VALUES))
def test_what_was_joined_comes_back(values: list[str]):
    assert split(joined(values, ";"), ";") == values
