"""`kubecdc rebuild-state`: make a lost state topic anew from the changes topic, under the workers' own fence.

What the state is gets decided in `processors.rebuilding`; here it is read, told, and written. A worker that still runs
is shut out before anything is read, and one that takes a partition over meanwhile ends the rebuilding of it: state is
none until the transaction that writes `__progress__`, which comes last.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from kubecdc import kafka as library
from kubecdc import topics
from kubecdc.codec import Codec
from kubecdc.errors import Misconfigured, Undecodable
from kubecdc.kinds import boolean, choice
from kubecdc.records import Change, RawEvent
from kubecdc.registry import Registry
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, SCHEMA_REGISTRY, Option, options
from kubecdc.wire import PROGRESS_KEY
from processors.errors import Fenced, ProcessorError, Stop
from processors.kafka import Cluster, Pair, Writer
from processors.rebuilding import Rebuild, Report
from processors.settings import APP, KafkaSettings

WRITE_RECORDS = 10_000  # of one transaction
OPTIONS = (
    BOOTSTRAP,
    PREFIX,
    APP,
    SCHEMA_REGISTRY,
    KAFKA_PROPERTY,
    Option("noise", choice("emit", "drop"), "emit", "What the workers are told of versions with unchanged content."),
    Option("yes", boolean, help="Write; without it the command tells what it would write."),
)


@dataclass(frozen=True, slots=True)
class Found:
    """What one partition needs: `stored` are the keys of its state topic now, `rebuild` None where nothing is wrong."""

    stored: frozenset[bytes]
    rebuild: Rebuild | None


class Rebuilder:
    """Reads and writes under one prefix. Raises ProcessorError from all its methods."""

    def __init__(self, settings: KafkaSettings, noise: str) -> None:
        self._noise = noise
        self._cluster = Cluster(settings)
        self._names = self._cluster.names
        registry = Registry(settings.schema_registry) if settings.schema_registry else None
        self._changes = Codec(self._names.changes, registry)
        self._events = Codec(self._names.events, registry)
        self._state = Codec(self._names.state, registry)

    def find(self, partition: int, *, state_exists: bool = True) -> Found:
        """Read what is stored, and where `__progress__` is not among it, what it should be."""
        stored = frozenset(self._cluster.committed(self._names.state, partition) if state_exists else ())
        if PROGRESS_KEY in stored:
            return Found(stored, None)
        low = self._cluster.low_watermark(self._names.changes, partition)
        if low > 0:
            raise Stop(
                f"{self._names.changes} [{partition}] begins at offset {low}: its beginning was deleted, not compacted,"
                " so objects may be missing from it and state cannot be rebuilt; begin anew under another --prefix"
            )
        rebuild = Rebuild(partition, self._noise)
        offset = -1
        for offset, _, key, value in self._cluster.records(self._names.changes, partition):
            rebuild.change(key or b"", self._change(partition, offset, value))
        rebuild.end(offset, self._cluster.high_watermarks(self._names.changes, (partition,))[partition])
        for offset, timestamp_ms, _, value in self._cluster.records(
            self._names.events, partition, rebuild.src_offset + 1
        ):
            rebuild.event(offset, self._event(value), timestamp_ms)
        return Found(stored, rebuild)

    def write(self, partition: int) -> Found:
        """Shut workers out of the partition, read it again, and write what is missing."""
        writer = self._cluster.writer(partition)
        try:
            writer.fence()
            found = self.find(partition)
            if found.rebuild is not None:
                self._write(writer, found.stored, found.rebuild)
        finally:
            writer.discard()
        return found

    def _write(self, writer: Writer, stored: frozenset[bytes], rebuild: Rebuild) -> None:
        records = dict(rebuild.records())
        left = [(key, None) for key in sorted(stored - records.keys())]
        pairs: Iterator[Pair] = itertools.chain(
            left, ((key, self._state.encode(record)) for key, record in records.items())
        )
        while batch := list(itertools.islice(pairs, WRITE_RECORDS)):
            writer.write((), batch)

    def _change(self, partition: int, offset: int, value: bytes | None) -> Change | None:
        try:
            change = None if value is None else self._changes.decode(value)
        except Undecodable as error:
            raise Stop(f"{self._names.changes} [{partition}] offset {offset}: {error}") from error
        if change is not None and not isinstance(change, Change):
            raise Stop(f"{self._names.changes} [{partition}] offset {offset}: a {type(change).__name__} is no change")
        return change

    def _event(self, value: bytes | None) -> RawEvent | Undecodable | None:
        if value is None:
            return None
        try:
            event = self._events.decode(value)
        except Undecodable as error:
            return error
        return event if isinstance(event, RawEvent) else Undecodable("no raw event")


@click.command("rebuild-state", help="Make a lost state topic anew from the changes topic; stop all workers first.")
@options("rebuild-state", OPTIONS)
def rebuild_state(values: Mapping[str, Any]) -> None:
    """Tell what is lost and what can be had; with --yes, write it."""
    settings = KafkaSettings(
        values["bootstrap"],
        values["prefix"],
        values["app"] or values["prefix"],
        values["schema_registry"],
        properties=tuple(values["kafka_property"]),
    )
    yes = bool(values["yes"])
    try:
        partitions, exists = _topics(settings, make=yes)
        rebuilder = Rebuilder(settings, values["noise"])
        for partition in range(partitions):
            found = rebuilder.write(partition) if yes else rebuilder.find(partition, state_exists=exists)
            click.echo(_told(partition, found, written=yes))
    except ProcessorError as error:
        hint = ": stop all workers, then run this again" if isinstance(error, Fenced) else ""
        click.echo(f"error: {error}{hint}", err=True)
        click.get_current_context().exit(1)
    if not yes:
        click.echo("nothing was written: stop all workers, then run this again with --yes")


def _topics(settings: KafkaSettings, *, make: bool) -> tuple[int, bool]:
    """Partitions, and whether the state topic exists; `make` makes it where it does not. Raises Misconfigured."""
    names = topics.TopicNames.under(settings.prefix)
    live = library.live_topics(settings.bootstrap, settings.prefix, settings.properties)
    if names.changes not in live or names.events not in live:
        raise Misconfigured(*topics.check(settings.prefix, live))
    changes = live[names.changes]
    missing = names.state not in live
    if missing:
        click.echo(f"topic {names.state} does not exist" + (f": made, {changes.partitions} partitions" if make else ""))
    if missing and make:
        table = topics.table(settings.prefix, changes.partitions, changes.replication)
        specs = [spec for spec in table if spec.name == names.state]
        library.create_topics(settings.bootstrap, specs, settings.properties)
    if make or not missing:
        library.sound_topics(settings.bootstrap, settings.prefix, settings.properties)
    return changes.partitions, make or not missing


def _told(partition: int, found: Found, *, written: bool) -> str:
    if found.rebuild is None:
        return f"partition {partition}: its state is there, nothing to do"
    report = found.rebuild.report()
    if report.src_offset < 0:
        return f"partition {partition}: never processed, nothing to rebuild"
    verb = "written" if written else "can be rebuilt"
    return (
        f"partition {partition}: {verb}, {report.uids} objects, {report.dead} deleted ones, {report.streams} streams,"
        f" resuming after offset {report.src_offset}" + "".join(f"\n  {line}" for line in _gaps(report))
    )


def _gaps(report: Report) -> Iterator[str]:
    if report.bare:
        yield (
            f"{report.bare} objects whose event was compacted away: their next change names every path and manager as"
            " changed, and cannot show a GENERATION_JUMP"
        )
    if report.holed:
        yield f"{report.holed} sessions with a hole: their next PROGRESS is a gap"
    if report.cut:
        yield "its last changes were compacted away: what the events topic still has of them is written again"
    if report.vanished:
        yield (
            f"{report.vanished} deletes that were compacted away: if their record is delivered again above the floor,"
            " it is written again, with a MISSED_CREATE gap"
        )
