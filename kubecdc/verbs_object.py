"""`kubecdc history | diff | blame`: one object through its versions.

The object is named by its UID. What differs and who is to blame is decided in `kubecdc.blaming`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from kubecdc import reading, render, settings
from kubecdc.blaming import blame as blame_fields
from kubecdc.blaming import diff as differing
from kubecdc.errors import Misconfigured
from kubecdc.kinds import text
from kubecdc.records import Change
from kubecdc.settings import Option
from kubecdc.verbs import AT_RV, ON_BREAK, OUTPUT, WHERE, Breaks

UID = Option("uid", text, required=True, help="The object's UID; `kubecdc state -o ndjson` shows it.")
ONE = (*WHERE, UID, ON_BREAK, OUTPUT)
DIFF = (
    *ONE,
    Option("from-rv", text, help="The older version; else the one before the newer."),
    Option("to-rv", text, help="The newer version; else the latest."),
)


@click.command()
@settings.options("history", ONE)
def history(values: Mapping[str, Any]) -> None:
    """Show every version of one object that the log has."""
    breaks = Breaks(values["on_break"])
    versions = _versions(values, breaks)
    with render.Changes(values["output"]) as printer:
        printer.add(versions)
    breaks.judge()


@click.command()
@settings.options("diff", DIFF)
def diff(values: Mapping[str, Any]) -> None:
    """Show the fields in which two versions of an object differ."""
    breaks = Breaks(values["on_break"])
    versions = _versions(values, breaks)
    after = _at(versions, values["to_rv"])
    earlier = versions[: versions.index(after)]
    before = _at(versions, values["from_rv"]) if values["from_rv"] else earlier[-1] if earlier else None
    for change in (before, after):
        if change is not None and change.object is None and change.object_omitted is not None:
            raise Misconfigured(
                f"version {change.rv} is in the log without its object ({change.object_omitted.reason})"
            )
    fields = differing(before.object if before else None, after.object)
    rows = [{"path": field.path, "before": field.before, "after": field.after} for field in fields]
    render.rows(rows, values["output"])
    breaks.judge()


@click.command()
@settings.options("blame", (*ONE, AT_RV))
def blame(values: Mapping[str, Any]) -> None:
    """Show which manager last set each field of an object, and since which version."""
    breaks = Breaks(values["on_break"])
    versions = _versions(values, breaks)
    if values["at_rv"]:
        versions = versions[: versions.index(_at(versions, values["at_rv"])) + 1]
    rows = [
        {
            "path": field.path,
            "value": field.value,
            "managers": field.managers,
            "since_rv": field.since_rv,
            "since": datetime.fromtimestamp(field.since_ms / 1000, UTC).isoformat(timespec="seconds"),
            "or_older": not field.exact,
        }
        for field in blame_fields(versions)
    ]
    render.rows(rows, values["output"])
    breaks.judge()


def _versions(values: Mapping[str, Any], breaks: Breaks) -> Sequence[Change]:
    """The changes of the object. Raises Misconfigured when there are none."""
    found = reading.history(
        values["bootstrap"],
        values["uid"],
        prefix=values["prefix"],
        on_break=breaks,
        schema_registry=values["schema_registry"],
        properties=values["kafka_property"],
    )
    if not found:
        raise Misconfigured(f"the log has no object with UID {values['uid']}: `kubecdc state -o ndjson` shows UIDs")
    return found


def _at(versions: Sequence[Change], rv: str | None) -> Change:
    """The latest change of that version. Raises Misconfigured when there is none."""
    if rv is None:
        return versions[-1]
    for change in reversed(versions):
        if change.rv == rv:
            return change
    known = ", ".join(str(change.rv) for change in versions[-10:])
    raise Misconfigured(f"the log has no version {rv} of this object; its last are {known}")
