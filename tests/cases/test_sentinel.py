"""Guarantee G7 through the whole pipeline as processes: what must be redacted is in no topic, log, page, state or file.

The producer and a worker run on a real Kafka, at debug level, over faults whose answers quote what they must not. It is
looked for as it is, in base64 at any offset, and as the digests that somebody could find it by.
"""

from __future__ import annotations

import base64
import os
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import Any

import confluent_kafka
import orjson
import pytest

from kubecdc import kafka, topics
from kubecdc.codec import Codec
from kubecdc.records import Change, Op, RawEvent
from local import children, ports
from local.broker import Broker
from local.sim_server import SimServer

PARTITIONS = 2
VISIBLE = "visible-9d1e04"
KEY = "a-key-of-the-sentinel-test-4b"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
RULES = "ConfigMap:$.data.password;ConfigMap:$..deep.token;*:$.metadata.annotations['our.io/token']"
LARGE = 4_000


def secret_at(place: str) -> str:
    """A value that stands in one place only, so that a find tells where it came from."""
    return f"sentinel-{place}-7f3a9c"


PLACES = (
    *("data", "updated", "deleted", "string-data", "odd-data", "large", "applied", "applied-elsewhere", "kapp"),
    *("rule", "rule-updated", "rule-deep", "rule-annotation", "rule-failed", "broken-frame", "status"),
)


def forms(text: str) -> Iterator[tuple[str, bytes]]:
    """How `text` may hide, each with its name."""
    raw = text.encode()
    yield "as it is", raw
    yield "reversed escapes", "".join(f"\\u{ord(c):04x}" for c in text).encode()
    yield "hex", raw.hex().encode()
    for shift in range(3):
        encoded = base64.b64encode(b"\0" * shift + raw)
        yield f"base64 at {shift}", encoded[4 if shift else 0 : len(encoded) - 4]
    for content in (raw, orjson.dumps(text), base64.b64encode(raw), orjson.dumps(base64.b64encode(raw).decode())):
        for size in (8, 16, 32):
            yield f"an unkeyed digest of {size} bytes", blake2b(content, digest_size=size).hexdigest().encode()


def encoded(place: str) -> str:
    return base64.b64encode(secret_at(place).encode()).decode()


def object_of(kind: str, name: str, annotations: dict[str, str] | None = None, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "annotations": annotations or {}}, **content}


