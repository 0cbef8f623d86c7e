"""Text from clusters on a terminal: names and details come from whoever may create objects, and are shown, not obeyed.

Pure, and imports nothing: the root of the command line needs it before anything else.
"""

from __future__ import annotations

import re

# Controls move the cursor or set the clipboard, bidi marks reorder what is read; lone surrogates cannot be written.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(text: str) -> str:
    """The text with each character that acts instead of showing as its escape, as `repr` would."""
    return _UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
