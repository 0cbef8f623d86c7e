"""The Faust worker: `faust -A processors.app worker`. The one home of faust, mode and aiokafka.

Faust runs the process, the consumer group, signals, logging and the web server. Records are taken below its stream
layer: `EventsConsumer` hands each partition's raw records to the partition's task and never builds a message, an event
or a stream. Faust's tables, acknowledgements and transactions are not used, since each of them can lose or repeat a
record (kafka.md 1.2 to 1.4); its commits are for monitoring only and follow the transaction.

Importing this module reads and connects to nothing. `faust -A` looks up `app` in it, and that look-up alone reads
`KUBECDC_*`, since Faust's command line has no flags of ours; the connection comes when the worker starts.

It rests on names that Faust does not promise (`tests/processors/test_app.py` pins them), so the version is pinned.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
import threading
from collections.abc import Mapping
from typing import Any, ClassVar

import faust
from aiokafka.errors import KafkaError, NoOffsetForPartitionError, OffsetOutOfRangeError
from faust.transport.drivers import aiokafka as driver
from faust.types import TP
from mode import Service

from kubecdc.complaints import Seldom, advised
from kubecdc.errors import KubecdcError, Misconfigured
from kubecdc.probes import MetricsServer
from kubecdc.topics import MAX_MESSAGE_BYTES, TopicNames
from kubecdc.wire import told
from processors import settings
from processors.ending import END_S, end_process, end_stuck, end_within
from processors.errors import ProcessorError, Stop
from processors.metrics import Metrics
from processors.tasks import CUT_OFF, Tasks

log = logging.getLogger(__name__)

POLL_S = 0.5
COORDINATOR_S = 1.0
POLL_RECORDS = 8_000
# Properties of librdkafka that decide how a connection is secured, and those of them that are handed on to Faust.
_SECURITY = ("security.", "ssl.", "sasl.", "enable.ssl.", "enable.sasl.")
_UNDERSTOOD = frozenset(
    {"security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password"}
    | {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"}
    | {"ssl.endpoint.identification.algorithm"}
)
_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


class EventsConsumer(driver.Consumer):
    """A consumer whose records go to partition tasks, and whose positions come from them."""

    worker: ClassVar[settings.WorkerSettings]
    metrics: ClassVar[Metrics]
    events: ClassVar[str]
    tasks: Tasks

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._fetch: asyncio.Future[Any] | None = None
        self._told: dict[int, int] = {}

    async def on_start(self) -> None:
        """Refuse wrong topics before the group is joined."""
        try:
            self.tasks = await asyncio.to_thread(Tasks, self.worker, self.metrics)
            if self.worker.metrics_port is not None:
                probes = (self.tasks.healthy, self.tasks.ready, self.tasks.unready)
                MetricsServer(self.worker.metrics_port, self.metrics.registry, *probes)
        except KubecdcError as error:
            end_process(error)
        for name in [name for name in logging.root.manager.loggerDict if name.startswith("aiokafka")]:
            logging.getLogger(name).addFilter(Seldom())
        self.tasks.watch(threading.Event(), lambda reason: end_stuck(reason, (self.loop, self._thread.thread_loop)))
        await super().on_start()

    async def on_stop(self) -> None:
        """Finish the batches under way."""
        await super().on_stop()
        await asyncio.to_thread(self.tasks.close)
        if self._fetch is not None:
            self._fetch.cancel()

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Finish and close before others take over; no guarantee depends on it."""
        await super().on_partitions_revoked(revoked)
        await asyncio.to_thread(self.tasks.close, [tp.partition for tp in revoked if tp.topic == self.events])

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Open a task for each assigned partition, and resume where its own output says."""
        try:
            await asyncio.to_thread(self.tasks.close)
            opened, _ = await asyncio.to_thread(self.tasks.prepare, sorted(self._given()))
            self.tasks.adopt(opened)
            return await self._rewind()
        except (ProcessorError, KubecdcError) as error:
            end_process(error)
            raise

    @Service.task
    async def _hear_coordinator(self) -> None:
        """End where the group cannot be joined, and take all other errors of aiokafka's group membership.

        It stands still, alive for the group, until somebody takes them (`_push_error_to_user`), which only a fetch
        does: a worker without partitions, in a rebalance above all, would hang for ever.
        """
        while not self.should_stop:
            await self.sleep(COORDINATOR_S)
            try:
                await self._thread.call_thread(self._take_errors)
            except KafkaError as error:
                if (reason := refusal(error)) is not None:
                    end_process(f"consumer group {self.app.conf.id}: {reason}")
                log.warning("consumer group: %r", error)

    async def _take_errors(self) -> None:
        consumer: Any = self._thread._consumer  # noqa: SLF001 - no other way in; `test_app` pins the names
        if consumer is not None:
            consumer._coordinator.check_errors()  # noqa: SLF001 - as above

    def verify_event_path(self, now: float, tp: TP) -> None:
        """Nothing: it warns of streams that do not move, and ours has none; `Tasks.watch` looks instead."""

    def _given(self) -> set[int]:
        return {tp.partition for tp in self.assignment() if tp.topic == self.events}

    async def _rewind(self) -> Mapping[TP, int]:
        """Go where the tasks stand.

        Faust cancels a fetch without stopping it: it goes on in the consumer's thread and moves past records that
        nobody gets. So the last fetch must have ended before, and each run of the drain begins here.
        """
        assigned = self.assignment()
        positions = {TP(self.events, p): offset for p, offset in self.tasks.positions().items()}
        here = {tp: offset for tp, offset in positions.items() if tp in assigned}
        await self._thread.call_thread(self._seek_all, here)
        return here

    async def _seek_all(self, offsets: Mapping[TP, int]) -> None:
        for tp, offset in offsets.items():
            self._thread.seek(tp, offset)
            self._read_offset[tp] = offset or None

    async def _drain_messages(self, fetcher: Any) -> None:
        """Faust's fetcher runs this from the end of one rebalance to the begin of the next."""
        try:
            if self._fetch is not None:
                await asyncio.wait([self._fetch])
            await self._rewind()
            self.tasks.told(self._given())  # also when that is nothing: Faust does not ask where to begin then
            while not (self.should_stop or fetcher.should_stop):
                await self._round()
        except self.consumer_stopped_errors as error:
            if not self.app.should_stop:
                end_process(f"the consumer was stopped: {error!r}")
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        except Exception as error:  # noqa: BLE001 - Faust would log it and go on
            end_process(error if isinstance(error, ProcessorError | KubecdcError) else repr(error))

    async def _round(self) -> None:
        if given := self._given():  # else a rebalance may be under way
            self.tasks.told(given)
        self._fetch = asyncio.ensure_future(self._wait_next_records(POLL_S))
        try:
            records, _ = await asyncio.shield(self._fetch)
        except (OffsetOutOfRangeError, NoOffsetForPartitionError) as error:
            self._no_such_offset(error)
            return
        await asyncio.sleep(0)  # a fetch that finds records at once leaves the loop to nobody else
        if not records or not self.flow_active:
            return  # without flow a rebalance has begun, and the next run rewinds
        batches = {
            tp.partition: [(r.offset, r.timestamp or 0, r.key, told(r.value, r.headers)) for r in batch]
            for tp, batch in records.items()
            if tp.topic == self.events
        }
        await asyncio.to_thread(self.tasks.process, batches, self.tasks.owned())

    def _no_such_offset(self, error: Exception) -> None:
        """End where one of our positions is gone; a partition that no task owns yet has none of ours. Raises Stop."""
        named = error.args[0] if error.args else {}
        partitions = [tp.partition for tp in (named if isinstance(named, Mapping) else (named,))]
        cut = sorted(set(partitions) & set(self.tasks.positions()))
        if cut:
            raise Stop(CUT_OFF.format(cut))

    async def force_commit(self, topics: Any = None, start_new_transaction: bool = True) -> bool:
        """Tell the group where the tasks stand; Faust calls it every few seconds and before a rebalance."""
        del topics, start_new_transaction
        positions = self.tasks.positions()
        moved = {TP(self.events, p): offset for p, offset in positions.items() if self._told.get(p) != offset}
        self._told = positions
        return bool(moved) and bool(await self._commit_offsets(moved))