class Plant:
    """A cluster in which every place holds its sentinel."""

    def __init__(self, server: SimServer) -> None:
        self.server = server
        copy = orjson.dumps({"data": {"p": secret_at("applied")}}).decode()
        elsewhere = orjson.dumps({"data": {"p": secret_at("applied-elsewhere")}}).decode()
        self.create("Secret", "one", {APPLIED: copy}, data={"password": encoded("data"), "same": encoded("data")})
        self.create("Secret", "plain", stringData={"token": secret_at("string-data")})
        self.create("Secret", "odd", data=[encoded("odd-data")])
        self.create("Secret", "gone", data={"password": encoded("deleted")})
        kapp = {"kapp.k14s.io/original": secret_at("kapp"), "our.io/token": secret_at("rule-annotation")}
        self.create("ConfigMap", "copies", {APPLIED: elsewhere, **kapp}, data={"shown": VISIBLE})
        deep = {"x": {"deep": {"token": secret_at("rule-deep")}}}
        self.create("ConfigMap", "ruled", data={"password": secret_at("rule"), "shown": VISIBLE, **deep})

    def kind(self, kind: str) -> Any:
        return self.server.store.kind("", f"{kind.lower()}s")

    def create(self, kind: str, name: str, annotations: dict[str, str] | None = None, **content: Any) -> None:
        self.server.store.create(self.kind(kind), object_of(kind, name, annotations, **content), namespace="default")

    def change(self) -> None:
        """Updates, deletes, and objects that are left out for their size."""
        store = self.server.store
        body = object_of("Secret", "one", data={"password": encoded("updated"), "same": encoded("data")})
        store.update(self.kind("Secret"), body, namespace="default")
        body = object_of("ConfigMap", "ruled", data={"password": secret_at("rule-updated"), "shown": VISIBLE})
        store.update(self.kind("ConfigMap"), body, namespace="default")
        store.delete(self.kind("Secret"), "default", "gone")
        large = {f"k{n}": encoded("large") for n in range(LARGE // 40)}
        self.create("Secret", "large", data=large)

    def answer_badly(self) -> None:
        """A frame that no rule can be applied to, one that is broken, and a Status that quotes content."""
        faults, store = self.server.faults, self.server.store
        rv = str(store.revision + 1)
        metadata = {"name": "failing", "namespace": "default", "uid": "failing", "resourceVersion": rv}
        metadata["managedFields"] = [{"manager": "m", "fieldsV1": {f"v:{secret_at('rule-failed')}": {}}}]
        failing = {"metadata": metadata, "data": {"password": secret_at("rule-failed")}}
        line = orjson.dumps({"type": "ADDED", "object": failing}).decode()
        faults.set("garbage", "configmaps", count=1, verb="watch", data=line + "\n")
        self.create("ConfigMap", "behind-failing")
        assert children.poll(lambda: faults.fired.get("garbage", 0) == 1, 20, 0.02)
        faults.set("error_500", count=2, message=secret_at("status"))
        broken = '{"type":"ADDED","object":{"metadata":{"name":"' + secret_at("broken-frame") + "\n"
        faults.set("garbage", "secrets", count=1, verb="watch", data=broken)
        self.create("Secret", "behind-broken")


class Pipeline:
    """Producer and worker as processes, with nothing of ours in their environment, and a home in `folder`."""

    def __init__(self, folder: Path, bootstrap: str, prefix: str, runtime: str) -> None:
        self.folder, self.bootstrap, self.prefix = folder, bootstrap, prefix
        self.pages: list[tuple[str, bytes]] = []
        self.port = {"produce": ports.free_port(), "process": ports.free_port()}
        self.runtime = runtime
        self.running: dict[str, children.Child] = {}

    def start(self, verb: str, *arguments: str) -> None:
        argv = [sys.executable, "-m", "kubecdc", verb, "--bootstrap", self.bootstrap, "--prefix", self.prefix]
        argv += ["--metrics-port", str(self.port[verb]), "--log-level", "debug", *arguments]
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBECDC_", "XDG_STATE"))}
        home = {"HOME": str(self.folder), "TMPDIR": str(self.folder), "KUBECDC_REDACTION_KEY": KEY}
        self.running[verb] = children.spawn(argv, log=self.folder / f"{verb}.log", env={**kept, **home})

    def produce(self, server: SimServer) -> None:
        arguments = ["--server", server.url, "--cluster", "c", "--resources", "secrets,configmaps", "--redact", RULES]
        arguments += ["--max-object-bytes", str(LARGE), "--progress-interval", "0.2", "--backoff-max", "1"]
        self.start("produce", *arguments)

    def process(self) -> None:
        self.start("process", "--runtime", self.runtime)

    def look_at_pages(self) -> None:
        for verb, port in self.port.items():
            for path in ("/metrics", "/healthz", "/readyz", "/nothing-here"):
                url = f"http://127.0.0.1:{port}{path}"
                try:
                    with urllib.request.urlopen(url, timeout=5) as answer:
                        self.pages.append((f"{path} of {verb}", answer.read()))
                except urllib.error.HTTPError as error:
                    with error:
                        self.pages.append((f"{path} of {verb}", error.read()))

    def stop(self, verb: str) -> None:
        child = self.running.pop(verb)
        child.stop(30)
        assert child.exit_code == 0, child.tail(40)

    def abandon(self) -> None:
        for child in self.running.values():
            child.kill()

    def records(self) -> list[tuple[str, bytes, bytes, bytes]]:
        """Topic, key, value and headers of every record, whether or not its transaction was committed."""
        names = topics.TopicNames.under(self.prefix)
        settings = {"bootstrap.servers": self.bootstrap, "group.id": "g", "isolation.level": "read_uncommitted"}
        consumer = confluent_kafka.Consumer({**settings, "enable.partition.eof": True})
        found: list[tuple[str, bytes, bytes, bytes]] = []
        try:
            for name in (names.events, names.changes, names.state, names.positions):
                numbers = consumer.list_topics(name, timeout=20).topics[name].partitions
                start = confluent_kafka.OFFSET_BEGINNING
                consumer.assign([confluent_kafka.TopicPartition(name, number, start) for number in numbers])
                left = set(numbers)
                while left:
                    for message in consumer.consume(500, 1.0):
                        if message.error() is not None:
                            left.discard(message.partition())
                            continue
                        headers = b"".join(key.encode() + (value or b"") for key, value in message.headers() or ())
                        found.append((name, message.key() or b"", message.value() or b"", headers))
        finally:
            consumer.close()
        return found


def decoded(pipeline: Pipeline, topic: str) -> list[Any]:
    name, codec = getattr(topics.TopicNames.under(pipeline.prefix), topic), Codec()
    return [codec.decode(value) for where, _, value, _ in pipeline.records() if where == name and value]


def arrived(pipeline: Pipeline, condition: Callable[[list[Any]], bool], topic: str = "changes") -> None:
    def holds() -> bool:
        for child in pipeline.running.values():
            assert child.alive, child.tail(40)
        return condition(decoded(pipeline, topic))

    assert children.poll(holds, 60, 0.3), [child.tail(20) for child in pipeline.running.values()]


@pytest.fixture
def pipeline(kafka_broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pipeline]:
    prefix = f"sentinel{uuid.uuid4().hex[:8]}"
    kafka.create_topics(kafka_broker.bootstrap, topics.table(prefix, PARTITIONS, 1))
    made = Pipeline(tmp_path, kafka_broker.bootstrap, prefix, request.param)
    yield made
    made.abandon()


def shows(records: list[Any], name: str) -> bool:
    return any(record.name == name for record in records)


@pytest.mark.timeout(300)  # two processes start twice, on few cores
@pytest.mark.parametrize("pipeline", ["plain", "faust"], indirect=True)
def test_no_sentinel_leaves_the_producer(pipeline: Pipeline) -> None:
    with SimServer() as server:
        plant = Plant(server)
        pipeline.produce(server)
        pipeline.process()
        arrived(pipeline, lambda log: shows(log, "one") and shows(log, "ruled"))
        plant.change()
        plant.answer_badly()
        arrived(pipeline, lambda log: shows(log, "behind-broken"))
        pipeline.look_at_pages()
        pipeline.stop("produce")
        server.store.compact()
        plant.create("Secret", "last", data={"password": encoded("data")})
        pipeline.produce(server)
        arrived(pipeline, lambda log: shows(log, "last"))
        pipeline.look_at_pages()
        pipeline.stop("produce")
        pipeline.stop("process")
    everything = [*((topic, b"\0".join(parts)) for topic, *parts in pipeline.records()), *pipeline.pages]
    everything += [(str(path), path.read_bytes()) for path in pipeline.folder.rglob("*") if path.is_file()]
    found = [
        f"{place} ({form}) in {where}"
        for place in PLACES
        for form, text in forms(secret_at(place))
        for where, data in everything
        if text in data
    ]
    assert found == []
    assert_it_was_looked_at(pipeline, everything)


def assert_it_was_looked_at(pipeline: Pipeline, everything: list[tuple[str, bytes]]) -> None:
    """What may be seen is seen, in the same places and by the same search, and what was planted was met."""
    names = topics.TopicNames.under(pipeline.prefix)
    for topic in (names.events, names.changes):
        assert any(VISIBLE.encode() in data for where, data in everything if where == topic)
    assert any(b"redacted_total" in data for where, data in everything if where == "/metrics of produce")
    events = [record for record in decoded(pipeline, "events") if isinstance(record, RawEvent)]
    reasons = {event.object_omitted.reason for event in events if event.object_omitted is not None}
    assert reasons == {"too-large", "redaction-failed"}
    changes = [record for record in decoded(pipeline, "changes") if isinstance(record, Change)]
    updated = {change.name: change.changed for change in changes if change.op is Op.UPDATED}
    assert "/data/password" in updated["one"]
    assert "/data/same" not in updated["one"]
    assert "/data/password" in updated["ruled"]
    assert {change.name for change in changes if change.op is Op.DELETED} >= {"gone"}
    assert b"not JSON" in b"".join(data for where, data in everything if where.endswith(".log"))
