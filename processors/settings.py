"""What a worker can be told: the options of `kubecdc process`, and the frozen settings that are made of them.

Where values come from is the business of `kubecdc.settings`; nothing else in this package reads the environment, but
for the crash points of `processors.crash`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kubecdc import kinds
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, SCHEMA_REGISTRY, Option, from_environment

TABLE = "process"
SESSION_TIMEOUT_MIN_S = 6.0  # the least that a broker takes by default (group.min.session.timeout.ms)
APP = Option("app", kinds.prefix, help="Name of the consumer group, one per prefix.  Default: the prefix.")
OPTIONS = (
    BOOTSTRAP,
    PREFIX,
    APP,
    SCHEMA_REGISTRY,
    KAFKA_PROPERTY,
    Option("noise", kinds.choice("emit", "drop"), "emit", "Versions whose content is unchanged."),
    Option("runtime", kinds.choice("faust", "plain"), "faust", "The shell around the tasks."),
    Option(
        "group-instance-id",
        kinds.prefix,
        help="This worker's lasting name in the group, such as its pod's: a restart in time then moves no partition.",
    ),
    Option("session-timeout", kinds.seconds, 10.0, "Seconds after which the group gives up on a silent worker."),
    Option(
        "stuck-after",
        kinds.seconds,
        120.0,
        "Seconds without progress, or an assignment, until the worker exits.",
    ),
    Option("metrics-port", kinds.integer(0, 65535), help="Serve /metrics, /healthz and /readyz there; 0: a free port."),
    Option("log-level", kinds.choice("debug", "info", "warning", "error"), "info", "Least level that is logged."),
)


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Which Kafka, and under which names.

    `app` names the consumer group: workers of one prefix share it. Those of another group fence them, and are fenced.
    `properties` are further settings of librdkafka, such as those for TLS and SASL. `group_instance_id` makes a static
    member of the group. Of two living workers with the same one the plain loop ends the older; Faust's client does not
    tell the broker its name with each heartbeat, so there they take the partitions from each other until one is fenced.
    """

    bootstrap: str
    prefix: str = "kubecdc"
    app: str = "kubecdc"
    schema_registry: str | None = field(default=None, repr=False)
    session_timeout_s: float = 10.0
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    group_instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works. `noise` is "emit" or "drop"; `stuck_after_s` bounds work without progress."""

    kafka: KafkaSettings
    noise: str = "emit"
    stuck_after_s: float = 120.0
    metrics_port: int | None = None


def check(values: Mapping[str, Any]) -> Iterable[str]:
    """Problems that no option has alone."""
    session, stuck = values["session_timeout"], values["stuck_after"]
    if session is not None and not SESSION_TIMEOUT_MIN_S <= session <= 60:
        yield f"--session-timeout must be between {SESSION_TIMEOUT_MIN_S:.0f} and 60 seconds, not {session:g}"
    if session is not None and stuck is not None and stuck <= session:
        yield f"--stuck-after {stuck:g} must be longer than --session-timeout {session:g}"


def from_values(values: Mapping[str, Any]) -> WorkerSettings:
    """Settings of resolved values (`kubecdc.settings.resolve`)."""
    kafka = KafkaSettings(
        values["bootstrap"],
        values["prefix"],
        values["app"] or values["prefix"],
        values["schema_registry"],
        values["session_timeout"],
        tuple(values["kafka_property"]),
        values["group_instance_id"],
    )
    return WorkerSettings(kafka, values["noise"], values["stuck_after"], values["metrics_port"])


def of_environment(environ: Mapping[str, str]) -> WorkerSettings:
    """Settings of `KUBECDC_*` alone, for `faust -A`. Raises Misconfigured with every problem."""
    return from_values(from_environment(TABLE, OPTIONS, environ, check))
