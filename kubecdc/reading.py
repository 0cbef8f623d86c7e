"""Reading the canonical change log: the API that people import, and what the commands of the same names show.

It joins Kafka, the codec, the chain and the fold, and decides only what to do with a break. Every reading is
read_committed, keeps nothing outside its own memory, and stores nothing in Kafka: whoever wants to go on later keeps
`Subscription.positions` and gives it as `from_`.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal, Self

from kubecdc.chain import OBJECT_OPS, Break, Chain, Entry, Kind
from kubecdc.codec import Codec
from kubecdc.errors import ChainBroken, Misconfigured, Undecodable
from kubecdc.folding import Fold, GapReport, Resolved, Resource, sorted_objects
from kubecdc.kafka import Stored, TopicReader, live_topics
from kubecdc.matching import Match
from kubecdc.past import Past, Stream
from kubecdc.records import Change
from kubecdc.start import BEGINNING, Start, start_of
from kubecdc.topics import TopicNames
from kubecdc.versions import newer, well_formed

log = logging.getLogger("kubecdc")

SKEW_MS = 300_000  # how far clocks of brokers, workers and readers may disagree about what compaction may take
WAIT_S = 0.1
EVERYTHING = Match()

OnBreak = Literal["raise", "report"] | Callable[[Break], None]
From = str | int | datetime | Mapping[int, int] | Start


@dataclass(frozen=True, slots=True)
class Source:
    """Where a canonical log is: Kafka, the topics' prefix, a Schema Registry, librdkafka properties."""

    bootstrap: str
    prefix: str = "kubecdc"
    schema_registry: str | None = None
    properties: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class History:
    """Where full history begins: before it, compaction may have left only the last state of each object.

    `from_ms` (epoch ms) and `offsets` by partition are the bound; `whole`: the whole log lies after it.
    """

    from_ms: int
    offsets: Mapping[int, int]
    whole: bool

    def __str__(self) -> str:
        if self.whole:
            return "full history from the beginning of the log"
        since = datetime.fromtimestamp(self.from_ms / 1000, UTC).isoformat(timespec="seconds")
        places = ", ".join(f"{partition}={offset}" for partition, offset in sorted(self.offsets.items()))
        return f"full history from {since} (offsets {places}); before it the last state of each object"


@dataclass(frozen=True, slots=True)
class State:
    """The latest state: live objects by kind and name, how far each kind is resolved, and all gaps up to there.

    At an earlier version, `uncertain` are UIDs whose next change names a gap, or was inferred: it may lie before.
    `inside` are kinds and scopes for which that version lies inside a gap: objects may be missing, or be as they were
    before the gap. `kinds` are all that the log has, whatever was asked for.
    """

    objects: tuple[Change, ...]
    resolved: Mapping[Resource, Resolved | None]
    gaps: tuple[GapReport, ...]
    uncertain: tuple[str, ...] = ()
    inside: tuple[Stream, ...] = ()
    kinds: frozenset[Resource] = frozenset()


