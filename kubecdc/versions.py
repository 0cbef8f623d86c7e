"""Exact comparison of resourceVersions, as KEP-5504 defines it.

A version is a decimal string of any length: longer is greater, equal length compares by bytes. It is never an
integer here: servers use up to 128 bits, and Python's `int` accepts spellings that are no versions.
"""

from __future__ import annotations


class MalformedVersion(ValueError):  # noqa: N818 - named by what was found, as in the KEP's error
    """A resourceVersion that is empty, zero, padded, signed or holds anything but ASCII digits."""


def well_formed(rv: object) -> bool:
    """Tell whether `rv` may be compared at all."""
    return isinstance(rv, str) and rv.isascii() and rv.isdigit() and rv[0] != "0"


def order(rv: str) -> tuple[int, str]:
    """Sort key of a well-formed version; call `well_formed` or `compare` at the border first."""
    return len(rv), rv


def compare(one: str, other: str) -> int:
    """Return -1, 0 or 1. Raises MalformedVersion for either side, even when both strings are equal."""
    for rv in (one, other):
        if not well_formed(rv):
            raise MalformedVersion(f"resourceVersion {rv!r} is not a positive decimal number")
    return (order(one) > order(other)) - (order(one) < order(other))


def newer(one: str, other: str | None) -> bool:
    """`one` is strictly greater, or there is nothing to compare with. Both are well formed."""
    return other is None or (len(one), one) > (len(other), other)


def not_newer(one: str, other: str | None) -> bool:
    """`one` is at or below `other`; nothing is at or below None."""
    return other is not None and (len(one), one) <= (len(other), other)
