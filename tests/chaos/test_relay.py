"""The hostile relay does what the report says of it: bytes arrive whole, late, in pieces, or not at all."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer

from local.broker import Broker
from local.ports import HOST, free_port
from tests.chaos.relay import DRIBBLED_BYTES, Frames, KafkaRelay, Relay, dribbled


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that sends back what it gets."""
    with socket.create_server((HOST, 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    while data := client.recv(65536):
                        client.sendall(data)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def exchange(port: int, data: bytes) -> bytes:
    with socket.create_connection((HOST, port), timeout=10) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        found = b""
        while piece := client.recv(65536):
            found += piece
        return found


def test_bytes_pass_unchanged_whatever_the_weather(echo: int):
    data = bytes(range(256)) * 40
    with Relay((HOST, echo)) as relay:
        assert exchange(relay.port, data) == data
        relay.dribble(10)
        assert exchange(relay.port, data) == data
        relay.delay(10, 0.01)
        assert exchange(relay.port, data) == data


def test_a_stall_holds_bytes_back_and_lets_them_go(echo: int):
    with Relay((HOST, echo)) as relay:
        relay.stall(0.5)
        began = time.monotonic()
        assert exchange(relay.port, b"held") == b"held"
        assert time.monotonic() - began >= 0.5


def test_a_refusal_cuts_what_is_open_and_ends(echo: int):
    with Relay((HOST, echo)) as relay:
        with socket.create_connection((HOST, relay.port), timeout=10) as client:
            client.sendall(b"x")
            assert client.recv(1) == b"x"
            relay.refuse(60)
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b""  # an end in order, or a reset
        relay.calm()
        assert exchange(relay.port, b"again") == b"again"


def test_dribbled_pieces_make_the_whole():
    data = bytes(5000)
    pieces = list(dribbled(data))
    assert b"".join(pieces) == data
    assert [len(piece) for piece in pieces[:DRIBBLED_BYTES]] == [1] * DRIBBLED_BYTES


def test_frames_are_whole_however_the_bytes_come():
    frames = [b"\0\0\0\3abc", b"\0\0\0\0", b"\0\0\1\0" + bytes(256)]
    cut = Frames()
    found = [frame for byte in b"".join(frames) for frame in cut.feed(bytes([byte]))]
    assert found == frames
    assert Frames().feed(b"".join(frames)) == frames


@pytest.mark.parametrize("cut", [True, False], ids=["cut", "swallowed"])
def test_a_lost_reply_leaves_a_commit_that_is_done(tmp_path, cut: bool):
    """What the client is left with is the doubt that the fence exists for."""
    direct, behind, front, controller = (free_port() for _ in range(4))
    from local.broker import Quorum  # noqa: PLC0415 - beside its only use

    properties = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAYED:PLAINTEXT",
        "listeners": f"PLAINTEXT://{HOST}:{direct},RELAYED://{HOST}:{behind},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{direct},RELAYED://{HOST}:{front}",
        "auto.create.topics.enable": "true",
    }
    broker = Broker(tmp_path, port=direct, properties=properties, quorum=Quorum(1, {1: controller}))
    with broker, KafkaRelay((HOST, behind), front) as relay:
        config = {"bootstrap.servers": f"{HOST}:{front}", "transactional.id": "lost", "log_level": 0}
        producer = Producer(config)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce("topic", b"value")
        producer.flush(20)
        relay.lose_end_txn(cut=cut)
        if cut:
            producer.commit_transaction(30)  # it asks again, and is told that it is done
        else:
            with pytest.raises(KafkaException):
                producer.commit_transaction(2)
        assert relay.lost == 1
