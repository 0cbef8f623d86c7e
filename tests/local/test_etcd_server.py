"""The real etcd: its data outlive a stop, a snapshot is a past that can be gone back to, failures name themselves."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from local import etcd, ports
from local.errors import LocalError, PortTaken, ServerDied
from local.etcd_server import EtcdServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def server(envtest_folder: Path, tmp_path: Path) -> Iterator[EtcdServer]:
    server = EtcdServer(tmp_path, envtest_folder / "etcd")
    server.start()
    yield server
    server.stop()


def call(server: EtcdServer, path: str, **body: Any) -> dict[str, Any]:
    with closing(etcd.connect(server.url)) as connection:
        connection.request("POST", path, json.dumps(body))
        return dict(json.loads(connection.getresponse().read()))


def put(server: EtcdServer, key: bytes, value: bytes) -> int:
    answer = call(server, "/v3/kv/put", key=etcd.encode(key), value=etcd.encode(value))
    return int(answer["header"]["revision"])


def value(server: EtcdServer, key: bytes) -> bytes | None:
    found = call(server, "/v3/kv/range", key=etcd.encode(key)).get("kvs")
    return etcd.decode(found[0]["value"]) if found else None


def test_data_and_address_outlive_a_stop(server: EtcdServer) -> None:
    url, at = server.url, put(server, b"k", b"v")
    server.stop()
    assert not server.alive
    assert not etcd.is_ready(url)
    server.stop()  # nothing happens
    server.start()
    assert (server.url, server.alive, etcd.revision(url)) == (url, True, at)
    assert value(server, b"k") == b"v"


def test_restore_goes_back_in_data_and_revisions(server: EtcdServer, tmp_path: Path) -> None:
    at = put(server, b"kept", b"1")
    server.snapshot(tmp_path / "snapshot")
    assert put(server, b"lost", b"1") == at + 1  # etcd goes on after it was copied
    server.restore(tmp_path / "snapshot")
    assert etcd.revision(server.url) == at
    assert (value(server, b"kept"), value(server, b"lost")) == (b"1", None)
    assert put(server, b"other", b"1") == at + 1  # the revision is given out again
    server.restore(tmp_path / "snapshot")  # and can be gone back to more than once
    assert (etcd.revision(server.url), value(server, b"other")) == (at, None)


def test_snapshot_that_is_not_there_leaves_everything_as_it_is(server: EtcdServer, tmp_path: Path) -> None:
    at = put(server, b"k", b"v")
    with pytest.raises(LocalError, match=r"cannot copy etcd's data from .*no-such"):
        server.restore(tmp_path / "no-such")
    assert (server.alive, etcd.revision(server.url), value(server, b"k")) == (True, at, b"v")


def test_snapshot_is_never_written_over_another_and_etcd_goes_on(server: EtcdServer, tmp_path: Path) -> None:
    (tmp_path / "snapshot").mkdir()
    with pytest.raises(LocalError, match="cannot copy etcd's data"):
        server.snapshot(tmp_path / "snapshot")
    assert put(server, b"k", b"v") > 0


def test_etcd_that_is_down_cannot_be_copied(envtest_folder: Path, tmp_path: Path) -> None:
    server = EtcdServer(tmp_path, envtest_folder / "etcd")
    with pytest.raises(LocalError, match=r"call start\(\)"):
        server.snapshot(tmp_path / "snapshot")


def test_taken_port_is_refused(envtest_folder: Path, tmp_path: Path) -> None:
    server = EtcdServer(tmp_path, envtest_folder / "etcd")
    with socket.create_server((ports.HOST, int(server.url.rpartition(":")[2]))), pytest.raises(PortTaken, match="etcd"):
        server.start()
    assert not server.alive


def test_data_that_etcd_cannot_read_end_it_with_its_log(server: EtcdServer, tmp_path: Path) -> None:
    server.stop()
    database = next((tmp_path / "etcd").rglob("db"))
    database.write_bytes(b"not a database")
    with pytest.raises(ServerDied, match=r"(?s)etcd ended at its start.*etcd\.log"):
        server.start()
