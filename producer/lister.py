"""One consistent list of a kind, as versions and digests: what `kubecdc verify` compares the log with.

Digests are made as the producer makes them, so the redaction key and rules must be the producer's. Nothing is kept, and
no content leaves this module. It does not know the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kubecdc.errors import Misconfigured, Unreachable
from kubecdc.records import EventType
from producer import frames, options, signals
from producer.cluster import Cluster
from producer.convert import Context, to_event
from producer.keys import kept_key
from producer.redact import Redactor, parse_rules
from producer.selection import ResourceInfo
from producer.settings import ClusterSettings

NAMES = ("cluster", "kubeconfig", "context", "server", "token-file", "ca-file")
HOW = ("redact", "redaction-key", "redaction-key-file", "page-size", "max-object-bytes")
OPTIONS = tuple(option for option in options.OPTIONS if option.name in (*NAMES, *HOW))
ATTEMPTS = 3  # a list whose pages outlive the server's history begins again

Row = tuple[str, str, str, str, str]  # uid, namespace, name, version, digest


@dataclass(frozen=True, slots=True)
class Listing:
    """All objects of a kind at version `rv`."""

    rv: str
    rows: tuple[Row, ...]


def check(values: Mapping[str, Any]) -> Iterable[str]:
    """What is wrong with the values of OPTIONS together."""
    return options.check(dict.fromkeys((option.key for option in options.OPTIONS), None) | dict(values))


class Lister:
    """Lists of one API server. Raises Misconfigured when there is no usable configuration."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        place = {name: values[name] for name in ("server", "kubeconfig", "context", "token_file", "ca_file")}
        self._server = Cluster(ClusterSettings(values["cluster"] or "", **place))
        self.cluster = self._server.name
        key = options.redaction_key(values) or kept_key(self.cluster)
        if key is None:
            raise Misconfigured("no redaction key: give the producer's --redaction-key-file")
        self._redactor = Redactor(key, parse_rules(values["redact"]))
        self._page_size, self._max_bytes = values["page_size"], values["max_object_bytes"]
        self._kinds: dict[tuple[str, str, str], ResourceInfo] = {}

    def of(self, group: str, version: str, resource: str, scope: str) -> Listing:
        """List a kind in one version, in the namespace `scope` or in all. Raises Unreachable, Misconfigured."""
        kind = self._kind(group, version, resource)
        redaction = self._redactor.for_kind(kind.group, kind.kind)
        context = Context(
            self.cluster, group, version, resource, kind.kind, scope, "verify", redaction, self._max_bytes
        )
        rv, items = self._pages(kind, scope)
        return Listing(rv, tuple(_row(context, item) for item in items))

    def _kind(self, group: str, version: str, resource: str) -> ResourceInfo:
        if not self._kinds:
            found = self._server.discover()
            self._kinds = {(kind.group, kind.version, kind.resource): kind for kind in found.resources}
        kind = self._kinds.get((group, version, resource))
        if kind is None:
            name = f"{resource}.{group}" if group else resource
            raise Misconfigured(
                f"API server {self._server.host} does not serve {name} in version {version}: is it the cluster"
                f" {self.cluster}, and the version that the producer follows?"
            )
        return kind

    def _pages(self, kind: ResourceInfo, scope: str) -> tuple[str, list[frames.Item]]:
        for _ in range(ATTEMPTS):
            token, items = "", list[frames.Item]()
            while True:
                page = self._server.list_page(kind, scope, self._page_size, token)
                if isinstance(page, frames.Page):
                    items += page.items
                    token = page.continue_
                    if not token:
                        return page.rv, items
                elif isinstance(page, frames.ServerError) and page.gone:
                    break
                else:
                    raise Unreachable(f"API server {self._server.host}: {kind.name} cannot be listed: {_why(page)}")
        raise Unreachable(f"API server {self._server.host}: lists of {kind.name} expire before they end")


def _why(answer: frames.Broken | frames.ServerError | signals.Unreachable) -> str:
    return answer.label() if isinstance(answer, frames.ServerError) else answer.why


def _row(context: Context, item: frames.Item) -> Row:
    event, _ = to_event(context, item, EventType.LISTED, epoch=1, seq=0, observed_at=0)
    return item.uid, event.namespace, event.name, item.rv, event.digest
