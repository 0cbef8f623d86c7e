"""The reference, written from the code: `python -m tests.reference > docs/reference.md`; a test keeps it true."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from kubecdc import topics
from kubecdc.cli import VERBS, root
from kubecdc.codec import SCHEMA_FILES, fingerprint, schema_text
from kubecdc.settings import SHARED
from kubecdc.wire import DELETED_HEADER
from processors.metrics import Metrics as ProcessorMetrics
from producer.metrics import Metrics as ProducerMetrics

FILE = Path(__file__).parents[1] / "docs" / "reference.md"
_NOTES = re.compile(r"\s*\[([^\[\]]*(?:env:|default:)[^\[\]]*)\]\s*$")
_STATUS = (
    ("0", "done; for `produce` and `process`, also after SIGTERM or SIGINT"),
    ("1", "failed; the reason is on standard error"),
    ("2", "something you can mend: configuration, topics, a server that does not answer; all faults at once"),
    ("3", "the canonical log is broken: something is missing that must be there"),
    ("130", "ended by Ctrl-C"),
)
_FRAMING = (
    "The Avro files in `schemas/` are the contract. A value begins with `C3 01` and the fingerprint"
    " (single-object encoding), or with `00` and a Schema Registry's id. A tombstone of the events topic holds the"
    f" DELETED before it once more, without its object, in the header `{DELETED_HEADER}`, framed alike."
)


def reference() -> str:
    """The whole document."""
    parts = [
        "# Reference",
        "Written from the code by `python -m tests.reference > docs/reference.md`; do not edit it by hand.",
        *_settings(),
        "## Commands",
        *(part for name in VERBS for part in _command(f"kubecdc {name}", _verb(name))),
        "### Exit status",
        _table(("status", "meaning"), _STATUS),
        *_topics(),
        "## Metrics",
        "Served at `/metrics` where `--metrics-port` is given, beside `/healthz` and `/readyz`.",
        "### Producer",
        _metrics(ProducerMetrics()),
        "### Processors",
        _metrics(ProcessorMetrics()),
        "## Schemas",
        _FRAMING,
        *(part for cls, name in SCHEMA_FILES.items() for part in _schema(cls.__name__, name)),
    ]
    return "\n\n".join(parts) + "\n"


def _settings() -> Iterator[str]:
    yield "## Settings"
    shared = ", ".join(f"`{name.replace('_', '-')}`" for name in sorted(SHARED))
    yield (
        "A setting comes from its flag, else from its `KUBECDC_*` variable, else from the TOML file that `--config` or"
        " `KUBECDC_CONFIG` names, else from its default. In the file, a key in the table of a command (`[produce]`,"
        f" `[topics-init]`) serves that command and comes first; {shared} may stand at the top for all."
        " An unknown key or table is an error."
    )
    yield "```toml\n" + 'bootstrap = "kafka:9092"\n\n[produce]\ncluster = "prod"\nexclude = ["pods"]\n' + "```"


def _verb(name: str) -> click.Command:
    found = root.get_command(click.Context(root), name)
    if found is None:
        raise TypeError(f"{name} is no command")
    return found


def _command(title: str, command: click.Command) -> Iterator[str]:
    yield f"### `{title}`"
    yield _flowing(command.help or "")
    if isinstance(command, click.Group):
        for name, sub in sorted(command.commands.items()):
            yield from _command(f"{title} {name}", sub)
        return
    options = [param for param in command.params if isinstance(param, click.Option) and not param.hidden]
    if options:
        yield _table(("flag", "variable", "default", "what it does"), [_option(option) for option in options])


def _option(option: click.Option) -> tuple[str, str, str, str]:
    told = option.help or ""
    notes = _NOTES.search(told)
    variable, default = "", ""
    if notes is not None:
        told = told[: notes.start()]
        for note in notes[1].split("; "):
            label, _, value = note.partition(": ")
            if label == "env":
                variable = f"`{value}`"
            else:
                default = value or label
    elif isinstance(option.default, (str, int, float, Path)) and option.default is not False:
        default = str(option.default)
    names = ", ".join(f"`{name}`" for name in (*option.opts, *option.secondary_opts))
    kind = "" if option.is_flag else option.metavar or _type(option.type)
    return f"{names} {kind}".strip(), variable, default, _flowing(told)


def _type(kind: click.ParamType) -> str:
    return "|".join(map(str, kind.choices)) if isinstance(kind, click.Choice) else kind.name.upper()


def _topics() -> Iterator[str]:
    yield "## Topics"
    yield "Made by `kubecdc topics init`, compared by `kubecdc topics check`; producers and workers refuse wrong ones."
    rows = [
        (f"`{spec.name}`", *(f"`{spec.config()[name]}`" for name in topics.SETTINGS))
        for spec in topics.table("<prefix>", 1, 3)
    ]
    yield _table(("topic", *(f"`{name}`" for name in topics.SETTINGS)), rows)
    yield "With fewer than three replicas `min.insync.replicas` is 1."


def _metrics(metrics: Any) -> str:
    rows = []
    for family in metrics.registry.collect():
        wrapper = metrics.registry._names_to_collectors[family.name]
        labels = ", ".join(f"`{label}`" for label in wrapper._labelnames)
        suffix = "_total" if family.type == "counter" else ""
        rows.append((f"`{family.name}{suffix}`", family.type, labels, family.documentation))
    return _table(("metric", "type", "labels", "what it tells"), sorted(rows))


def _schema(title: str, name: str) -> Iterator[str]:
    schema = json.loads(schema_text(name))
    yield f"### {title} (`{name}.avsc`, fingerprint `{fingerprint(schema).hex()}`)"
    yield _flowing(schema.get("doc", ""))
    rows = [(f"`{field['name']}`", _avro(field["type"]), field.get("doc", "")) for field in schema["fields"]]
    yield _table(("field", "type", ""), rows)


def _avro(kind: Any) -> str:
    if isinstance(kind, str):
        return kind.rpartition(".")[2]
    if isinstance(kind, list):
        return " or ".join(_avro(branch) for branch in kind)
    if kind["type"] == "array":
        return f"list of {_avro(kind['items'])}"
    if kind["type"] == "enum":
        return f"{kind['name']}: {', '.join(kind['symbols'])}"
    return f"{kind['name']} {{{', '.join(field['name'] for field in kind['fields'])}}}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def _flowing(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.replace("\b", "").split("\n\n"))


if __name__ == "__main__":
    sys.stdout.write(reference())
