"""The root command: verbs are found, errors end the process as promised, and never with a traceback."""

from __future__ import annotations

import subprocess
import sys
import types

import click
import pytest

from kubecdc import cli
from kubecdc.cli import VERBS, Verb, main
from kubecdc.errors import ChainBroken, KubecdcError, Misconfigured, Undecodable, Unreachable


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


def test_a_reader_that_goes_away_is_no_error():
    code = (
        "import sys, click; from kubecdc import cli;"
        "endless = click.Command('x', callback=lambda: [print('y' * 100) for _ in range(10**6)]);"
        "cli.Verbs.get_command = lambda *_: endless;"
        "sys.exit(cli.main(['x']))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read()
        assert process.wait(60) == 0
    assert told == b""
