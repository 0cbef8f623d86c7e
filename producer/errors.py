"""The errors of the producer, named by what the caller does next.

- ProducerError
  - SinkFailed: records cannot be written any more; end the process, positions say where to begin again
  - SessionFailed: a session met a fault of ours; end the process rather than leave one kind unwatched

Wrong configuration and servers that do not answer at the start are `kubecdc.errors.Misconfigured` and `Unreachable`.
"""

from __future__ import annotations


class ProducerError(Exception):
    """Base of all errors that the producer raises on purpose."""


class SinkFailed(ProducerError):  # noqa: N818 - named by the state, as the tree above shows
    """The sink can never write again, or was closed."""


class SessionFailed(ProducerError):  # noqa: N818 - as above
    """A session thread ended with an exception; the cause is attached."""
