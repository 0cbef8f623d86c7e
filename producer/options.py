"""The options of `kubecdc produce`: what they are, what contradicts what, and the settings that they make.

Pure but for reading the redaction key. Where a value comes from is decided in `kubecdc.settings`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kubecdc import kinds
from kubecdc.errors import Misconfigured
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, SCHEMA_REGISTRY, Option
from kubecdc.topics import MAX_MESSAGE_BYTES
from producer.redact import KEY_BYTES_MAX, KEY_BYTES_MIN, parse_rules
from producer.selection import check_patterns
from producer.settings import (
    ClusterSettings,
    ElectionSettings,
    KafkaSettings,
    ProducerSettings,
    RedactionSettings,
    WatchSettings,
)

POSITIVE = kinds.integer(1)
# With digests, managers and names a record is larger than its object, and must fit into a message.
OBJECT_BYTES = kinds.integer(1, MAX_MESSAGE_BYTES // 2)

OPTIONS = (
    BOOTSTRAP,
    PREFIX,
    SCHEMA_REGISTRY,
    KAFKA_PROPERTY,
    Option("buffer-mb", kinds.integer(1, 2047), 32, "Records that may wait for Kafka, in MB; then the watches wait."),
    Option("cluster", help="Name of the cluster in every record; that of the kubeconfig context, or `default`."),
    Option("kubeconfig", kinds.file, help="Kubeconfig file; else KUBECONFIG, ~/.kube/config, or the pod's account."),
    Option("context", help="Context of the kubeconfig."),
    Option("server", kinds.url, help="URL of the API server, instead of a kubeconfig."),
    Option("token-file", kinds.file, help="File with a bearer token; it is read again for every request."),
    Option("ca-file", kinds.file, help="File with the API server's certificate authority."),
    Option("resources", many=True, help="Kinds to follow: pods, deployments.apps, *.example.io; else most."),
    Option("exclude", many=True, help="Kinds to leave out, in the same spelling."),
    Option("namespace", many=True, help="Namespaces to follow, each with lists and watches of its own; else all."),
    Option("redact", many=True, separator=";", help="More values to redact, Kind:$.json.path; Secrets always are."),
    Option("redaction-key", secret=True, help="16 to 64 bytes that key the digests of secrets; not as a flag, please."),
    Option("redaction-key-file", kinds.file, help="File with that key; else one is made and kept on this machine."),
    Option("page-size", POSITIVE, 500, "Items on a page of a list."),
    Option("max-object-bytes", OBJECT_BYTES, 1_000_000, "Larger objects are published without their content."),
    Option("watchlist", kinds.choice("auto", "always", "never"), "auto", "Stream the first list, from 1.32 on."),
    Option("watchlist-deadline", kinds.seconds, 30.0, "Time until a streamed list must have ended."),
    Option("inactivity", kinds.seconds, 150.0, "How long an open watch may be silent."),
    Option(
        "unheard-after", kinds.seconds, 60.0, "/readyz names a kind, discovery or Kafka that is silent for so long."
    ),
    Option("progress-interval", kinds.seconds, 5.0, "Time between PROGRESS records."),
    Option("discovery-interval", kinds.seconds, 30.0, "Time between looks for new kinds."),
    Option("audit-interval", kinds.seconds, 3600.0, "Time between audit lists; 0: never."),
    Option("backoff-min", kinds.seconds, 0.8, "Shortest wait after a failure."),
    Option("backoff-max", kinds.seconds, 30.0, "Longest wait after failures, and between tries of a forbidden kind."),
    Option("elect", kinds.boolean, False, "Let a Lease elect one of several producers; the others stand by."),
    Option("lease-name", default="kubecdc-producer", help="Name of that Lease: one for each cluster and prefix."),
    Option("lease-namespace", help="Its namespace; that of the pod, or `default`."),
    Option("lease-duration", kinds.integer(3, 3600), 15, "Seconds after which a silent leader is followed."),
    Option("metrics-port", kinds.integer(0, 65535), help="Serve /metrics, /healthz and /readyz there; 0: any port."),
    Option("log-format", kinds.choice("text", "json"), "text", "Form of the log on standard error."),
    Option("log-level", kinds.choice("debug", "info", "warning", "error"), "info", "Least level that is logged."),
)
_ABOVE_ZERO = (
    "watchlist_deadline",
    "inactivity",
    "unheard_after",
    "progress_interval",
    "discovery_interval",
    "backoff_min",
)


@dataclass(frozen=True, slots=True)
class Options:
    """Everything `kubecdc produce` needs. The redaction key is None when none was given."""

    cluster: ClusterSettings
    kafka: KafkaSettings
    producer: ProducerSettings
    election: ElectionSettings | None
    metrics_port: int | None


def check(values: Mapping[str, Any]) -> Iterable[str]:
    """Yield what is wrong beyond single values: spelling of patterns, contradictions, the key. Values may be None."""
    if "/" in (values["cluster"] or ""):
        yield f"--cluster {values['cluster']!r} must not hold a slash: it is part of keys"
    if values["server"]:
        for other in ("kubeconfig", "context"):
            if values[other]:
                yield f"--server and --{other} contradict each other: the API server comes from one of them"
    yield from check_patterns((*(values["resources"] or ()), *(values["exclude"] or ())))
    yield from _check_names(values)
    try:
        parse_rules(values["redact"] or ())
    except Misconfigured as error:
        yield from error.problems
    for key in _ABOVE_ZERO:
        if values[key] is not None and values[key] <= 0:
            yield f"--{key.replace('_', '-')} must be greater than 0"
    if None not in (values["backoff_min"], values["backoff_max"]) and values["backoff_min"] > values["backoff_max"]:
        yield f"--backoff-min {values['backoff_min']} is greater than --backoff-max {values['backoff_max']}"
    yield from _check_key(values)


def build(values: Mapping[str, Any]) -> Options:
    """Make the settings of checked values."""
    watch = WatchSettings(
        resources=values["resources"],
        exclude=values["exclude"],
        namespaces=tuple(dict.fromkeys(values["namespace"])),
        page_size=values["page_size"],
        max_object_bytes=values["max_object_bytes"],
        inactivity_s=values["inactivity"],
        unheard_after_s=values["unheard_after"],
        progress_interval_s=values["progress_interval"],
        backoff_min_s=values["backoff_min"],
        backoff_max_s=values["backoff_max"],
        watchlist=values["watchlist"],
        watchlist_deadline_s=values["watchlist_deadline"],
        discovery_interval_s=values["discovery_interval"],
        audit_interval_s=values["audit_interval"],
    )
    place = {field: values[field] for field in ("server", "kubeconfig", "context", "token_file", "ca_file")}
    return Options(
        ClusterSettings(values["cluster"] or "", **place),
        KafkaSettings(
            values["bootstrap"],
            values["prefix"],
            values["schema_registry"],
            values["buffer_mb"],
            values["kafka_property"],
        ),
        ProducerSettings(watch, RedactionSettings(redaction_key(values), values["redact"])),
        _election(values),
        values["metrics_port"],
    )


def _election(values: Mapping[str, Any]) -> ElectionSettings | None:
    if not values["elect"]:
        return None
    return ElectionSettings(values["lease_name"], values["lease_namespace"], float(values["lease_duration"]))


def _check_names(values: Mapping[str, Any]) -> Iterable[str]:
    for name in values["namespace"] or ():
        if not _is_label(name):
            yield f"--namespace {name!r} is no name of a namespace"
    if values["lease_namespace"] and not _is_label(values["lease_namespace"]):
        yield f"--lease-namespace {values['lease_namespace']!r} is no name of a namespace"
    if values["lease_name"] and not all(map(_is_label, values["lease_name"].split("."))):
        yield f"--lease-name {values['lease_name']!r} is no name of an object"


def _is_label(name: str) -> bool:
    inner = name.replace("-", "a")
    return name.isascii() and inner.isalnum() and name == name.lower() and "-" not in (name[0], name[-1])


def redaction_key(values: Mapping[str, Any]) -> bytes | None:
    """The key that was given, None for none. Raises OSError when its file cannot be read."""
    path: Path | None = values["redaction_key_file"]
    if path is not None:
        return path.read_bytes().strip()
    text: str | None = values["redaction_key"]
    return text.encode() if text is not None else None


def _check_key(values: Mapping[str, Any]) -> Iterable[str]:
    if values["redaction_key"] and values["redaction_key_file"]:
        yield "--redaction-key and --redaction-key-file contradict each other: give one of them"
    try:
        key = redaction_key(values)
    except OSError as error:
        yield f"--redaction-key-file {values['redaction_key_file']} cannot be read: {error.strerror}"
        return
    if key is not None and not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        yield f"the redaction key has {len(key)} bytes: give {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random ones"
