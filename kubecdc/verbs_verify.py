"""`kubecdc verify`: the log's state at version R against a LIST at exactly R, for each kind in the log.

Lists come from a port that the root of the command line hands in, since the library knows no API server. Each list
tells its version; the log is read until it is resolved that far, then once more for the state at those versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import click

from kubecdc import reading, render, settings
from kubecdc.errors import Misconfigured
from kubecdc.folding import Fold, Resolved
from kubecdc.kinds import choice, seconds
from kubecdc.matching import Match
from kubecdc.past import Past, Stream
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, SCHEMA_REGISTRY, Option
from kubecdc.verbs import MATCH, OUTPUT, Breaks, tell_absent
from kubecdc.verifying import Comparison, Listed, compare
from kubecdc.versions import newer

DIFFERENT, UNKNOWN = 1, 2
OWN = (
    BOOTSTRAP,
    PREFIX,
    SCHEMA_REGISTRY,
    KAFKA_PROPERTY,
    next(option for option in MATCH if option.name == "resource"),
    Option(
        "wait", seconds, 180.0, "How long the log may take to be resolved up to the lists; bookmarks come each minute."
    ),
    Option("noise", choice("emit", "drop"), "emit", "What the workers are told of versions with unchanged content."),
    OUTPUT,
)


class Listing(Protocol):
    """A list at version `rv`: uid, namespace, name, version and digest of each object."""

    @property
    def rv(self) -> str:
        """The list's own version."""

    @property
    def rows(self) -> Iterable[tuple[str, str, str, str, str]]:
        """The objects."""


class Lister(Protocol):
    """One cluster's API server."""

    cluster: str

    def of(self, group: str, version: str, resource: str, scope: str) -> Listing:
        """List a kind. Raises Unreachable or Misconfigured."""


class Port(Protocol):
    """What the root hands in: the settings of a lister, and how to make one."""

    OPTIONS: Sequence[Option]
    check: Callable[[Mapping[str, Any]], Iterable[str]]
    Lister: Callable[[Mapping[str, Any]], Lister]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is known of one stream at version `rv`; `unknown` says why nothing can be said."""

    stream: Stream
    rv: str
    found: Comparison | None
    uncertain: int = 0
    unknown: str = ""


def composed(port: Port) -> click.Command:
    """The command, over a lister."""

    @click.command("verify", help="Compare the log with the API server: exit 0 when nothing differs, 1 when it does.")
    @settings.options("verify", (*OWN, *port.OPTIONS), port.check)
    def verify(values: Mapping[str, Any]) -> None:
        verdicts = verified(values, port.Lister(values))
        _print(verdicts, values["output"])
        if any(verdict.found and verdict.found.differences for verdict in verdicts):
            click.get_current_context().exit(DIFFERENT)
        if any(verdict.unknown for verdict in verdicts):
            click.get_current_context().exit(UNKNOWN)

    return verify


def verified(values: Mapping[str, Any], lister: Lister) -> list[Verdict]:
    """List each kind that the log has of the lister's cluster, and compare.

    Raises ChainBroken, Unreachable, and Misconfigured where there is nothing to compare.
    """
    source = reading.Source(
        values["bootstrap"], values["prefix"], values["schema_registry"], tuple(values["kafka_property"])
    )
    match = Match(cluster=lister.cluster, resources=values["resource"])
    known = reading.fold(source, Breaks("raise"), match)
    if not known.streams():
        told = match.absent(known.kinds) or ("nothing of what is asked for is resolved: do producer and workers run?",)
        raise Misconfigured(*(f"there is nothing to compare: {sentence}" for sentence in told))
    tell_absent(match, known.kinds)
    listings = {
        stream: lister.of(stream[0].group, known.versions[stream], stream[0].resource, stream[1])
        for stream in sorted(known.streams())
    }
    wanted = {stream: listing.rv for stream, listing in listings.items()}
    fold = reading.follow_until(source, lambda fold: not _short(fold, wanted), values["wait"], Breaks("raise"), match)
    short = _short(fold, wanted)
    reached = fold.streams()
    bounds = {s: Resolved(at.epoch, rv) for s, rv in wanted.items() if s not in short and (at := reached[s])}
    past = reading.past(source, bounds, match)
    dropped = values["noise"] == "drop"
    return [
        Verdict(stream, wanted[stream], None, unknown=short[stream])
        if stream in short
        else _verdict(stream, listings[stream], past, dropped=dropped)
        for stream in listings
    ]


def _short(fold: Fold, wanted: Mapping[Stream, str]) -> dict[Stream, str]:
    """The streams that are not resolved up to their list, and how far they are."""
    short = {}
    reached = fold.streams()
    for stream, rv in wanted.items():
        at = reached.get(stream)
        if at is None or newer(rv, at.rv):
            short[stream] = f"resolved up to {at.rv if at else 'nothing'} only: do producer and workers run?"
    return short


def _verdict(stream: Stream, listing: Listing, past: Past, *, dropped: bool) -> Verdict:
    if stream in past.inside:
        return Verdict(stream, listing.rv, None, unknown="the version lies inside a gap: try again")
    resource, scope = stream
    logged = {
        uid: change
        for uid, change in past.objects.items()
        if uid not in past.uncertain
        and change.scope == scope
        and (change.cluster, change.group, change.resource) == (resource.cluster, resource.group, resource.resource)
    }
    listed = [Listed(*row) for row in listing.rows if row[0] not in past.uncertain]
    found = compare(resource, logged, listed, noise_dropped=dropped)
    return Verdict(stream, listing.rv, found, len(past.uncertain))


def _print(verdicts: Sequence[Verdict], output: str) -> None:
    rows = [
        {
            "resource": str(verdict.stream[0]),
            "scope": verdict.stream[1],
            "rv": verdict.rv,
            "equal": verdict.found.equal if verdict.found else None,
            "different": len(verdict.found.differences) if verdict.found else None,
            "uncertain": verdict.uncertain,
            "unlike_keys": verdict.found.unlike_keys if verdict.found else None,
            "unknown": verdict.unknown,
        }
        for verdict in verdicts
    ]
    differences = [
        {
            "kind": difference.kind,
            "resource": str(difference.resource),
            "namespace": difference.namespace,
            "name": difference.name,
            "uid": difference.uid,
            "log_rv": difference.log_rv,
            "server_rv": difference.server_rv,
        }
        for verdict in verdicts
        if verdict.found
        for difference in verdict.found.differences
    ]
    if output == "table":
        render.rows(rows, output)
        render.rows(differences, output)
    elif output == "json":
        render.document({"streams": rows, "differences": differences})
    else:
        render.rows([*rows, *differences], output)
