"""The root command: verbs are found, errors end the process as promised, and never with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import click
import pytest

from kubecdc import cli
from kubecdc.cli import VERBS, Verb, main
from kubecdc.errors import ChainBroken, KubecdcError, Misconfigured, Undecodable, Unreachable

PRINTS = (
    "import sys; from kubecdc import cli, render; import click; from tests.kubecdc.making import change;"
    "printed = lambda: {body};"
    "cli.Verbs.get_command = lambda *_: click.Command('x', callback=printed);"
    "sys.exit(cli.main(['x']))"
)
ROWS = "render.rows([dict(name='gr\\xf6\\xdfe ' * 9)] * 2000, {form!r})"


def run(*argv: str, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kubecdc", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture
def verb(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """A verb `try` whose module the test fills in."""
    module = types.ModuleType("tests_cli_verb")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(cli, "VERBS", {"try": Verb(module.__name__, "attempt", "Try.")})
    return module


@pytest.mark.parametrize("name", VERBS)
def test_each_verb_is_a_command_with_help(name: str):
    command = cli.root.get_command(click.Context(cli.root), name)
    assert isinstance(command, click.Command)
    assert command.help


def test_help_lists_the_verbs_and_imports_none_of_them():
    code = (
        "import sys; from kubecdc.cli import main; assert main(['--help']) == 0;"
        "others = {'producer', 'processors', 'local', 'faust', 'kubernetes', 'confluent_kafka'};"
        "sys.exit(bool(others & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    assert result.returncode == 0, result.stderr
    for name, each in VERBS.items():
        assert name in result.stdout
        assert each.help.split()[0] in result.stdout


def test_the_module_is_the_command():
    result = run("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("kubecdc, version ")


@pytest.mark.parametrize(
    ("error", "status", "told"),
    [
        (Misconfigured("one", "two"), 2, "kubecdc: one\nkubecdc: two\n"),
        (Unreachable("no broker"), 2, "kubecdc: no broker\n"),
        (ChainBroken("hole"), 3, "kubecdc: hole\n"),
        (ChainBroken("pod \x1b[2J\ra"), 3, "kubecdc: pod \\x1b[2J\\ra\n"),
        (Undecodable("bytes"), 1, "kubecdc: bytes\n"),
        (KubecdcError("other"), 1, "kubecdc: other\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (click.UsageError("wrong"), 2, "Error: wrong\n"),
    ],
)
def test_errors_end_the_process_with_their_status(
    error: BaseException, status: int, told: str, verb: types.ModuleType, capsys: pytest.CaptureFixture[str]
):
    @click.command()
    def attempt() -> None:
        """Fail."""
        raise error

    verb.attempt = attempt  # type: ignore[attr-defined]
    assert main(["try"]) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith(told)
    assert "Traceback" not in output.err


def test_a_verb_that_exits_by_itself_keeps_its_status(verb: types.ModuleType):
    @click.command()
    @click.pass_context
    def attempt(context: click.Context) -> None:
        """Exit."""
        context.exit(7)

    verb.attempt = attempt  # type: ignore[attr-defined]
    assert main(["try"]) == 7


def test_an_unknown_verb_is_told(capsys: pytest.CaptureFixture[str]):
    assert main(["produse"]) == 2
    assert "No such command 'produse'" in capsys.readouterr().err


def test_an_extra_that_is_missing_is_named_with_the_way_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(cli, "VERBS", {"demo": Verb("kubecdc.no_such_module", "demo", "Demo.", "local")})
    assert main(["demo"]) == 2
    assert "pip install 'kubecdc[local]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "body",
    [
        "[print('y' * 100) for _ in range(10**6)]",
        "render.Changes('table').add(change() for _ in range(10**6))",
        "render.Changes('ndjson').add(change() for _ in range(10**6))",
        "render.rows([dict(a='y' * 100)] * 10**5, 'table')",
    ],
)
@pytest.mark.parametrize("terminal", [False, True])
def test_a_reader_that_goes_away_is_no_error(body: str, terminal: bool):
    command = [sys.executable, "-c", PRINTS.format(body=body)]
    env = {**os.environ, **({"FORCE_COLOR": "1"} if terminal else {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(60) == 0
    assert told == b""


def printing(form: str, redirection: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    code = PRINTS.format(body=ROWS.format(form=form))
    command = ["bash", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, code]
    return subprocess.run(command, capture_output=True, check=False, timeout=120, env={**os.environ, **variables})


@pytest.mark.parametrize("form", ["table", "json", "ndjson"])
@pytest.mark.parametrize(
    ("redirection", "told"),
    [(">/dev/full", b"No space left on device"), (">&-", b"standard output: closed")],
    ids=["full", "closed"],
)
def test_an_output_that_takes_nothing_is_told_in_one_line(form: str, redirection: str, told: bytes):
    result = printing(form, redirection)
    assert (result.returncode, result.stderr) == (1, b"kubecdc: " + told + b"\n")


@pytest.mark.parametrize(
    ("form", "shown"), [("table", b"gr\\xf6\\xdfe"), ("json", "größe".encode()), ("ndjson", "größe".encode())]
)
def test_what_the_terminal_cannot_show_does_not_end_the_output(form: str, shown: bytes):
    result = printing(form, "", PYTHONIOENCODING="ascii")
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout.count(shown) == 18_000


def test_what_the_system_refuses_is_told_in_one_line(verb: types.ModuleType, capsys: pytest.CaptureFixture[str]):
    @click.command()
    def attempt() -> None:
        """Fail."""
        open("/nowhere/at/all")  # noqa: SIM115, PTH123 - it fails

    verb.attempt = attempt  # type: ignore[attr-defined]
    assert main(["try"]) == 1
    assert capsys.readouterr().err == "kubecdc: /nowhere/at/all: No such file or directory\n"