class Subscription:
    """The changes of a log in the order of each partition; iterate it, or `poll`. For one thread; close it after use.

    Tombstones are hidden, everything else is given as it lies in the log. A break of a UID's seq chain or of a
    stream's coverage is found before the record after it is given: "raise" ends the iteration with ChainBroken,
    "report" logs a warning and keeps it in `breaks`, a function is called with it. Positions of a reader that was away
    for longer than the history window are a break as well: begin from the beginning, or from `state`.
    """

    def __init__(self, source: Source, start: Start, *, follow: bool, on_break: OnBreak, match: Match) -> None:
        if on_break not in ("raise", "report") and not callable(on_break):
            raise Misconfigured(f"on_break {on_break!r}: must be raise, report or a function that takes a Break")
        topic = TopicNames.under(source.prefix).changes
        registry = None
        if source.schema_registry:
            from kubecdc.registry import Registry  # noqa: PLC0415 - slow to import, and seldom used

            registry = Registry(source.schema_registry)
        self._codec = Codec(topic, registry)
        self._reader = TopicReader(source.bootstrap, topic, start, follow=follow, properties=source.properties)
        try:
            live = live_topics(source.bootstrap, source.prefix, source.properties)
            self._lag_ms = int(live[topic].config.get("min.compaction.lag.ms", "0"))
            self.history = self._find_history()
        except BaseException:
            self._reader.close()
            raise
        self._chain = Chain(self._reader.whole)
        self._on_break = on_break
        self._match = match
        self._waiting: deque[Stored] = deque()
        self._closed = False
        self.positions: dict[int, int] = dict(self._reader.positions)
        self.breaks: list[Break] = []
        self._stale = deque(self._reader.behind(self.history.offsets).items() if start.offsets else ())

    @property
    def partitions(self) -> int:
        """Partition count of the log."""
        return self._reader.partitions

    @property
    def kinds(self) -> frozenset[Resource]:
        """Every kind that was met, whether `match` asks for it or not."""
        return frozenset(Resource(*named) for named in self._chain.resources)

    @property
    def done(self) -> bool:
        """Nothing more will come: the end is reached, or `close` was called."""
        return self._closed or (not self._waiting and self._reader.done)

    def entries(self) -> Iterator[Entry]:
        """Every record with its place in the log, tombstones and what `match` leaves out included."""
        while not self.done:
            if not self._waiting:
                self._waiting.extend(self._reader.poll(WAIT_S))
                continue
            entry = self._next()
            if entry is not None:
                yield entry

    def batches(self, timeout_s: float) -> Iterator[list[Entry]]:
        """Entries as they arrive, perhaps none within the time; for ever if the reading follows."""
        while not self.done:
            if not self._waiting:
                self._waiting.extend(self._reader.poll(timeout_s))
            found = []
            while self._waiting:
                entry = self._next()
                if entry is not None:
                    found.append(entry)
            yield found

    def poll(self, timeout_s: float = WAIT_S) -> list[Change]:
        """What has arrived within the time, perhaps nothing."""
        if not self._waiting and not self.done:
            self._waiting.extend(self._reader.poll(timeout_s))
        found = []
        while self._waiting:
            entry = self._next()
            if entry is not None and entry.change is not None and self._match(entry.change):
                found.append(entry.change)
        return found

    def close(self) -> None:
        """End the reading; a second call does nothing."""
        if not self._closed:
            self._closed = True
            self._reader.close()

    def __iter__(self) -> Iterator[Change]:
        for entry in self.entries():
            if entry.change is not None and self._match(entry.change):
                yield entry.change

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next(self) -> Entry | None:
        """Decode and examine the record that is next; None for one that nobody can read."""
        while self._stale:
            partition, offset = self._stale.popleft()
            told = f"what followed it may have been compacted since, deletes too: {self.history}"
            self._broken(Break(Kind.HISTORY, partition, offset, told))
        stored = self._waiting.popleft()
        place = stored.partition, stored.offset
        entry = None
        try:
            entry = Entry(*place, stored.timestamp_ms, stored.key or b"", self._decoded(stored.value))
        except Undecodable as error:
            self._broken(Break(Kind.VALUE, *place, str(error)))
        else:
            for found in self._chain.step(entry, self._horizon_ms()):
                self._broken(found)
        self.positions[stored.partition] = stored.offset + 1
        return entry

    def _decoded(self, value: bytes | None) -> Change | None:
        change = None if value is None else self._codec.decode(value)
        if change is not None and not isinstance(change, Change):
            raise Undecodable(f"a {type(change).__name__} is no change")
        return change

    def _broken(self, found: Break) -> None:
        self.breaks.append(found)
        if self._on_break == "raise":
            raise ChainBroken(str(found))
        if self._on_break == "report":
            log.warning("%s", found)
        else:
            self._on_break(found)

    def _horizon_ms(self) -> int:
        return round(time.time() * 1000) - self._lag_ms + SKEW_MS

    def _find_history(self) -> History:
        from_ms = max(0, self._horizon_ms() - SKEW_MS)
        offsets = self._reader.offsets_at(from_ms)
        return History(from_ms, offsets, whole=not any(offsets.values()))


def subscribe(
    bootstrap: str,
    *,
    prefix: str = "kubecdc",
    from_: From = BEGINNING,
    on_break: OnBreak = "raise",
    match: Match = EVERYTHING,
    schema_registry: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
) -> Subscription:
    """Read changes and go on for ever.

    `from_` is "beginning", "end", an offset, offsets by partition (such as `Subscription.positions`), a datetime, or
    text as `--from` takes it. Raises Unreachable, Misconfigured; ChainBroken while iterating.
    """
    source = Source(bootstrap, prefix, schema_registry, properties)
    return Subscription(source, _start(from_), follow=True, on_break=on_break, match=match)


def replay(
    bootstrap: str,
    *,
    prefix: str = "kubecdc",
    from_: From = BEGINNING,
    on_break: OnBreak = "raise",
    match: Match = EVERYTHING,
    schema_registry: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
) -> Subscription:
    """Read changes up to where the log ends now. `Subscription.history` tells where full history begins."""
    source = Source(bootstrap, prefix, schema_registry, properties)
    return Subscription(source, _start(from_), follow=False, on_break=on_break, match=match)


