"""The report of a chaos run: which faults struck how often, and what was found to hold. Pure: values in, text out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from local.verdicts import Status, Verdict
from tests.chaos.schedule import PROCESS_FAULTS, Fault

MEANING = {
    "G1": "every committed version is in the log before it is claimed, or inside a named gap; nothing is invented",
    "G2": "every delete arrived, observed, or inferred within its bounds; none is invented",
    "G3": "per object: versions strictly increase over epochs, `seq` without a hole, prev_rv fits",
    "G1 gaps": "each gap has a cause that did happen, and claims no more than is true",
    "G4 labels": "what a list showed is labelled, and overwrites nothing newer",
    "G5 lists": "each inferred delete comes from a complete list that lacks the object, which was dead by then",
    "offsets": "no event is answered twice",
    "consumer": "the library's chain check finds no break, in the whole log and in a compacted one",
    "acknowledged": "what the API server confirmed to the writer is in etcd's history",
    "exactly once": "no version of an object is in the log twice",
    "source order": "records come in the order of the events that they were made of, in the right partition",
    "undisturbed": "one fold of the same events without a fault writes the same log, record by record",
    "followed": "the judge's own memory of the events topic is in order",
    "G8 converged": "the last state of the log is what the API server lists, at the same versions",
    "G8 verify": "`kubecdc verify`: the log's state at a version is the server's list at it, content included",
    "in time": "the log came to the last commit by itself: nobody hung, or failed again and again",
    "lag 0": "no event waits for a worker",
    "no open transaction": "the last stable offset is the end, on changes and on state",
}


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """Everything that a run found out."""

    title: str
    commit: str
    date: str
    command: str
    numbers: Mapping[str, int | float | str]
    struck: Mapping[Fault, int]
    missed: Mapping[Fault, int]
    crashed: Mapping[str, int]
    ended: Mapping[str, int]
    verdicts: Mapping[str, Verdict]
    gaps: Mapping[str, int]
    words: Sequence[str]

    @property
    def ok(self) -> bool:
        """Everything holds; what could not be judged does not."""
        return all(verdict.status is Status.HOLDS for verdict in self.verdicts.values())

    @property
    def process_faults(self) -> int:
        """Producers and workers that were killed, stopped, frozen or crashed. Crashes count when they happened."""
        struck = sum(
            n for fault, n in self.struck.items() if fault in PROCESS_FAULTS and fault is not Fault.CRASH_WORKER
        )
        return struck + sum(self.crashed.values())

    def markdown(self) -> str:
        """Write it for `docs/reliability.md`."""
        lines = [f"### {self.title}: {'all hold' if self.ok else 'NOT all hold'}", ""]
        lines += [f"{self.date}, commit `{self.commit}`, `{self.command}`", ""]
        lines += ["| | |", "|---|---:|"]
        lines += [
            f"| {name} | {value} |" for name, value in {"process faults": self.process_faults, **self.numbers}.items()
        ]
        lines += ["", "| fault | struck | could not just then |", "|---|---:|---:|"]
        rows: dict[Fault, int] = {fault: n for fault, n in self.struck.items() if fault is not Fault.CRASH_WORKER}
        for fault in Fault:
            if rows.get(fault) or (self.missed.get(fault) and fault is not Fault.CRASH_WORKER):
                lines.append(f"| {fault} | {rows.get(fault, 0)} | {self.missed.get(fault, 0)} |")
        lines += [f"| crash point `{point}` | {n} | |" for point, n in sorted(self.crashed.items())]
        lines += ["", "| what must hold | verdict | judged |", "|---|---|---:|"]
        for name, verdict in self.verdicts.items():
            meaning = MEANING.get(name, "")
            lines.append(f"| {name}{': ' if meaning else ''}{meaning} | {verdict.status} | {verdict.judged} |")
        for name, verdict in self.verdicts.items():
            lines += [f"- {name}: {finding}" for finding in verdict.findings]
        lines += [
            "",
            "Gaps named: " + (", ".join(f"{n} {cause}" for cause, n in sorted(self.gaps.items())) or "none") + ".",
        ]
        ends = ", ".join(f"{what} {n} times" for what, n in sorted(self.ended.items()))
        lines += ["", f"Ends that nobody ordered, each followed by a new start: {ends or 'none'}."]
        return "\n".join(lines) + "\n"
