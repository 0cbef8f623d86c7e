"""`kubecdc produce`: the composition root of the producer.

It turns flags and environment into settings, builds cluster, sink and service, and maps signals and errors to the end
of the process: 0 after SIGTERM or SIGINT, 2 for what the user can mend, 1 for a failed session. It decides nothing
else.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click
import orjson

from kubecdc import errors, topics
from kubecdc.codec import SchemaIds
from producer.cluster import Cluster
from producer.errors import ProducerError
from producer.kafka import KafkaSink
from producer.keys import kept_key
from producer.metrics import Metrics, MetricsServer
from producer.options import Options, read
from producer.service import Producer

log = logging.getLogger(__name__)


class JsonLines(logging.Formatter):
    """One JSON object a line, for log collectors."""

    def format(self, record: logging.LogRecord) -> str:
        """Return time, level, logger and text, nothing that the text does not say itself."""
        line = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        return orjson.dumps(line).decode()


def run(options: Options) -> None:
    """Produce until a signal. Raises the errors of `kubecdc.errors` and `producer.errors`."""
    cluster = Cluster(options.cluster, options.producer.watch.inactivity_s)
    metrics = Metrics()
    cluster.version()
    settings = options.producer
    if settings.redaction.key is None:
        key = kept_key(options.cluster.name)
        settings = replace(settings, redaction=replace(settings.redaction, key=key))
    registry = _registry(options.kafka.schema_registry)
    sink = KafkaSink(options.kafka)
    names = topics.TopicNames.under(options.kafka.prefix)
    try:
        producer = Producer(
            cluster,
            sink,
            settings,
            metrics=metrics,
            registry=registry,
            topics=(names.events, names.positions),
        )
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


def _serve(port: int | None, metrics: Metrics, producer: Producer) -> MetricsServer | None:
    if port is None:
        return None
    server = MetricsServer(port, metrics, producer.healthy, producer.ready)
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


def set_up_logging(log_format: str, level: str) -> None:
    """Log to standard error."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(JsonLines() if log_format == "json" else text)
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("urllib3").setLevel(logging.ERROR)  # it logs URLs and every dropped connection
    logging.getLogger("kubernetes").setLevel(logging.WARNING)


def finish(work: Callable[[], None]) -> None:
    """Run `work`; end the process with one message a fault and the right status where it raises."""
    try:
        work()
    except errors.Misconfigured as error:
        for problem in error.problems:
            click.echo(f"error: {problem}", err=True)
        sys.exit(2)
    except errors.KubecdcError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except ProducerError as error:
        cause = f" ({error.__cause__})" if error.__cause__ else ""
        log.debug("failed", exc_info=error)
        click.echo(f"error: {error}{cause}; positions are safe, start it again", err=True)
        sys.exit(1)


def _flag(name: str, text: str, **how: Any) -> Callable[[Any], Any]:
    """Make an option that can also be set as KUBECDC_<NAME>."""
    variable = "KUBECDC_" + name.strip("-").replace("-", "_").upper()
    return click.option(name, envvar=variable, show_envvar=True, help=text, **how)


@click.command()
@_flag("--bootstrap", "Kafka brokers, host:port, comma separated.")
@_flag("--prefix", "Prefix of the topics.", default="kubecdc", show_default=True)
@_flag("--schema-registry", "URL of a Schema Registry; without one records carry their schema's fingerprint.")
@_flag("--kafka-property", "Further librdkafka setting, NAME=VALUE (TLS, SASL).", multiple=True)
@_flag("--buffer-mb", "Records that may wait for Kafka, in MB.", default=64, show_default=True)
@_flag("--cluster", "Name of the cluster in every record. Default: the name of the kubeconfig context.")
@_flag("--kubeconfig", "Kubeconfig file. Default: KUBECONFIG, ~/.kube/config, or the pod's account.", type=Path)
@_flag("--context", "Context of the kubeconfig.")
@_flag("--server", "URL of the API server, instead of a kubeconfig.")
@_flag("--token-file", "File with a bearer token; it is read again for every request.", type=Path)
@_flag("--ca-file", "File with the API server's certificate authority.", type=Path)
@_flag(
    "--resources",
    "Kinds to follow: pods, deployments.apps, *.example.io. Default: all but Events, Leases.",
    multiple=True,
)
@_flag("--exclude", "Kinds to leave out, in the same spelling.", multiple=True)
@_flag("--namespace", "Namespaces to follow, each with its own lists and watches. Default: all at once.", multiple=True)
@_flag("--redact", "Further values to redact: Kind:$.json.path", multiple=True)
@_flag("--redaction-key-file", "File with 16 to 64 random bytes that key the digests of secrets.", type=Path)
@_flag("--page-size", "Items on a page of a list.", default=500, show_default=True)
@_flag(
    "--max-object-bytes", "Larger objects are published without their content.", default=1_000_000, show_default=True
)
@_flag("--watchlist", "Stream the first list.", type=click.Choice(["auto", "always", "never"]), default="auto")
@_flag("--watchlist-deadline", "Seconds until a streamed list must have ended.", default=30.0, show_default=True)
@_flag("--inactivity", "Seconds that an open watch may be silent.", default=70.0, show_default=True)
@_flag("--progress-interval", "Seconds between PROGRESS records.", default=5.0, show_default=True)
@_flag("--discovery-interval", "Seconds between looks for new kinds.", default=30.0, show_default=True)
@_flag("--audit-interval", "Seconds between audit lists; 0: never.", default=3600.0, show_default=True)
@_flag("--backoff-min", "Shortest wait after a failure, in seconds.", default=0.8, show_default=True)
@_flag("--backoff-max", "Longest wait after failures, in seconds.", default=30.0, show_default=True)
@_flag("--metrics-port", "Serve /metrics, /healthz and /readyz there; 0: a free port.", type=int)
@_flag("--log-format", "Form of the log.", type=click.Choice(["text", "json"]), default="text", show_default=True)
@_flag("--log-level", "Least level.", type=click.Choice(["debug", "info", "warning", "error"]), default="info")
def produce(log_format: str, log_level: str, **given: Any) -> None:
    """Write what a cluster's LIST and WATCH show to the events topic."""
    set_up_logging(log_format, log_level)
    finish(lambda: run(read(given)))
