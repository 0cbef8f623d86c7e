"""A Kafka as production has it: TLS, SASL, and an account that may do what it must and nothing more.

The whole way from an API server to a reader, in both shells, with the rights that the README names; and what is refused
is refused with one clear error, status 2, and no secret in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from cryptography.hazmat.primitives import serialization

from local.broker import Broker, Quorum
from local.children import Child, poll, spawn
from local.ports import free_port
from local.sim_server import SimServer

PASSWORD = "not-for-any-log"
ADVICE = "give the account the rights that README.md names"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def pkcs8(pem: bytes) -> str:
    """The only form of a private key that Kafka takes."""
    key = serialization.load_pem_private_key(pem, None)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return key.private_bytes(*form).decode()


class Secured:
    """A broker whose second listener wants TLS and a password, and grants an account what it was granted."""

    def __init__(self, folder: Path) -> None:
        authority, quorum = trustme.CA(), Quorum.single()
        identity = authority.issue_cert("127.0.0.1")
        self.ca = folder / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        self.port, plain, (controller,) = free_port(), free_port(), quorum.voters.values()
        own = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": pkcs8(identity.private_key_pem.bytes()),
            "ssl.keystore.certificate.chain": b"".join(p.bytes() for p in identity.cert_chain_pems).decode(),
            "sasl.enabled.mechanisms": "PLAIN",
            "plain.sasl.jaas.config": f'{LOGIN} user_kubecdc="{PASSWORD}" user_reader="{PASSWORD}";',
        }
        listeners = f"PLAINTEXT://127.0.0.1:{plain},SECURE://127.0.0.1:{self.port}"
        self.broker = Broker(
            folder / "kafka",
            port=plain,
            quorum=quorum,
            properties={
                "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": listeners,
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS",
                **{f"listener.name.secure.{name}": value for name, value in own.items()},
            },
        )

    def properties(self, password: str = PASSWORD, user: str = "kubecdc", *, trusted: bool = True) -> list[str]:
        """What a client is told."""
        told = {"security.protocol": "SASL_SSL", "sasl.mechanisms": "PLAIN", "sasl.username": user}
        told |= {"sasl.password": password, **({"ssl.ca.location": str(self.ca)} if trusted else {})}
        return [word for name, value in told.items() for word in ("--kafka-property", f"{name}={value}")]

    def grant(
        self,
        kind: ResourceType,
        name: str,
        *operations: AclOperation,
        pattern: ResourcePatternType = ResourcePatternType.PREFIXED,
        user: str = "kubecdc",
    ) -> None:
        """Allow an account operations on what has that prefix, or that name."""
        granted = [
            AclBinding(*(kind, name, pattern, f"User:{user}", "*"), operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for future in admin.create_acls(granted).values():
            future.result(timeout=30)

    def command(self, name: str, *arguments: str, **properties: object) -> list[str]:
        told = self.properties(**properties)  # type: ignore[arg-type]  # passed on
        bootstrap = ["--bootstrap", f"127.0.0.1:{self.port}", "--prefix", "kubecdc"]
        return [sys.executable, "-m", "kubecdc", *name.split(), *bootstrap, *told, *arguments]

    def run(self, name: str, *arguments: str, **properties: object) -> subprocess.CompletedProcess[str]:
        command = self.command(name, *arguments, **properties)
        return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    with made.broker:
        yield made


def refused(done: subprocess.CompletedProcess[str], told: str, status: int = 2) -> None:
    assert done.returncode == status, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stderr + done.stdout
    errors = [line for line in done.stderr.splitlines() if line.startswith(("kubecdc: ", "error: "))]
    assert errors, done.stderr[-3000:]
    assert told in errors[-1]


@pytest.mark.parametrize("command", ["topics check", "process --runtime plain", "process --runtime faust", "state"])
def test_a_wrong_password_and_an_unknown_authority_are_told(secured: Secured, command: str) -> None:
    refused(secured.run(command, password="wrong"), "check the user and the password in --kafka-property")
    refused(secured.run(command, trusted=False), "check security.protocol, ssl.ca.location")


def test_the_rights_of_the_readme_are_enough_and_less_is_told(secured: Secured, tmp_path: Path) -> None:
    refused(secured.run("topics init", "--replication", "1"), ADVICE)
    secured.grant(ResourceType.TOPIC, "kubecdc.", AclOperation.CREATE, AclOperation.DESCRIBE_CONFIGS)
    secured.grant(ResourceType.TOPIC, "kubecdc.", AclOperation.READ)
    done = secured.run("topics init", "--replication", "1")
    assert done.returncode == 0, done.stderr
    with SimServer() as server:
        kind = server.store.kind("", "configmaps")
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "1"}}
        server.store.create(kind, body, namespace="default")
        produce = ["--server", server.url, "--cluster", "c", "--resources", "configmaps", "--progress-interval", "1"]
        refused(secured.run("produce", *produce), ADVICE, status=1)
        secured.grant(ResourceType.TOPIC, "kubecdc.", AclOperation.WRITE)
        producer = spawn(secured.command("produce", *produce), log=tmp_path / "producer.log")
        refused(secured.run("process"), ADVICE)
        group = (ResourceType.GROUP, "kubecdc")
        secured.grant(*group, AclOperation.DESCRIBE, pattern=ResourcePatternType.LITERAL)
        for runtime in ("plain", "faust"):  # which finds out when it joins only
            refused(secured.run("process", "--runtime", runtime), ADVICE, status=1)
        secured.grant(*group, AclOperation.READ, pattern=ResourcePatternType.LITERAL)
        refused(secured.run("process"), ADVICE, status=1)
        secured.grant(ResourceType.TRANSACTIONAL_ID, "kubecdc-", AclOperation.WRITE)
        for number, runtime in enumerate(("plain", "faust")):
            worker = spawn(secured.command("process", "--runtime", runtime), log=tmp_path / f"{runtime}.log")
            server.store.create(kind, {**body, "metadata": {"name": f"b{number}"}}, namespace="default")
            assert arrives(f"b{number}", secured, worker, producer)
            worker.stop(40)
            assert worker.exit_code == 0, worker.tail(40)
        producer.stop(40)
        assert producer.exit_code == 0, producer.tail(40)
    secured.grant(ResourceType.TOPIC, "kubecdc.", AclOperation.READ, user="reader")
    refused(secured.run("state", user="reader"), ADVICE)
    secured.grant(ResourceType.TOPIC, "kubecdc.", AclOperation.DESCRIBE_CONFIGS, user="reader")
    done = secured.run("state", "-o", "ndjson", user="reader")
    assert len(done.stdout.splitlines()) == 3, done.stderr
    for child in (worker, producer):
        assert PASSWORD not in child.log.read_text()


def arrives(name: str, secured: Secured, *running: Child) -> bool:
    """Whether the account soon reads an object in the last state of the canonical log."""

    def names() -> set[str]:
        for child in running:
            assert child.alive, child.tail(40)
        done = secured.run("state", "-o", "ndjson")
        assert done.returncode == 0, done.stderr[-2000:]
        return {json.loads(line)["name"] for line in done.stdout.splitlines()}

    return poll(lambda: name in names(), 60, 0.5)
