"""Builders of raw events for the tests of the pure processor: sessions numbered as a producer numbers them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kubecdc.errors import Undecodable
from kubecdc.records import Change, EventType, Manager, Op, RawEvent, Relist
from processors.partition import Partition
from producer.convert import remnant

T = EventType


def raw(kind: EventType, uid: str | None = None, rv: str | None = None, **fields: object) -> RawEvent:
    event = RawEvent(
        cluster="c",
        epoch=1,
        group="",
        version="v1",
        resource="configmaps",
        scope="",
        type=kind,
        uid=uid,
        namespace="default" if uid else "",
        name=uid or "",
        rv=rv,
        session="s1",
        seq=0,
        relist=None,
        generation=None,
        deletion_timestamp=None,
        managers=(),
        object="{}" if uid else None,
        object_omitted=None,
        digest=f"digest-{rv}" if uid else "",
        paths="{}",
        detail="",
        observed_at=1,
    )
    return replace(event, **fields)  # type: ignore[arg-type]  # field names are checked by replace itself


@dataclass
class Feed:
    """Feeds a Partition as one or more sessions would, and collects what it writes."""

    partition: Partition = field(default_factory=lambda: Partition(0))
    offset: int = 0
    seqs: dict[str, int] = field(default_factory=dict)
    log: list[tuple[bytes, Change | None]] = field(default_factory=list)
    state: dict[bytes, object] = field(default_factory=dict)
    counters: dict[str, int] = field(default_factory=dict)

    def send(self, kind: EventType, uid: str | None = None, rv: str | None = None, **fields: object) -> Feed:
        session = str(fields.pop("session", "s1"))
        skip = int(str(fields.pop("skip", 0)))
        seq = self.seqs.get(session, 0) + skip
        self.seqs[session] = seq + 1
        return self.put(raw(kind, uid, rv, session=session, seq=seq, **fields))

    def put(self, event: RawEvent | Undecodable | None, timestamp_ms: int = 0, now_ms: int = 0) -> Feed:
        self.partition.apply(self.offset, event, timestamp_ms, now_ms)
        self.offset += 1
        batch = self.partition.drain()
        self.log += batch.changes
        for key, record in batch.state:
            if record is None:
                self.state.pop(key, None)
            else:
                self.state[key] = record
        for name, count in batch.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count
        return self

    def tombstone(self, uid: str, rv: str, *, seq: int | None = None, **fields: object) -> Feed:
        """The tombstone after a DELETED: the last of its session, or one that has not arrived."""
        session = str(fields.get("session", "s1"))
        place = self.seqs.get(session, 0) - 1 if seq is None else seq
        self.seqs[session] = max(self.seqs.get(session, 0), place + 1)
        return self.put(remnant(raw(T.DELETED, uid, rv, seq=place, **fields)))

    def relist(self, list_rv: str, items: dict[str, str], *, previous: str | None = None, **fields: object) -> Feed:
        expected = int(str(fields.pop("expected", len(items))))
        epoch, session = fields.pop("epoch", 1), fields.pop("session", "s1")
        relist = Relist(f"r{list_rv}", str(fields.pop("reason", "start")), previous, list_rv, None)
        common = {"epoch": epoch, "session": session}
        self.send(T.RELIST_START, relist=relist, **common)
        for uid, rv in items.items():
            self.send(T.LISTED, uid, rv, relist=relist, **common, **fields)
        return self.send(T.RELIST_END, relist=replace(relist, expected=expected), **common)

    def restarted(self) -> Feed:
        """The same worker after a kill: memory thrown away and loaded from the state topic."""
        self.partition = Partition(0)
        for key, record in self.state.items():
            self.partition.load(key, record)  # type: ignore[arg-type]  # what drain gave
        return self

    def of(self, uid: str) -> list[Change]:
        return [c for key, c in self.log if c is not None and key == uid.encode()]

    def ops(self, uid: str) -> list[tuple[Op, str | None, int | None]]:
        return [(c.op, c.rv, c.seq) for c in self.of(uid)]

    def gaps(self) -> list[tuple[str, str | None, str | None]]:
        return [
            (c.gap.cause.value, c.after_rv, c.upto_rv)
            for _, c in self.log
            if c is not None and c.op is Op.GAP and c.uid is None and c.gap
        ]

    def covered(self) -> list[tuple[str | None, str | None]]:
        return [(c.after_rv, c.upto_rv) for _, c in self.log if c is not None and c.op is Op.PROGRESS]


def manager(name: str, time: str = "t1") -> Manager:
    return Manager(name, "Apply", "", time)
