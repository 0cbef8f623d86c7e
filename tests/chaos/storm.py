"""The storm: carries out a schedule of faults against what runs. What strikes when is decided in `schedule`."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from processors import crash
from tests.chaos.cleaning import compact_events
from tests.chaos.crew import Crew
from tests.chaos.harm import pause
from tests.chaos.kafkas import Kafkas
from tests.chaos.schedule import Fault, Strike
from tests.chaos.world import World

JOIN_S = 400.0
DELAY_S = 0.4
Say = Callable[[str], object]


class Storm:
    """Faults by name. `struck` counts what was done, `missed` what could not be done just then."""

    def __init__(self, kafkas: Kafkas, world: World, crew: Crew, say: Say) -> None:
        self._kafkas, self._world, self._crew, self._say = kafkas, world, crew, say
        self._started = time.monotonic()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self.failed: list[str] = []  # faults that the harness could not carry out, or not end
        self.struck: Counter[Fault] = Counter()
        self.missed: Counter[Fault] = Counter()
        self.comparable: dict[int, int] = {}
        self.more: dict[Fault, Callable[[Strike], bool]] = {}

    def rage(self, strikes: Sequence[Strike], seconds: float) -> None:
        """Carry out a schedule, and return when its time is over and every fault has ended."""
        self._started = time.monotonic()
        for strike in strikes:
            pause(max(0.0, self._started + strike.at_s - time.monotonic()))
            thread = threading.Thread(target=self._strike, args=(strike,), name=strike.fault.value, daemon=True)
            thread.start()
            self._threads.append(thread)
        pause(max(0.0, self._started + seconds - time.monotonic()))
        for thread in self._threads:
            thread.join(JOIN_S)
        self.failed += [f"{thread.name} did not end" for thread in self._threads if thread.is_alive()]

    def _strike(self, strike: Strike) -> None:
        fault = strike.fault
        try:
            done = (self.more.get(fault) or _DONE_BY[fault].__get__(self))(strike)
        except Exception as error:  # noqa: BLE001 - what holds is judged all the same, and the report tells
            self.failed.append(f"{fault}: {error!r}")
            done = False
        with self._lock:
            (self.struck if done else self.missed)[fault] += 1
        self._say(f"{time.monotonic() - self._started:6.1f} s  {fault}" + ("" if done else " (not just now)"))

    # ---------------------------------------------------------------------------------------------- processes

    def _one(self, kind: str, pick: float) -> str:
        """A member by share; one that waits for its crash point is left alone, as long as there is another."""
        names = [name for name in self._crew.names(kind) if not name.endswith("-extra")]
        names = [name for name in names if not self._crew.doomed(name)] or names
        return names[int(pick * len(names))]

    def _kill_producer(self, strike: Strike) -> bool:
        self._crew.kill(self._one("producer", strike.pick), again_after_s=strike.lasts_s)
        return True

    def _kill_worker(self, strike: Strike) -> bool:
        self._crew.kill(self._one("worker", strike.pick), again_after_s=strike.lasts_s)
        return True

    def _freeze_producer(self, strike: Strike) -> bool:
        return self._crew.freeze(self._one("producer", strike.pick), strike.lasts_s)

    def _freeze_worker(self, strike: Strike) -> bool:
        return self._crew.freeze(self._one("worker", strike.pick), strike.lasts_s)

    def _crash_worker(self, strike: Strike) -> bool:
        """Have a worker die at a named point, after it passed there a few times: this is counted when it dies."""
        choice = int(strike.pick * 1e6)
        point = crash.POINTS[choice % len(crash.POINTS)]
        times = 1 if point == "in_recovery" else 1 + choice // 7 % 4
        self._crew.stop(self._one("worker", strike.pick), again_after_s=0.0, crash_at=f"{point}:{times}")
        return True

    def _stop_producer(self, strike: Strike) -> bool:
        self._crew.stop(self._one("producer", strike.pick), again_after_s=strike.lasts_s)
        return True

    def _stop_worker(self, strike: Strike) -> bool:
        self._crew.stop(self._one("worker", strike.pick), again_after_s=strike.lasts_s)
        return True

    def _extra_worker(self, strike: Strike) -> bool:
        name = "worker-extra"
        self._crew.start(name)
        pause(strike.lasts_s)
        self._crew.stop(name)
        return True

    # ---------------------------------------------------------------------------------------------- networks

    def _cut_api(self, _: Strike) -> bool:
        return self._world.relay.cut() > 0

    def _stall_api(self, strike: Strike) -> bool:
        self._world.relay.stall(strike.lasts_s)
        return True

    def _dribble_api(self, strike: Strike) -> bool:
        self._world.relay.dribble(strike.lasts_s)
        return True

    def _refuse_api(self, strike: Strike) -> bool:
        self._world.relay.refuse(strike.lasts_s)
        return True

    def _relay(self, pick: float) -> Any:
        return self._kafkas.relays[int(pick * len(self._kafkas.relays))]

    def _cut_kafka(self, strike: Strike) -> bool:
        return bool(self._relay(strike.pick).cut())

    def _stall_kafka(self, strike: Strike) -> bool:
        self._relay(strike.pick).stall(strike.lasts_s)
        return True

    def _delay_kafka(self, strike: Strike) -> bool:
        self._relay(strike.pick).delay(strike.lasts_s, DELAY_S)
        return True

    def _lose_end_txn(self, strike: Strike) -> bool:
        """Lose the next reply; done when it was lost."""
        relay = self._relay(strike.pick)
        before = relay.lost
        relay.lose_end_txn(cut=strike.fault is Fault.CUT_END_TXN)
        until = time.monotonic() + 20
        while relay.lost == before and time.monotonic() < until:
            pause(0.1)
        return bool(relay.lost > before)

    # ---------------------------------------------------------------------------------------------- servers

    def _kill_broker(self, strike: Strike) -> bool:
        return self._kafkas.kill(strike.pick, strike.lasts_s)

    def _restart_broker(self, strike: Strike) -> bool:
        return self._kafkas.restart(strike.pick)

    def _freeze_broker(self, strike: Strike) -> bool:
        return self._kafkas.freeze(strike.pick, strike.lasts_s)

    def _move_leaders(self, _: Strike) -> bool:
        return self._kafkas.move_leaders()

    def _full_disk(self, strike: Strike) -> bool:
        return self._kafkas.fill_disk(strike.lasts_s)

    def _restart_api(self, _: Strike) -> bool:
        return self._world.restart()

    def _kill_api(self, strike: Strike) -> bool:
        return self._world.kill(strike.lasts_s)

    def _freeze_api(self, strike: Strike) -> bool:
        return self._world.freeze(strike.lasts_s)

    def _compact_etcd(self, _: Strike) -> bool:
        return self._world.compact()

    def _restore_etcd(self, _: Strike) -> bool:
        return self._world.restore()

    def _compact_log(self, _: Strike) -> bool:
        with self._kafkas.unharmed():
            done = compact_events(self._kafkas.bootstrap, self._crew)
        if done is None:
            self._say("           Kafka or the workers did not allow a compaction just now")
            return False
        self._say(f"           {done.removed} events were compacted away unread")
        with self._lock:
            for partition, offset in done.done.items():
                self.comparable.setdefault(partition, offset)
        return done.removed > 0


_DONE_BY: dict[Fault, Any] = {
    Fault.KILL_PRODUCER: Storm._kill_producer,
    Fault.KILL_WORKER: Storm._kill_worker,
    Fault.FREEZE_PRODUCER: Storm._freeze_producer,
    Fault.FREEZE_WORKER: Storm._freeze_worker,
    Fault.CRASH_WORKER: Storm._crash_worker,
    Fault.STOP_PRODUCER: Storm._stop_producer,
    Fault.STOP_WORKER: Storm._stop_worker,
    Fault.EXTRA_WORKER: Storm._extra_worker,
    Fault.CUT_API: Storm._cut_api,
    Fault.STALL_API: Storm._stall_api,
    Fault.DRIBBLE_API: Storm._dribble_api,
    Fault.REFUSE_API: Storm._refuse_api,
    Fault.CUT_KAFKA: Storm._cut_kafka,
    Fault.STALL_KAFKA: Storm._stall_kafka,
    Fault.DELAY_KAFKA: Storm._delay_kafka,
    Fault.DROP_END_TXN: Storm._lose_end_txn,
    Fault.CUT_END_TXN: Storm._lose_end_txn,
    Fault.KILL_BROKER: Storm._kill_broker,
    Fault.RESTART_BROKER: Storm._restart_broker,
    Fault.FREEZE_BROKER: Storm._freeze_broker,
    Fault.MOVE_LEADERS: Storm._move_leaders,
    Fault.FULL_DISK: Storm._full_disk,
    Fault.RESTART_API: Storm._restart_api,
    Fault.KILL_API: Storm._kill_api,
    Fault.FREEZE_API: Storm._freeze_api,
    Fault.COMPACT_ETCD: Storm._compact_etcd,
    Fault.RESTORE_ETCD: Storm._restore_etcd,
    Fault.COMPACT_LOG: Storm._compact_log,
}
