"""The root of the command line: which verbs there are, where they live, and how errors end the process.

Verbs are imported when they are called, so that `kubecdc subscribe` loads neither `kubernetes` nor Faust. Exit status:
0 done, 1 failed, 2 something the user can mend (configuration, an unreachable server), 3 the log is broken, 130 Ctrl-C.
"""

from __future__ import annotations

import importlib
import io
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import click

from kubecdc.errors import ChainBroken, KubecdcError, Misconfigured, Unreachable
from kubecdc.escaping import visible

log = logging.getLogger("kubecdc")

MENDABLE, BROKEN, FAILED, INTERRUPTED = 2, 3, 1, 130


class Verb(NamedTuple):
    """Where a command lives, what it does, and the extra that its imports need.

    With `port` the attribute makes the command from that module: what the library may not import, the root hands in.
    """

    module: str
    attribute: str
    help: str
    extra: str = ""
    port: str = ""


VERBS: Mapping[str, Verb] = {
    "produce": Verb("producer.cli", "produce", "Watch a cluster and write what happens to the events topic."),
    "process": Verb("processors.cli", "process", "Turn raw events into the canonical change log."),
    "rebuild-state": Verb(
        "processors.rebuild", "rebuild_state", "Make a lost state topic anew from the changes topic."
    ),
    "subscribe": Verb("kubecdc.verbs", "subscribe", "Follow the canonical change log."),
    "replay": Verb("kubecdc.verbs", "replay", "Show the change log from a place in it up to its end."),
    "state": Verb("kubecdc.verbs", "state", "Show the latest state of every object."),
    "history": Verb("kubecdc.verbs_object", "history", "Show every version of one object."),
    "diff": Verb("kubecdc.verbs_object", "diff", "Show in which fields two versions of an object differ."),
    "blame": Verb("kubecdc.verbs_object", "blame", "Show which manager last set each field of an object, and when."),
    "gaps": Verb("kubecdc.verbs", "gaps", "Show where history is incomplete, and why."),
    "verify": Verb("kubecdc.verbs_verify", "composed", "Compare the log with the API server.", port="producer.lister"),
    "topics": Verb("kubecdc.verbs_topics", "topics", "Make, show and check the topics."),
    "up": Verb("local.cli", "up", "Run a real Kafka on this machine.", "local"),
    "demo": Verb("local.cli", "demo", "Show it all on this machine, faults and the verdict included.", "local"),
}


class Verbs(click.Group):
    """The verbs, imported when one is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which data flows."""
        del ctx
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the verb's module. Raises Misconfigured when an extra is not installed."""
        del ctx
        verb = VERBS.get(cmd_name)
        if verb is None:
            return None
        try:
            module = importlib.import_module(verb.module)
            port = importlib.import_module(verb.port) if verb.port else None
        except ModuleNotFoundError as error:
            extra = f"'kubecdc[{verb.extra}]'" if verb.extra else "kubecdc"
            raise Misconfigured(
                f"kubecdc {cmd_name} needs the module {error.name}, which is not installed: pip install {extra}"
            ) from error
        found = getattr(module, verb.attribute)
        command: click.Command = found if port is None else found(port)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the verbs without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, verb.help) for name, verb in VERBS.items()])


@click.command(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kubecdc", prog_name="kubecdc")
def root() -> None:
    """Change data capture for Kubernetes.

    Every event that etcd committed is in the canonical log exactly once, in version order, or lies inside a gap record
    that names its bounds and its cause.
    """


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and return the exit status; what went wrong is on standard error, never as a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a name must not end a table where the terminal lacks it
    try:
        # Not root.main(): it prints on Ctrl-C, and makes a failure of a reader that has gone.
        with root.make_context("kubecdc", list(sys.argv[1:] if argv is None else argv)) as context:
            root.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except click.exceptions.Exit as error:
        return error.exit_code
    except BrokenPipeError:
        _leave_stdout()
        return 0
    except OSError as error:
        log.debug("failed", exc_info=True)
        click.echo(f"kubecdc: {visible(_reason(error))}", err=True)
        return FAILED
    except KubecdcError as error:
        problems = error.problems if isinstance(error, Misconfigured) else (str(error),)
        for problem in problems:
            click.echo(f"kubecdc: {visible(problem)}", err=True)
        return _status(error)
    return 0


def _status(error: KubecdcError) -> int:
    if isinstance(error, (Misconfigured, Unreachable)):
        return MENDABLE
    return BROKEN if isinstance(error, ChainBroken) else FAILED


def _reason(error: OSError) -> str:
    """What the system refused, and of what. A standard output that takes no more is left, for it fails at exit too."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        _leave_stdout()
    told = error.strerror or str(error)
    return f"{error.filename}: {told}" if error.filename else told


def _leave_stdout() -> None:
    """Nobody takes our output: nothing may be written at exit any more."""
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
