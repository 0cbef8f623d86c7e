"""The supervisor: which sessions run, from the first discovery to the graceful end.

It starts one session for each resource and namespace, parks and wakes them as kinds come and go, and ends the process's
work when one fails, since a kind that nobody watches is worse than a restart. It can be embedded: the sink and the
cluster are handed in, and nothing here reads the environment or handles signals.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from kubecdc import errors, wire
from kubecdc.codec import Codec, SchemaIds
from kubecdc.records import Position, RawEvent
from producer.cluster import Cluster
from producer.driver import Driver, begin
from producer.ears import Ears
from producer.errors import SessionFailed
from producer.following import statement
from producer.metrics import Metrics
from producer.past import Past
from producer.selection import Discovery, ResourceInfo, Selection, choose, diff, unserved, vanished
from producer.sessions import Sessions
from producer.settings import ProducerSettings, WatchSettings
from producer.signals import AuditDue, Back, Gone, Moved, Stop
from producer.sink import Sink
from producer.stored import StoredPositions

log = logging.getLogger(__name__)

WATCHLIST_SINCE = (1, 32)
STOP_S = 20.0
KILLED_S = 1.0  # a thread that waits for Kafka ends when the sink does
TURN_S = 0.1
CONFIRM_S = 2.0
Key = tuple[str, str, str]  # group, resource, scope
News = Discovery | Exception | None  # of the thread that looks; an exception has ended it, None: positions were read


def scopes(info: ResourceInfo, namespaces: Sequence[str]) -> Sequence[str]:
    """What sessions of a kind are confined to: nothing, or each of the namespaces, where it has any."""
    if namespaces and not info.namespaced:
        return ()
    return namespaces or ("",)


def _chosen(cluster: Cluster, watch: WatchSettings) -> tuple[Discovery, Selection]:
    discovery = cluster.discover()
    return discovery, choose(discovery, watch.resources, watch.exclude)


def _may_stream(cluster: Cluster, watchlist: str) -> bool:
    """Whether first lists may be streamed. Raises Unreachable where no server answers, whatever is asked for."""
    since = cluster.version()
    return since >= WATCHLIST_SINCE if watchlist == "auto" else watchlist == "always"


def _unserved(cluster: str, positions: StoredPositions, discovery: Discovery) -> list[Position]:
    """Positions of kinds that were followed once, by whomever, and that nobody can follow now."""
    ours = [position for position in positions.all().values() if position.cluster == cluster]
    gone = unserved(discovery, [(position.group, position.resource) for position in ours])
    return [position for position in ours if (position.group, position.resource) in gone]


class Producer:
    """Turns a cluster's LIST and WATCH into records in a sink.

    Raises Misconfigured for unusable rules or patterns. `topics` are the names of the events and positions topics, for
    the subjects of a Schema Registry, `complaint` tells what keeps the sink, empty for nothing known.
    """

    def __init__(
        self,
        cluster: Cluster,
        sink: Sink,
        settings: ProducerSettings,
        *,
        metrics: Metrics | None = None,
        registry: SchemaIds | None = None,
        topics: tuple[str, str] = ("", ""),
        complaint: Callable[[], str] = str,
    ) -> None:
        self.metrics = metrics or Metrics()
        self._cluster = cluster
        self._sink = sink
        self._watch = settings.watch
        self._codecs = (Codec(topics[0], registry), Codec(topics[1], registry))
        self._state = Codec("", registry)
        self._past = Past(sink.state, self._state, {})
        self._sessions = Sessions(cluster, sink, settings, self.metrics, self._codecs)
        self._ears = Ears(self.metrics, settings.watch.unheard_after_s, complaint)
        self._drivers: dict[Key, Driver] = {}
        self._parked: set[Key] = set()
        self._selection = Selection(())
        self._positions = StoredPositions(sink.positions, self._codecs[1])
        self._streamed = False
        self._ready = threading.Event()
        self._killed = threading.Event()
        self.metrics.depth.set_function(sink.depth)

    # --- for other threads ------------------------------------------------------------------------------------------

    def audit_now(self) -> None:
        """Let an audit fall due in every session."""
        for driver in list(self._drivers.values()):
            driver.order(AuditDue())

    def kill(self) -> None:
        """Abandon everything, as a killed process would; `run` returns soon after."""
        self._killed.set()
        for driver in list(self._drivers.values()):
            driver.kill()

    def stored(self) -> bool:
        """All that was read is sent, acknowledged, and its position stored."""
        drivers = list(self._drivers.values())
        return self._ready.is_set() and all(driver.stored() for driver in drivers) and self._sink.depth() == 0

    def settled(self) -> bool:
        """All is stored, and no list is to come."""
        return self.stored() and all(driver.settled() for driver in list(self._drivers.values()))

    def healthy(self) -> bool:
        """No session has failed."""
        return not any(driver.failed for driver in list(self._drivers.values()))

    def ready(self) -> bool:
        """Every session has a version to watch from and hears its server, or says in the log that it lost coverage."""
        return not self.unready()

    def unready(self) -> tuple[str, ...]:
        """What keeps it from being ready, a sentence each: what /readyz shows."""
        if not self._ready.is_set():
            return ("it starts: no kind is followed yet",)
        late = [why for driver in list(self._drivers.values()) if (why := driver.unready())]
        return (*self._ears.unready(), *late)

    def notes(self) -> tuple[str, ...]:
        """What is not heard and does not count against readiness, a sentence each: /readyz shows it as well."""
        return tuple(said for driver in list(self._drivers.values()) if (said := driver.note()))

    # --- the work ---------------------------------------------------------------------------------------------------

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then end gracefully: last PROGRESS, acknowledgements, positions.

        Raises Misconfigured or Unreachable at the start, SessionFailed or SinkFailed later.
        """
        for codec, record in zip(self._codecs, (RawEvent, Position), strict=True):
            codec.register(record)
        self._streamed = _may_stream(self._cluster, self._watch.watchlist)
        self._positions.refresh()
        discovery, selection = _chosen(self._cluster, self._watch)
        missing = selection.problems or _unserved(self._cluster.name, self._positions, discovery)
        if missing and not stop.wait(CONFIRM_S):  # a server that has just started lacks whole groups
            discovery, selection = _chosen(self._cluster, self._watch)
        if selection.problems:
            raise errors.Misconfigured(*selection.problems)
        for sentence in selection.awaited:
            log.warning("%s", sentence)
        for position in _unserved(self._cluster.name, self._positions, discovery):
            self._sessions.tell_unserved(position)
        self._past = Past(self._sink.state, self._state, self._positions.epochs())
        self._selection = selection
        log.info("%s", statement(discovery, selection, self._watch))
        for kind in selection.resources:
            self._appeared(kind)
        if not self._drivers and not selection.awaited:
            raise errors.Misconfigured("nothing is left to follow: check --resources, --exclude and --namespace")
        self._ready.set()
        found: queue.SimpleQueue[News] = queue.SimpleQueue()
        looking = threading.Thread(target=self._discover, args=(stop, found, discovery), name="discovery", daemon=True)
        looking.start()
        try:
            self._supervise(stop, found)
        finally:
            self._end()

    def _supervise(self, stop: threading.Event, found: queue.SimpleQueue[News]) -> None:
        while not stop.wait(TURN_S) and not self._killed.is_set():
            self._sink.check()
            self._ears.look(self._sink.depth(), sum(driver.acknowledged for driver in self._drivers.values()))
            for driver in self._drivers.values():
                if driver.failed is not None:
                    raise driver.failed
            while not found.empty():
                news = found.get()
                if isinstance(news, Exception):
                    raise SessionFailed(f"discovery: {type(news).__name__}") from news
                if news is not None:
                    self._follow(news)
                self._catch_up()

    def _discover(self, stop: threading.Event, found: queue.SimpleQueue[News], last: Discovery) -> None:
        """Read discovery and stored positions again and again; a failure says nothing about either.

        A look in which something is missing is followed by another one soon, and only that one counts.
        """
        interval = pause = self._watch.discovery_interval_s
        failures = 0
        while not stop.wait(pause) and not self._killed.is_set():
            try:
                seen = self._ears.discovery(self._cluster.discover)
                if seen is None:
                    pause, failures = min(CONFIRM_S * 2 ** min(failures, 8), interval), failures + 1
                else:
                    doubtful, last, failures = vanished(last, seen), seen, 0
                    pause = min(CONFIRM_S, interval) if doubtful else interval
                    if not doubtful:
                        found.put(seen)
                if self._ears.positions(self._positions.refresh):
                    found.put(None)
            except Exception as error:  # noqa: BLE001 - without this thread a new kind would be missed in silence
                found.put(error)
                return

    def _catch_up(self) -> None:
        """Take over the epochs that other producers have begun."""
        for (group, resource, scope), driver in self._drivers.items():
            stream = wire.stream_name(self._cluster.name, group, resource, scope)
            overtaken = self._positions.overtaken(stream, driver.epoch)
            if overtaken is not None:
                log.warning("%s: another producer has begun epoch %d", driver.name, overtaken.epoch)
                driver.order(overtaken)

    def _follow(self, discovery: Discovery) -> None:
        """Take over what came, went or moved."""
        chosen = choose(discovery, self._watch.resources, self._watch.exclude)
        changes = diff(self._selection, chosen, discovery)
        resources = {info.key: info for info in self._selection.resources}
        for info in changes.gone:
            resources.pop(info.key, None)
            log.warning("%s is not served any more", info.name)
            for key in self._keys(info):
                self._parked.add(key)
                self._drivers[key].order(Gone())
        for _, info in changes.moved:
            resources[info.key] = info
            log.info("%s is read as %s from now on", info.name, info.group_version)
            for key in self._keys(info):
                self._drivers[key].retarget(self._sessions.target(info, key[2]), Moved())
        for info in changes.appeared:
            resources[info.key] = info
            self._appeared(info)
        self._selection = replace(chosen, resources=tuple(resources.values()))
        if changes.appeared or changes.gone:
            log.info("%s", statement(discovery, self._selection, self._watch))

    def _keys(self, info: ResourceInfo) -> list[Key]:
        return [key for key in self._drivers if key[:2] == info.key]

    def _appeared(self, info: ResourceInfo) -> None:
        for scope in scopes(info, self._watch.namespaces):
            key = (*info.key, scope)
            if key in self._parked:
                self._parked.discard(key)
                self._drivers[key].retarget(self._sessions.target(info, scope), Back())
            else:
                self._drivers[key] = self._session(info, scope)

    def _session(self, info: ResourceInfo, scope: str) -> Driver:
        stream = wire.stream_name(self._cluster.name, info.group, info.resource, scope)
        recall = partial(self._past.recall, stream)
        driver = self._sessions.driver(info, scope, streamed=self._streamed, recall=recall)
        start = self._positions.start(stream)
        began = f"after {start.rv}" if start.rv else "with a list"
        log.info("%s starts %s", driver.name, began, extra={**driver.labels, "version": start.rv})
        begin(driver, start)
        return driver

    def _end(self) -> None:
        """Stop all sessions; what is not acknowledged in time will be read again at the next start."""
        self._sessions.close()
        self._ears.leave()
        drivers = list(self._drivers.values())
        if not self._killed.is_set():
            deadline = time.monotonic() + STOP_S
            for driver in drivers:
                driver.order(Stop())
            for driver in drivers:
                driver.join(max(0.0, deadline - time.monotonic()))
            if not self._sink.flush(max(0.1, deadline - time.monotonic())):
                log.warning("not everything was acknowledged in time; it will be read again")
        for driver in drivers:
            driver.kill()
        for driver in drivers:
            driver.join(KILLED_S)
