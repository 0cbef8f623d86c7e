"""A hostile script of raw events, and what the topics of one partition hold of it after compaction."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from kubecdc import wire
from kubecdc.records import Change, EventType, RawEvent, Relist
from processors.partition import Partition
from processors.rebuilding import Rebuild
from producer.convert import remnant
from tests.processors.raw import raw

T = EventType
UIDS = ("a", "b", "c")
STREAM = wire.stream_name("c", "", "configmaps", "")
FIRST = st.sampled_from(["whole", "whole", "short", "open", "resumed", "inside"])
MORE = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("delete"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("unread"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("reuse"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("again"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("conflict"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("noise"), st.sampled_from(UIDS), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("progress"), st.just(""), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("resumed"), st.just(""), st.sampled_from(["s1", "s2", "s3"])),
        st.tuples(st.just("hole"), st.just(""), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("lost"), st.just(""), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("list"), st.sampled_from(["whole", "short", "open"]), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("restore"), st.sampled_from(["whole", "short", "open"]), st.sampled_from(["s1", "s2"])),
        st.tuples(st.just("rubbish"), st.just(""), st.just("")),
    ),
    max_size=40,
)
STEPS = st.tuples(FIRST, MORE).map(lambda drawn: [first_step(drawn[0]), *drawn[1]])


def first_step(how: str) -> tuple[str, str, str]:
    return (how, "", "s1") if how in ("resumed", "inside") else ("list", how, "s1")


@dataclass
class Script:
    """Turns steps into a partition's raw events: one API server, several producers' sessions."""

    events: list[tuple[bytes, RawEvent | None]] = field(default_factory=list)
    rv: int = 10
    epoch: int = 1
    seqs: dict[str, int] = field(default_factory=dict)
    alive: dict[str, tuple[str, str]] = field(default_factory=dict)
    lives: int = 0
    lists: int = 0
    watching: set[str] = field(default_factory=set)

    def run(self, steps) -> Script:
        for action, what, session in steps:
            getattr(self, f"_{action}")(what, session)
        return self

    def add(self, kind: EventType, uid: str | None, rv: str | None, session: str, **fields: object) -> None:
        seq = self.seqs.get(session, 0)
        self.seqs[session] = seq + 1
        event = raw(kind, uid, rv, session=session, seq=seq, epoch=self.epoch, **fields)
        key = uid.encode() if uid else wire.marker_key(STREAM, kind.value)
        self.events.append((key, event))

    def _next(self) -> str:
        self.rv += 1
        return str(self.rv)

    def _content(self, rv: str) -> dict[str, object]:
        return {"digest": f"d{rv}", "paths": f'{{"/data/x": "{rv}", "/data/{int(rv) % 3}": "1"}}'}

    def _put(self, name: str, session: str) -> None:
        rv, kind = self._next(), T.MODIFIED
        if name not in self.alive:
            self.lives += 1
            kind = T.ADDED
        uid = self.alive[name][0] if name in self.alive else f"{name}{self.lives}"
        self.alive[name] = (uid, rv)
        self.add(kind, uid, rv, session, name=name, generation=int(rv), **self._content(rv))

    def _reuse(self, name: str, session: str) -> None:
        """The name is taken by a new object, and nobody has shown the delete of the old one."""
        self.alive.pop(name, None)
        self._put(name, session)

    def _again(self, name: str, session: str) -> None:
        if name in self.alive:
            uid, rv = self.alive[name]
            self.add(T.MODIFIED, uid, rv, session, name=name, **self._content(rv))

    def _conflict(self, name: str, session: str) -> None:
        if name in self.alive:
            uid, rv = self.alive[name]
            self.add(T.MODIFIED, uid, rv, session, name=name, digest="other")

    def _noise(self, name: str, session: str) -> None:
        if name in self.alive:
            uid, rv = self.alive[name]
            fields = self._content(rv)
            self.alive[name] = (uid, rv := self._next())
            self.add(T.MODIFIED, uid, rv, session, name=name, **fields)

    def _delete(self, name: str, session: str) -> None:
        if name in self.alive:
            uid, _ = self.alive.pop(name)
            rv = self._next()
            self.add(T.DELETED, uid, rv, session, name=name, **self._content(rv))
            _, deleted = self.events[-1]
            self.events.append((uid.encode(), remnant(deleted) if deleted else None))

    def _unread(self, name: str, session: str) -> None:
        """Of a delete only the tombstone is left."""
        if name in self.alive:
            self._delete(name, session)
            del self.events[-2]

    def _progress(self, _: str, session: str) -> None:
        """Only a session that watches can say how far it is: one that lists for the first time cannot."""
        if session in self.watching:
            self.add(T.PROGRESS, None, str(self.rv), session)

    def _inside(self, _: str, session: str) -> None:
        """The log begins inside a session."""
        self.seqs[session] = 3
        self.watching.add(session)
        self._progress(_, session)

    def _resumed(self, _: str, session: str) -> None:
        self.watching.add(session)
        self.add(T.RESUMED, None, str(self.rv), session)

    def _hole(self, _: str, session: str) -> None:
        self.seqs[session] = self.seqs.get(session, 0) + 1

    def _lost(self, _: str, session: str) -> None:
        self.add(T.COVERAGE_LOST, None, str(self.rv) if session in self.watching else None, session)

    def _list(self, how: str, session: str) -> None:
        self.lists += 1
        relist = Relist(f"r{self.lists}", "gone", None, str(self.rv))
        self.add(T.RELIST_START, None, None, session, relist=relist)
        for name, (uid, rv) in list(self.alive.items()):
            self.add(T.LISTED, uid, rv, session, relist=relist, name=name, **self._content(rv))
        self.watching.discard(session)
        if how != "open":
            self.watching.add(session)
            expected = len(self.alive) + (how == "short")
            self.add(T.RELIST_END, None, None, session, relist=replace(relist, expected=expected))

    def _restore(self, how: str, session: str) -> None:
        self.epoch += 1
        self._list(how, session)

    def _rubbish(self, *_: str) -> None:
        self.events.append((b"z", raw(T.ADDED, "z", "007")))


@dataclass
class Folded:
    """A worker's memory after some events, and what it has written."""

    partition: Partition
    changes: list[tuple[bytes, Change | None]] = field(default_factory=list)
    state: dict[bytes, object] = field(default_factory=dict)

    def feed(self, events: list[tuple[int, RawEvent | None]]) -> Folded:
        for offset, event in events:
            self.partition.apply(offset, event, 0, 0)
            batch = self.partition.drain()
            self.changes += batch.changes
            for key, record in batch.state:
                self.state.pop(key, None)
                if record is not None:
                    self.state[key] = record
        return self


def folded(events: list[tuple[int, RawEvent | None]], noise: str = "emit") -> Folded:
    return Folded(Partition(0, noise=noise)).feed(events)


def rebuilt(changes, events, noise: str = "emit") -> Rebuild:
    rebuild = Rebuild(0, noise)
    for key, change in changes:
        rebuild.change(key, change)
    for offset, event in events:
        rebuild.event(offset, event, 0)
    return rebuild


def loaded(rebuild: Rebuild, noise: str = "emit") -> Folded:
    partition = Partition(0, noise=noise)
    for key, record in rebuild.records():
        partition.load(key, record)
    return Folded(partition)


def compacted(log, horizon: int):
    """What a cleaner may leave: of the first `horizon` records the latest of each key, and no empty tombstone."""
    latest = {key: place for place, (key, _) in enumerate(log)}
    return [
        (place, key, value)
        for place, (key, value) in enumerate(log)
        if place >= horizon or (latest[key] == place and value is not None)
    ]
