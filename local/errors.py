"""What can go wrong with the servers of one machine, by what the user does next.

- `LocalError`: the message is complete; show it and stop
    - `JarsUnavailable`: mend the network or the cache, then try again
    - `BinariesMissing`: get kube-apiserver and etcd, then try again
    - `FolderUnusable`: choose another folder, or mend its permissions
    - `PortTaken`: choose another port
    - `ServerDied`, `NotReady`: read the log that the message names
    - `HistoryLost`: the ground truth has a hole; start it earlier or compact later
"""

from __future__ import annotations


class LocalError(Exception):
    """A server of this machine cannot do what was asked; the text says what to do."""


class JarsUnavailable(LocalError):  # noqa: N818 - named by the state that the user has to mend
    """Kafka's jars, or the Java runtime that runs them, cannot be had."""


class BinariesMissing(LocalError):  # noqa: N818 - as above
    """kube-apiserver or etcd is not where it was looked for."""


class FolderUnusable(LocalError):  # noqa: N818 - as above
    """A folder that servers shall write to cannot be written to."""


class PortTaken(LocalError):  # noqa: N818 - as above
    """Another process listens on the port that was asked for."""


class ServerDied(LocalError):  # noqa: N818 - as above
    """A server ended by itself; the text holds the last lines of its log."""


class NotReady(LocalError):  # noqa: N818 - as above
    """A server runs, but did not answer in time."""


class HistoryLost(LocalError):  # noqa: N818 - as above
    """etcd compacted revisions before they were read."""
