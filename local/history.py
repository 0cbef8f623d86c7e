"""The ground truth: what etcd committed, read from etcd's own history, not from an API server.

`HistoryRecorder` follows etcd's watch and keeps one small record for each commit below `/registry/`.
It decides what object a commit was about; it does not decide what a consumer should have seen. It
needs a kube-apiserver that stores JSON (`--storage-media-type=application/json`), and says so when it
meets another encoding.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

from local import etcd
from local.errors import HistoryLost, LocalError, NotReady

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ROOT = "/registry/"
_EVERYTHING = {"key": etcd.encode(b"\0"), "range_end": etcd.encode(b"\0")}
_RECONNECT_SECONDS = 0.2

# Where kube-apiserver's storage path is not the resource's name (pkg/registry/core and others).
_STORED_AS = {
    "minions": "nodes",
    "controllers": "replicationcontrollers",
    "services/specs": "services",
    "services/endpoints": "endpoints",
    "ingress": "ingresses",
}
# Bookkeeping of the API server itself: stored as objects, served as no resource.
_NOT_SERVED = ("masterleases/", "ranges/", "peerserverleases/")


@dataclass(frozen=True, slots=True)
class Committed:
    """One commit: the object `uid` was written (PUT) or removed (DELETE) at revision `rv`.

    `rv` is a decimal string, as in `metadata.resourceVersion` and in the watch event of the commit;
    `group` is empty for the core group, `namespace` for what has none.
    """

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    rv: str
    kind: Literal["PUT", "DELETE"]


class HistoryRecorder:
    """Follows etcd from the oldest revision it still has, in a thread, over reconnections.

    Nothing is lost while etcd restarts. `HistoryLost` is raised by the readers when etcd compacted
    revisions that were not yet read: `wait_for` a revision before compacting at it.
    """

    def __init__(self, etcd_url: str) -> None:
        self._url = etcd_url
        self._changed = threading.Condition()
        self._records: list[Committed] = []
        self._first = 1
        self._seen = 0
        self._error: LocalError | None = None
        self._stopping = threading.Event()
        self._connection: http.client.HTTPConnection | None = None
        self._thread = threading.Thread(target=self._follow, name="etcd-history", daemon=True)

    def start(self) -> Self:
        """Begin to follow; returns at once."""
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop following; the records stay readable."""
        self._stopping.set()
        with self._changed:
            connection = self._connection
        sock = connection.sock if connection is not None else None
        if sock is not None:
            with contextlib.suppress(OSError):  # etcd may have closed it already
                sock.shutdown(socket.SHUT_RDWR)  # wakes the thread from its read
        self._thread.join()

    @property
    def first_revision(self) -> int:
        """Where the records begin: 1, or what followed the compaction that was met at the start."""
        with self._changed:
            return self._first

    def wait_for(self, revision: int, timeout_seconds: float = 30.0) -> None:
        """Return when everything up to and including `revision` is recorded.

        Each revision of etcd is a change of some key, so a revision that was seen proves all below
        it. Raises `NotReady` after the timeout, `HistoryLost` when a part cannot be had any more.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._seen >= revision or self._error is not None, timeout_seconds):
                raise NotReady(
                    f"etcd's history was read up to revision {self._seen}, not to {revision}, "
                    f"within {timeout_seconds:.0f} s"
                )
            self._raise_error()

    def records(self) -> tuple[Committed, ...]:
        """Return all commits so far, in the order of their revisions."""
        with self._changed:
            self._raise_error()
            return tuple(self._records)

    def records_for(self, group: str, resource: str) -> tuple[Committed, ...]:
        """Return the commits of one resource so far, in the order of their revisions."""
        return tuple(record for record in self.records() if record.group == group and record.resource == resource)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise type(self._error)(*self._error.args) from self._error

    def _follow(self) -> None:
        reader = _Reader()
        while not self._stopping.is_set():
            try:
                self._read(reader)
            except (OSError, http.client.HTTPException, ValueError):
                pass  # etcd is away, or broke off a line: go on after the last whole revision
            except LocalError as error:
                with self._changed:
                    self._error = error
                    self._changed.notify_all()
                return
            self._stopping.wait(_RECONNECT_SECONDS)

    def _read(self, reader: _Reader) -> None:
        connection = etcd.connect(self._url, timeout_seconds=None)
        try:
            connection.connect()
            with self._changed:
                self._connection = connection
            if self._stopping.is_set():
                return
            for result in _watch(connection, reader.next_revision):
                records = reader.read(result)
                with self._changed:
                    self._records.extend(records)
                    self._first = reader.first_revision
                    self._seen = reader.next_revision - 1
                    self._changed.notify_all()
                if result.get("canceled"):
                    return
        finally:
            connection.close()


def read_history(etcd_url: str, timeout_seconds: float = 60.0) -> tuple[Committed, ...]:
    """Read all that etcd still has, up to the revision that is newest at the call."""
    upto = etcd.revision(etcd_url)
    with HistoryRecorder(etcd_url) as recorder:
        recorder.wait_for(upto, timeout_seconds)
        return tuple(record for record in recorder.records() if int(record.rv) <= upto)


def _watch(connection: http.client.HTTPConnection, start: int) -> Iterator[dict[str, Any]]:
    """Yield the results of one watch from revision `start` until the stream ends."""
    request = {**_EVERYTHING, "start_revision": str(start), "prev_kv": True}
    connection.request("POST", "/v3/watch", json.dumps({"create_request": request}))
    response = connection.getresponse()
    while line := response.readline():
        message = json.loads(line)
        if "result" not in message:
            raise ConnectionError(f"etcd ended its watch: {message}")
        yield message["result"]


class _Reader:
    """Turns watch results into records; remembers where to go on and whom a key belongs to."""

    def __init__(self) -> None:
        self.first_revision = 1
        self.next_revision = 1
        self._owners: dict[str, Committed] = {}

    def read(self, result: Mapping[str, Any]) -> list[Committed]:
        """Return the records of one result.

        etcd never splits a revision over results unless asked to (`fragment`), so after each
        the next revision is whole.
        """
        compacted = int(result.get("compact_revision", 0))
        if compacted:
            self._skip_compacted(compacted)
        records = []
        for event in result.get("events", ()):
            self.next_revision = int(event["kv"]["mod_revision"]) + 1
            record = self._record(event)
            if record is not None:
                records.append(record)
        return records

    def _skip_compacted(self, compacted: int) -> None:
        # A reader that has read nothing begins where history begins; any other has a hole.
        if 1 < self.next_revision <= compacted:
            raise HistoryLost(
                f"etcd compacted its history up to revision {compacted}, but it was read only up to "
                f"{self.next_revision - 1}: wait for the recorder before compacting"
            )
        if self.next_revision == 1:
            self.first_revision = self.next_revision = compacted + 1

    def _record(self, event: Mapping[str, Any]) -> Committed | None:
        key = etcd.decode(event["kv"]["key"]).decode()
        path = key.removeprefix(_ROOT)
        if path == key or path.startswith(_NOT_SERVED):
            return None
        rv = event["kv"]["mod_revision"]
        if event.get("type") != "DELETE":
            owner = describe(path, etcd.decode(event["kv"].get("value", "")), rv)
            self._owners[key] = owner
            return owner
        before = self._owners.pop(key, None)
        if before is None:  # written before history begins: etcd then still has the last version
            value = event.get("prev_kv", {}).get("value")
            if value is None:
                raise HistoryLost(f"etcd removed {key} at {rv}, and no longer tells what it was")
            before = describe(path, etcd.decode(value), rv)
        return Committed(before.group, before.resource, before.namespace, before.name, before.uid, rv, "DELETE")


def describe(path: str, value: bytes, rv: str) -> Committed:
    """Tell what a stored value is: `path` is its key below `/registry/`.

    Keys are `[group/]resource/[namespace/]name`, with the group only for CRDs and a few others, so
    group, namespace and name come from the value. Raises `LocalError` for what is not JSON.
    """
    try:
        stored = json.loads(value)
        metadata = stored["metadata"]
        group = stored["apiVersion"].rpartition("/")[0]
        namespace, name, uid = metadata.get("namespace", ""), metadata["name"], metadata["uid"]
    except (ValueError, KeyError, TypeError) as error:
        raise LocalError(
            f"/registry/{path} holds no JSON object with a name and a uid: the ground truth needs a "
            "kube-apiserver started with --storage-media-type=application/json"
        ) from error
    suffix = f"/{namespace}/{name}" if namespace else f"/{name}"
    folder = path.removesuffix(suffix)
    resource = _STORED_AS.get(folder) or folder.rpartition("/")[2]
    return Committed(group, resource, namespace, name, uid, rv, "PUT")
