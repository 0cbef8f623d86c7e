"""Several values in one text: what stands between them, and how a value may hold that as well.

Pure. A backslash before the separator keeps it in the value. Backslashes mean something nowhere else, so paths and
passwords need none; before a separator that does separate, they are doubled.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def split(text: str, separator: str) -> list[str]:
    """The values, without space around them and without empty ones."""
    values, begun = [], ""
    at = 0
    for found in re.finditer(rf"(\\*){re.escape(separator)}", text):
        backslashes = len(found[1])
        begun += text[at : found.start()] + found[1][: backslashes // 2]
        at = found.end()
        if backslashes % 2:
            begun += separator
        else:
            values.append(begun)
            begun = ""
    values.append(begun + text[at:])
    return [value.strip() for value in values if value.strip()]


def joined(values: Sequence[str], separator: str) -> str:
    """The text that `split` takes apart into these values, where none is empty or has space around it."""
    kept = [re.sub(rf"(\\*){re.escape(separator)}", lambda m: f"{m[1] * 2}\\{separator}", value) for value in values]
    return "".join(re.sub(r"(\\+)\Z", r"\1\1", value) + separator for value in kept)
