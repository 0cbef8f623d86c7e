"""Discovery and Kafka are told when they are silent, each in its own words, and do not end each other's silence."""

from __future__ import annotations

import pytest

from kubecdc import unheard
from kubecdc.errors import Unreachable
from producer.ears import Ears
from producer.metrics import Metrics


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unheard, "ALERT_S", 0.0)


def away() -> None:
    raise Unreachable("it does not answer")


def test_what_is_heard_is_passed_on_and_is_no_silence() -> None:
    ears = Ears(Metrics(), 0.0, str)
    assert ears.discovery(lambda: 5) == 5
    assert ears.positions(lambda: None)
    ears.look(0, 3)
    assert ears.unready() == ()


def test_each_is_named_apart_and_heard_again_apart() -> None:
    metrics = Metrics()
    ears = Ears(metrics, 0.0, lambda: "the broker is down")
    assert ears.discovery(away) is None
    assert not ears.positions(away)
    ears.look(7, 0)
    ears.look(7, 0)
    discovery, positions, records = ears.unready()
    assert discovery.startswith("discovery: the API server's kinds cannot be read")
    assert positions.startswith("Kafka: stored positions cannot be read")
    assert "Kafka: nothing is acknowledged" in records
    assert "7 records and positions wait; the broker is down" in records
    ears.look(7, 1)
    assert ears.discovery(lambda: "seen") == "seen"
    assert len(ears.unready()) == 1
    assert ears.positions(lambda: None)
    assert ears.unready() == ()
    assert metrics.value("kafka_unheard_seconds") == metrics.value("unheard_seconds") == 0


def test_who_leaves_lets_no_silence_grow() -> None:
    """The next term of office counts in the same metrics."""
    metrics = Metrics()
    ears = Ears(metrics, 0.0, str)
    ears.discovery(away)
    ears.positions(away)
    ears.leave()
    assert ears.unready() == ()
    samples = [
        sample for gauge in (metrics.unheard, metrics.kafka_unheard) for sample in next(iter(gauge.collect())).samples
    ]
    assert samples == []


def test_a_short_silence_is_no_reason_not_to_be_ready() -> None:
    ears = Ears(Metrics(), 60.0, str)
    ears.discovery(away)
    assert ears.unready() == ()


def test_a_fault_of_ours_is_no_silence() -> None:
    def faulty() -> None:
        raise RuntimeError("a fault")

    ears = Ears(Metrics(), 0.0, str)
    with pytest.raises(RuntimeError):
        ears.discovery(faulty)
    assert ears.unready() == ()
