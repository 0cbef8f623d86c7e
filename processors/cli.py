"""`kubecdc process`: start a worker, as a Faust worker or as the plain loop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from typing import Any

import click

from kubecdc.settings import options
from processors import settings
from processors.errors import ProcessorError
from processors.kafka import Cluster
from processors.metrics import Metrics, MetricsServer
from processors.plain import Worker


@click.command("process", help="Turn the events topic into the canonical change log, exactly once.")
@options(settings.TABLE, settings.OPTIONS, settings.check)
def process(values: Mapping[str, Any]) -> None:
    """Run a worker until SIGTERM or SIGINT; status 1 and the reason when it cannot go on."""
    worker = settings.from_values(values)
    Cluster(worker.kafka).layout()
    if values["runtime"] == "faust":
        _become_faust(values)
    _run_plain(worker, str(values["log_level"]))


def _run_plain(worker: settings.WorkerSettings, level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    metrics = Metrics()
    if worker.metrics_port is not None:
        ready = lambda: metrics.value("recovery_seconds_count") > 0  # noqa: E731 - a probe, used once
        MetricsServer(worker.metrics_port, metrics, lambda: True, ready)
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        Worker(worker, metrics).run(stop)
    except ProcessorError as error:
        click.echo(f"kubecdc process: {error}", err=True)
        raise SystemExit(1) from error


def _become_faust(values: Mapping[str, Any]) -> None:
    """Replace this process by the Faust worker; its settings go through the environment, which is all it reads."""
    environment = dict(os.environ)
    environment.pop("KUBECDC_CONFIG", None)
    for option in settings.OPTIONS:
        value = values[option.key]
        if value in (None, (), ""):
            environment.pop(option.variable, None)
        elif option.many:
            environment[option.variable] = option.separator.join(f"{name}={text}" for name, text in value)
        else:
            environment[option.variable] = str(value)
    folder = tempfile.mkdtemp(prefix="kubecdc-faust-")
    faust = ["-m", "faust", "-A", "processors.app", "--datadir", folder]
    command = [sys.executable, *faust, "worker", "-l", str(values["log_level"]), "--without-web"]
    os.execve(sys.executable, command, environment)  # noqa: S606 - the worker takes this process's place and signals
