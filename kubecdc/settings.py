"""The one resolution of settings: flags, then `KUBECDC_*` environment, then a TOML file, then the default.

`resolve` is pure and finds every problem at once. It knows nothing of what the settings mean: each command declares
its `Option`s and builds its own frozen settings from the values. In the file, a key at the top level serves every
command that has it, and a key in the table of a command (`[produce]`) only that one, and first.
"""

from __future__ import annotations

import difflib
import functools
import os
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from kubecdc.errors import Misconfigured
from kubecdc.kinds import Kind, boolean, bootstrap, kafka_property, prefix, text, url
from kubecdc.separated import split

Values = Mapping[str, Any]
Check = Callable[[Values], Iterable[str]]
CONFIG = "config"


@dataclass(frozen=True, slots=True)
class Option:
    """One setting: `page-size` is `--page-size`, `KUBECDC_PAGE_SIZE`, and `page-size` or `page_size` in the file.

    `kind` parses text, and says by ValueError what it wants. With `many` the value is a tuple: the flag may be
    repeated, and text is split at `separator`, unless a backslash stands before it. The value of a `secret` option
    appears in no message. `short` is a letter for the command line.
    """

    name: str
    kind: Kind = text
    default: Any = None
    help: str = ""
    required: bool = False
    many: bool = False
    separator: str = ","
    secret: bool = False
    short: str = ""

    @property
    def key(self) -> str:
        """Name in the resolved values."""
        return self.name.replace("-", "_")

    @property
    def flag(self) -> str:
        """Name on the command line."""
        return f"--{self.name}"

    @property
    def variable(self) -> str:
        """Name in the environment."""
        return f"KUBECDC_{self.key.upper()}"


BOOTSTRAP = Option("bootstrap", bootstrap, required=True, help="Kafka brokers to begin with, host:port[,host:port].")
PREFIX = Option("prefix", prefix, "kubecdc", "Prefix of the topics.")
SCHEMA_REGISTRY = Option("schema-registry", url, help="Schema Registry; records carry its schema ids.", secret=True)
KAFKA_PROPERTY = Option(
    "kafka-property",
    kafka_property,
    many=True,
    separator=";",
    secret=True,
    help="Client property of librdkafka, name=value, such as security.protocol=SASL_SSL; `\\;` is a `;` in a value.",
)
# A file serves all commands, so these may stand at its top even where a command has no use for them.
SHARED = frozenset({BOOTSTRAP.key, PREFIX.key, SCHEMA_REGISTRY.key, KAFKA_PROPERTY.key})
# The commands that read a file. Named, not gathered: they are imported only when called. A test holds the two together.
TABLES = frozenset(
    {
        *("produce", "process", "rebuild-state", "subscribe", "replay", "state", "history", "diff", "blame", "gaps"),
        *("verify", "topics-init", "topics-show", "topics-check"),
    }
)


def resolve(
    options: Sequence[Option],
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Mapping[str, Any],
    *,
    table: str,
    check: Check | None = None,
) -> dict[str, Any]:
    """Values of all options by key.

    `flags` holds what was given on the command line (None: not given), `file` the parsed TOML. `check` may add
    problems of its own; it sees None for a value that is wrong. Raises Misconfigured with every problem.
    """
    own = file.get(table, {})
    if not isinstance(own, Mapping):
        raise Misconfigured(f"[{table}] in the configuration file must be a table")
    problems = [*_unknown_tables(file), *_unknown_keys(options, file, own, table)]
    values: dict[str, Any] = {}
    for option in options:
        values[option.key] = None
        found, where = _find(option, flags, environ, ((file, ""), (own, f"[{table}] ")))
        if where is None:
            if option.required:
                problems.append(f"{option.flag} is required: give it, or set {option.variable}")
            values[option.key] = () if option.many and option.default is None else option.default
            continue
        try:
            values[option.key] = _value(option, found)
        except ValueError as error:
            shown = "" if option.secret else f" {found!r}"
            problems.append(f"{where}{shown}: {error}")
    problems += check(values) if check else ()
    if problems:
        raise Misconfigured(*problems)
    return values


def from_environment(
    table: str, options: Sequence[Option], environ: Mapping[str, str], check: Check | None = None
) -> dict[str, Any]:
    """Resolve without flags, for a process that another tool's command line starts. Raises Misconfigured."""
    file = read_file(environ.get("KUBECDC_CONFIG") or None)
    return resolve(options, {}, environ, file, table=table, check=check)


def read_file(path: str | None) -> dict[str, Any]:
    """Parse the TOML file; no file when `path` is None. Raises Misconfigured."""
    if path is None:
        return {}
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise Misconfigured(f"configuration file {path}: {error.strerror or error}") from error
    except ValueError as error:  # TOMLDecodeError and UnicodeDecodeError alike
        raise Misconfigured(f"configuration file {path} is no TOML: {error}") from error


