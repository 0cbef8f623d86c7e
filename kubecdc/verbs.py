"""`kubecdc subscribe | replay | state | gaps`: the reading API on the command line.

Each verb reads its flags, calls the function of `kubecdc.reading` that has the answer, and hands what it gives to
`kubecdc.render`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from kubecdc import reading, render, settings
from kubecdc.chain import Break
from kubecdc.errors import ChainBroken, Misconfigured
from kubecdc.escaping import visible
from kubecdc.folding import Resource
from kubecdc.kinds import Kind, boolean, choice, text
from kubecdc.matching import Match
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, SCHEMA_REGISTRY, Option
from kubecdc.start import BEGINNING, WANTED, Start, start_of


def _from(given: str) -> Start:
    try:
        return start_of(given, datetime.now(UTC))
    except Misconfigured:
        raise ValueError(f"must be {WANTED}") from None


FROM = Option("from", Kind("WHERE", WANTED, _from), BEGINNING, f"Where to begin: {WANTED}.")
OUTPUT = Option("output", choice(*render.OUTPUTS), "table", "How to print it.", short="o")
WHERE = (BOOTSTRAP, PREFIX, SCHEMA_REGISTRY, KAFKA_PROPERTY)
MATCH = (
    Option("cluster", text, help="Only this cluster."),
    Option("resource", text, many=True, help="Only these kinds, such as deployments of any group or deployments.apps."),
    Option("namespace", text, help="Only this namespace.", short="n"),
    Option("name", text, help="Only objects of this name."),
    Option("uid", text, help="Only the object with this UID."),
)
ON_BREAK = Option(
    "on-break",
    choice("raise", "report"),
    "raise",
    "What a hole in the log does: raise ends with status 3, report goes on and ends so.",
)
PROGRESS = Option("progress", boolean, help="Print PROGRESS records too; by default in JSON only.")
AT_RV = Option("at-rv", text, help="The state at this resourceVersion, which must be resolved; else the latest.")
READ = (*WHERE, *MATCH, ON_BREAK, OUTPUT)
FOLLOW = (*WHERE, FROM, *MATCH, PROGRESS, ON_BREAK, OUTPUT)


@click.command()
@settings.options("subscribe", FOLLOW)
def subscribe(values: Mapping[str, Any]) -> None:
    """Follow the canonical change log until Ctrl-C."""
    breaks = Breaks(values["on_break"])
    with reading.subscribe(**_asked(values, breaks), from_=values["from"]) as log:
        _print(log, values["output"])


@click.command()
@settings.options("replay", FOLLOW)
def replay(values: Mapping[str, Any]) -> None:
    """Show the change log from a place in it up to where it ends now."""
    breaks = Breaks(values["on_break"])
    asked = _asked(values, breaks)
    with reading.replay(**asked, from_=values["from"]) as log:
        click.echo(f"kubecdc: {log.history}", err=True)
        _print(log, values["output"])
        tell_absent(asked["match"], log.kinds)
    breaks.judge()


@click.command()
@settings.options("state", (*READ, AT_RV))
def state(values: Mapping[str, Any]) -> None:
    """Show the state of every object that lives, or lived at an earlier version."""
    breaks = Breaks(values["on_break"])
    asked = _asked(values, breaks)
    found = reading.state(**asked, at_rv=values["at_rv"])
    tell_absent(asked["match"], found.kinds)
    if found.uncertain:
        told = "objects may have been other than shown: their next change lies after a gap"
        click.echo(f"kubecdc: {len(found.uncertain)} {told}", err=True)
    for resource, scope in found.inside:
        place = f"{resource} in {scope}" if scope else str(resource)
        told = f"version {values['at_rv']} of {place} lies inside a gap: objects may be missing, or older than shown"
        click.echo(f"kubecdc: {visible(told)}", err=True)
    if values["output"] == "table":
        render.state_table(found.objects, found.resolved)
    elif values["output"] == "ndjson":
        render.rows([render.change_value(change) for change in found.objects], "ndjson")
    else:
        objects = [render.change_value(change) for change in found.objects]
        whole = {
            "objects": objects,
            "resolved": render.resolved_rows(found.resolved),
            "uncertain": found.uncertain,
            "inside_gap": [
                {"cluster": resource.cluster, "resource": str(resource), "scope": scope}
                for resource, scope in found.inside
            ],
        }
        render.document(whole, indented=False)
    breaks.judge()


@click.command()
@settings.options("gaps", READ)
def gaps(values: Mapping[str, Any]) -> None:
    """Show where history is incomplete, and why; a gap of a stream once, not once for each partition."""
    breaks = Breaks(values["on_break"])
    asked = _asked(values, breaks)
    found = reading.state(**asked)
    tell_absent(asked["match"], found.kinds)
    if values["output"] == "table":
        render.gap_table(found.gaps)
    else:
        render.rows(render.gap_rows(found.gaps), values["output"])
    breaks.judge()


class Breaks:
    """What to do with a break: end at once, or tell it and end with ChainBroken after all."""

    def __init__(self, on_break: str) -> None:
        self._raise = on_break == "raise"
        self._count = 0

    def __call__(self, found: Break) -> None:
        """Take the next break. Raises ChainBroken."""
        if self._raise:
            raise ChainBroken(str(found))
        self._count += 1
        click.echo(f"kubecdc: {visible(str(found))}", err=True)

    def judge(self) -> None:
        """Raise ChainBroken if there was any."""
        if self._count:
            raise ChainBroken(f"the log is broken in {self._count} places")


def tell_absent(match: Match, kinds: Collection[Resource]) -> None:
    """Say which filters can match nothing: an empty answer would look like an empty cluster."""
    for sentence in match.absent(kinds):
        click.echo(f"kubecdc: {visible(sentence)}", err=True)


def _asked(values: Mapping[str, Any], breaks: Breaks) -> dict[str, Any]:
    progress = values.get("progress")
    match = Match(
        cluster=values["cluster"],
        resources=values["resource"],
        namespace=values["namespace"],
        name=values["name"],
        uid=values["uid"],
        progress=values["output"] != "table" if progress is None else progress,
    )
    return {
        "bootstrap": values["bootstrap"],
        "prefix": values["prefix"],
        "schema_registry": values["schema_registry"],
        "properties": values["kafka_property"],
        "on_break": breaks,
        "match": match,
    }


def _print(log: reading.Subscription, output: str) -> None:
    with render.Changes(output) as printer:
        while not log.done:
            printer.add(log.poll(reading.WAIT_S))
