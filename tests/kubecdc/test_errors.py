"""The tree of errors is the one that its docstring draws."""

from __future__ import annotations

import re

from kubecdc import errors
from kubecdc.errors import KubecdcError, Misconfigured


def test_the_docstring_names_every_error():
    found = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert found == set(re.findall(r"- (\w+)(?::|$)", errors.__doc__ or "", re.MULTILINE))
    assert all(issubclass(getattr(errors, name), KubecdcError) for name in found)


def test_a_configuration_error_carries_every_problem():
    error = Misconfigured("one", "two")
    assert error.problems == ("one", "two")
    assert str(error) == "one\ntwo"
