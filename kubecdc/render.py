"""How answers are printed: a table for people, JSON for programs. No decision but that of form.

JSON is one array, ndjson one value a line. An object's text is given as the JSON it is. A table is drawn with rich on
a terminal, and as aligned columns elsewhere; changes that keep coming are lines, as a table has to know its end.
"""

from __future__ import annotations

import dataclasses
import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TextIO

import orjson
from rich.console import Console
from rich.table import Table

from kubecdc.chain import resource_name
from kubecdc.escaping import visible
from kubecdc.folding import GapReport, Resolved, Resource
from kubecdc.records import Cause, Change, Op

OUTPUTS = ("table", "json", "ndjson")
COLOURS = {
    Op.CREATED: "green",
    Op.SNAPSHOT: "cyan",
    Op.UPDATED: "blue",
    Op.DELETED: "red",
    Op.GAP: "bold yellow",
    Op.PROGRESS: "dim",
}
CHANGED_SHOWN = 4
UNREADABLE = ("(unknown)", "(one record)", "(unknown)")  # kind, object and versions of an UNDECODABLE gap


class _Console(Console):
    """Leaves a reader that has gone to the root of the command line, as the other forms do; rich would end with 1."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


class Changes:
    """Prints changes one after the other; use it as a context, since a JSON array has an end."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._count = 0
        self._console = _Console(highlight=False, soft_wrap=True, emoji=False)

    def __enter__(self) -> Self:
        _out()
        if self._output == "json":
            _write(b"[")
        elif self._output == "table":
            self._console.print(_line("TIME", "OP", "KIND", "OBJECT", "VERSION", "SEQ", "DETAIL"), style="bold")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._output == "json" and (kind is None or not issubclass(kind, BrokenPipeError)):
            _write(b"\n]\n")
            _out().flush()

    def add(self, changes: Iterable[Change]) -> None:
        """Print these, and hand them on at once."""
        for change in changes:
            if self._output == "table":
                self._console.print(change_line(change), style=COLOURS[change.op], markup=False)
            else:
                before = (b"\n" if self._count == 0 else b",\n") if self._output == "json" else b""
                after = b"" if self._output == "json" else b"\n"
                _write(before + change_json(change) + after)
            self._count += 1
        _out().flush()


def change_json(change: Change) -> bytes:
    """One line of JSON: every field of the record, `object` as the JSON it holds."""
    return orjson.dumps(change_value(change))


def change_value(change: Change) -> dict[str, Any]:
    """The record as a JSON value for orjson."""
    value = {field.name: getattr(change, field.name) for field in dataclasses.fields(change)}
    value["object"] = _embedded(change.object)
    return value


def change_line(change: Change) -> str:
    """A change in one line of text."""
    kind, place, version = resource_name(change), _place(change), change.rv or ""
    if change.gap is not None and change.gap.cause is Cause.UNDECODABLE:
        kind, place, version = UNREADABLE
    elif change.op in (Op.GAP, Op.PROGRESS) and change.uid is None:
        version = f"({change.after_rv or 'start'}, {change.upto_rv or 'open'}]"
    seq = "" if change.seq is None else str(change.seq)
    return _line(_time(change.observed_at), change.op, kind, place, version, seq, _detail(change))


def document(whole: Mapping[str, Any], *, indented: bool = True) -> None:
    """Print one JSON value."""
    _write(orjson.dumps(whole, option=orjson.OPT_INDENT_2 if indented else None) + b"\n")
    _out().flush()


def rows(found: Sequence[Mapping[str, Any]], output: str) -> None:
    """Print records with equal keys."""
    if output == "json":
        _write(orjson.dumps(found, option=orjson.OPT_INDENT_2) + b"\n")
    elif output == "ndjson":
        for row in found:
            _write(orjson.dumps(row) + b"\n")
    elif found:
        _draw([name.upper() for name in found[0]], [[_cell(value) for value in row.values()] for row in found])
    _out().flush()


def gap_rows(gaps: Iterable[GapReport]) -> list[dict[str, Any]]:
    """Gap reports as records. UNDECODABLE is of one record that nobody can read: of no kind, never open or closed."""
    return [
        {
            "cause": gap.cause,
            "cluster": gap.resource.cluster or None,
            "resource": str(gap.resource) or None,
            "scope": gap.scope,
            "namespace": gap.namespace,
            "name": gap.name,
            "uid": gap.uid,
            "epoch": gap.epoch,
            "after_rv": gap.after_rv,
            "upto_rv": gap.upto_rv,
            "open": None if gap.cause is Cause.UNDECODABLE else gap.open,
            "missed_at_least": gap.missed_at_least,
            "detail": gap.detail,
            "partitions": gap.partitions,
            "observed_at": gap.observed_at,
        }
        for gap in gaps
    ]


