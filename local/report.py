"""The report that ends a demo: what was committed, what is in the log, what was injected, and the verdicts.

Pure: counts and formats values. As text for people, as one JSON object for programs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from kubecdc.records import Change, Op
from local.verdicts import OBJECT_OPS, Entry, Status, Verdict

_COLOURS = {Status.HOLDS: "green", Status.FAILS: "bold red", Status.UNKNOWN: "yellow"}
_GAPS_SHOWN = 20
GUARANTEES = {
    "G1": "no silent gap: every committed version is in the log, or inside a named gap",
    "G2": "every delete arrives, observed or inferred with bounds",
    "G3": "per object, versions strictly increase and seq has no hole",
}


class GapLine(NamedTuple):
    """A gap, named once for all partitions that hold it with the same bounds."""

    cause: str
    resource: str
    after_rv: str | None
    upto_rv: str | None


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that a demo found out. `seconds` is how long it took, start and end included."""

    cluster: str
    runtime: str
    seed: int
    events: int
    changes: int
    duplicates: int
    stale: int
    inferred_deletes: int
    gaps: Sequence[GapLine]
    faults: Mapping[str, int]
    verdicts: Mapping[str, Verdict]
    seconds: float

    @property
    def ok(self) -> bool:
        """All guarantees hold; one that could not be judged does not."""
        return all(verdict.status is Status.HOLDS for verdict in self.verdicts.values())

    def to_json(self) -> str:
        """Write it as one line of JSON."""
        shown: dict[str, Any] = {
            "ok": self.ok,
            "cluster": self.cluster,
            "runtime": self.runtime,
            "seed": self.seed,
            "events": self.events,
            "changes": self.changes,
            "duplicates": self.duplicates,
            "stale": self.stale,
            "inferred_deletes": self.inferred_deletes,
            "gaps": [gap._asdict() for gap in self.gaps],
            "faults": dict(self.faults),
            "verdicts": {name: verdict.status.value for name, verdict in self.verdicts.items()},
            "seconds": round(self.seconds, 1),
        }
        return json.dumps(shown)

    def render(self, console: Console) -> None:
        """Print it for people."""
        console.print(Group(self._numbers(), self._faults(), self._gaps(), self._verdicts()))
        for name, verdict in self.verdicts.items():
            for finding in verdict.findings:
                console.print(Text(f"{name}: {finding}", style=_COLOURS[verdict.status]))

    def _numbers(self) -> Table:
        title = f"cluster {self.cluster}, runtime {self.runtime}, seed {self.seed}, {self.seconds:.1f} s"
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for label, number in (
            ("events committed by the API server", self.events),
            ("canonical changes", self.changes),
            ("duplicates dropped", self.duplicates),
            ("stale records dropped", self.stale),
            ("deletes inferred", self.inferred_deletes),
            ("gaps named", len(self.gaps)),
        ):
            table.add_row(label, str(number))
        return table

    def _faults(self) -> Table:
        table = Table(title="faults injected", title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right")
        for name, count in self.faults.items():
            table.add_row(name, str(count))
        return table

    def _gaps(self) -> Table:
        table = Table("cause", "resource", "after", "up to", title="gaps", title_justify="left")
        for gap in self.gaps[:_GAPS_SHOWN]:
            table.add_row(gap.cause, gap.resource, gap.after_rv or "the beginning", gap.upto_rv or "still open")
        if len(self.gaps) > _GAPS_SHOWN:
            table.add_row("…", f"and {len(self.gaps) - _GAPS_SHOWN} more", "", "")
        return table

    def _verdicts(self) -> Table:
        table = Table("", "verdict", "judged", "guarantee", title="verdicts", title_justify="left")
        for name, verdict in self.verdicts.items():
            status = Text(verdict.status.value, style=_COLOURS[verdict.status])
            table.add_row(name, status, str(verdict.judged), GUARANTEES.get(name, ""))
        return table


def changes_in(log: Iterable[Entry]) -> int:
    """Count the records of objects."""
    return sum(entry.change.op in OBJECT_OPS for entry in log)


def inferred_deletes_in(log: Iterable[Entry]) -> int:
    """Count deletes that nobody showed."""
    return sum(entry.change.op is Op.DELETED and entry.change.inferred for entry in log)


def gaps_in(log: Iterable[Entry]) -> list[GapLine]:
    """List the gaps of streams once over partitions, and the causes on objects that no stream's gap has named."""
    lines: dict[GapLine, None] = {}
    on_objects: list[Change] = []
    for entry in log:
        change = entry.change
        if change.gap is None:
            continue
        if change.op is Op.GAP:
            lines[GapLine(str(change.gap.cause), resource_name(change), change.after_rv, change.upto_rv)] = None
        else:
            on_objects.append(change)
    named = {(line.cause, line.resource) for line in lines}
    for change in on_objects:
        line = GapLine(
            str(change.gap.cause) if change.gap else "",
            resource_name(change),
            change.after_rv or change.prev_rv,
            change.rv,
        )
        if (line.cause, line.resource) not in named:
            lines[line] = None
    return list(lines)


def resource_name(change: Change) -> str:
    """Name a resource as kubectl does: `pods`, `deployments.apps`."""
    return f"{change.resource}.{change.group}" if change.group else change.resource
