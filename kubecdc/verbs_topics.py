"""`kubecdc topics init | show | check`: the topic table against the live topics.

What is right is decided in `kubecdc.topics`; here is only what is asked, and how it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from kubecdc import kafka, render, settings
from kubecdc.errors import Misconfigured
from kubecdc.kinds import choice, integer, seconds
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, Option
from kubecdc.topics import HISTORY_MS, SETTINGS, check, table

REPLICAS = 3
WHERE = (BOOTSTRAP, PREFIX, KAFKA_PROPERTY)
INIT = (
    *WHERE,
    Option("partitions", integer(1, 10_000), 6, "Partitions of each topic; they cannot be changed later."),
    Option("replication", integer(1, 100), help="Replicas of each partition; 3 if there are as many brokers, else 1."),
    Option("history", seconds, HISTORY_MS / 1000, "How long every version is kept before compaction, such as 7d."),
)
SHOW = (*WHERE, Option("output", choice(*render.OUTPUTS), "table", "How to print it.", short="o"))


@click.group()
def topics() -> None:
    """Make, show and check the topics."""


@topics.command("init")
@settings.options("topics-init", INIT)
def init_topics(values: Mapping[str, Any]) -> None:
    """Make the topics that do not exist yet, then check all of them."""
    bootstrap, prefix, properties = values["bootstrap"], values["prefix"], values["kafka_property"]
    replicas = values["replication"]
    if replicas is None:
        replicas = REPLICAS if kafka.brokers(bootstrap, properties) >= REPLICAS else 1
    specs = table(prefix, values["partitions"], replicas, round(values["history"] * 1000))
    made = kafka.create_topics(bootstrap, specs, properties)
    for spec in specs:
        told = f"made, {spec.partitions} partitions, replication {spec.replication}"
        click.echo(f"{spec.name}: {told if spec.name in made else 'is there already'}")
    _require_sound(values)


@topics.command("show")
@settings.options("topics-show", SHOW)
def show_topics(values: Mapping[str, Any]) -> None:
    """Show the live topics with the settings that matter."""
    live = kafka.live_topics(values["bootstrap"], values["prefix"], values["kafka_property"])
    if not live:
        raise Misconfigured(*check(values["prefix"], live))
    rows: list[dict[str, Any]] = [
        {
            "topic": topic.name,
            "partitions": topic.partitions,
            "replication": topic.replication,
            **{name: topic.config.get(name, "") for name in SETTINGS},
        }
        for topic in live.values()
    ]
    render.rows(rows, values["output"])


@topics.command("check")
@settings.options("topics-check", WHERE)
def check_topics(values: Mapping[str, Any]) -> None:
    """Compare the live topics with what exactness and history need; exit 2 and a sentence for each fault."""
    _require_sound(values)
    click.echo("all topics are as they must be")


def _require_sound(values: Mapping[str, Any]) -> None:
    prefix = values["prefix"]
    problems = check(prefix, kafka.live_topics(values["bootstrap"], prefix, values["kafka_property"]))
    if problems:
        raise Misconfigured(*problems)
