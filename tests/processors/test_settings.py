"""Settings of a worker: every fault at once, and one application per prefix unless told otherwise."""

from __future__ import annotations

import pytest

from kubecdc.errors import Misconfigured
from processors import settings


def test_the_application_is_named_after_the_prefix():
    made = settings.of_environment({"KUBECDC_BOOTSTRAP": "k:9092", "KUBECDC_PREFIX": "blue"})
    assert (made.kafka.app, made.kafka.prefix, made.noise) == ("blue", "blue", "emit")
    named = settings.of_environment({"KUBECDC_BOOTSTRAP": "k:9092", "KUBECDC_APP": "mine"})
    assert (named.kafka.app, named.kafka.prefix) == ("mine", "kubecdc")


def test_all_faults_are_told_at_once():
    with pytest.raises(Misconfigured) as told:
        settings.of_environment({"KUBECDC_NOISE": "loud", "KUBECDC_SESSION_TIMEOUT": "2", "KUBECDC_STUCK_AFTER": "1"})
    text = "\n".join(told.value.problems)
    assert len(told.value.problems) == 4
    for part in ("--bootstrap is required", "one of emit, drop", "--session-timeout must be between", "--stuck-after"):
        assert part in text


def test_secrets_are_not_shown():
    environment = {"KUBECDC_BOOTSTRAP": "k:9092", "KUBECDC_KAFKA_PROPERTY": "sasl.password=hush"}
    assert "hush" not in repr(settings.of_environment(environment))
