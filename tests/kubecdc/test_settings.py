"""Settings come from flags, environment, file and default in this order, and every fault is told at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from kubecdc import kinds, settings
from kubecdc.cli import main, root
from kubecdc.errors import Misconfigured
from kubecdc.settings import BOOTSTRAP, KAFKA_PROPERTY, PREFIX, Option, Values

SIZE = Option("page-size", kinds.integer(1), 500)
KINDS = Option("resources", many=True)
QUIET = Option("quiet", kinds.boolean, False)
PASSWORD = Option("password", kinds.integer(), secret=True)
OPTIONS = (BOOTSTRAP, PREFIX, SIZE, KINDS, QUIET, KAFKA_PROPERTY, PASSWORD)
GIVEN = {"bootstrap": "a:1"}


def resolve(
    flags: Mapping[str, Any] = GIVEN,
    environ: Mapping[str, str] | None = None,
    file: Mapping[str, Any] | None = None,
    check: settings.Check | None = None,
) -> dict[str, Any]:
    return settings.resolve(OPTIONS, flags, environ or {}, file or {}, table="produce", check=check)


def problems(**given: Any) -> tuple[str, ...]:
    with pytest.raises(Misconfigured) as caught:
        resolve(**given)
    return caught.value.problems


def test_defaults_fill_in_what_nobody_gave():
    assert resolve() == {
        "bootstrap": "a:1",
        "prefix": "kubecdc",
        "page_size": 500,
        "resources": (),
        "quiet": False,
        "kafka_property": (),
        "password": None,
    }


def test_a_flag_beats_the_environment_beats_the_command_s_table_beats_the_top_of_the_file():
    file: dict[str, Any] = {"page-size": 1, "produce": {"page_size": 2}}
    environ = {"KUBECDC_PAGE_SIZE": "3"}
    assert resolve(file={"page-size": 1})["page_size"] == 1
    assert resolve(file=file)["page_size"] == 2
    assert resolve(file=file, environ=environ)["page_size"] == 3
    assert resolve({**GIVEN, "page_size": "4"}, environ, file)["page_size"] == 4


def test_an_empty_variable_counts_as_not_set():
    assert resolve(environ={"KUBECDC_PAGE_SIZE": ""})["page_size"] == 500


def test_many_values_are_split_and_gathered_wherever_they_stand():
    assert resolve({**GIVEN, "resources": ("a,b", "c")})["resources"] == ("a", "b", "c")
    assert resolve(environ={"KUBECDC_RESOURCES": "a, b"})["resources"] == ("a", "b")
    assert resolve(file={"produce": {"resources": ["a", "b"]}})["resources"] == ("a", "b")
    environ = {"KUBECDC_KAFKA_PROPERTY": "a=1,2;b=3"}
    assert resolve(environ=environ)["kafka_property"] == (("a", "1,2"), ("b", "3"))


def test_every_fault_is_told_at_once():
    told = problems(
        flags={"page_size": "x"},
        environ={"KUBECDC_PREFIX": "?", "KUBECDC_QUIET": "2"},
        file={"bootstrp": "a:1", "produce": {"nope": 1}},
        check=lambda values: [f"quiet {values['quiet']} contradicts"],
    )
    assert [line.split(":")[0] for line in told] == [
        "bootstrp in the configuration file is no setting of produce",
        "[produce] nope in the configuration file is no setting of produce",
        "--bootstrap is required",
        "KUBECDC_PREFIX '?'",
        "--page-size 'x'",
        "KUBECDC_QUIET '2'",
        "quiet None contradicts",
    ]
    assert "did you mean bootstrap?" in told[0]


def test_the_command_s_own_check_is_heard_alone_too():
    assert problems(check=lambda _: ["no"]) == ("no",)


def test_a_secret_is_in_no_message():
    (told,) = problems(environ={"KUBECDC_PASSWORD": "hunter2"})
    assert told == "KUBECDC_PASSWORD: must be a whole number"
    (told,) = problems(file={"produce": {"kafka-property": ["sasl.password"]}})
    assert "sasl" not in told


@pytest.mark.parametrize("value", [True, {"a": 1}, [1], 1.5])
def test_a_value_of_the_wrong_type_in_the_file_is_told(value: Any):
    assert any("page-size" in line for line in problems(file={"produce": {"page-size": value}}))


def test_true_in_the_file_is_true():
    assert resolve(file={"produce": {"quiet": True}})["quiet"] is True


def test_tables_of_other_commands_and_what_all_share_are_no_faults():
    options = (BOOTSTRAP,)
    file = {"bootstrap": "a:1", "prefix": "p", "process": {"app": "x"}}
    assert settings.resolve(options, {}, {}, file, table="replay") == {"bootstrap": "a:1"}


def test_the_command_s_table_must_be_a_table():
    assert problems(file={"produce": 3}) == ("[produce] in the configuration file must be a table",)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("prodce", "did you mean [produce]?"),
        ("topics_init", "did you mean [topics-init]?"),
        ("topics", "did you mean [topics-check] or [topics-init] or [topics-show]?"),
        ("up", "tables are named for commands: blame, "),
    ],
)
def test_a_table_of_no_command_is_told(name: str, hint: str):
    (told,) = problems(file={name: {"exclude": ["secrets"]}})
    assert told.startswith(f"[{name}] in the configuration file is no table of a command that reads it: {hint}")


def read_tables(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The command lines below a command that take --config."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from read_tables(found, (*path, name))
    elif any("--config" in parameter.opts for parameter in command.params):
        yield path


def test_the_tables_are_those_of_the_commands_that_read_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "f.toml"
    found = set()
    for path in read_tables(root, ()):
        table = "-".join(path)
        file.write_text(f"[{table}]\nnope = 1\n")
        assert main([*path, "--config", str(file)]) == 2
        assert f"[{table}] nope in the configuration file is no setting" in capsys.readouterr().err
        found.add(table)
    assert found == settings.TABLES


def test_a_file_is_utf_8_whatever_the_locale(tmp_path: Path):
    file = tmp_path / "f.toml"
    file.write_bytes('cluster = "Zürich"\n'.encode())
    reading = f"from kubecdc import settings; print(ascii(settings.read_file({str(file)!r})))"
    environ = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    done = subprocess.run([sys.executable, "-c", reading], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout == "{'cluster': 'Z\\xfcrich'}\n"


def test_files_that_cannot_be_read_are_told(tmp_path: Path):
    with pytest.raises(Misconfigured, match="No such file"):
        settings.read_file(str(tmp_path / "none.toml"))
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"a = \xff")
    with pytest.raises(Misconfigured, match="is no TOML"):
        settings.read_file(str(bad))
    assert settings.read_file(None) == {}


def test_a_process_without_flags_of_ours_reads_environment_and_file(tmp_path: Path):
    file = tmp_path / "f.toml"
    file.write_text('bootstrap = "f:1"\n[process]\npage-size = 9\n')
    environ = {"KUBECDC_CONFIG": str(file), "KUBECDC_PREFIX": "p"}
    found = settings.from_environment("process", OPTIONS, environ)
    assert (found["bootstrap"], found["prefix"], found["page_size"]) == ("f:1", "p", 9)


@click.command()
@settings.options("produce", (*OPTIONS, Option("output", short="o")))
def shown(values: Values) -> None:
    """Print what was resolved."""
    click.echo(repr(dict(values)))


def invoke(*argv: str, **environ: str) -> Any:
    return CliRunner().invoke(shown, list(argv), env=environ)


def test_a_command_gets_flags_environment_and_file(tmp_path: Path):
    file = tmp_path / "f.toml"
    file.write_text("[produce]\nquiet = true\npage-size = 9\n")
    result = invoke(
        "--config",
        str(file),
        "--no-quiet",
        "--resources",
        "a",
        "--resources",
        "b,c",
        "-o",
        "x",
        KUBECDC_BOOTSTRAP="e:1",
    )
    assert result.exit_code == 0, result.output
    values = eval(result.output)
    assert values["quiet"] is False
    assert values["page_size"] == 9
    assert values["resources"] == ("a", "b", "c")
    assert (values["bootstrap"], values["output"]) == ("e:1", "x")


def test_help_names_variables_and_defaults_and_needs_no_value():
    result = invoke("--help")
    assert result.exit_code == 0
    words = " ".join(result.output.split())
    assert "[env: KUBECDC_PAGE_SIZE; default: 500]" in words
    assert "[env: KUBECDC_BOOTSTRAP; required]" in words
    assert "--quiet / --no-quiet" in words
