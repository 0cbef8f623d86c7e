"""The kinds of values that settings take: how text becomes a value, and the sentence that says what is wanted.

Pure but for `file` and `folder`, which look whether a path exists, so that a wrong path is told with the others.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PATH_MAX, NAME_MAX = 4095, 255  # bytes, in Linux and nearly everywhere


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of value. `parse` raises ValueError with a sentence; `wanted` completes "must be …"."""

    metavar: str
    wanted: str
    parse: Callable[[str], Any]


def _text(given: str) -> str:
    if not given.strip():
        raise ValueError("must not be empty")
    return given


def _boolean(given: str) -> bool:
    known = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    if given.strip().lower() not in known:
        raise ValueError("must be true or false")
    return known[given.strip().lower()]


def _seconds(given: str) -> float:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|)", given.strip(), re.ASCII)
    if match is None:
        raise ValueError("must be seconds, or a duration such as 500ms, 30s, 5m, 2h or 7d")
    unit = {"ms": 0.001, "s": 1.0, "": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}[match[2]]
    return float(match[1]) * unit


def _path(given: str) -> Path:
    try:
        found = Path(_text(given)).expanduser()
    except RuntimeError:
        raise ValueError("must not lie in the home of a user that does not exist") from None
    if len(os.fsencode(found)) > PATH_MAX or any(len(os.fsencode(part)) > NAME_MAX for part in found.parts):
        raise ValueError("must be a path that is not longer than the system takes")
    return found


def _existing(wanted: str, looks: Callable[[Path], bool]) -> Callable[[str], Path]:
    def parse(given: str) -> Path:
        found = _path(given)
        try:
            there = looks(found)
        except OSError as error:
            raise ValueError(f"must be {wanted}: {error.strerror}") from None
        if not there:
            raise ValueError(f"must be {wanted}")
        return found

    return parse


def _url(given: str) -> str:
    try:
        parts = urlsplit(given)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable:
        raise ValueError("must be an address such as http://host:8081")
    return given.rstrip("/")


def _bootstrap(given: str) -> str:
    brokers = [part.strip() for part in given.split(",")]
    for broker in brokers:
        host, _, port = broker.rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise ValueError(f"must be host:port[,host:port], {broker!r} is not")
    return ",".join(brokers)


def _prefix(given: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9._-]{1,200}", given, re.ASCII) or given in (".", ".."):
        raise ValueError("must be letters, digits, '.', '_' or '-', at most 200: it begins the names of topics")
    return given


def _kafka_property(given: str) -> tuple[str, str]:
    name, equals, value = (part.strip() for part in given.partition("="))
    if not equals or not name:
        raise ValueError("must be name=value")
    if name in ("bootstrap.servers", "metadata.broker.list"):
        raise ValueError("must not name brokers: --bootstrap does, and errors tell that address")
    return name, value


def integer(low: int | None = None, high: int | None = None) -> Kind:
    """Whole numbers from `low` to `high`."""
    bounds = {
        (False, False): "",
        (True, False): f" of at least {low}",
        (False, True): f" of at most {high}",
        (True, True): f" from {low} to {high}",
    }[low is not None, high is not None]
    wanted = f"a whole number{bounds}"

    def parse(given: str) -> int:
        if not re.fullmatch(r"-?[0-9]{1,18}", given.strip(), re.ASCII):
            raise ValueError(f"must be {wanted}")
        number = int(given)
        if (low is not None and number < low) or (high is not None and number > high):
            raise ValueError(f"must be {wanted}")
        return number

    return Kind("N", wanted, parse)


def choice(*names: str) -> Kind:
    """One of the names."""
    wanted = f"one of {', '.join(names)}"

    def parse(given: str) -> str:
        if given not in names:
            raise ValueError(f"must be {wanted}")
        return given

    return Kind("|".join(names), wanted, parse)


text = Kind("TEXT", "text", _text)
boolean = Kind("", "true or false", _boolean)
seconds = Kind("SECONDS", "seconds, or a duration such as 30s, 5m or 2h", _seconds)
path = Kind("PATH", "a path", _path)
file = Kind("FILE", "a file that exists", _existing("a file that exists", Path.is_file))
folder = Kind("FOLDER", "a folder that exists", _existing("a folder that exists", Path.is_dir))
url = Kind("URL", "an address such as http://host:8081", _url)
bootstrap = Kind("HOST:PORT", "host:port[,host:port]", _bootstrap)
prefix = Kind("PREFIX", "a prefix of topic names", _prefix)
kafka_property = Kind("NAME=VALUE", "name=value", _kafka_property)
