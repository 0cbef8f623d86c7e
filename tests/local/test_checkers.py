"""The checkers hold on whatever the real processor writes, and refuse such a log once one record of it is touched."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import given
from hypothesis import strategies as st

from kubecdc.records import EventType, Op, RawEvent, Relist
from local import checkers
from local.history import Committed
from local.verdicts import Entry, Evidence, Status
from processors.partition import Partition

T = EventType
UIDS = ("a", "b", "c")


@dataclass
class World:
    """A server, a producer that can look away, and the processor: all in one thread."""

    partition: Partition = field(default_factory=lambda: Partition(0))
    truth: list[Committed] = field(default_factory=list)
    log: list[Entry] = field(default_factory=list)
    living: dict[str, str] = field(default_factory=dict)
    revision: int = 1
    seq: int = 0
    offset: int = 0
    safe: str | None = None
    blind: bool = False

    def commit(self, slot: str, *, delete: bool) -> None:
        uid = next((each for each in self.living if each.startswith(slot)), None)
        if uid is None and delete:
            return
        self.revision += 1
        rv = str(self.revision)
        kind = T.MODIFIED if uid else T.ADDED
        uid = uid or f"{slot}{rv}"
        if delete:
            del self.living[uid]
        else:
            self.living[uid] = rv
        self.truth.append(Committed("", "pods", "default", slot, uid, rv, "DELETE" if delete else "PUT"))
        if not self.blind:
            self.send(T.DELETED if delete else kind, uid, rv)
            self.safe = self.safe if delete else rv  # more deletes may share a version

    def progress(self) -> None:
        if not self.blind:
            self.revision += 1
            self.safe = str(self.revision)
            self.send(T.PROGRESS, None, self.safe)

    def relist(self) -> None:
        self.blind = False
        self.revision += 1
        relist = Relist(f"r{self.revision}", "gone", self.safe, str(self.revision))
        self.send(T.RELIST_START, None, None, relist)
        for uid, rv in self.living.items():
            self.send(T.LISTED, uid, rv, relist)
        self.send(T.RELIST_END, None, None, replace(relist, expected=len(self.living)))
        self.safe = str(self.revision)

    def send(self, kind: EventType, uid: str | None, rv: str | None, relist: Relist | None = None) -> None:
        event = RawEvent(
            *("here", 1, "", "v1", "pods", "", kind, uid, "default" if uid else "", uid[0] if uid else "", rv),
            *("s", self.seq, relist, None, None, (), None, None, f"digest {rv}" if uid else "", "{}", "", 0),
        )
        self.seq += 1
        self.partition.apply(self.offset, event, 0, 0)
        self.offset += 1
        for _, change in self.partition.drain().changes:
            if change is not None:
                self.log.append(Entry(0, len(self.log), change))

    def evidence(self) -> Evidence:
        return Evidence(self.truth, self.log, 1, (("", "pods"),))


actions = st.one_of(
    st.tuples(st.just("commit"), st.sampled_from(UIDS), st.sampled_from([False, False, True])),
    st.tuples(st.sampled_from(["progress", "relist", "look away"])),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    world = World()
    world.blind = True
    world.commit("a", delete=False)  # so that there is something to judge
    world.relist()
    for name, *rest in draw(st.lists(actions, max_size=30)):
        if name == "commit":
            world.commit(str(rest[0]), delete=bool(rest[1]))
        elif name == "progress":
            world.progress()
        elif name == "relist":
            world.relist()
        else:
            world.blind = True
    if world.blind:
        world.relist()
    world.commit("c", delete=False)  # so that the last claim is owed
    world.progress()
    return world


def statuses(evidence: Evidence) -> set[Status]:
    return {verdict.status for verdict in checkers.check_all(evidence).values()}


@given(worlds())
def test_what_the_processor_writes_never_fails(world: World) -> None:
    verdicts = checkers.check_all(world.evidence())
    assert list(verdicts) == ["G1", "G2", "G3"]
    assert verdicts["G1"].status is Status.HOLDS, verdicts["G1"].findings
    assert verdicts["G2"].status in (Status.HOLDS, Status.UNKNOWN), verdicts["G2"].findings
    assert verdicts["G3"].status is Status.HOLDS, verdicts["G3"].findings


@given(worlds(), st.data())
def test_a_log_without_one_of_its_records_is_refused(world: World, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from([e for e in world.log if e.change.gap is None and not e.change.inferred]))
    touched = replace(world.evidence(), log=[entry for entry in world.log if entry is not lost])
    assert Status.FAILS in statuses(touched), lost


@given(worlds(), st.data())
def test_a_log_with_a_record_twice_is_refused(world: World, data: st.DataObject) -> None:
    twice = data.draw(st.sampled_from([entry for entry in world.log if entry.change.op not in (Op.PROGRESS, Op.GAP)]))
    touched = replace(world.evidence(), log=[*world.log, twice])
    assert Status.FAILS in statuses(touched), twice


@given(worlds(), st.data())
def test_a_claim_that_comes_before_its_records_is_refused(world: World, data: st.DataObject) -> None:
    places = [
        at
        for at in range(1, len(world.log))
        if world.log[at].change.op is Op.PROGRESS and world.log[at - 1].change.op in (Op.CREATED, Op.UPDATED)
        if world.log[at - 1].change.gap is None
    ]
    if not places:
        return
    at = data.draw(st.sampled_from(places))
    changes = [entry.change for entry in world.log]
    changes[at - 1], changes[at] = changes[at], changes[at - 1]
    log = [Entry(0, offset, change) for offset, change in enumerate(changes)]
    assert Status.FAILS in statuses(replace(world.evidence(), log=log))
