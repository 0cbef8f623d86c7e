"""Guarantees: options become the settings that they name, and what contradicts what is found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kubecdc.errors import Misconfigured
from kubecdc.settings import resolve
from producer.options import OPTIONS, Options, build, check
from producer.settings import ElectionSettings


def read(**environ: Any) -> Options:
    given = {"bootstrap": "h:9092"} | environ
    variables = {f"KUBECDC_{name.upper()}": str(value) for name, value in given.items()}
    return build(resolve(OPTIONS, {}, variables, {}, table="produce", check=check))


def test_defaults_are_those_of_the_settings() -> None:
    options = read()
    assert options.cluster.name == ""  # what the kubeconfig calls it
    assert options.producer.watch == type(options.producer.watch)()
    assert options.producer.redaction.key is None
    assert (options.kafka.prefix, options.metrics_port) == ("kubecdc", None)


def test_every_option_arrives(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    options = read(
        server="https://s:6443",
        token_file=token,
        cluster="prod",
        resources="pods, deployments.apps",
        exclude="*.example.io",
        namespace="a,b,a",
        page_size=10,
        audit_interval="2h",
        watchlist="never",
        redaction_key="k" * 20,
        kafka_property="security.protocol=SSL",
        unheard_after="90s",
        metrics_port=0,
    )
    assert (options.cluster.server, options.cluster.token_file, options.cluster.name) == (
        "https://s:6443",
        token,
        "prod",
    )
    watch = options.producer.watch
    assert watch.resources == ("pods", "deployments.apps")
    assert (watch.exclude, watch.namespaces, watch.page_size) == (("*.example.io",), ("a", "b"), 10)
    assert (watch.audit_interval_s, watch.watchlist, watch.unheard_after_s) == (7200.0, "never", 90.0)
    assert options.producer.redaction.key == b"k" * 20
    assert options.kafka.properties == (("security.protocol", "SSL"),)
    assert options.metrics_port == 0


def test_an_election_is_asked_for_by_name() -> None:
    assert read(lease_name="x").election is None
    assert read(elect="true").election == ElectionSettings()
    chosen = read(elect="true", lease_name="a.b", lease_namespace="ns", lease_duration=30).election
    assert chosen == ElectionSettings("a.b", "ns", 30.0)
    with pytest.raises(Misconfigured) as refused:
        read(elect="true", lease_name="A b", lease_namespace="a/b", lease_duration=1)
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"cluster": "a/b"}, "slash"),
        ({"server": "http://s", "context": "c"}, "contradict"),
        ({"resources": "a/b/c/d"}, "a/b/c/d"),
        ({"namespace": "Not_One"}, "namespace"),
        ({"redact": "zz"}, "zz"),
        ({"inactivity": "0"}, "greater than 0"),
        ({"backoff_min": "5", "backoff_max": "1"}, "greater than --backoff-max"),
        ({"redaction_key": "short"}, "5 bytes"),
    ],
)
def test_what_cannot_work_is_told(given: dict[str, str], told: str) -> None:
    with pytest.raises(Misconfigured, match=told):
        read(**given)


def test_the_key_comes_from_one_place(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_bytes(b"f" * 32 + b"\n")
    assert read(redaction_key_file=file).producer.redaction.key == b"f" * 32
    with pytest.raises(Misconfigured, match="contradict"):
        read(redaction_key_file=file, redaction_key="k" * 20)
