"""docker-compose.yml without Docker: its services fit together, and each command line does its work.

Guarantees: dependencies, health checks, volumes and versions agree; the settings of its Kafka, as they are and alone,
make a broker that takes transactions; topics, producer and two workers as written there carry a cluster's objects to
the changes topic, and end in order within their grace period.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kubecdc.records import Change, Op, RawEvent
from local import children, jars, ports
from local.sim_server import SimServer
from tests.deploy import pipeline
from tests.deploy.pipeline import ROOT, Part, Topic

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
KAFKA = SERVICES["kafka"]
OURS = sorted(set(SERVICES) - {"kafka"})
# The keys of the Compose specification that we use, so that a misspelt one is found.
SERVICE_KEYS = {
    *("image", "build", "read_only", "tmpfs", "environment", "ports", "volumes", "healthcheck", "command"),
    *("depends_on", "user", "stop_grace_period", "restart", "scale"),
}
HEALTH_KEYS = {"test", "interval", "timeout", "retries"}
KEY = "0123456789abcdef" * 4
CLUSTER = "named-outside"
CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"


def interpolated(text: str, **variables: str) -> str:
    """What Compose makes of ${NAME:-default} and ${NAME:?message}."""

    def value(match: re.Match[str]) -> str:
        name, how, rest = match.groups()
        if variables.get(name):
            return variables[name]
        assert how == "-", f"{name} is not set: {rest}"
        return rest

    return re.sub(r"\$\{(\w+):([-?])([^}]*)\}", value, text)


def seconds(text: str) -> float:
    assert text.endswith("s"), text
    return float(text[:-1])


def part(service: str, folder: Path, **addresses: str) -> Part:
    """A service as a container; what is mounted into it is looked up where it comes from."""
    written = SERVICES[service]
    variables = {
        "KUBECDC_REDACTION_KEY": KEY,
        "KUBECDC_CLUSTER": CLUSTER,
        "KUBECONFIG": str(folder / "kubeconfig"),
    }
    env = {name: interpolated(value, **variables) for name, value in written["environment"].items()}
    for volume in written.get("volumes", []):
        source, target, mode = interpolated(volume, **variables).split(":")
        assert mode == "ro"
        env = {name: value.replace(target, source) for name, value in env.items()}
    grace = seconds(written.get("stop_grace_period", "10s"))
    return Part(service, tuple(written["command"]), env, grace).at(**addresses)


# --- the file -------------------------------------------------------------------------------------------------------


def test_services_have_known_keys_only() -> None:
    assert set(COMPOSE) == {"x-kubecdc", "services", "volumes"}
    for name, service in SERVICES.items():
        assert set(service) <= SERVICE_KEYS, name
        assert set(service.get("healthcheck", HEALTH_KEYS)) == HEALTH_KEYS, name


def test_dependencies_can_be_met() -> None:
    for name, service in SERVICES.items():
        for needed, how in service.get("depends_on", {}).items():
            condition = how["condition"]
            assert condition in ("service_healthy", "service_completed_successfully"), name
            if condition == "service_healthy":
                assert "healthcheck" in SERVICES[needed], f"{name} waits for the health of {needed}"
            else:
                assert "restart" not in SERVICES[needed], f"{name} waits for the end of {needed}"
    assert {name: set(s.get("depends_on", ())) for name, s in SERVICES.items()} == {
        "kafka": set(),
        "topics": {"kafka"},
        "producer": {"topics"},
        "workers": {"topics"},
    }


def test_the_health_check_asks_a_listener() -> None:
    command, option, address = KAFKA["healthcheck"]["test"][1:]
    assert (command, option) == ("/opt/kafka/bin/kafka-broker-api-versions.sh", "--bootstrap-server")
    host, port = address.split(":")
    assert host == "localhost"
    assert f"PLAINTEXT://:{port}" in KAFKA["environment"]["KAFKA_LISTENERS"].split(",")


def test_every_bootstrap_address_is_one_that_kafka_advertises() -> None:
    advertised = KAFKA["environment"]["KAFKA_ADVERTISED_LISTENERS"].split(",")
    for name in OURS:
        assert f"PLAINTEXT://{SERVICES[name]['environment']['KUBECDC_BOOTSTRAP']}" in advertised, name
    (published,) = KAFKA["ports"]
    host, outside, inside = published.split(":")
    assert host == "127.0.0.1", "a broker without passwords is for this machine only"
    assert f"HOST://localhost:{outside}" in advertised
    assert f"HOST://:{inside}" in KAFKA["environment"]["KAFKA_LISTENERS"]


def test_named_volumes_are_declared_and_hold_the_data() -> None:
    (volume,) = KAFKA["volumes"]
    name, path = volume.split(":")
    assert name in COMPOSE["volumes"]
    assert path == KAFKA["environment"]["KAFKA_LOG_DIRS"]


def test_versions_are_those_that_are_tested() -> None:
    assert KAFKA["image"] == f"apache/kafka:{jars.KAFKA_VERSION}"
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    for name in OURS:
        assert SERVICES[name]["image"] == f"kubecdc:{version}", name
        build = SERVICES[name]["build"]
        assert (ROOT / build["context"] / build["dockerfile"]).is_file(), name


def test_the_redaction_key_must_be_given() -> None:
    text = SERVICES["producer"]["environment"]["KUBECDC_REDACTION_KEY"]
    with pytest.raises(AssertionError, match="KUBECDC_REDACTION_KEY is not set"):
        interpolated(text)


def test_the_name_of_the_cluster_may_be_given() -> None:
    """Two clusters in one log need names of their own; an empty one is that of the kubeconfig's context."""
    text = SERVICES["producer"]["environment"]["KUBECDC_CLUSTER"]
    assert (interpolated(text), interpolated(text, KUBECDC_CLUSTER=CLUSTER)) == ("", CLUSTER)


