"""resourceVersions compare as KEP-5504 says; the vectors restate its resourceversion_test.go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubecdc.versions import MalformedVersion, compare, newer, not_newer, order, well_formed

NINES = "9" * 50
TEN_TO_50 = "1" + "0" * 50
versions = st.integers(1, 2**128).map(str)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("100", "200", -1),
        ("200", "100", 1),
        ("1", "1", 0),
        ("100", "100", 0),
        ("99", "100", -1),
        ("100", "99", 1),
        (NINES, TEN_TO_50, -1),
        (TEN_TO_50, NINES, 1),
        (NINES, NINES, 0),
    ],
)
def test_vectors_of_the_kep(one: str, other: str, expected: int):
    assert compare(one, other) == expected


@pytest.mark.parametrize(
    "malformed",
    [
        "",
        "0",
        "00",
        "0100",
        "100a",
        "a",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1\n",
        "\uff11",
        "\u0661",
        "1_000",
        "1e3",
        "1.0",
        "0x1",
    ],
)
def test_what_is_no_version_is_refused_on_either_side_and_when_equal(malformed: str):
    assert not well_formed(malformed)
    for one, other in ((malformed, "100"), ("100", malformed), (malformed, malformed)):
        with pytest.raises(MalformedVersion):
            compare(one, other)


@pytest.mark.parametrize("value", [None, 1, 1.0, b"1", ["1"]])
def test_only_text_is_a_version(value: object):
    assert not well_formed(value)


@given(versions, versions)
def test_order_is_that_of_the_numbers(one: str, other: str):
    expected = (int(one) > int(other)) - (int(one) < int(other))
    assert compare(one, other) == expected
    assert (order(one) > order(other)) - (order(one) < order(other)) == expected
    assert newer(one, other) == (expected > 0)
    assert not_newer(one, other) == (expected <= 0)


def test_anything_is_newer_than_nothing():
    assert newer("1", None)
    assert not not_newer("1", None)
