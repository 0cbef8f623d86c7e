"""`kubecdc process`: start a worker, as a Faust worker or as the plain loop."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping
from types import FrameType
from typing import Any

import click

from kubecdc.probes import MetricsServer
from kubecdc.separated import joined
from kubecdc.settings import options
from processors import settings
from processors.errors import ProcessorError
from processors.kafka import Cluster
from processors.metrics import Metrics
from processors.plain import Worker

log = logging.getLogger(__name__)


@click.command("process", help="Turn the events topic into the canonical change log, exactly once.")
@options(settings.TABLE, settings.OPTIONS, settings.check)
def process(values: Mapping[str, Any]) -> None:
    """Run a worker until SIGTERM or SIGINT; status 1 and the reason when it cannot go on."""
    worker = settings.from_values(values)
    Cluster(worker.kafka).layout()
    if values["runtime"] == "faust":
        _become_faust(values)
    _run_plain(worker, str(values["log_level"]))


def _run_plain(settings_: settings.WorkerSettings, level: str) -> None:
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s")
    metrics = Metrics()
    worker = Worker(settings_, metrics)
    if settings_.metrics_port is not None:
        tasks = worker.tasks
        server = MetricsServer(settings_.metrics_port, metrics.registry, tasks.healthy, tasks.ready, tasks.unready)
        log.info("metrics on port %d", server.port)
    try:
        worker.run(_stop_on_signals())
    except ProcessorError as error:
        log.debug("the worker ends", exc_info=error)
        click.echo(f"error: {error}", err=True)
        raise SystemExit(1) from error


def _stop_on_signals() -> threading.Event:
    stop = threading.Event()

    def ask(number: int, frame: FrameType | None) -> None:
        del frame
        stop.set()
        signal.signal(number, signal.SIG_DFL)  # the second one ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    return stop


def _become_faust(values: Mapping[str, Any]) -> None:
    """Replace this process by the Faust worker; its settings go through the environment, which is all it reads."""
    environment = dict(os.environ)
    environment.pop("KUBECDC_CONFIG", None)
    for option in settings.OPTIONS:
        value = values[option.key]
        if value in (None, (), ""):
            environment.pop(option.variable, None)
        elif option.many:
            environment[option.variable] = joined([f"{name}={text}" for name, text in value], option.separator)
        else:
            environment[option.variable] = str(value)
    faust = ["-m", "faust", "-A", "processors.app"]
    level = {"warning": "warn"}.get(values["log_level"], values["log_level"])
    command = [sys.executable, *faust, "worker", "-l", level, "--without-web"]
    os.execve(sys.executable, command, environment)  # noqa: S606 - the worker takes this process's place and signals
