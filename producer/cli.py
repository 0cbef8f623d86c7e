"""`kubecdc produce`: the composition root of the producer.

It builds cluster, sink and service, and maps signals and errors to the end
of the process: 0 after SIGTERM or SIGINT, 1 for a failed session; the root command does the rest. It decides nothing
else.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Mapping
from dataclasses import replace
from types import FrameType
from typing import Any

import click

from kubecdc import settings, topics
from kubecdc.codec import SchemaIds
from kubecdc.probes import MetricsServer
from producer import logs
from producer.cluster import Cluster
from producer.errors import ProducerError
from producer.kafka import KafkaSink
from producer.keys import kept_key
from producer.metrics import Metrics
from producer.options import OPTIONS, Options, build, check
from producer.service import Producer
from producer.terms import Terms

log = logging.getLogger(__name__)


def run(options: Options) -> None:
    """Produce until a signal. Raises the errors of `kubecdc.errors` and `producer.errors`."""
    cluster = Cluster(options.cluster, options.producer.watch.inactivity_s)
    metrics = Metrics()
    cluster.version()
    chosen = options.producer
    if chosen.redaction.key is None:
        key = kept_key(cluster.name)
        chosen = replace(chosen, redaction=replace(chosen.redaction, key=key))
    registry = _registry(options.kafka.schema_registry)
    sink = KafkaSink(options.kafka)
    names = topics.TopicNames.under(options.kafka.prefix)

    def make() -> Producer:
        return Producer(
            cluster,
            sink,
            chosen,
            metrics=metrics,
            registry=registry,
            topics=(names.events, names.positions),
            complaint=sink.complaint,
        )

    try:
        producer = make() if options.election is None else Terms(cluster, options.election, make, metrics)
        server = _serve(options.metrics_port, metrics, producer)
        try:
            producer.run(_stop_on_signals())
        finally:
            if server is not None:
                server.close()
    finally:
        sink.close()


def _registry(url: str | None) -> SchemaIds | None:
    if url is None:
        return None
    from kubecdc.registry import Registry  # noqa: PLC0415 - its client is slow to import, and few need it

    return Registry(url)


def _serve(port: int | None, metrics: Metrics, producer: Producer | Terms) -> MetricsServer | None:
    if port is None:
        return None
    probes = (producer.healthy, producer.ready, producer.unready)
    server = MetricsServer(port, metrics.registry, *probes, notes=producer.notes)
    log.info("metrics on port %d", server.port)
    return server


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        log.info("%s: stopping", signal.Signals(number).name)
        stop.set()
        signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return stop


@click.command("produce")
@settings.options("produce", OPTIONS, check)
def produce(values: Mapping[str, Any]) -> None:
    """Watch a cluster and write what happens to the events topic, until SIGTERM or Ctrl-C."""
    logs.set_up(values["log_format"], values["log_level"])
    try:
        run(build(values))
    except ProducerError as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        log.debug("failed", exc_info=error)
        click.echo(f"kubecdc: {error}{cause}; positions are safe, start it again", err=True)
        raise SystemExit(1) from error
