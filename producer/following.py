"""What a producer follows and what not, and why, in one sentence for the log: pure.

Bounded in length, whatever a server serves: of many names the first ones are told, and how many there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from producer.selection import CORE_EVENTS, NEW_EVENTS, OFF_BY_DEFAULT, Discovery, ResourceInfo, Selection, fitting
from producer.settings import WatchSettings

NAMES = 12  # of each list
WIDTH = 60  # of each name


def statement(discovery: Discovery, selection: Selection, watch: WatchSettings) -> str:
    """Say which kinds are followed, which are not and why, and which flag changes it."""
    confined = [info for info in selection.resources if watch.namespaces and not info.namespaced]
    followed = [info for info in selection.resources if info not in confined]
    where = f" in the {_namespaces(watch.namespaces)}" if watch.namespaces else ""
    said = f"following {_kinds(followed)}{where}"
    left_out = "; ".join(_left_out(discovery, selection, watch, confined))
    return f"{said}; not following {left_out}" if left_out else said


def _left_out(
    discovery: Discovery, selection: Selection, watch: WatchSettings, confined: list[ResourceInfo]
) -> Iterator[str]:
    chosen = {info.key for info in selection.resources}
    rest = {info.key: info for info in discovery.resources if info.key not in chosen}
    followable = {info.key: info for info in discovery.resources if info.followable and info.key in rest}
    excluded = [info for info in followable.values() if fitting(info, watch.exclude)]
    remaining = [info for info in followable.values() if info not in excluded]
    twice = [info for info in remaining if info.key == NEW_EVENTS and CORE_EVENTS in chosen | followable.keys()]
    off = [info for info in remaining if info.key in OFF_BY_DEFAULT and info not in twice]
    unnamed = [info for info in remaining if info.key not in OFF_BY_DEFAULT]
    if off:
        yield f"{_kinds(off)} (off by default: name what you want, as in {_advice(off, watch)})"
    if twice:
        yield f"{_kinds(twice)} (the objects of events once more)"
    if excluded:
        yield f"{_kinds(excluded)} (--exclude)"
    if unnamed:
        yield f"{_kinds(unnamed)} (not named by --resources)"
    if confined:
        yield f"{_kinds(confined)} (without namespaces, and --namespace is given)"
    if selection.awaited:
        yield f"{len(selection.awaited)} of --resources that the server does not serve yet"
    unable = [info for key, info in rest.items() if key not in followable]
    if unable:
        yield f"{_kinds(unable)} (the server offers no list and watch of them)"
    if discovery.unreadable:
        yield f"what is in {_some(sorted(discovery.unreadable))} (the server cannot tell at present what that is)"


def _advice(off: list[ResourceInfo], watch: WatchSettings) -> str:
    """The flags that follow them as well; what is named alone is followed alone."""
    first = min(info.name for info in off)
    return f"--resources {first}" if watch.resources else f"--resources '*' --resources {first}"


def _kinds(infos: Iterable[ResourceInfo]) -> str:
    names = sorted({info.name for info in infos})
    count = f"{len(names)} {'kind' if len(names) == 1 else 'kinds'}"
    return f"{count}: {_some(names)}" if names else count


def _namespaces(names: tuple[str, ...]) -> str:
    return f"{'namespace' if len(names) == 1 else f'{len(names)} namespaces'} {_some(list(names))}"


def _some(names: list[str]) -> str:
    shown = [name if len(name) <= WIDTH else f"{name[: WIDTH // 2]}…{name[-(WIDTH // 2 - 1) :]}" for name in names]
    more = len(names) - NAMES
    return ", ".join(shown) if more <= 0 else f"{', '.join(shown[:NAMES])} and {more} more"
