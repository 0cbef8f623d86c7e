"""Read case files (cases/README.md of the shared folder): scripts of what an API server does, and what must come out.

It gives the steps a type and cuts them at the barriers; it judges neither versions nor expectations, which is what the
folder's own `check.py` is for. A case knows nothing of our code.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER_VARIABLE = "KUBECDC_CASES"
DEFAULTS: dict[str, Any] = {
    "partitions": 3,
    "noise": "emit",
    "active_active": False,
    "inactivity_s": 60,
    "watchlist": False,
    "watchlist_deadline_s": 10,
    "audit": False,
    "max_object_bytes": 1_000_000,
    "namespaces": [],
}
REQUESTS = ("list", "watch", "watchlist")
NEEDS = {"kafka", "crash-points"}
ACTIONS = {
    "settle", "wait", "restart-producer", "kill-producer", "second-producer", "kill-processor", "crash-processor",
    "pause-kafka", "resume-kafka", "audit", "refuse", "accept", "token",
}  # fmt: skip


class CaseError(ValueError):
    """A case file that cannot be played; the text names the file and the step."""


@dataclass(frozen=True, slots=True)
class Lane:
    """Who asks for what: the requests of one lane come in the order of its steps."""

    by: str
    resource: str
    ns: str

    def __str__(self) -> str:
        return f"{self.by} {self.resource}" + (f" in {self.ns}" if self.ns else "")


@dataclass(frozen=True, slots=True)
class Request:
    """A request that must come: what it has to look like, and the answer as the file has it."""

    lane: Lane
    kind: str
    want: Mapping[str, Any]
    answer: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Open:
    """More frames on the lane's open watch."""

    lane: Lane
    stream: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Steps that may come as often as the client likes, within bounds; `count` passes have begun."""

    steps: tuple[Node, ...]
    at_least: int
    at_most: int
    count: int = 0


@dataclass(frozen=True, slots=True)
class Either:
    """Alternative branches: the one whose first step fits the next request.

    Where they belong to several lanes, each lane has its part of all of them: the parts share `number`, and `leads`
    tells for each branch in which lane its first step is.
    """

    branches: tuple[tuple[Node, ...], ...]
    number: int = 0
    leads: tuple[Lane, ...] = ()


@dataclass(frozen=True, slots=True)
class Action:
    """A `do` step."""

    name: str
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Serve:
    """From now on discovery shows these resources."""

    resources: tuple[str, ...]


Node = Request | Open | Repeat | Either
Segment = dict[Lane, tuple[Node, ...]]
Act = Segment | Action | Serve


@dataclass(frozen=True, slots=True)
class Case:
    """One file. `acts` alternates between segments, whose lanes go side by side, and barriers."""

    id: str
    resources: tuple[str, ...]
    settings: Mapping[str, Any]
    acts: tuple[Act, ...]
    expect: Mapping[str, Any]

    @property
    def crash_points(self) -> tuple[str, ...]:
        """Where the processor dies: the case is played once for each."""
        points = [point for act in self.acts if isinstance(act, Action) for point in act.options.get("at", ())]
        return tuple(dict.fromkeys(points))


def folder() -> Path:
    """Where the cases are: KUBECDC_CASES, or `shared/cases` beside the repository."""
    named = os.environ.get(FOLDER_VARIABLE)
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "cases"


def files(where: Path) -> list[Path]:
    """The case files, in order; empty when there are none."""
    return sorted(where.glob("*.yaml"))


def load(path: Path) -> Case:
    """Read one case. Raises CaseError."""
    try:
        document = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CaseError(f"{path.name} cannot be read: {error}") from error
    try:
        return parse(document)
    except CaseError as error:
        raise CaseError(f"{path.name}: {error}") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise CaseError(f"{path.name}: the form is wrong: {type(error).__name__} {error}") from error


def parse(document: Mapping[str, Any]) -> Case:
    """Turn a document into a case. Raises CaseError, or what Python raises on a wrong form."""
    settings = document.get("settings") or {}
    _known(settings, DEFAULTS, "settings")
    _known(document.get("needs") or (), NEEDS, "needs")
    resources = tuple(document.get("resources") or [document.get("resource", "v1/configmaps")])
    return Case(
        document["id"], resources, DEFAULTS | settings, tuple(_acts(document["steps"], resources)), document["expect"]
    )


def blocks(expect: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The expectation once for each block of `expect.any_of`, changes merged; one of them must hold as a whole."""
    rest = {key: value for key, value in expect.items() if key != "any_of"}
    return [
        {**rest, **block, "changes": {**rest.get("changes", {}), **block.get("changes", {})}}
        for block in expect.get("any_of", [{}])
    ]