# --- the command lines ----------------------------------------------------------------------------------------------


def kafka_properties(folder: Path) -> tuple[dict[str, str], str]:
    """Broker properties as the image makes them of its environment, with addresses of this machine; the bootstrap."""
    moved = {port: str(ports.free_port()) for port in ("9092", "9093", "9094")}
    here = str(ports.HOST)

    def local(value: str) -> str:
        value = value.replace("://:", f"://{here}:").replace("kafka:", f"{here}:").replace("localhost:", f"{here}:")
        return re.sub(r"\b909[234]\b", lambda found: moved[found[0]], value)

    assert all(name.startswith("KAFKA_") for name in KAFKA["environment"])
    written = {
        name.removeprefix("KAFKA_").lower().replace("_", "."): local(value)
        for name, value in KAFKA["environment"].items()
    }
    written["log.dirs"] = str(folder / "data")
    return written, f"{here}:{moved['9092']}"


@pytest.fixture(scope="module")
def compose_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A broker with the settings of the service `kafka` and no others; its bootstrap address."""
    folder = tmp_path_factory.mktemp("compose-kafka")
    properties, bootstrap = kafka_properties(folder)
    config = folder / "server.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    java = [str(jars.java()), "-Xmx512m", "-cp", jars.class_path()]
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config)]
    subprocess.run(formatting, check=True, capture_output=True, timeout=60)
    broker = children.spawn([*java, "kafka.Kafka", str(config)], log=folder / "broker.log")
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    try:

        def answers() -> bool:
            assert broker.alive, broker.tail(30)
            with contextlib.suppress(KafkaException):
                return bool(admin.list_topics(timeout=2).brokers)
            return False

        assert children.poll(answers, 60, 0.1), broker.tail(30)
        yield bootstrap
    finally:
        broker.stop()


def config_map(password: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "from-compose", "namespace": "default"},
        "data": {"greeting": password},
    }


@pytest.mark.timeout(480)  # servers and three processes start one after another on few cores
def test_the_command_lines_carry_a_cluster_to_the_changes_topic(compose_kafka: str, tmp_path: Path) -> None:
    kafka = {"KUBECDC_BOOTSTRAP": compose_kafka}
    with SimServer(seed=1) as cluster:
        cluster.write_kubeconfig(tmp_path / "kubeconfig")
        made = cluster.store.create(cluster.store.kind("", "configmaps"), config_map("hello"), namespace="default")
        uid = made["metadata"]["uid"]
        pipeline.run(part("topics", tmp_path, **kafka), tmp_path)
        pipeline.run(part("topics", tmp_path, **kafka), tmp_path)  # each `docker compose up` runs it again

        producer = part("producer", tmp_path, **kafka)
        with (
            pipeline.started(producer, tmp_path) as running,
            Topic(compose_kafka, "kubecdc.events") as events,
        ):
            event = pipeline.arrived(events, running, "object", lambda r: isinstance(r, RawEvent) and r.uid == uid)
            assert event.rv == made["metadata"]["resourceVersion"]
            assert event.cluster == CLUSTER
            assert running.stop() == 0, running.tail()
            assert list(running.folder.iterdir()) == [], "its file system is read-only"

    with contextlib.ExitStack() as stack:
        workers = [
            stack.enter_context(pipeline.started(part("workers", folder, **kafka), folder))
            for folder in (tmp_path / str(number) for number in range(SERVICES["workers"]["scale"]))
            if folder.mkdir() is None
        ]
        changes = stack.enter_context(Topic(compose_kafka, "kubecdc.changes"))
        change = pipeline.arrived(changes, workers[0], "change", lambda r: isinstance(r, Change) and r.uid == uid)
        assert (change.op, change.seq, change.rv) == (Op.SNAPSHOT, 1, event.rv)
        for worker in workers:
            assert worker.stop() == 0, worker.tail()
