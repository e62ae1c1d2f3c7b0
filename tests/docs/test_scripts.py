"""The commands that pages and docstrings print, such as ``python benchmarks/stream.py --rows 1000``: scripts and options exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "src", "papers", "tests", "benchmarks", "experiments")
COMMAND = re.compile(r"python ((?:benchmarks|experiments|docs|papers|tests)/[a-z0-9_/]+\.py)([^`\n]*(?:\n +(?=\[|--)[^`\n]*)*)")
"""A script, and what stands behind it on its line, up to a backtick, and on further lines that begin with an option."""
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
SCRIPTS = [
    file
    for folder in ("benchmarks", "experiments")
    for file in sorted((ROOT / folder).glob("*.py"))
    if "\nif __name__ ==" in file.read_text(encoding="utf-8")
]


def texts() -> list[Path]:
    """Every page and every file of code, but for this one."""
    found = [file for name in FOLDERS for file in ([ROOT / name] if (ROOT / name).is_file() else (ROOT / name).rglob("*"))]
    return [file for file in found if file.suffix in (".md", ".py") and file != Path(__file__).resolve()]


@cache
def known(script: Path) -> set[str]:
    """The options that a script's parser has."""
    calls = (node for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
    added = (call.args for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument")
    return {name.value for names in added for name in names if isinstance(name, ast.Constant)} | {"--help"}


def wrong(text: str) -> list[str]:
    """What commands in a text name that is not there."""
    found: list[str] = []
    for name, rest in COMMAND.findall(text):
        if not (ROOT / name).is_file():
            found.append(name)
        else:
            found += [f"{name} {option}" for option in OPTION.findall(rest) if option not in known(ROOT / name)]
    return found


def test_commands_name_scripts_and_options_that_exist() -> None:
    missing = {str(file.relative_to(ROOT)): wrong(file.read_text(encoding="utf-8")) for file in texts()}
    assert not {file: names for file, names in missing.items() if names}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda file: f"{file.parent.name}/{file.name}")
def test_scripts_say_how_they_are_run(script: Path) -> None:
    """And options in the rest of their first words exist."""
    words = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
    assert f"python {script.relative_to(ROOT)}" in words
    assert not set(OPTION.findall(words)) - known(script)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("$ python benchmarks/stream.py --rows 1000   # --dictionary: longer", []),
        ("`python benchmarks/stream.py` has no --colour", []),
        ("$ python benchmarks/streams.py --rows 1000", ["benchmarks/streams.py"]),
        ("$ python benchmarks/stream.py --row 1000", ["benchmarks/stream.py --row"]),
        ("    python benchmarks/stream.py [--rows 1000]\n        [--colour red]\n", ["benchmarks/stream.py --colour"]),
        ("$ pip install ./papers; python benchmarks/normals.py   # seconds; --quick: less", ["benchmarks/normals.py --quick"]),
    ],
)
def test_what_does_not_exist_is_found(text: str, found: list[str]) -> None:
    assert wrong(text) == found
