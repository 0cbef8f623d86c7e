"""Kafka's start-up cache is made once, is used, and costs nobody a broker where it cannot be made."""

from __future__ import annotations

from pathlib import Path

import pytest

from local import aot, broker, jars
from local.broker import Broker
from local.errors import NotReady


@pytest.fixture
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jars.cache_folder().mkdir()


@pytest.mark.usefixtures("_own_folder")
def test_it_is_made_once_for_each_command() -> None:
    made: list[Path] = []
    said: list[str] = []

    def make(path: Path) -> None:
        made.append(path)
        path.write_bytes(b"classes")

    first = aot.cache(["java", "a.jar"], make, said.append)
    assert first is not None
    assert first.read_bytes() == b"classes"
    assert aot.cache(["java", "a.jar"], make, said.append) == first
    assert aot.cache(["java", "b.jar"], make) != first
    assert (len(made), len(said)) == (2, 1)
    assert not any(path.exists() for path in made), "what is being made lies beside, until it is whole"


@pytest.mark.usefixtures("_own_folder")
def test_where_it_cannot_be_made_there_is_none_and_nobody_tries_again(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[Path] = []

    def make(path: Path) -> None:
        asked.append(path)
        path.write_bytes(b"half of the clas")
        raise NotReady("Kafka on 127.0.0.1:1 did not answer")

    assert aot.cache(["java", "a.jar"], make) is None
    assert aot.cache(["java", "a.jar"], make) is None
    assert len(asked) == 1
    assert "did not answer" in caplog.text
    assert "delete " in caplog.text
    assert not asked[0].exists()


@pytest.mark.usefixtures("_own_folder")
def test_caches_of_installations_that_are_gone_do_not_pile_up() -> None:
    caches = [aot.cache(["java", str(number)], lambda path: path.write_bytes(b"x") and None) for number in range(9)]
    assert len(list(jars.cache_folder().glob("*.aot"))) == aot.KEPT
    assert caches[-1] is not None
    assert caches[-1].exists()


def test_a_broker_runs_on_it(kafka_broker: Broker) -> None:
    """Java maps the cache that fits, and warns of one that does not."""
    mapped = Path(f"/proc/{kafka_broker.pid}/maps").read_text(encoding="utf-8")
    assert ".aot" in mapped
    assert "[warning][aot" not in kafka_broker.log.read_text(encoding="utf-8")


def test_what_java_was_killed_over_is_no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half = tmp_path / "half.aot"
    half.write_bytes(b"half of the clas")
    monkeypatch.setattr(broker, "_TRAINING_SECONDS", 0.0)
    with pytest.raises(NotReady, match="not to its end"):
        broker._train(half)
