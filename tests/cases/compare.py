"""Compare what came out of a case with what it expects (cases/README.md 5).

Pure. `compare` returns sentences about every difference, and what must hold in every case is always part of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kubecdc.records import Change, Op
from kubecdc.versions import newer, order
from tests.cases import always, bodies
from tests.cases.always import Logged, StreamGap
from tests.cases.loader import Case, blocks
from tests.cases.script import Seen, fits

COUNTERS = ("duplicate", "stale", "conflict", "noise_dropped", "relist_aborted")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out: the changes topic in order, counters, requests, and all bytes that left, by where they were."""

    log: Sequence[Logged]
    counters: Mapping[str, int] = field(default_factory=dict)
    seen: Sequence[Seen] = ()
    left: Sequence[tuple[str, bytes]] = ()


def compare(case: Case, outcome: Outcome) -> list[str]:
    """Everything that is not as the case expects; of several blocks that may hold, the differences to the nearest."""
    partitions = case.settings["partitions"]
    objects = always.of_objects(outcome.log)
    wrong = [fault for uid, records in sorted(objects.items()) for fault in always.sequence(uid, records)]
    wrong += always.coverage(outcome.log)
    wrong += always.placement(outcome.log, partitions)
    gaps, torn = always.stream_gaps(outcome.log, partitions)
    wrong += torn
    wrong += always.requests(outcome.seen)
    attempts = [_block(case, block, outcome, objects, gaps) for block in blocks(case.expect)]
    return wrong + min(attempts, key=len)


def _block(
    case: Case,
    expect: Mapping[str, Any],
    outcome: Outcome,
    objects: Mapping[str, list[Change]],
    gaps: list[StreamGap],
) -> list[str]:
    wrong = []
    for uid in sorted({*objects, *expect["changes"]}):
        wrong += records(uid, objects.get(uid, []), expect["changes"].get(uid, {"absent": True}))
    wrong += _gaps(gaps, expect.get("gaps", []), case)
    wrong += _converges(objects, expect.get("converges", {}))
    epoch = max((logged.change.epoch for logged in outcome.log if logged.change), default=1)
    if epoch != expect.get("epoch", 1):
        wrong.append(f"epoch: {epoch}, expected {expect.get('epoch', 1)}")
    if "resolved" in expect:
        wrong += _resolved(outcome.log, expect["resolved"], case)
    if "order" in expect:
        wrong += _order(outcome.log, expect["order"])
    wrong += _requests(outcome.seen, expect.get("requests", {}))
    wrong += _counters(outcome.counters, expect.get("counters", {}))
    for text in expect.get("never_bytes", []):
        wrong += [f"never_bytes: {text!r} is in {where}" for where, data in outcome.left if text.encode() in data]
    return wrong


def alternatives(value: Any) -> list[Any]:
    """All values that an expectation allows in this place."""
    if isinstance(value, Mapping) and set(value) == {"any_of"}:
        return [one for inner in value["any_of"] for one in alternatives(inner)]
    return [value]


def same(value: Any, expected: Any) -> bool:
    """The value is one of those that are expected; "*" is any."""
    return any(one == "*" or value == one for one in alternatives(expected))


# ---------------------------------------------------------------------------------------------- changes of objects


def records(uid: str, found: list[Change], expected: Any) -> list[str]:
    """The records of a UID are exactly those expected, in order."""
    attempts = [_records(uid, found, one) for one in alternatives(expected)]
    return min(attempts, key=len)


def _records(uid: str, found: list[Change], expected: Any) -> list[str]:
    shown = ", ".join(f"{change.op}@{change.rv}" for change in found) or "nothing"
    if expected == {"absent": True}:
        return [f"{uid}: {shown}, expected was nothing"] if found else []
    if len(found) != len(expected):
        wanted = ", ".join(f"{want['op']}@{want.get('rv')}" for want in expected)
        return [f"{uid}: {shown}, expected was {wanted}", *[""] * abs(len(found) - len(expected))]
    wrong = []
    for change, want in zip(found, expected, strict=True):
        wrong += [f"{uid} {change.op}@{change.rv}: {fault}" for fault in differences(change, want)]
    return wrong


