"""The registry client over real HTTP: ids both ways, and a registry that is away never makes a record a bad one."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kubecdc import registry as registry_module
from kubecdc.codec import Codec, schema_text
from kubecdc.errors import Misconfigured, Undecodable, Unreachable
from kubecdc.records import Position, Progress, StreamState, UidState
from kubecdc.registry import Registry
from tests.kubecdc.registries import MemoryRegistry, memory_registry


@pytest.fixture
def server() -> Iterator[MemoryRegistry]:
    with memory_registry() as running:
        yield running


def test_a_schema_has_one_id_and_comes_back(server: MemoryRegistry):
    registry, text = Registry(server.url), schema_text("change")
    number = registry.id_of("t-value", text)
    assert registry.id_of("t-value", text) == number
    assert Registry(server.url).schema_of(number) == text
    assert server.subjects == {"t-value": [number]}


def test_records_travel_with_ids_of_the_topic_s_subject(server: MemoryRegistry):
    position = Position("c", "", "pods", "", 1, "5", "v1", "s", 9)
    value = Codec("k.positions", Registry(server.url)).encode(position)
    assert value[:5] == b"\0\0\0\0\1"
    assert list(server.subjects) == ["k.positions-value"]
    reader = Codec("k.positions", Registry(server.url))
    assert reader.decode(value) == reader.decode(value) == position


def test_records_that_share_a_topic_have_subjects_of_their_own(server: MemoryRegistry):
    """A registry refuses another record under the subject of the first (NAME_MISMATCH), and the worker with it."""
    codec = Codec("k.state", Registry(server.url))
    codec.register(UidState, StreamState, Progress)
    assert sorted(server.subjects) == [
        "k.state-io.kubecdc.Progress",
        "k.state-io.kubecdc.StreamState",
        "k.state-io.kubecdc.UidState",
    ]
    assert Codec("k.state", Registry(server.url)).decode(codec.encode(Progress(7))) == Progress(7)
    with pytest.raises(Misconfigured, match="409 incompatible with an earlier schema: NAME_MISMATCH"):
        Registry(server.url).id_of("k.state-io.kubecdc.Progress", schema_text("change"))


def test_what_is_registered_at_the_start_is_not_asked_for_again(server: MemoryRegistry):
    registry = Registry(server.url)
    Codec("k.state", registry).register(Progress)
    server.refuse = 503
    assert Codec("k.state", registry).encode(Progress(7))


def test_a_registry_that_takes_the_connection_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry_module, "ANSWER_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"http://127.0.0.1:{mute.getsockname()[1]}"
        with pytest.raises(Unreachable, match=r"does not answer \(ReadTimeout\): check the address"):
            Registry(url).schema_of(1)


def test_an_id_that_nobody_knows_is_undecodable(server: MemoryRegistry):
    with pytest.raises(Undecodable, match="knows no schema id 9"):
        Registry(server.url).schema_of(9)


@pytest.mark.parametrize(
    ("status", "told"), [(500, "answers 500 refused$"), (401, "answers 401 refused: check the user and the password")]
)
def test_a_registry_that_fails_is_unreachable_and_the_record_is_not_blamed(
    status: int, told: str, server: MemoryRegistry
):
    value = Codec("t", Registry(server.url)).encode(Progress(7))
    server.refuse = status
    reader = Codec("t", Registry(server.url))
    with pytest.raises(Unreachable, match=f"Schema Registry {server.url} {told}"):
        reader.decode(value)
    server.refuse = 0
    assert reader.decode(value) == Progress(7)


def test_a_registry_that_refuses_a_schema_is_told(server: MemoryRegistry):
    server.refuse = 409
    with pytest.raises(Misconfigured, match="refuses t-value: 409 refused"):
        Registry(server.url).id_of("t-value", schema_text("change"))


def test_no_message_has_the_credentials():
    with memory_registry() as gone:
        url = gone.url.replace("http://", "http://user:hunter2@")
    for call in (lambda: Registry(url).id_of("t-value", '"string"'), lambda: Registry(url).schema_of(1)):
        with pytest.raises(Unreachable) as caught:
            call()
        assert "hunter2" not in str(caught.value)
        assert gone.url in str(caught.value)


def test_the_client_is_loaded_when_needed_and_without_warnings():
    code = (
        "import sys, kubecdc.registry as r; assert 'confluent_kafka.schema_registry' not in sys.modules;"
        "r.Registry('http://127.0.0.1:9')"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (result.stdout, result.stderr) == ("", "")
