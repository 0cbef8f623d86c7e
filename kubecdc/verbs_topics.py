"""`kubecdc topics init | show | check`: the topic table against the live topics.

What is right is decided in `kubecdc.topics`; here is only what is asked, and how it is told.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from kubecdc import kafka, render, settings
from kubecdc.errors import Misconfigured
from kubecdc.kinds import choice, integer, seconds
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, Option
from kubecdc.topics import (
    HISTORY_MS,
    LEAST_HISTORY_MS,
    MOST_HISTORY_MS,
    SETTINGS,
    LiveTopic,
    TopicNames,
    TopicSpec,
    check,
    differing,
    planned,
    table,
)

PARTITIONS = 6
REPLICAS = 3
WHERE = (BOOTSTRAP, PREFIX, KAFKA_PROPERTY)
INIT = (
    *WHERE,
    # No defaults here: what is given must not contradict topics that exist, what is not given is taken from them.
    Option("partitions", integer(1, 10_000), help="Partitions of each topic, for ever; 6, or those of topics there."),
    Option("replication", integer(1, 100), help="Replicas of each partition; 3 if there are as many brokers, else 1."),
    Option("history", seconds, help="How long every version is kept before compaction, from 1h on; 7d."),
)
SHOW = (*WHERE, Option("output", choice(*render.OUTPUTS), "table", "How to print it.", short="o"))


@click.group()
def topics() -> None:
    """Make, show and check the topics."""


def _possible(values: Mapping[str, Any]) -> Iterator[str]:
    history = values["history"]
    if history is not None and not LEAST_HISTORY_MS <= history * 1000 <= MOST_HISTORY_MS:
        yield f"history {history:.15g} s: must be from 1h, or versions vanish before they are read, to 36500d"


@topics.command("init")
@settings.options("topics-init", INIT, _possible)
def init_topics(values: Mapping[str, Any]) -> None:
    """Make the topics that do not exist yet, then check all of them.

    Nothing is made when topics that exist are wrong, or differ from what was asked for.
    """
    bootstrap, prefix, properties = values["bootstrap"], values["prefix"], values["kafka_property"]
    live = kafka.live_topics(bootstrap, prefix, properties)
    history_ms = None if values["history"] is None else round(values["history"] * 1000)
    specs = _specs(values, live, history_ms)
    problems = differing(
        prefix, live, partitions=values["partitions"], replication=values["replication"], history_ms=history_ms
    )
    problems += check(prefix, planned(specs, live))
    if problems:
        raise Misconfigured(*problems)
    made = kafka.create_topics(bootstrap, specs, properties)
    for spec in specs:
        told = f"made, {spec.partitions} partitions, replication {spec.replication}"
        click.echo(f"{spec.name}: {told if spec.name in made else 'is there already'}")
    _require_sound(values)


def _specs(values: Mapping[str, Any], live: Mapping[str, LiveTopic], history_ms: int | None) -> tuple[TopicSpec, ...]:
    """What was asked for; else partitions as those of the topics that a new one must agree with, else the defaults."""
    prefix, partitions, replicas = values["prefix"], values["partitions"], values["replication"]
    if partitions is None:
        names = TopicNames.under(prefix)
        beside = [live[name].partitions for name in (names.events, names.changes, names.state) if name in live]
        partitions = beside[0] if beside else PARTITIONS
    if replicas is None:
        brokers = kafka.brokers(values["bootstrap"], values["kafka_property"])
        replicas = REPLICAS if brokers >= REPLICAS else 1
    return table(prefix, partitions, replicas, HISTORY_MS if history_ms is None else history_ms)


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
