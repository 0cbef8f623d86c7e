"""docs/reference.md is what the code says: every command, setting, topic, metric and schema."""

from __future__ import annotations

import click
import pytest

from kubecdc.cli import VERBS, root
from tests.reference import FILE, reference


def test_the_reference_is_written_from_this_code():
    assert FILE.read_text() == reference(), "run `python -m tests.reference > docs/reference.md`"


@pytest.mark.parametrize("verb", VERBS)
def test_every_flag_is_in_it_with_a_help_text(verb: str):
    text = FILE.read_text()

    def flags(command: click.Command) -> list[click.Parameter]:
        if isinstance(command, click.Group):
            return [param for sub in command.commands.values() for param in flags(sub)]
        return command.params

    for param in flags(root.get_command(click.Context(root), verb)):
        assert f"`{param.opts[-1]}`" in text
        assert isinstance(param, click.Option)
        assert param.help, f"{verb} {param.name}"
