"""Who of several producers leads, by a Lease (coordination.k8s.io/v1): the decisions of one candidate.

Pure: `step(election, input) -> (election, outputs)`; times come in as values of a clock that never goes back. The rules
are those of client-go's leaderelection: a lease counts as expired when it has not changed for its duration *as seen by
this candidate's clock*, so clocks of machines need not agree; a leader that could not renew in time stops leading by
itself, before the lease has expired for others; every write names the version that was read, so that of two
candidates one is refused (409).

The `kubernetes` package's own module is unfit: it takes times from the wall clock, so that a step of it takes or loses
leads; its thread ends with an uncaught error when the server does not answer; its requests have no time-out, so a hung
one leads for ever; it can neither be stopped nor hand its lease over; it judges another's lease by its own duration.

Two leaders for a moment are harmless (design.md, producer rule 7); the lease saves reading everything twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

RENEW_WITHIN = 2 / 3  # of the duration; the rest is for the request that is under way
RETRY_EVERY = 2 / 15  # client-go's 15 s, 10 s and 2 s
RELEASED_S = 1  # client-go leaves a lease of one second behind


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it was read. `holder` is empty when it was released; `body` is the whole object."""

    holder: str
    duration_s: float
    renewed: str
    transitions: int
    body: Mapping[str, Any] = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Election:
    """One candidate. `seen_at` is when `seen` was first read like this; `renewed_at` is None while it follows."""

    identity: str
    duration_s: float
    seen: Lease | None = None
    seen_at: float = 0.0
    renewed_at: float | None = None

    @property
    def leading(self) -> bool:
        """The lease is ours, as far as we know."""
        return self.renewed_at is not None


# --- inputs: `at` is the clock in seconds, `now` the time of day in RFC 3339 with microseconds -----------------------


@dataclass(frozen=True, slots=True)
class Due:
    """Time passes; it is time to look."""

    at: float


@dataclass(frozen=True, slots=True)
class Found:
    """The lease was read; None: there is none."""

    lease: Lease | None
    at: float
    now: str


@dataclass(frozen=True, slots=True)
class Written:
    """The server took our lease, as we hear at `at`; it counts from `asked_at`, when it was sent."""

    lease: Lease
    asked_at: float
    at: float


@dataclass(frozen=True, slots=True)
class Failed:
    """No answer, a refusal, or a conflict: somebody else wrote first."""

    at: float


Input = Due | Found | Written | Failed

# --- outputs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Read the lease."""


@dataclass(frozen=True, slots=True)
class Write:
    """Create the lease, or update it when `body` carries a resourceVersion."""

    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Lead:
    """From now on this candidate leads."""


@dataclass(frozen=True, slots=True)
class Follow:
    """It leads no more."""


Output = Read | Write | Lead | Follow
Stepped = tuple[Election, list[Output]]


def step(election: Election, signal: Input) -> Stepped:
    """Take one input."""
    match signal:
        case Due(at):
            election, outputs = _overdue(election, at)
            return election, [*outputs, Read()]
        case Found():
            return _found(election, signal)
        case Written(lease, asked_at, at):
            led = election.leading
            election = replace(election, seen=lease, seen_at=asked_at, renewed_at=asked_at)
            election, outputs = _overdue(election, at)
            if election.leading == led:
                return election, []
            return election, outputs if led else [Lead()]
        case Failed(at):
            return _overdue(election, at)


def released(election: Election, now: str) -> Mapping[str, Any] | None:
    """The body that hands our lease to whoever comes next, None when it is not ours."""
    if not election.leading or election.seen is None:
        return None
    spec = {"holderIdentity": "", "leaseDurationSeconds": RELEASED_S, "renewTime": now, "acquireTime": now}
    return _with_spec(election.seen.body, spec)


def parse(body: Mapping[str, Any]) -> Lease:
    """Read a Lease object; anything that is missing or odd in it counts as released long ago."""
    spec = body.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    holder, duration, renewed = (spec.get(name) for name in ("holderIdentity", "leaseDurationSeconds", "renewTime"))
    transitions = spec.get("leaseTransitions")
    return Lease(
        holder if isinstance(holder, str) else "",
        float(duration) if isinstance(duration, int) else 0.0,
        renewed if isinstance(renewed, str) else "",
        transitions if isinstance(transitions, int) else 0,
        body,
    )


def _overdue(election: Election, at: float) -> Stepped:
    """A leader that was paused, or could not renew, must not believe in its lease any more."""
    renewed_at = election.renewed_at
    if renewed_at is None or at - renewed_at < election.duration_s * RENEW_WITHIN:
        return election, []
    return replace(election, renewed_at=None), [Follow()]


def _found(election: Election, found: Found) -> Stepped:
    election, outputs = _overdue(election, found.at)
    lease = found.lease
    if lease is None:
        return replace(election, seen=None), [*outputs, Write(_claim(election, None, found.now))]
    seen_at = election.seen_at if lease == election.seen else found.at
    election = replace(election, seen=lease, seen_at=seen_at)
    if lease.holder == election.identity:
        return election, [*outputs, Write(_claim(election, lease, found.now))]
    if election.leading:  # somebody took it: by force, or since we were late
        election, outputs = replace(election, renewed_at=None), [*outputs, Follow()]
    if lease.holder and found.at - election.seen_at < lease.duration_s:
        return election, outputs
    return election, [*outputs, Write(_claim(election, lease, found.now))]


def _claim(election: Election, lease: Lease | None, now: str) -> Mapping[str, Any]:
    spec: dict[str, Any] = {
        "holderIdentity": election.identity,
        "leaseDurationSeconds": max(1, round(election.duration_s)),
        "renewTime": now,
    }
    if lease is None:
        return {"spec": spec | {"acquireTime": now, "leaseTransitions": 0}}
    if lease.holder != election.identity:
        spec |= {"acquireTime": now, "leaseTransitions": lease.transitions + 1}
    return _with_spec(lease.body, spec)


def _with_spec(body: Mapping[str, Any], spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep the object's metadata, its version among them, and the fields of its spec that are not ours."""
    before = body.get("spec")
    return {**body, "spec": {**(before if isinstance(before, dict) else {}), **spec}}
