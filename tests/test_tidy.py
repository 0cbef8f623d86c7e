"""The house rules that no linter knows, as tests (style: small modules, said purposes, a test module for each module).

Sizes are lines without docstrings: explaining is never punished.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("kubecdc", "producer", "processors", "local")
MODULE_MAX, CLASS_MAX, FUNCTION_MAX, PARAMETERS_MAX = 400, 200, 50, 5
# Written in two parts, so that this file does not find itself.
UNFINISHED = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MACHINE = re.compile(r"/ho" r"me/\w|/Us" r"ers/\w|/ro" r"ot/|/wo" r"rk/|/tm" r"p/(?:lab|team|h\d)")
REGISTRIES = re.compile(
    r"files\.python" r"hosted\.org|py" r"pi\.org|repo\d?\.maven|maven\.org|jf" r"rog|art" r"ifactory|nex" r"us\."
)
SECRETS = re.compile(r"^\s*-----BEGIN [A-Z ]*PRIVATE KEY-----$|AK" r"IA[0-9A-Z]{16}")
# What breaks a rule today and is owed. The lists are exact: mending one fails here until its line is taken out.
LARGE: set[str] = set()
UNTESTED_BY_NAME: set[str] = set()
TEXT = {".py", ".md", ".toml", ".yaml", ".yml", ".avsc", ".json", ".sh", "", ".cfg", ".ini"}


@cache
def tracked() -> tuple[Path, ...]:
    """Files that git knows or would take: what is ignored is nobody's business."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return tuple(path for path in (ROOT / name for name in names) if path.is_file())


def modules() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".py"]


def sources() -> list[Path]:
    return [path for path in modules() if path.relative_to(ROOT).parts[0] in PACKAGES]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def size(node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, lines: int) -> int:
    """Lines of the node less those of the docstrings in it."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for inner in ast.walk(node):
        if isinstance(inner, documented) and ast.get_docstring(inner, clean=False) is not None:
            first = inner.body[0]
            lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def oversized(path: Path) -> Iterator[str]:
    text = path.read_text()
    tree = ast.parse(text)
    where = named(path)
    if (found := size(tree, text.count("\n"))) > MODULE_MAX:
        yield f"{where}: {found} lines, at most {MODULE_MAX}"
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            most = CLASS_MAX if isinstance(node, ast.ClassDef) else FUNCTION_MAX
            found = size(node, (node.end_lineno or node.lineno) - node.lineno + 1)
            if found > most:
                yield f"{where}: {node.name} has {found} lines, at most {most}"
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
            count = len([name for name in arguments if name not in ("self", "cls")])
            if count > PARAMETERS_MAX and not _called_by_click(node):
                yield f"{where}: {node.name} takes {count} positional parameters, at most {PARAMETERS_MAX}"


def _called_by_click(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Its parameters are its flags, and nobody calls it by position."""
    return any("click" in ast.unparse(decorator) for decorator in node.decorator_list)


def test_modules_classes_and_functions_are_small():
    faults = [fault for path in modules() if "tests" not in path.parts[-2:-1] for fault in oversized(path)]
    owed = {fault: next((name for name in LARGE if fault.startswith(name)), None) for fault in faults}
    assert [fault for fault, name in owed.items() if name is None] == []
    assert {name for name in owed.values() if name} == LARGE


def test_every_module_says_what_it_is_for():
    bare = [
        named(path) for path in modules() if path.read_text() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert bare == []


def test_nothing_is_left_unfinished():
    found = [
        f"{named(path)}:{number}"
        for path in modules()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("pattern", [MACHINE, REGISTRIES, SECRETS], ids=["paths", "registries", "secrets"])
def test_nothing_of_one_machine_is_in_the_repository(pattern: re.Pattern[str]):
    found = [
        f"{named(path)}:{number}: {line.strip()[:80]}"
        for path in tracked()
        if path.suffix in TEXT and path.name != "LICENSE"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def does_something(path: Path) -> bool:
    """It has a function with more than a docstring; settings and protocols only declare."""
    functions = [
        n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))
    ]
    return any(len(node.body) > 1 or not isinstance(node.body[0], ast.Expr) for node in functions)


def test_every_module_has_a_test_module_of_its_name():
    missing = []
    for path in sources():
        package, stem = path.parent.name, path.stem.strip("_")
        if path.stem == "__init__" or not does_something(path):
            continue
        if not (ROOT / "tests" / package / f"test_{stem}.py").exists():
            missing.append(named(path))
    assert set(missing) == UNTESTED_BY_NAME


def test_the_map_names_every_module():
    """In a row of the map a name without a folder lies in that of the name before."""
    named_there: set[str] = set()
    for row in (ROOT / "ARCHITECTURE.md").read_text().splitlines():
        folder = ""
        for name in re.findall(r"`([^` ]+\.py)`", row.split("|")[1]) if row.startswith("|") else ():
            folder, _, pattern = name.rpartition("/") if "/" in name else (folder, "", name)
            found = {named(path) for path in ROOT.glob(f"{folder}/{pattern}")}
            assert found, f"the map names {folder}/{pattern}, which does not exist"
            named_there |= found
    assert {named(path) for path in sources() if path.stem != "__init__"} - named_there == set()


def test_test_packages_mirror_ours_and_cannot_shadow_them():
    """Without an `__init__` in each, pytest takes tests/producer for the package itself."""
    for package in ("", *PACKAGES):
        assert (ROOT / "tests" / package / "__init__.py").is_file()


def test_nobody_sleeps_where_a_condition_can_be_waited_for():
    """A sleep in a test is a step of a loop that polls, or says beside it what passes in that time."""
    found = []
    for path in (ROOT / "tests").rglob("test_*.py"):
        lines = path.read_text().splitlines()
        tree = ast.parse("\n".join(lines))
        loops = {id(n) for loop in ast.walk(tree) if isinstance(loop, (ast.For, ast.While)) for n in ast.walk(loop)}
        found += [
            f"{named(path)}:{node.lineno}"
            for node in ast.walk(tree)
            if isinstance(node, ast.Call)
            and ast.unparse(node.func) == "time.sleep"
            and id(node) not in loops
            and "  # " not in lines[node.lineno - 1]
        ]
    assert found == []


def test_an_ignore_carries_its_reason():
    bare = re.compile(r"#\s*(?:type: ignore(?:\[[^\]]*\])?|noqa(?:: ?[A-Z0-9, ]+)?)\s*$")
    found = [
        f"{named(path)}:{number}"
        for path in sources()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if bare.search(line)
    ]
    assert found == []