def resolved_rows(resolved: Mapping[Resource, Resolved | None]) -> list[dict[str, Any]]:
    """Resolved versions as records."""
    return [
        {
            "cluster": resource.cluster,
            "resource": str(resource),
            "epoch": at.epoch if at else None,
            "resolved": at.rv if at else None,
        }
        for resource, at in sorted(resolved.items())
    ]


def gap_table(gaps: Sequence[GapReport]) -> None:
    """Gaps for people."""
    lines = [
        [
            _time(gap.observed_at),
            gap.cause,
            *(UNREADABLE if gap.cause is Cause.UNDECODABLE else _told_of(gap)),
            "" if gap.missed_at_least is None else f">= {gap.missed_at_least}",
            gap.detail,
        ]
        for gap in gaps
    ]
    _draw(["TIME", "CAUSE", "KIND", "OBJECT", "VERSIONS", "MISSED", "DETAIL"], lines)


def _told_of(gap: GapReport) -> tuple[str, str, str]:
    """Kind, object and versions."""
    place = f"{gap.namespace}/{gap.name}" if gap.uid else gap.scope or "(all)"
    upto = gap.upto_rv or ("open" if gap.open else "closed later")
    return str(gap.resource), place, f"({gap.after_rv or 'start'}, {upto}]"


def state_table(objects: Sequence[Change], resolved: Mapping[Resource, Resolved | None]) -> None:
    """The latest state for people: the objects, then how far each kind is resolved."""
    lines = [
        [resource_name(each), each.namespace, each.name, each.rv or "", str(each.seq), _time(each.observed_at)]
        for each in objects
    ]
    _draw(["KIND", "NAMESPACE", "NAME", "VERSION", "SEQ", "SEEN"], lines)
    _draw(["CLUSTER", "KIND", "EPOCH", "RESOLVED"], [[_cell(v) for v in r.values()] for r in resolved_rows(resolved)])


def _out() -> TextIO:
    """Standard output. Raises OSError where whoever started us has closed it, and Python has none."""
    out: TextIO | None = getattr(sys, "stdout", None)
    if out is None:
        raise OSError(errno.EBADF, "closed", "standard output")
    return out


def _write(told: bytes) -> None:
    """Write JSON, which is UTF-8 whatever the terminal's encoding."""
    _out().buffer.write(told)


def _draw(heads: Sequence[str], raw: Sequence[Sequence[str]]) -> None:
    lines = [[visible(cell) for cell in line] for line in raw]
    out, console = _out(), _Console(highlight=False, emoji=False)
    if console.is_terminal:
        table = Table(box=None, pad_edge=False)
        for head in heads:
            table.add_column(head, overflow="fold")
        for line in lines:
            table.add_row(*line)
        console.print(table, markup=False)
        return
    widths = [max(map(len, column)) for column in zip(heads, *lines, strict=True)]
    for line in (list(heads), *lines):
        padded = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        out.write(padded.rstrip() + "\n")
    out.flush()


def _line(*cells: str) -> str:
    widths = (24, 8, 24, 40, 24, 4)
    shown = [visible(cell) for cell in cells]
    padded = [cell.ljust(width) for cell, width in zip(shown, widths, strict=False)]
    return " ".join((*padded, *shown[len(widths) :])).rstrip()


def _detail(change: Change) -> str:
    parts = []
    if change.gap is not None:
        missed = "" if change.gap.missed_at_least is None else f" (at least {change.gap.missed_at_least} missed)"
        parts.append(f"{change.gap.cause}{missed}" + (f": {change.gap.detail}" if change.gap.detail else ""))
    if change.inferred:
        parts.append(f"inferred in ({change.after_rv}, {change.upto_rv}]")
    if change.noise:
        parts.append("noise")
    if change.changed:
        more = f" and {len(change.changed) - CHANGED_SHOWN} more" if len(change.changed) > CHANGED_SHOWN else ""
        parts.append(" ".join(change.changed[:CHANGED_SHOWN]) + more)
    if change.changed_by:
        parts.append("by " + ", ".join(sorted({each.manager for each in change.changed_by})))
    if change.op is Op.PROGRESS:
        parts.append(f"{change.count} records")
    return "; ".join(parts)


def _place(change: Change) -> str:
    if change.uid is None:
        return f"({change.scope})" if change.scope else f"(all of {change.cluster})"
    return f"{change.namespace}/{change.name}" if change.namespace else change.name


def _time(at_ms: int) -> str:
    """Date and time, as `--from` takes them: history is of many days."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return "" if value is None else str(value)


def _embedded(text: str | None) -> Any:
    """JSON text as part of a JSON line, number by number as it was written; a string where it is no JSON."""
    if text is None:
        return None
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return orjson.Fragment(text) if "\n" not in text and "\r" not in text else value
