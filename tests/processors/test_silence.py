"""A worker whose broker or registry is away says so in the log, in /readyz and in a metric, and when it is over."""

from __future__ import annotations

import logging
import threading
import urllib.error
import urllib.request

import pytest

from kubecdc import unheard
from kubecdc.codec import Codec
from kubecdc.registry import Registry
from local.broker import Broker
from local.children import poll
from local.ports import free_port
from processors import task
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.settings import KafkaSettings
from processors.task import PartitionTask
from tests.kubecdc.registries import memory_registry
from tests.processors import workers
from tests.processors.log import Log

SOONER = (
    "import kubecdc.unheard, processors.tasks; kubecdc.unheard.ALERT_S = 3.0; processors.tasks.UNHEARD_S = 4.0;"
    " processors.tasks.LOOK_S = 0.5; "
)


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(tmp_path_factory.mktemp("silent-kafka")) as running:
        yield running


def page(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except OSError:
        return 0, ""


@pytest.mark.parametrize("runtime", ["plain", "faust"])
def test_a_broker_that_is_away_is_told_and_so_is_the_end_of_it(broker, tmp_path, runtime):
    """Only the end of the worker told it, after two minutes."""
    log = Log(broker.bootstrap, partitions=1)
    log.first_list(["u1"])
    log.flush()
    port = free_port()
    worker = workers.start(log, tmp_path, runtime, session_s=10, patch=SOONER, metrics_port=port)
    try:
        assert poll(lambda: not worker.alive or page(port, "/readyz") == (200, "ok\n"), 90, 0.2), worker.tail(40)
        broker.freeze()
        try:
            told = "Kafka: it has not answered for "
            assert poll(lambda: told in worker.tail(1000), 60, 0.2), worker.tail(40)
            assert poll(lambda: told in page(port, "/readyz")[1], 60, 0.2), worker.tail(40)
            assert page(port, "/readyz")[0] == 503
            assert 'kubecdc_processor_unheard_seconds{reason="' in page(port, "/metrics")[1]
        finally:
            broker.thaw()
        assert poll(lambda: "Kafka: heard again after " in worker.tail(1000), 90, 0.2), worker.tail(40)
        assert poll(lambda: page(port, "/readyz") == (200, "ok\n"), 90, 0.2), page(port, "/readyz")
        gone = 'kubecdc_processor_unheard_seconds{reason="'
        assert poll(lambda: gone not in page(port, "/metrics")[1], 90, 0.2), page(port, "/metrics")
    finally:
        worker.stop(60)


def test_a_registry_that_is_away_is_told_of_the_partition_that_waits_for_it(kafka_broker, caplog, monkeypatch):
    monkeypatch.setattr(unheard, "ALERT_S", 0.2)
    monkeypatch.setattr(task, "BACKOFF_S", 0.3)
    caplog.set_level(logging.INFO)
    log, metrics = Log(kafka_broker.bootstrap, partitions=1), Metrics()
    with memory_registry() as registry:
        log.first_list(["u1"])
        log.flush()
        writer = Codec(log.names.events, Registry(registry.url))
        framed = [(offset, at, key, writer.encode(Codec().decode(value))) for offset, at, key, value in log.events(0)]
        cluster = Cluster(KafkaSettings(log.bootstrap, log.prefix, log.prefix))
        reader = Registry(registry.url)
        worker = PartitionTask(0, cluster, metrics, noise="emit", history_ms=1, registry=reader)
        worker.open()
        registry.refuse = 503
        working = threading.Thread(target=worker.process, args=(framed,))
        working.start()
        try:
            assert poll(lambda: "answers 503" in worker.ear.sentence(), 60, 0.05)
            assert "partition 0: its records cannot be turned into changes" in worker.ear.sentence()
            assert metrics.value("unheard_seconds", who="partition 0", reason="registry") > 0
        finally:
            registry.refuse = 0
            working.join(60)
    assert not working.is_alive()
    messages = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("partition 0: heard again after") for line in messages), messages
    assert metrics.value("unheard_seconds") == 0
    assert worker.next_offset == framed[-1][0] + 1
