"""From raw options to settings: what is missing, wrong or contradictory, all of it at once.

Pure but for reading the redaction key. It does not know where a value came from.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from kubecdc.errors import Misconfigured
from producer.redact import KEY_BYTES_MAX, KEY_BYTES_MIN, parse_rules
from producer.selection import check_patterns
from producer.settings import ClusterSettings, KafkaSettings, ProducerSettings, RedactionSettings, WatchSettings

KEY_VARIABLE = "KUBECDC_REDACTION_KEY"
DEFAULT_CLUSTER = "default"
_POSITIVE = (
    "page_size",
    "max_object_bytes",
    "buffer_mb",
    "watchlist_deadline",
    "inactivity",
    "progress_interval",
    "discovery_interval",
    "backoff_min",
    "backoff_max",
)


@dataclass(frozen=True, slots=True)
class Options:
    """Everything `kubecdc produce` needs."""

    cluster: ClusterSettings
    kafka: KafkaSettings
    producer: ProducerSettings
    metrics_port: int | None


def read(given: Mapping[str, Any]) -> Options:
    """Return the settings. Raises Misconfigured with every problem found."""
    problems = [*_check_where(given), *_check_numbers(given)]
    resources, exclude = _split(given["resources"]), _split(given["exclude"])
    namespaces = _split(given["namespace"])
    problems += check_patterns((*resources, *exclude))
    problems += [f"--namespace {name!r} is no name of a namespace" for name in namespaces if not _is_label(name)]
    rules = tuple(given["redact"])
    properties = _properties(given["kafka_property"], problems)
    try:
        parse_rules(rules)
    except Misconfigured as error:
        problems += error.problems
    key = _key(given["redaction_key_file"], problems)
    if problems:
        raise Misconfigured(*problems)
    watch = WatchSettings(
        resources=resources,
        exclude=exclude,
        namespaces=tuple(dict.fromkeys(namespaces)),
        page_size=given["page_size"],
        max_object_bytes=given["max_object_bytes"],
        inactivity_s=given["inactivity"],
        progress_interval_s=given["progress_interval"],
        backoff_min_s=given["backoff_min"],
        backoff_max_s=given["backoff_max"],
        watchlist=given["watchlist"],
        watchlist_deadline_s=given["watchlist_deadline"],
        discovery_interval_s=given["discovery_interval"],
        audit_interval_s=given["audit_interval"],
    )
    return Options(
        _cluster(given),
        KafkaSettings(given["bootstrap"], given["prefix"], given["schema_registry"], given["buffer_mb"], properties),
        ProducerSettings(watch, RedactionSettings(key, rules)),
        given["metrics_port"],
    )


def _cluster(given: Mapping[str, Any]) -> ClusterSettings:
    name = given["cluster"] or given["context"] or DEFAULT_CLUSTER
    names = ("server", "kubeconfig", "context", "token_file", "ca_file")
    return ClusterSettings(name, **{field: given[field] for field in names})


def _check_where(given: Mapping[str, Any]) -> Iterable[str]:
    if not given["bootstrap"]:
        yield "no Kafka brokers: give --bootstrap HOST:PORT or set KUBECDC_BOOTSTRAP"
    if "/" in (given["cluster"] or ""):
        yield f"--cluster {given['cluster']!r} must not hold a slash: it is part of keys"
    if given["server"]:
        yield from (
            f"--server and --{other} contradict each other: the API server comes from one of them"
            for other in ("kubeconfig", "context")
            if given[other]
        )
        if urlsplit(given["server"]).scheme not in ("http", "https"):
            yield f"--server {given['server']!r} is no URL: write https://HOST:PORT"
    for option in ("token_file", "ca_file", "kubeconfig"):
        path: Path | None = given[option]
        if path is not None and not path.is_file():
            yield f"--{option.replace('_', '-')} {path} does not exist or is no file"
    registry = given["schema_registry"]
    if registry and urlsplit(registry).scheme not in ("http", "https"):
        yield f"--schema-registry {registry!r} is no URL: write http://HOST:PORT"


def _check_numbers(given: Mapping[str, Any]) -> Iterable[str]:
    for option in _POSITIVE:
        if given[option] <= 0:
            yield f"--{option.replace('_', '-')} must be greater than 0, not {given[option]}"
    if given["audit_interval"] < 0:
        yield f"--audit-interval must be 0 or greater, not {given['audit_interval']}"
    if given["backoff_min"] > given["backoff_max"]:
        yield f"--backoff-min {given['backoff_min']} is greater than --backoff-max {given['backoff_max']}"
    port = given["metrics_port"]
    if port is not None and not 0 <= port <= 65535:
        yield f"--metrics-port must be between 0 and 65535, not {port}"


def _split(texts: Iterable[str]) -> tuple[str, ...]:
    """Both `--resources a --resources b` and `--resources a,b` are what people write."""
    return tuple(part for text in texts for part in text.replace(",", " ").split())


def _is_label(name: str) -> bool:
    inner = name.replace("-", "a")
    return name.isascii() and inner.isalnum() and name == name.lower() and "-" not in (name[0], name[-1])


def _properties(texts: Iterable[str], problems: list[str]) -> tuple[tuple[str, str], ...]:
    found = []
    for text in texts:
        name, equals, value = text.partition("=")
        if name and equals:
            found.append((name, value))
        else:
            problems.append(f"--kafka-property {name!r} has no value: write NAME=VALUE")
    return tuple(found)


def _key(path: Path | None, problems: list[str]) -> bytes | None:
    """The key from its file, or from the environment; never from a flag, which others on the machine could read."""
    text = os.environ.get(KEY_VARIABLE)
    if path is None and text is None:
        return None
    try:
        key = path.read_bytes().strip() if path is not None else (text or "").encode()
    except OSError as error:
        problems.append(f"--redaction-key-file {path} cannot be read: {error.strerror}")
        return None
    if not KEY_BYTES_MIN <= len(key) <= KEY_BYTES_MAX:
        problems.append(f"the redaction key has {len(key)} bytes: give {KEY_BYTES_MIN} to {KEY_BYTES_MAX} random ones")
    return key
