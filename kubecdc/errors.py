"""The errors of the library, named by what the caller does next.

- KubecdcError
  - Misconfigured: mend the configuration; carries every problem found, exit status 2
  - Unreachable: a server did not answer; check its address, exit status 2
  - Undecodable: drop this record and report it
  - ChainBroken: the log lacks a record that must be there; stop and investigate
"""

from __future__ import annotations


class KubecdcError(Exception):
    """Base of all errors that this library raises on purpose."""


class Misconfigured(KubecdcError):  # noqa: N818 - named by the state, as the tree above shows
    """The configuration cannot work. `problems` holds one sentence for each fault."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class Unreachable(KubecdcError):  # noqa: N818 - as above
    """A server that is needed to begin does not answer."""


class Undecodable(KubecdcError):  # noqa: N818 - as above
    """Bytes that are no record of ours, or of a schema that this version does not know."""


class ChainBroken(KubecdcError):  # noqa: N818 - as above
    """A UID's `seq` or a partition's coverage has a hole: something is missing from what was read."""