class _App(faust.App):
    """Faust without the folders in which it would keep tables (there are none), and with an end to its end.

    Its main loop waits for the consumer's thread, which may be dead (a broker that is away cancels its own stop), or
    wait for the main loop, while it goes on to tell the group that this worker lives.
    """

    async def stop(self) -> None:
        end_within(END_S)
        await super().stop()

    def _create_directories(self) -> None:
        pass


def refusal(error: KafkaError) -> str | None:
    """Why the group cannot be joined, with advice, where asking again does not help."""
    if error.retriable:
        return None
    return advised(str(error) or repr(error), str(getattr(error, "message", "")))


def build(worker: settings.WorkerSettings, metrics: Metrics) -> Any:
    """Make the Faust app of a worker; it connects when it is started. Raises Misconfigured."""
    kafka = worker.kafka
    events = TopicNames.under(kafka.prefix).events
    app: Any = _App(  # Any: its types know neither our consumer nor the class attributes of transports
        kafka.app,
        broker=";".join(f"kafka://{broker}" for broker in kafka.bootstrap.split(",")),
        broker_credentials=credentials(dict(kafka.properties)),
        broker_session_timeout=kafka.session_timeout_s,
        broker_heartbeat_interval=kafka.session_timeout_s / 4,
        broker_max_poll_records=POLL_RECORDS,
        consumer_auto_offset_reset="none",  # below the low watermark the task must know
        consumer_group_instance_id=kafka.group_instance_id,
        consumer_max_fetch_size=MAX_MESSAGE_BYTES,
        autodiscover=False,
        processing_guarantee="at_least_once",
        stream_wait_empty=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
    )
    consumer = type("Consumer", (EventsConsumer,), {"worker": worker, "metrics": metrics, "events": events})
    app.transport = type("Transport", (driver.Transport,), {"Consumer": consumer})(app.conf.broker_consumer, app)
    app.topics.add(app.topic(events, key_type=bytes, value_type=bytes))  # what the consumer subscribes to
    return app


