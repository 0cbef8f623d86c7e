"""The script of a case while it is played: which request gets which answer, and when a segment is over.

It decides, and waits under one lock; it knows no sockets. `tests.cases.server` asks it for each request, and
`tests.cases.harness` leads it from barrier to barrier.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.cases.loader import Case, Either, Lane, Node, Open, Repeat, Request, Segment
from tests.cases.outside import Outside, Refused

POLL_S = 0.02
TOLERANCE = 0.9


@dataclass(frozen=True, slots=True)
class Asked:
    """A request as it came in; `at` is its time on the monotonic clock."""

    lane: Lane
    kind: str
    params: Mapping[str, str]
    token: str
    at: float


@dataclass(frozen=True, slots=True)
class Seen:
    """A request for the record: `outcome` is answered, refused, unasked, idle (after the last step) or wrong."""

    lane: Lane
    kind: str
    params: Mapping[str, str]
    outcome: str


@dataclass(frozen=True, slots=True)
class Scripted:
    """Answer this step."""

    step: Request


@dataclass(frozen=True, slots=True)
class Idle:
    """Answer an open, empty stream."""


Verdict = Scripted | Refused | Idle


@dataclass(slots=True, eq=False)
class Feed:
    """What is still to be sent on one open stream."""

    frames: deque[Any] = field(default_factory=deque)
    left: bool = False


@dataclass(slots=True)
class _State:
    program: tuple[Node, ...] = ()
    busy: bool = False
    last: str | None = None
    answered_at: float | None = None
    feed: Feed | None = None


def fits(want: Mapping[str, Any], params: Mapping[str, str]) -> bool:
    """The parameters are as wanted; those not named are free."""
    return all(_fits(wanted, params.get(name)) for name, wanted in want.items())


def _fits(wanted: Any, given: str | None) -> bool:
    if isinstance(wanted, Mapping):
        return any(_fits(one, given) for one in wanted["any_of"])
    if wanted is None:
        return given is None
    if wanted == "":
        return not given
    if wanted == "*":
        return bool(given)
    return given == str(wanted)


Head = tuple[Request, tuple[Node, ...], tuple[tuple[int, int], ...]]


def heads(program: tuple[Node, ...], lane: Lane | None = None) -> list[Head]:
    """Requests that may come next in `lane`, each with what follows it and the branches it chooses of which blocks.

    Leaving a repetition goes before going on with it.
    """
    if not program:
        return []
    first, rest = program[0], program[1:]
    if isinstance(first, Request):
        return [(first, rest, ())]
    if isinstance(first, Either):
        return [
            (step, after, (*chosen, (first.number, place)))
            for place, branch in enumerate(first.branches)
            if not first.leads or lane is None or first.leads[place] == lane
            for step, after, chosen in heads((*branch, *rest), lane)
        ]
    if isinstance(first, Repeat):
        found = heads(rest, lane) if first.count >= first.at_least else []
        if first.count < first.at_most:
            found += heads((*first.steps, replace(first, count=first.count + 1), *rest), lane)
        return found
    return []  # more frames have to be sent first


def chosen_of(program: tuple[Node, ...], number: int, place: int) -> tuple[Node, ...]:
    """The program once a branch of a block is chosen, in whichever lane."""
    found: list[Node] = []
    for node in program:
        chosen = isinstance(node, Either) and node.number == number
        found += node.branches[place] if chosen and isinstance(node, Either) else (node,)
    return tuple(found)


def undecided(program: tuple[Node, ...], lane: Lane) -> bool:
    """A block comes next of which another lane may choose the branch."""
    return bool(program) and isinstance(program[0], Either) and any(lead != lane for lead in program[0].leads)


def may_end(program: tuple[Node, ...]) -> bool:
    """Nothing has to come any more."""
    return all(isinstance(node, Repeat) and node.count >= node.at_least for node in program)


def due(program: tuple[Node, ...]) -> tuple[Open, tuple[Node, ...]] | None:
    """More frames that are due now, and what follows them."""
    while program and isinstance(program[0], Repeat) and program[0].count >= program[0].at_least:
        program = program[1:]
    return (program[0], program[1:]) if program and isinstance(program[0], Open) else None


class Script:
    """The state of one play. All methods may be called from any thread."""

    def __init__(self, case: Case, outside: Outside) -> None:
        self._outside = outside
        self._changed = threading.Condition()
        self._lanes: dict[Lane, _State] = {}
        segments = [act for act in case.acts if isinstance(act, dict)]
        self._later = [set(segment) for segment in segments]
        self.seen: list[Seen] = []
        self.failure: str | None = None

    # --- the harness leads ----------------------------------------------------------------------------------------

    def begin(self, segment: Segment) -> None:
        """Put the steps of the next segment into their lanes."""
        with self._changed:
            self._later.pop(0)
            for lane, nodes in segment.items():
                state = self._lane(lane)
                state.program = (*state.program, *nodes)
            self._changed.notify_all()

    def pending(self) -> list[str]:
        """Lanes whose steps are not done, with what they wait for; sends frames that have become due."""
        with self._changed:
            for state in self._lanes.values():
                self._send_due(state)
            return [
                f"{lane} ({'is being answered' if state.busy else describe(state.program)})"
                for lane, state in self._lanes.items()
                if state.busy or not may_end(state.program)
            ]

    def fail(self, why: str) -> None:
        """The case has failed; the first reason stands."""
        with self._changed:
            self.failure = self.failure or why
            self._changed.notify_all()

    # --- the server asks ------------------------------------------------------------------------------------------

    def judge(self, asked: Asked, left: Callable[[], bool]) -> Verdict | None:
        """What to answer; waits for the request's step. None: the client left, or the case has failed."""
        with self._changed:
            while self.failure is None:
                verdict = self._judge(asked)
                if verdict is not None:
                    return verdict
                self._changed.wait(POLL_S)
                if left():
                    return None
            return None

    def _judge(self, asked: Asked) -> Verdict | None:
        refusal = self._outside.refusal(asked.lane, asked.kind, asked.token)
        if refusal is not None:
            self._note(asked, "refused")
            return refusal
        if asked.kind == "watchlist" and not self._outside.watchlist:
            self._note(asked, "unasked")
            return Refused(422, "Invalid")
        state = self._lane(asked.lane)
        if state.busy or (state.program and due(state.program)):
            return None
        options = heads(state.program, asked.lane)
        for step, rest, chosen in options:
            if step.kind == asked.kind and fits(step.want, asked.params):
                verdict = self._take(asked, state, step, rest)
                for number, place in chosen if verdict is not None else ():
                    for other in self._lanes.values():
                        other.program = chosen_of(other.program, number, place)
                return verdict
        if undecided(state.program, asked.lane):
            return None
        if may_end(state.program):
            if any(asked.lane in segment for segment in self._later):
                return None
            if asked.kind == "watch" and asked.params.get("resourceVersion") == state.last:
                self._note(asked, "idle")
                return Idle()
        self._note(asked, "wrong")
        expected = (
            " or ".join(f"{step.kind} {dict(step.want)}" for step, _, _ in options) or f"nothing (at {state.last})"
        )
        self.fail(f"{asked.lane}: {asked.kind} {dict(asked.params)} came, expected was {expected}")
        return None

    def _take(self, asked: Asked, state: _State, step: Request, rest: tuple[Node, ...]) -> Verdict | None:
        wait = step.answer.get("not_before_s")
        if wait is not None and state.answered_at is not None and asked.at - state.answered_at < wait * TOLERANCE:
            self._note(asked, "wrong")
            self.fail(
                f"{asked.lane}: {asked.kind} came {asked.at - state.answered_at:.2f} s after an answer, too early"
            )
            return None
        state.program, state.busy = rest, True
        self._note(asked, "answered")
        return Scripted(step)

    # --- the server tells -----------------------------------------------------------------------------------------

    def opened(self, lane: Lane, frames: tuple[Any, ...]) -> Feed:
        """A watch of the lane is open now, with these frames to send."""
        with self._changed:
            feed = self._lane(lane).feed = Feed(deque(frames))
            return feed

    def next_frame(self, lane: Lane, feed: Feed) -> Any:
        """The next frame to send, None while there is none. Once all are sent the step is done."""
        with self._changed:
            if feed.frames:
                return feed.frames.popleft()
            if self._lane(lane).feed is feed:
                self._done(lane)
            self._changed.wait(POLL_S)
            return None

    def gone(self, lane: Lane, feed: Feed) -> None:
        """The stream has ended, or the client has left it."""
        with self._changed:
            feed.left = True
            if self._lane(lane).feed is feed:
                self._done(lane)

    def done(self, lane: Lane) -> None:
        """An answer is written."""
        with self._changed:
            self._done(lane)

    def show(self, lane: Lane, rv: str | None) -> None:
        """The lane has been shown a version."""
        with self._changed:
            if rv is not None:
                self._lane(lane).last = rv

    def _done(self, lane: Lane) -> None:
        state = self._lane(lane)
        if state.busy:
            state.busy, state.answered_at = False, time.monotonic()
            self._changed.notify_all()

    def _send_due(self, state: _State) -> None:
        found = None if state.busy else due(state.program)
        if found is not None:
            step, state.program = found
            if state.feed is not None and not state.feed.left:
                state.feed.frames.extend(step.stream)
                state.busy = True
            self._changed.notify_all()

    def _lane(self, lane: Lane) -> _State:
        return self._lanes.setdefault(lane, _State())

    def _note(self, asked: Asked, outcome: str) -> None:
        self.seen.append(Seen(asked.lane, asked.kind, asked.params, outcome))


def describe(program: tuple[Node, ...]) -> str:
    """What has to come next, for a message."""
    options = [f"{step.kind} {dict(step.want)}" for step, _, _ in heads(program)]
    return "waits for " + " or ".join(options) if options else "has nothing to wait for"