def _known(given: Iterable[str], allowed: Iterable[str], where: str) -> None:
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise CaseError(f"{where}: unknown {unknown}")


def _acts(steps: list[dict[str, Any]], resources: tuple[str, ...]) -> list[Act]:
    acts: list[Act] = []
    segment: dict[Lane, list[Node]] = {}

    def flush() -> None:
        if segment:
            acts.append({lane: tuple(nodes) for lane, nodes in segment.items()})
            segment.clear()

    for number, step in enumerate(steps, 1):
        if "do" in step:
            if step["do"] not in ACTIONS:
                raise CaseError(f"step {number}: unknown action {step['do']!r}")
            flush()
            acts.append(Action(step["do"], step))
        elif step.get("to") == "discovery":
            flush()
            acts.append(Serve(tuple(step["serves"])))
        else:
            node = _node(step, resources, f"step {number}")
            for lane in dict.fromkeys(_lanes(node)):
                segment.setdefault(lane, []).extend(_part(node, lane))
    flush()
    return acts


def _node(step: dict[str, Any], resources: tuple[str, ...], where: str) -> Node:
    if "repeat" in step:
        bounds = step["repeat"]
        body = tuple(_node(inner, resources, where) for inner in step["steps"])
        return Repeat(body, bounds["at_least"], bounds["at_most"])
    if "either" in step:
        branches = tuple(tuple(_node(inner, resources, where) for inner in branch) for branch in step["either"])
        leads = tuple(_lanes(branch[0])[0] for branch in branches)
        return Either(branches, id(step), leads)
    lane = lane_of(step, resources)
    if lane.resource not in resources:
        raise CaseError(f"{where}: {lane.resource} is no resource of the case")
    if step.get("to") == "open":
        return Open(lane, tuple(step["stream"]))
    if step.get("to") not in REQUESTS:
        raise CaseError(f"{where}: unknown step {step!r}")
    return Request(lane, step["to"], step.get("want") or {}, step)


def lane_of(step: Mapping[str, Any], resources: tuple[str, ...]) -> Lane:
    """The lane that a step names, with its defaults."""
    return Lane(step.get("by", "p1"), step.get("resource", resources[0]), step.get("ns", ""))


def _part(node: Node, lane: Lane) -> tuple[Node, ...]:
    """What of a node belongs to a lane."""
    lanes = {*_lanes(node)}
    if lanes <= {lane}:
        return (node,)
    if isinstance(node, Repeat):
        steps = tuple(part for inner in node.steps for part in _part(inner, lane))
        return (Repeat(steps, node.at_least, node.at_most),) if steps else ()
    if isinstance(node, Either) and lane in lanes:
        branches = tuple(tuple(part for inner in b for part in _part(inner, lane)) for b in node.branches)
        return (Either(branches, node.number, node.leads),)
    return ()


def _lanes(node: Node) -> list[Lane]:
    if isinstance(node, Repeat):
        return [lane for inner in node.steps for lane in _lanes(inner)]
    if isinstance(node, Either):
        return [lane for branch in node.branches for inner in branch for lane in _lanes(inner)]
    return [node.lane]
