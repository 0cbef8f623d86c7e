"""Whether somebody whom we ask is heard, and when a silence is to be told: after a while, then ever more seldom.

Pure: `step(state, input) -> (state, outputs)`, with the time as part of each input, in monotonic seconds. It knows
neither what is asked nor of whom: an API server for one kind, discovery, or Kafka.

A silence begins with a refusal, or with a question that is not answered. What is served after it ends it only when it
has lasted for `STEADY_S`, or has brought something that only a sound server sends: a watch that is opened and closed
at once, again and again, is not heard.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

ALERT_S = 10.0  # a silence is told first when it has lasted so long
STEADY_S = 5.0
DISTANCE_MAX_S = 3600.0
NO_ANSWER = "no-answer"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question is under way."""

    at: float


@dataclass(frozen=True, slots=True)
class Answered:
    """No question is under way any more; that alone says nothing of what is heard."""

    at: float


@dataclass(frozen=True, slots=True)
class Paused:
    """Something else is waited for, so that a silence is nobody's fault."""

    at: float


@dataclass(frozen=True, slots=True)
class Serving:
    """Something was served, which is believed when it lasts: an opened watch, a page of a list."""

    at: float


@dataclass(frozen=True, slots=True)
class Heard:
    """Something came that only a sound server sends: an event, a bookmark, an acknowledgement."""

    at: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing came of a question. `reason` is one of few words, for metrics; `since` when the silence began."""

    at: float
    reason: str
    detail: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class Left:
    """Nobody has to be heard any more."""

    at: float


@dataclass(frozen=True, slots=True)
class Look:
    """Time has passed. `reason` and `detail` say of a question without an answer what is known of it."""

    at: float
    reason: str = NO_ANSWER
    detail: str = ""


Input = Asked | Answered | Paused | Serving | Heard | Refused | Left | Look


@dataclass(frozen=True, slots=True)
class Warned:
    """To be told: the silence lasts. `count` refusals in it, 0 where a question has no answer at all."""

    reason: str
    detail: str
    count: int
    lasted_s: float


@dataclass(frozen=True, slots=True)
class Over:
    """To be told: a silence that was told is over."""

    reason: str
    count: int
    lasted_s: float


Output = Warned | Over
Stepped = tuple["Hearing", list[Output]]


@dataclass(frozen=True, slots=True)
class Hearing:
    """What is known. `since`: when the silence began, None in none; `serving`: since when something is served again.

    `asked` is when the question under way was asked, `next_at` when the silence is told next, `told` how often it was.
    """

    asked: float | None = None
    since: float | None = None
    serving: float | None = None
    paused: bool = False
    reason: str = ""
    detail: str = ""
    count: int = 0
    told: int = 0
    next_at: float = 0.0

    def lasted_s(self, at: float) -> float:
        """Length of the silence in seconds; 0 when there is none."""
        return 0.0 if self.since is None else max(0.0, at - self.since)


def step(state: Hearing, signal: Input) -> Stepped:
    """Take one input."""
    match signal:
        case Asked():
            asked = signal.at if state.asked is None else state.asked
            return replace(state, asked=asked, paused=False), []
        case Answered():
            return replace(state, asked=None, paused=False), []
        case Paused():
            return replace(state, asked=None, paused=True), []
        case Serving():
            return _serving(state, signal.at)
        case Heard():
            return _over(state, signal.at)
        case Refused():
            return _refused(state, signal)
        case Left():
            return Hearing(), []
        case Look():
            return _look(state, signal)


def due(state: Hearing) -> float | None:
    """When the next Look may have an effect; None: not before another input."""
    if state.since is None:
        return None if state.asked is None else state.asked + ALERT_S
    if state.serving is not None:
        return state.serving + STEADY_S
    return None if state.paused else state.next_at


def _serving(state: Hearing, at: float) -> Stepped:
    state = replace(state, asked=None, paused=False)
    if state.since is None:
        return state, []
    return _settled(replace(state, serving=at if state.serving is None else state.serving), at)


def _settled(state: Hearing, at: float) -> Stepped:
    """End the silence if what is served again has lasted."""
    if state.serving is None or at < state.serving + STEADY_S:
        return state, []
    return _over(state, state.serving)


def _over(state: Hearing, at: float) -> Stepped:
    over: list[Output] = [Over(state.reason, state.count, state.lasted_s(at))] if state.told else []
    return Hearing(), over


def _refused(state: Hearing, signal: Refused) -> Stepped:
    asked = state.asked
    state, outputs = _settled(state, signal.at)
    if state.since is None:
        began = next(at for at in (signal.since, asked, signal.at) if at is not None)
        state = replace(state, since=began, next_at=began + ALERT_S)
    state = replace(
        state, asked=None, paused=False, serving=None, reason=signal.reason, detail=signal.detail, count=state.count + 1
    )
    state, more = _warned(state, signal.at)
    return state, [*outputs, *more]


def _look(state: Hearing, signal: Look) -> Stepped:
    state, outputs = _settled(state, signal.at)
    if state.asked is not None and signal.at >= state.asked + ALERT_S:
        if state.since is None:
            state = replace(state, since=state.asked, next_at=state.asked + ALERT_S)
        state = replace(state, reason=signal.reason, detail=signal.detail)
    state, more = _warned(state, signal.at)
    return state, [*outputs, *more]


def _warned(state: Hearing, at: float) -> Stepped:
    """Tell the silence when it is time; the distance to the next time doubles."""
    if state.since is None or state.serving is not None or state.paused or at < state.next_at:
        return state, []
    warned = Warned(state.reason, state.detail, state.count, state.lasted_s(at))
    distance = min(2 * ALERT_S * 2 ** min(state.told, 20), DISTANCE_MAX_S)
    return replace(state, told=state.told + 1, next_at=at + distance), [warned]
