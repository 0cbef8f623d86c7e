"""What a producer can be told: small frozen settings, one class for each concern.

Values only, with defaults that suit a cluster of ordinary size. Where they come from (flags, `KUBECDC_*`, a TOML file)
is the business of `producer.cli`; nothing else reads the environment.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Which API server, and as whom.

    `name` identifies the cluster in every record; empty: as the kubeconfig's context is called. With `server` no
    kubeconfig is read. `token_file` is read anew for every request, since tokens rotate.
    """

    name: str
    server: str | None = None
    kubeconfig: Path | None = None
    context: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where to write. `buffer_mb` bounds what waits for an acknowledgement; beyond it the watches are held back.

    `properties` are further settings of librdkafka, such as those for TLS and SASL.
    """

    bootstrap: str
    prefix: str = "kubecdc"
    schema_registry: str | None = None
    buffer_mb: int = 32
    properties: tuple[tuple[str, str], ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """What to watch and how; times in seconds.

    `inactivity_s` is how long an open watch may be silent before it is opened again: bookmarks come every 60 s, the
    first one of a watch up to 120 s after its begin. `unheard_after_s` is how long nothing may be heard of a kind, of
    discovery or of Kafka, whatever the reason, until the producer is not ready.
    `backoff_min_s` doubles up to `backoff_max_s`, which is also how often a forbidden kind is tried. `watchlist` is
    "auto" (a server from 1.32 on), "always" or "never". `audit_interval_s` 0 means never. `restore_confirmations` is
    how many lists in a row must contradict what was read before the server counts as restored.
    """

    resources: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    page_size: int = 500
    max_object_bytes: int = 1_000_000
    inactivity_s: float = 150.0
    progress_interval_s: float = 5.0
    backoff_min_s: float = 0.8
    backoff_max_s: float = 30.0
    watchlist: str = "auto"
    watchlist_deadline_s: float = 30.0
    unheard_after_s: float = 60.0
    discovery_interval_s: float = 30.0
    audit_interval_s: float = 3600.0
    restore_confirmations: int = 3


@dataclass(frozen=True, slots=True)
class RedactionSettings:
    """How secrets are hidden: `key` (bytes, None: a random one for this process) and further rules."""

    key: bytes | None = field(default=None, repr=False)
    rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ElectionSettings:
    """Which Lease elects one of several producers: its `namespace` (None: the pod's own, else `default`) and `name`.

    A leader that stops without handing the lease over is followed after `duration_s` seconds.
    """

    name: str = "kubecdc-producer"
    namespace: str | None = None
    duration_s: float = 15.0


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """What the embeddable service needs beside a cluster and a sink."""

    watch: WatchSettings = WatchSettings()
    redaction: RedactionSettings = RedactionSettings()