def differences(change: Change, want: Mapping[str, Any]) -> list[str]:
    """What of a change is not as wanted."""
    wanted = {"epoch": 1, "inferred": False, **want}
    wrong = [
        f"{name} is {getattr(change, name)!r}, not {wanted[name]!r}"
        for name in ("op", "rv", "seq", "epoch", "prev_rv", "inferred", "after_rv", "upto_rv", "noise")
        if name in wanted and not same(_plain(getattr(change, name)), wanted[name])
    ]
    free = change.inferred and "gap" not in want
    if not free and not any(_gap_fits(change, one) for one in alternatives(want.get("gap"))):
        wrong.append(f"gap is {change.gap}, not {want.get('gap')}")
    if "changed" in want and not any(
        one == "*" or touches(change.changed, one) for one in alternatives(want["changed"])
    ):
        wrong.append(f"changed is {list(change.changed)}, not {want['changed']}")
    if "object" in want and not any(_object_fits(change, one) for one in alternatives(want["object"])):
        wrong.append(f"object is {change.object}, not {want['object']}")
    if "object_omitted" in want and not any(_omitted_fits(change, one) for one in alternatives(want["object_omitted"])):
        wrong.append(f"object_omitted is {change.object_omitted}, not {want['object_omitted']}")
    return wrong


def _omitted_fits(change: Change, want: Any) -> bool:
    if want == "*":
        return True
    if want is None or change.object_omitted is None:
        return want is None and change.object_omitted is None
    return change.object is None and change.object_omitted.bytes >= want.get("bytes_min", 0)


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Op) else value


def _gap_fits(change: Change, want: Any) -> bool:
    if want == "*":
        return True
    if want is None or change.gap is None:
        return want is None and change.gap is None
    values = {
        "cause": change.gap.cause.value,
        "missed_at_least": change.gap.missed_at_least,
        "after_rv": change.after_rv,
        "upto_rv": change.upto_rv,
    }
    return all(same(values[name], one) for name, one in want.items())


def _object_fits(change: Change, want: Any) -> bool:
    if want == "*" or want is None:
        return want == "*" or change.object is None
    return change.object is not None and partly(json.loads(change.object), want)


def partly(value: Any, want: Any) -> bool:
    """Every key that is wanted is there, at any depth."""
    if isinstance(want, Mapping) and set(want) != {"any_of"}:
        return isinstance(value, Mapping) and all(key in value and partly(value[key], one) for key, one in want.items())
    return same(value, want)


def touches(reported: Iterable[str], expected: Iterable[str]) -> bool:
    """Each reported pointer equals, contains or lies under an expected one, and each expected one is hit."""
    reported, expected = list(reported), list(expected)
    near = {(one, other) for one in reported for other in expected if _under(one, other) or _under(other, one)}
    return {one for one, _ in near} == set(reported) and {other for _, other in near} == set(expected)


def _under(pointer: str, other: str) -> bool:
    return pointer == other or pointer.startswith(f"{other}/")


# ----------------------------------------------------------------------------------------------------- the stream


def _gaps(found: list[StreamGap], expected: Any, case: Case) -> list[str]:
    for choice in alternatives(expected):
        if len(choice) == len(found) and _pairs(found, list(choice), case):
            return []
    return [f"gaps: {_show(found)}, expected was {expected}"]


def _pairs(found: list[StreamGap], wanted: list[Any], case: Case) -> bool:
    """Each gap has an expectation of its own."""
    if not found:
        return not wanted
    return any(
        _is_gap(found[0], want, case) and _pairs(found[1:], wanted[:number] + wanted[number + 1 :], case)
        for number, want in enumerate(wanted)
    )