def state(
    bootstrap: str,
    *,
    prefix: str = "kubecdc",
    at_rv: str | None = None,
    on_break: OnBreak = "raise",
    match: Match = EVERYTHING,
    schema_registry: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
) -> State:
    """Fold the whole log into the latest state of what `match` asks for, or that at version `at_rv`.

    Raises Misconfigured when `at_rv` is not resolved for every kind, is from before the first list of one, or is older
    than what compaction has left.
    """
    source = Source(bootstrap, prefix, schema_registry, properties)
    now = fold(source, on_break, match)
    if at_rv is None:
        return State(sorted_objects(now.objects), now.resolved(), now.gaps(), kinds=now.kinds)
    found = past(source, resolved_at(now, at_rv), match)
    if found.compacted:
        raise Misconfigured(
            f"the state at {at_rv} cannot be had: compaction has taken a version of {len(found.compacted)} objects;"
            " ask for a later version, or give topics a longer --history"
        )
    doubts = tuple(sorted(found.uncertain)), tuple(sorted(found.inside))
    return State(sorted_objects(found.objects), now.resolved(), now.gaps(), *doubts, now.kinds)


def history(
    bootstrap: str,
    uid: str,
    *,
    prefix: str = "kubecdc",
    on_break: OnBreak = "raise",
    schema_registry: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
) -> tuple[Change, ...]:
    """Every change of one object that the log has, oldest first; what compaction took is told by `Change.seq`."""
    source = Source(bootstrap, prefix, schema_registry, properties)
    match = Match(uid=uid, progress=False)
    with Subscription(source, BEGINNING, follow=False, on_break=on_break, match=match) as log:
        return tuple(change for change in log if change.uid == uid and change.op in OBJECT_OPS)


def fold(source: Source, on_break: OnBreak, match: Match = EVERYTHING) -> Fold:
    """Fold the log up to where it ends now."""
    with Subscription(source, BEGINNING, follow=False, on_break=on_break, match=match) as reading:
        found = Fold(reading.partitions)
        for entry in _asked_for(match, reading.entries()):
            found.step(entry)
        found.kinds = reading.kinds
    return found


def resolved_at(now: Fold, rv: str) -> dict[Stream, Resolved]:
    """Version `rv` of the latest epoch of each stream. Raises Misconfigured where the log does not know it."""
    if not well_formed(rv):
        raise Misconfigured(f"--at-rv {rv!r} is no resourceVersion")
    bounds = {}
    for stream, reached in now.streams().items():
        if reached is None or newer(rv, reached.rv):
            upto = f"only up to {reached.rv}" if reached else "not at all yet"
            raise Misconfigured(
                f"version {rv} is not resolved for {stream[0]}: {upto}; ask for an earlier one, or wait"
            )
        since = now.since(stream, reached.epoch)
        if since is None or newer(since.rv, rv):
            told = f"ask for {since.rv} or later" if since else "no list of it was read whole yet"
            raise Misconfigured(f"version {rv} is from before the log knows {stream[0]}: {told}")
        bounds[stream] = Resolved(reached.epoch, rv)
    return bounds


def past(source: Source, bounds: Mapping[Stream, Resolved], match: Match = EVERYTHING) -> Past:
    """Read the log once more for the state at `bounds`; breaks were found by the reading before."""
    found = Past(bounds)
    with Subscription(source, BEGINNING, follow=False, on_break="report", match=match) as reading:
        for entry in _asked_for(match, reading.entries()):
            found.step(entry)
    return found


def follow_until(
    source: Source, done: Callable[[Fold], bool], seconds: float, on_break: OnBreak, match: Match = EVERYTHING
) -> Fold:
    """Fold the log from its beginning, and what is added to it, until `done` says so or time is up."""
    deadline = time.monotonic() + seconds
    with Subscription(source, BEGINNING, follow=True, on_break=on_break, match=match) as reading:
        found = Fold(reading.partitions)
        for batch in reading.batches(WAIT_S):
            for entry in _asked_for(match, batch):
                found.step(entry)
            if done(found) or time.monotonic() > deadline:
                break
    return found


def gaps(
    bootstrap: str,
    *,
    prefix: str = "kubecdc",
    on_break: OnBreak = "raise",
    match: Match = EVERYTHING,
    schema_registry: str | None = None,
    properties: Sequence[tuple[str, str]] = (),
) -> tuple[GapReport, ...]:
    """Every gap that the log names: those of streams once, not once for each partition, then those of objects."""
    found = state(
        bootstrap,
        prefix=prefix,
        on_break=on_break,
        match=match,
        schema_registry=schema_registry,
        properties=properties,
    )
    return found.gaps


def _asked_for(match: Match, entries: Iterable[Entry]) -> Iterator[Entry]:
    """What a fold needs of the log: PROGRESS also where nobody wants to see it, as nothing else resolves or closes."""
    needed = replace(match, progress=True)
    return (entry for entry in entries if entry.change is None or needed(entry.change))


def _start(from_: From) -> Start:
    return start_of(from_, datetime.now(UTC))
