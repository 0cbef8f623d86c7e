"""What of a session's inputs, and of Kafka's acknowledgements, means that somebody is heard, or is not.

Pure: it turns them into the inputs of `kubecdc.unheard`. A quiet watch is heard: it is open, and either its bookmarks
come or its server sends none. A watch that is closed at once is not, nor one that is mute although bookmarks came
before. A 410 is an answer: what it costs is told by the list that follows.
"""

from __future__ import annotations

from dataclasses import dataclass

from kubecdc.unheard import (
    STEADY_S,
    Answered,
    Asked,
    Heard,
    Input,
    Left,
    Paused,
    Refused,
    Serving,
)
from producer import frames, signals
from producer.answers import Answer, classify
from producer.state import Phase, Session

NOT_ACKNOWLEDGED = "no-acknowledgement"
_NETWORK = "check the address of the API server, the network and proxies in between"
UNANSWERED = f"a request is under way and nothing comes: {_NETWORK}"
# By what a failed request begins with: the reason, as metrics show it, and what to do.
_FAILURES = {
    "SSLError": ("tls", "check the server's certificate, the CA that is trusted, and proxies in between"),
    "NameResolutionError": ("dns", "check the name of the API server"),
    "ConnectTimeoutError": ("timeout", _NETWORK),
    "ReadTimeoutError": ("timeout", _NETWORK),
    "NewConnectionError": ("connection", _NETWORK),
    "ProxyError": ("proxy", _NETWORK),
    "ProtocolError": ("broken-off", _NETWORK),
}
_ADVICE = {
    Answer.THROTTLED: "the server is overloaded, or cannot read what it has stored",
    Answer.UNAVAILABLE: "the API server, or a proxy before it, answers with errors: check both",
    Answer.UNAUTHORIZED: "check the token or the client certificate",
    Answer.FORBIDDEN: "grant list and watch, or leave the kind out with --exclude",
    Answer.NOT_FOUND: "the server does not serve it, and discovery does not say so",
}
# Of messages, which may quote content, only known words are shown.
_KNOWN = (
    ("storage is (re)initializing", "storage is (re)initializing: check the conversion webhook of its CRD"),
    ("conversion webhook", "a conversion webhook failed: check that of its CRD"),
    ("leader changed", "etcd changes its leader"),
)
_CLOSED = "watches are opened and closed at once, without an event: check the API server and proxies in between"
_MUTE = "the watch is open and mute, although bookmarks came before: check proxies in between"


def sense(before: Session, after: Session, signal: signals.Input, at: float) -> Input | None:
    """What an input of a session says, which was `before` and is `after` it; None: nothing."""
    match signal:
        case frames.Object() | frames.Bookmark():
            heard: Input | None = Serving(at) if before.phase is Phase.INITIAL else Heard(at)
        case frames.Page():
            heard = Serving(at)
        case signals.StreamOpened():
            heard = Answered(at) if before.mute else Serving(at)
        case signals.Recalled():
            heard = Answered(at)
        case signals.Gone() | signals.Stop():
            heard = Left(at)
        case signals.StreamEnded():
            heard = _ended(before, after, signal, at)
        case _:
            heard = _failed(signal, at)
    return heard


def _failed(signal: signals.Input, at: float) -> Input | None:
    match signal:
        case signals.Unreachable():
            return unreachable(signal.why, at)
        case frames.ServerError():
            return refused(signal, at)
        case frames.Broken():
            return Refused(at, "broken", f"{signal.why}: check what answers at the API server's address")
        case _:
            return None


def asked(request: signals.Request, at: float) -> Input:
    """What a request on the main lane says; the log is asked as well, and whom it keeps waiting is not the server."""
    return Paused(at) if request.verb is signals.Verb.RECALL else Asked(at)


def unreachable(why: str, at: float) -> Refused:
    """Nobody answered, or what answered is no API server."""
    reason, advice = _FAILURES.get(why.partition(":")[0], ("unreachable", _NETWORK))
    return Refused(at, reason, f"{why}: {advice}")


def refused(error: frames.ServerError, at: float) -> Input:
    """The server refused."""
    answer = classify(error)
    if answer is Answer.EXPIRED:
        return Answered(at)
    known = next((shown for words, shown in _KNOWN if words in error.message.lower()), None)
    advice = known or _ADVICE.get(answer)
    return Refused(at, answer.value, f"{error.label()}: {advice}" if advice else error.label())


def _ended(before: Session, after: Session, end: signals.StreamEnded, at: float) -> Input | None:
    if before.phase is Phase.INITIAL:
        return Refused(at, "broken-off", f"the streamed list broke off: {end.why}")
    if before.frames == 0 and end.lasted_s < STEADY_S:
        return Refused(at, "closed", _CLOSED)
    return Refused(at, "mute", _MUTE, at - end.lasted_s) if after.mute else None


@dataclass(frozen=True, slots=True)
class Outstanding:
    """What was seen of Kafka: records that wait, and how many were acknowledged so far."""

    waiting: int = 0
    acknowledged: int = 0


def sense_kafka(before: Outstanding, now: Outstanding, at: float) -> Input:
    """Kafka is heard when something is acknowledged, and silent while something waits and nothing is."""
    if now.acknowledged != before.acknowledged or now.waiting < before.waiting:
        return Heard(at)
    return Asked(at) if now.waiting else Answered(at)