def _is_gap(gap: StreamGap, want: Mapping[str, Any], case: Case) -> bool:
    resource = want.get("resource", case.resources[0])
    return (
        (gap.group, gap.resource) == bodies.same_kind(resource)
        and same(gap.cause, want["cause"])
        and same(gap.after_rv, want.get("after_rv", "*"))
        and same(gap.upto_rv, want.get("upto_rv", "*"))
    )


def _show(gaps: list[StreamGap]) -> str:
    return "[" + ", ".join(f"{g.cause} {g.resource} ({g.after_rv}, {g.upto_rv}]" for g in gaps) + "]"


def _converges(objects: Mapping[str, list[Change]], expected: Mapping[str, str]) -> list[str]:
    alive = {}
    for uid, changes in objects.items():
        state = [change for change in changes if change.op is not Op.GAP]
        if state and state[-1].op is not Op.DELETED:
            alive[uid] = state[-1].rv
    return [] if alive == expected else [f"converges: {alive}, expected was {expected}"]


def _resolved(log: Sequence[Logged], expected: Any, case: Case) -> list[str]:
    several = isinstance(expected, Mapping) and set(expected) != {"any_of"}
    per_resource = expected if several else {case.resources[0]: expected}
    wrong = []
    for resource, want in per_resource.items():
        found = resolved(log, resource, case.settings["partitions"])
        if not same(found, want):
            wrong.append(f"resolved of {resource}: {found}, expected was {want}")
    return wrong


def resolved(log: Iterable[Logged], resource: str, partitions: int) -> str | None:
    """The smallest end of the latest PROGRESS over scopes and partitions; None where one has none in the last epoch."""
    ends: dict[tuple[str, int], str | None] = {}
    epoch = 0
    for logged in log:
        change = logged.change
        if change is None or (change.group, change.resource) != bodies.same_kind(resource):
            continue
        if change.epoch > epoch:
            epoch = change.epoch
            ends = dict.fromkeys(ends)
        if change.uid is None:
            for partition in range(partitions):
                ends.setdefault((change.scope, partition))
            at = (change.scope, logged.partition)
            if change.upto_rv is not None and change.epoch == epoch and newer(change.upto_rv, ends[at]):
                ends[at] = change.upto_rv
    known = [rv for rv in ends.values() if rv is not None]
    return min(known, key=order) if known and len(known) == len(ends) else None


def _order(log: Iterable[Logged], expected: Sequence[Sequence[str]]) -> list[str]:
    waiting = [tuple(pair) for pair in expected]
    for logged in log:
        if logged.change and waiting and (logged.change.uid, logged.change.op.value) == waiting[0]:
            waiting.pop(0)
    return [f"order: {waiting[0]} does not come where it should in {list(expected)}"] if waiting else []


# --------------------------------------------------------------------------------------------- requests, counters


def _requests(seen: Sequence[Seen], expected: Mapping[str, Any]) -> list[str]:
    answered = sum(one.outcome == "answered" for one in seen)
    refused = sum(one.outcome == "refused" for one in seen)
    wrong = []
    if answered > expected.get("max", answered):
        wrong.append(f"requests: {answered} were answered, at most {expected['max']} were expected")
    if refused > expected.get("refused_max", refused):
        wrong.append(f"requests: {refused} were refused, at most {expected['refused_max']} were expected")
    for never in expected.get("never", []):
        wrong += [
            f"requests: {one.lane} {one.kind} {dict(one.params)} must never come" for one in seen if _is(one, never)
        ]
    return wrong


def _is(one: Seen, never: Mapping[str, Any]) -> bool:
    lane = {"to": one.kind, "resource": one.lane.resource, "by": one.lane.by, "ns": one.lane.ns}
    named = {key: value for key, value in never.items() if key in lane}
    return all(lane[key] == value for key, value in named.items()) and fits(
        {key: value for key, value in never.items() if key not in lane}, one.params
    )


def _counters(found: Mapping[str, int], expected: Mapping[str, Any]) -> list[str]:
    return [
        f"counter {name}: {found.get(name, 0)}, expected was {want}"
        for name, want in {"conflict": 0, **expected}.items()
        if not same(found.get(name, 0), want)
    ]