def options(
    table: str, declared: Sequence[Option], check: Check | None = None
) -> Callable[[Callable[[Values], None]], Callable[..., None]]:
    """Decorate a command's function: flags for all options and `--config`; it is called with the resolved values."""

    def decorate(function: Callable[[Values], None]) -> Callable[..., None]:
        @functools.wraps(function)
        def call(**flags: Any) -> None:
            file = read_file(flags.pop(CONFIG) or os.environ.get("KUBECDC_CONFIG") or None)
            function(resolve(declared, flags, os.environ, file, table=table, check=check))

        config = click.option(
            "--config", metavar="FILE", help="TOML file with settings, lowest in rank.  [env: KUBECDC_CONFIG]"
        )
        decorated: Callable[..., None] = config(call)
        for option in reversed(declared):
            decorated = _click_option(option)(decorated)
        return decorated

    return decorate


def _click_option(option: Option) -> Callable[[Callable[..., None]], Callable[..., None]]:
    notes = [f"env: {option.variable}"]
    if option.required:
        notes.append("required")
    elif option.default is not None and option.default != ():
        notes.append(f"default: {_shown(option.default)}")
    told = f"{option.help}  [{'; '.join(notes)}]"
    if option.kind is boolean:
        return click.option(f"{option.flag}/--no-{option.name}", option.key, default=None, help=told)
    metavar = option.kind.metavar
    names = (f"-{option.short}", option.flag, option.key) if option.short else (option.flag, option.key)
    return click.option(*names, multiple=option.many, metavar=metavar, help=told)


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, float):
        return f"{default:.15g}"
    return ",".join(map(str, default)) if isinstance(default, tuple) else str(default)


def _find(
    option: Option,
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    tables: tuple[tuple[Mapping[str, Any], str], ...],
) -> tuple[Any, str | None]:
    """The value as it was given, and where; None where it was not. An empty variable counts as not set."""
    given = flags.get(option.key)
    if given is not None and given != ():
        return given, option.flag
    if environ.get(option.variable):
        return environ[option.variable], option.variable
    for mapping, label in reversed(tables):
        for name in (option.name, option.key):
            if name in mapping and (label or not isinstance(mapping[name], Mapping)):
                return mapping[name], f"{label}{name} in the configuration file"
    return None, None


def _value(option: Option, given: Any) -> Any:
    if not option.many:
        return _parsed(option, given)
    pieces = [given] if isinstance(given, str) else list(given) if isinstance(given, (list, tuple)) else [given]
    return tuple(_parsed(option, part) for piece in pieces for part in split(str(piece), option.separator))


def _parsed(option: Option, given: Any) -> Any:
    if isinstance(given, bool):
        if option.kind is boolean:
            return given
        raise ValueError(f"must be {option.kind.wanted}")
    if isinstance(given, (str, int, float)):
        return option.kind.parse(str(given))
    raise ValueError(f"must be {option.kind.wanted}")


def _unknown_tables(file: Mapping[str, Any]) -> list[str]:
    problems = []
    for name, value in file.items():
        if not isinstance(value, Mapping) or name in TABLES:
            continue
        parts = [table for table in sorted(TABLES) if table.startswith(f"{name}-")]
        near = parts or difflib.get_close_matches(name, sorted(TABLES), 1)
        hint = (
            f"did you mean {' or '.join(f'[{table}]' for table in near)}?"
            if near
            else f"tables are named for commands: {', '.join(sorted(TABLES))}"
        )
        problems.append(f"[{name}] in the configuration file is no table of a command that reads it: {hint}")
    return problems


def _unknown_keys(options: Sequence[Option], file: Mapping[str, Any], own: Mapping[str, Any], table: str) -> list[str]:
    known = {option.key for option in options}
    problems = []
    for label, mapping, accepted in (("", file, known | SHARED), (f"[{table}] ", own, known)):
        for name, value in mapping.items():
            if isinstance(value, Mapping) and mapping is file:
                continue  # a table, of which more is said elsewhere
            if name.replace("-", "_") not in accepted:
                near = difflib.get_close_matches(name.replace("-", "_"), sorted(accepted), 1)
                hint = (
                    f"did you mean {near[0].replace('_', '-')}?"
                    if near
                    else f"`kubecdc {table.replace('-', ' ')} --help` lists them"
                )
                place = "" if label else f"; settings of another command belong in its table, such as [{table}]"
                problems.append(
                    f"{label}{name} in the configuration file is no setting of {table.replace('-', ' ')}: {hint}{place}"
                )
    return problems
