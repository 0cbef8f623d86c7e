"""The public API on a real broker: every committed change once, breaks told, tombstones hidden, places kept."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from datetime import UTC, datetime

import pytest

import kubecdc
from kubecdc.chain import Kind
from kubecdc.codec import Codec
from kubecdc.errors import ChainBroken, Misconfigured, Unreachable
from kubecdc.folding import Resolved, Resource
from kubecdc.matching import Match
from kubecdc.reading import Source, follow_until
from kubecdc.records import Cause, Op, Progress
from local.broker import Broker
from local.children import poll
from tests.kubecdc.logs import HOUR_MS, Log
from tests.kubecdc.making import change, gap, progress

LIFE = [change(), change(Op.UPDATED, rv="11", seq=2), change(Op.DELETED, rv="12", seq=3, object=None)]


@pytest.fixture
def log(kafka_broker: Broker) -> Log:
    return Log(kafka_broker.bootstrap)


def test_replay_gives_what_was_committed_and_ends(log: Log):
    log.write(LIFE[0], progress(None, "10"))
    log.write(change(uid="aborted"), commit=False)
    log.write(*LIFE[1:], ("u1", None))
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        found = list(reading)
    assert [each for each in found if each.uid] == LIFE
    assert sorted(each.op for each in found if not each.uid) == [Op.PROGRESS, Op.PROGRESS]
    assert reading.breaks == []
    assert reading.done


def test_replay_ends_where_the_log_ended_when_it_was_opened(log: Log):
    log.write(LIFE[0])
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        log.write(*LIFE[1:])
        assert list(reading) == LIFE[:1]


def test_replay_of_an_empty_log_ends(log: Log):
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        assert list(reading) == []


def test_subscribe_goes_on_and_ends_when_closed(log: Log):
    log.write(LIFE[0])
    with kubecdc.subscribe(log.bootstrap, prefix=log.prefix) as reading:
        changes = iter(reading)
        assert next(changes) == LIFE[0]
        writer = threading.Thread(target=log.write, args=LIFE[1:])
        writer.start()
        assert [next(changes), next(changes)] == LIFE[1:]
        writer.join()
        reading.close()
        assert list(changes) == []


def test_positions_let_a_reader_go_on_where_it_was(log: Log):
    log.write(*LIFE[:2])
    with kubecdc.subscribe(log.bootstrap, prefix=log.prefix) as reading:
        assert next(iter(reading)) == LIFE[0]
        kept = dict(reading.positions)
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, from_=kept) as reading:
        assert list(reading) == [LIFE[1]]


def test_from_the_end_gives_what_comes_after(log: Log):
    log.write(LIFE[0])
    with kubecdc.subscribe(log.bootstrap, prefix=log.prefix, from_="end") as reading:
        log.write(LIFE[1])
        assert next(iter(reading)) == LIFE[1]


def test_from_a_time_gives_what_is_as_late(log: Log):
    now_ms = int(time.time() * 1000)
    log.write(LIFE[0], at_ms=now_ms - 2 * HOUR_MS)
    log.write(LIFE[1], at_ms=now_ms - HOUR_MS // 2)
    since = datetime.fromtimestamp((now_ms - HOUR_MS) / 1000, UTC)
    for from_ in (since, "1h", since.isoformat()):
        with kubecdc.replay(log.bootstrap, prefix=log.prefix, from_=from_) as reading:
            assert list(reading) == [LIFE[1]]


def test_a_hole_ends_the_reading_before_what_is_after_it(log: Log):
    log.write(LIFE[0], LIFE[2])
    found = []
    with (
        kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading,
        pytest.raises(ChainBroken, match="has seq 3 after 1"),
    ):
        found.extend(iter(reading))
    assert found == LIFE[:1]


def test_a_hole_can_be_reported_instead(log: Log, caplog: pytest.LogCaptureFixture):
    log.write(LIFE[0], LIFE[2])
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, on_break="report") as reading:
        assert list(reading) == [LIFE[0], LIFE[2]]
    assert [found.kind for found in reading.breaks] == [Kind.SEQ]
    assert "has seq 3 after 1" in caplog.text
    heard = []
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, on_break=heard.append) as reading:
        assert len(list(reading)) == 2
    assert heard == reading.breaks


@pytest.mark.parametrize("on_break", ["ignore", "", None, 3])
def test_what_is_no_answer_to_a_break_is_refused_at_once(on_break: object):
    for call in (kubecdc.replay, kubecdc.subscribe, kubecdc.state, kubecdc.gaps):
        with pytest.raises(Misconfigured, match="must be raise, report or a function"):
            call("127.0.0.1:9", on_break=on_break)  # type: ignore[operator]


def test_a_hole_that_compaction_may_have_made_is_none(log: Log):
    """The broker may really take the first record, and at any time: both are right."""
    now_ms = int(time.time() * 1000)
    log.write(LIFE[0], LIFE[2], at_ms=now_ms - 8 * 24 * HOUR_MS)
    log.write(change(uid="u2"))
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        found = list(reading)
        assert [each for each in found if each.uid == "u1"] in ([LIFE[0], LIFE[2]], [LIFE[2]])
        assert [each.uid for each in found if each.uid != "u1"] == ["u2"]
        assert not reading.history.whole
        assert abs(reading.history.from_ms - (now_ms - 7 * 24 * HOUR_MS)) < 600_000
        assert "before it the last state of each object" in str(reading.history)


def test_positions_from_before_the_window_are_a_break_since_deletes_may_have_gone(kafka_broker: Broker):
    """A subscriber that was away for too long would keep what has been deleted, and not know it (G2)."""
    log = Log(kafka_broker.bootstrap, partitions=1, lag_ms=1000)

    def old(offset: int) -> bool:
        with kubecdc.replay(log.bootstrap, prefix=log.prefix, on_break="report") as reading:
            return reading.history.offsets[0] >= offset

    log.write(change(uid="u1"))
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        list(reading)
    kept = dict(reading.positions)
    assert poll(lambda: old(kept[0]), 30, 0.1)
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, from_=kept) as reading:
        assert (list(reading), reading.breaks) == ([], [])  # nothing has come since
    log.write(change(Op.DELETED, uid="u1", rv="11", seq=2, object=None), ("u1", None))
    assert poll(lambda: old(kept[0] + 2), 30, 0.1)
    log.write(change(uid="u2"))
    with (
        kubecdc.replay(log.bootstrap, prefix=log.prefix, from_=kept) as reading,
        pytest.raises(ChainBroken, match="what followed it may have been compacted since, deletes too: full history"),
    ):
        list(reading)
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, from_=kept, on_break="report") as reading:
        assert "u2" in [each.uid for each in reading]
    assert {found.kind for found in reading.breaks} == {Kind.HISTORY}


def test_a_young_log_is_full_history_from_its_beginning(log: Log):
    log.write(LIFE[0])
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading:
        assert str(reading.history) == "full history from the beginning of the log"


def test_a_value_that_nobody_can_read_is_a_break(log: Log):
    log.write(LIFE[0], b"nonsense", Codec().encode(Progress(3)), LIFE[1])
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, on_break="report") as reading:
        assert list(reading) == LIFE[:2]
    assert [found.kind for found in reading.breaks] == [Kind.VALUE, Kind.VALUE]
    with kubecdc.replay(log.bootstrap, prefix=log.prefix) as reading, pytest.raises(ChainBroken, match="value broken"):
        list(reading)


def test_only_what_is_asked_for_is_given_and_all_is_checked(log: Log):
    log.write(LIFE[0], change(uid="u2", namespace="other"), progress(None, "11"))
    match = Match(namespace="other", progress=False)
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, match=match) as reading:
        assert [each.uid for each in reading] == ["u2"]
    log.write(LIFE[2])
    with kubecdc.replay(log.bootstrap, prefix=log.prefix, match=match) as reading, pytest.raises(ChainBroken):
        list(reading)


def test_state_is_what_lives_how_far_and_with_which_gaps(log: Log):
    alive = change(uid="u2", rv="13")
    window = gap(Cause.RELIST_WINDOW, "12", "20")
    log.write(*LIFE, ("u1", None), alive, progress(None, "12", count=0), window)
    found = kubecdc.state(log.bootstrap, prefix=log.prefix)
    assert found.objects == (alive,)
    assert found.resolved == {Resource("c", "", "pods"): Resolved(1, "20")}
    assert [each.partitions for each in found.gaps] == [(0, 1)]
    assert kubecdc.gaps(log.bootstrap, prefix=log.prefix) == found.gaps
    assert kubecdc.state(log.bootstrap, prefix=log.prefix, match=Match(name="none")).objects == ()


def test_a_fold_sees_progress_that_nobody_wants_to_see(log: Log):
    lost = gap(Cause.COVERAGE_LOST, "12", None)
    log.write(change(), progress(None, "12"), lost, gap(Cause.RELIST_WINDOW, "12", "20"), progress("20", "30"))
    unseen = Match(progress=False)
    now = kubecdc.state(log.bootstrap, prefix=log.prefix, match=unseen)
    assert now.resolved == {Resource("c", "", "pods"): Resolved(1, "30")}
    assert [each.open for each in now.gaps] == [False, False]
    assert kubecdc.state(log.bootstrap, prefix=log.prefix, match=unseen, at_rv="25").objects == (change(),)
    followed = follow_until(Source(log.bootstrap, log.prefix), lambda fold: bool(fold.streams()), 20, "raise", unseen)
    assert followed.streams() == {(Resource("c", "", "pods"), ""): Resolved(1, "30")}


def test_state_at_an_earlier_version(log: Log):
    chain = [
        change(),
        change(Op.UPDATED, rv="11", seq=2, prev_rv="10"),
        change(Op.DELETED, rv="12", seq=3, prev_rv="11"),
    ]
    log.write(progress(None, "9"), *chain, ("u1", None), progress("9", "20", count=0))

    def at(rv: str):
        return kubecdc.state(log.bootstrap, prefix=log.prefix, at_rv=rv).objects

    assert [at(rv) for rv in ("9", "10", "11", "12", "20")] == [(), (chain[0],), (chain[1],), (), ()]
    with pytest.raises(Misconfigured, match="version 21 is not resolved for pods: only up to 20"):
        at("21")
    with pytest.raises(Misconfigured, match="is no resourceVersion"):
        at("latest")
    with pytest.raises(Misconfigured, match="version 8 is from before the log knows pods: ask for 9 or later"):
        at("8")


def test_state_at_a_version_of_before_a_restore_is_refused(log: Log):
    restored = change(Op.SNAPSHOT, rv="15", prev_rv="10", seq=2, epoch=2)
    log.write(progress(None, "20"), restored, gap(Cause.EPOCH_CHANGE, "20", "15", epoch=2))
    log.write(progress("15", "30", epoch=2, count=0))
    with pytest.raises(Misconfigured, match="version 14 is from before the log knows pods: ask for 15 or later"):
        kubecdc.state(log.bootstrap, prefix=log.prefix, at_rv="14", on_break="report")


def test_state_at_a_version_inside_a_gap_says_so(log: Log):
    log.write(progress(None, "9"), gap(Cause.RELIST_WINDOW, "9", "20"))
    pods = Resource("c", "", "pods")
    assert kubecdc.state(log.bootstrap, prefix=log.prefix, at_rv="12").inside == ((pods, ""),)
    assert kubecdc.state(log.bootstrap, prefix=log.prefix, at_rv="20").inside == ()


def test_state_at_a_version_that_compaction_has_taken_is_refused(kafka_broker: Broker):
    log = Log(kafka_broker.bootstrap, lag_ms=HOUR_MS)
    long_ago = round(time.time() * 1000) - 3 * HOUR_MS
    log.write(change(Op.UPDATED, rv="15", seq=4, prev_rv="12"), at_ms=long_ago)
    log.write(progress(None, "12"), progress("12", "20", count=0))
    with pytest.raises(Misconfigured, match="compaction has taken a version of 1 objects"):
        kubecdc.state(log.bootstrap, prefix=log.prefix, at_rv="13")


def test_poll_returns_within_its_time(log: Log):
    with kubecdc.subscribe(log.bootstrap, prefix=log.prefix) as reading:
        begun = time.monotonic()
        assert reading.poll(0.2) == []
        assert time.monotonic() - begun < 5
        log.write(LIFE[0])
        found: list[kubecdc.Change] = []
        deadline = time.monotonic() + 20
        while not found and time.monotonic() < deadline:
            found = reading.poll(0.2)
        assert found == LIFE[:1]


def test_what_is_missing_is_named(log: Log):
    with pytest.raises(Misconfigured, match=r"none\.changes does not exist"):
        kubecdc.replay(log.bootstrap, prefix="none")
    with pytest.raises(Misconfigured, match="was the topic made anew"):
        kubecdc.replay(log.bootstrap, prefix=log.prefix, from_={0: 10})
    with pytest.raises(Misconfigured, match="must be beginning"):
        kubecdc.subscribe(log.bootstrap, prefix=log.prefix, from_="somewhere")


def test_a_broker_that_is_absent_is_told_in_seconds():
    begun = time.monotonic()
    with pytest.raises(Unreachable, match="check --bootstrap"):
        kubecdc.state("127.0.0.1:9")
    assert time.monotonic() - begun < 15


def test_importing_the_library_imports_no_other_package_of_ours_and_little_else():
    """A service with a `producer` or `schemas` of its own is safe (design.md, "The house")."""
    code = (
        "import sys, kubecdc; kubecdc.Change; heavy = {'confluent_kafka', 'fastavro', 'click', 'rich', 'faust'};"
        "print(sorted(heavy & set(sys.modules)));"
        "kubecdc.subscribe; print(sorted({'producer', 'processors', 'local', 'click'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["[]", "[]"]


def test_every_exported_name_exists():
    assert sorted(kubecdc.__all__) == sorted(kubecdc._HOMES)
    for name in kubecdc.__all__:
        assert getattr(kubecdc, name) is not None
    with pytest.raises(AttributeError):
        kubecdc.nothing_of_this_name  # noqa: B018
