"""The verbs of one machine: `kubecdc up` and `kubecdc demo`.

Reads flags, decides where lines go and which status ends the process: 0 when all is well, 1 when a guarantee does not
hold, 2 for what the user can mend.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click
from rich.console import Console

from kubecdc.kafka import create_topics
from kubecdc.topics import table
from local.broker import Broker
from local.clusters import FoundCluster, RealCluster, SimulatedCluster
from local.demo import Plan, run
from local.errors import LocalError
from local.live import Screen

CLUSTERS = (SimulatedCluster.name, RealCluster.name, FoundCluster.name)


@click.command()
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".kubecdc/kafka"),
    show_default=True,
    help="Folder that keeps the broker's data.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port of the broker; by default a free one.")
@click.option("--prefix", default="kubecdc", show_default=True, help="Prefix of the topics.")
@click.option("--partitions", type=click.IntRange(1, 1000), default=3, show_default=True, help="Of each topic.")
@click.option("--topics/--no-topics", default=True, show_default=True, help="Make the topics that do not exist yet.")
def up(data: Path, port: int, prefix: str, partitions: int, *, topics: bool) -> None:
    """Run a real Kafka on this machine until Ctrl-C, and print its address."""
    stop = threading.Event()
    with _errors(), _signals(stop.set):
        broker = Broker(data, port=port, progress=lambda line: click.echo(line, err=True))
        with broker:
            if topics:
                create_topics(broker.bootstrap, table(prefix, partitions, replication=1))
            click.echo(broker.bootstrap)
            click.echo(f"Kafka is ready, its data are in {data}; end it with Ctrl-C", err=True)
            while not stop.wait(0.2):
                if not broker.alive:
                    raise LocalError(f"Kafka ended by itself; its log is {broker.log}")


@click.command()
@click.option("--cluster", type=click.Choice(CLUSTERS), default="sim", show_default=True, help="Where changes happen.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=20.0, show_default=True, help="Of workload.")
@click.option("--seed", type=click.IntRange(0, 2**31), help="Of the workload; by default another one each time.")
@click.option(
    "--runtime", type=click.Choice(("faust", "plain")), default="faust", show_default=True, help="Of the workers."
)
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True, help="How to report."
)
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="New folder; keeps Kafka's data in it.")
def demo(cluster: str, seconds: float, seed: int | None, runtime: str, output: str, data: Path | None) -> None:
    """Show it all on this machine: a workload, faults, and whether the log is right.

    With -o json the last line of standard output is one object. Exit status 0 only if every guarantee holds.
    """
    chosen = random.SystemRandom().randrange(1_000_000) if seed is None else seed
    console = Console(stderr=output == "json", highlight=False, soft_wrap=True)
    with _errors(), _signals(_interrupt), Screen(console) as screen:
        screen.say(f"demo on {cluster}, {runtime} runtime, seed {chosen}")
        result = run(Plan(cluster, runtime, seconds, chosen, data), screen)
    result.render(console)
    if data is not None:
        click.echo(f"look into the log: kubecdc up --data {data} --port 9092, and beside it:", err=True)
        click.echo("  kubecdc replay --bootstrap 127.0.0.1:9092 --from beginning -o ndjson", err=True)
    if output == "json":
        click.echo(result.to_json())
    sys.exit(0 if result.ok else 1)


@contextmanager
def _errors() -> Iterator[None]:
    """Show what the user can mend as one message, without a traceback."""
    try:
        yield
    except LocalError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        click.echo("stopped", err=True)
        sys.exit(130)


@contextmanager
def _signals(act: Callable[[], None]) -> Iterator[None]:
    """Call `act` on SIGINT and SIGTERM; the second one is as good as the first."""

    def handle(_number: int, _frame: FrameType | None) -> None:
        act()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt() -> None:
    raise KeyboardInterrupt