def credentials(properties: Mapping[str, str]) -> Any:
    """Faust's credentials for librdkafka's properties of TLS and SASL, None without them. Raises Misconfigured."""
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", "PLAIN"))
    foreign = sorted(name for name in properties if name.startswith(_SECURITY) and name not in _UNDERSTOOD)
    foreign += [f"SASL {mechanism}"] if mechanism not in _MECHANISMS else []
    if foreign:
        raise Misconfigured(
            f"--kafka-property: the Faust worker does not understand {', '.join(foreign)}: use --runtime plain"
        )
    protocol = properties.get("security.protocol", "plaintext").lower()
    context = _tls(properties) if protocol.endswith("ssl") else None
    if protocol.startswith("sasl"):
        return faust.SASLCredentials(
            username=properties.get("sasl.username"),
            password=properties.get("sasl.password"),
            ssl_context=context,
            mechanism=mechanism,
        )
    return faust.SSLCredentials(context) if context is not None else None


def _tls(properties: Mapping[str, str]) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=properties.get("ssl.ca.location"))
        if "ssl.certificate.location" in properties:
            key, password = properties.get("ssl.key.location"), properties.get("ssl.key.password")
            context.load_cert_chain(properties["ssl.certificate.location"], key, password)
    except OSError as error:
        raise Misconfigured(f"--kafka-property: certificates cannot be read: {error}") from error
    context.check_hostname = properties.get("ssl.endpoint.identification.algorithm", "https").lower() != "none"
    return context


def __getattr__(name: str) -> Any:
    """Make `app` when `faust -A` looks it up."""
    if name != "app":
        raise AttributeError(name)
    try:
        made = build(settings.of_environment(os.environ), Metrics())
    except KubecdcError as error:
        end_process(error)
    globals()["app"] = made
    return made
