"""The Faust worker: `faust -A processors.app worker`. The one home of faust, mode and aiokafka.

Faust runs the process, the consumer group, signals, logging and the web server. Records are taken below its stream
layer: `EventsConsumer` hands each partition's raw records to the partition's task and never builds a message, an event
or a stream. Faust's tables, acknowledgements and transactions are not used, since each of them can lose or repeat a
record (kafka.md 1.2 to 1.4); its commits are for monitoring only and follow the transaction.

It rests on names that Faust does not promise (`tests/processors/test_app.py` pins them), so the version is pinned.
`faust -A` imports this module and looks for `app`, which is why the environment is read when it is imported.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import faust
from faust.transport.drivers import aiokafka as driver
from faust.types import TP

from kubecdc.errors import KubecdcError
from kubecdc.topics import TopicNames
from processors import settings
from processors.errors import ProcessorError
from processors.metrics import Metrics, MetricsServer
from processors.tasks import Tasks

POLL_S = 0.5
POLL_RECORDS = 4_000
CHECK_S = 5.0


def die(reason: object) -> None:
    """End the process with the reason: Faust would restart the consumer, log, and go on without the partition."""
    stderr = sys.__stderr__ or sys.stderr  # Faust turns sys.stderr into log lines
    stderr.write(f"kubecdc process: {reason}\n")
    stderr.flush()
    os._exit(2 if isinstance(reason, KubecdcError) else 1)


try:
    WORKER = settings.of_environment(os.environ)
except KubecdcError as error:
    die(error)
EVENTS = TopicNames.under(WORKER.kafka.prefix).events
METRICS = Metrics()


class EventsConsumer(driver.Consumer):
    """A consumer whose records go to partition tasks, and whose positions come from them."""

    tasks: Tasks | None = None

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Open a task for each assigned partition, and resume where its own output says.

        A task gets records only after the seek: records fetched before it are dropped, and read again.
        """
        try:
            if self.tasks is None:
                self.tasks = await asyncio.to_thread(Tasks, WORKER, METRICS)
            await asyncio.to_thread(self.tasks.close)
            wanted = {tp.partition: tp for tp in self.assignment() if tp.topic == EVENTS}
            opened, offsets = await asyncio.to_thread(self.tasks.prepare, sorted(wanted))
            for partition, offset in offsets.items():
                self._thread.seek(wanted[partition], offset)
            self.tasks.adopt(opened)
        except (ProcessorError, KubecdcError) as error:
            die(error)
            raise
        return {wanted[partition]: offset for partition, offset in offsets.items()}

    async def give_up(self) -> None:
        """Close all tasks; a batch under way is finished first."""
        if self.tasks is not None:
            await asyncio.to_thread(self.tasks.close)

    async def _drain_messages(self, fetcher: Any) -> None:
        checked = time.monotonic()
        try:
            while not (self.should_stop or fetcher.should_stop):
                before = self.tasks.owned() if self.tasks else {}
                records, _ = await self._wait_next_records(POLL_S)
                await asyncio.sleep(0)
                if self.tasks is None or self.should_stop:
                    continue
                if records:
                    await self._hand_over(self.tasks, before, records)
                if time.monotonic() - checked > CHECK_S:
                    await asyncio.to_thread(self.tasks.check_progress)
                    checked = time.monotonic()
        except self.consumer_stopped_errors as error:
            if not self.app.should_stop:
                die(f"the consumer was stopped: {error!r}")
        except asyncio.CancelledError:
            if not self.app.should_stop:
                raise
        except Exception as error:  # noqa: BLE001 - Faust would log it and go on
            die(error if isinstance(error, ProcessorError) else repr(error))

    async def _hand_over(self, tasks: Tasks, before: Any, records: Mapping[TP, list[Any]]) -> None:
        batches = {
            tp.partition: [(r.offset, r.timestamp or 0, r.key, r.value) for r in batch]
            for tp, batch in records.items()
            if tp.topic == EVENTS
        }
        done = await asyncio.to_thread(tasks.process, batches, before)
        offsets = {TP(EVENTS, partition): offset for partition, offset in done.items()}
        for tp, offset in offsets.items():
            self._read_offset[tp] = offset - 1
        if offsets and not self.should_stop:
            await self._thread.commit(offsets)


class EventsTransport(driver.Transport):
    """Faust's aiokafka transport with our consumer."""

    Consumer: ClassVar[type] = EventsConsumer


app: Any = faust.App(  # Any: its types know neither our consumer nor the arguments of signals
    WORKER.kafka.app,
    broker=";".join(f"kafka://{broker}" for broker in WORKER.kafka.bootstrap.split(",")),
    autodiscover=False,
    broker_session_timeout=WORKER.kafka.session_timeout_s,
    broker_heartbeat_interval=WORKER.kafka.session_timeout_s / 4,
    broker_max_poll_records=POLL_RECORDS,
    consumer_auto_offset_reset="earliest",
    consumer_max_fetch_size=4 * 1024 * 1024,
    processing_guarantee="at_least_once",
    stream_wait_empty=False,
    topic_allow_declare=False,
    topic_disable_leader=True,
)
app.transport = EventsTransport(app.conf.broker_consumer, app)


@app.agent(app.topic(EVENTS, value_type=bytes, key_type=bytes))  # type: ignore[untyped-decorator]  # app is Any
async def events(stream: Any) -> None:
    """Subscribe the worker to the events topic; a record that gets here was not handed to its task."""
    async for _ in stream:
        die("a record reached Faust's stream layer: this version of faust-streaming does not fit")


@app.on_partitions_revoked.connect  # type: ignore[untyped-decorator]  # app is Any
async def revoked(_app: Any, _partitions: Any, **_: Any) -> None:
    """Finish and close before others take over; no guarantee depends on it."""
    await app.consumer.give_up()


@app.on_before_configured.connect  # type: ignore[untyped-decorator]  # app is Any
def serve_metrics(_app: Any, **_: Any) -> None:
    """Serve metrics where a port was given."""
    if WORKER.metrics_port is not None:
        MetricsServer(WORKER.metrics_port, METRICS, lambda: True, lambda: METRICS.value("recovery_seconds_count") > 0)
