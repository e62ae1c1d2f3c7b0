"""What the pages show is true: Python blocks run, commands print what stands below them, files named in a title are what is used.

A page is read from top to bottom in a folder of its own: a block with ``title="name"`` is written to that file, a ``python`` block
runs in the page's namespace, a ``console`` block runs every line ``$ dplateau ...`` and no other. Compared are the output of a
command, a comment after ``print(...)`` that begins like a value, and a ``text`` block with all that the last ``python`` block
printed; ``...`` stands for anything. ``<!-- not run -->`` before a block leaves it alone, ``<!-- output varies -->`` runs it
without comparing, ``<!-- needs flax -->`` runs it where flax is installed.
The README's commands are about files that a reader has, so they are not run.
"""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib.util
import io
import re
import shlex
import tokenize
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

import dplateau as dp
from dplateau.cli.main import status

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"^(?:<!-- (?P<note>[a-z ]+) -->\n)?```(?P<kind>\w+)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<text>.*?)^```$", re.M | re.S
)
VALUE = re.compile(r"-?[0-9]|[\[({'<]|(True|False|None)$")
CHECKER = doctest.OutputChecker()
OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    kind: str
    title: str | None
    note: str | None
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(m["kind"], m["title"], m["note"], m["text"], text.count("\n", 0, m.start("text")) + 1) for m in BLOCK.finditer(text)
    ]


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def with_code(page: Path) -> bool:
    return any(block.kind in ("python", "console") and block.note != "not run" for block in blocks(page))


def lacking(block: Block) -> bool:
    """Whether the block needs a package that is not there."""
    _, needs, package = (block.note or "").partition("needs ")
    return bool(needs) and importlib.util.find_spec(package) is None


def comments(text: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """Run statement by statement, so that each printed value can be compared with the comment beside it; all that was printed."""
    beside, everything = comments(block.text), ""
    for statement in ast.parse(block.text).body:
        ast.increment_lineno(statement, block.line - 1)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(ast.Module([statement], []), page, "exec"), namespace)
        expected = beside.get((statement.end_lineno or 0) - block.line + 1, "")
        if block.note != "output varies" and VALUE.match(expected) and printed.getvalue():
            compare(expected, printed.getvalue(), page, statement.lineno)
        everything += printed.getvalue()
    return everything


def run_console(block: Block, page: Path) -> None:
    for entry in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
        command, _, expected = entry.partition("\n")
        program, *arguments = shlex.split(command, comments=True)
        if program != "dplateau":
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            status(arguments)
        if block.note != "output varies":
            compare(expected, printed.getvalue(), page, block.line)


def compare(expected: str, printed: str, page: Path, line: int) -> None:
    if not CHECKER.check_output(expected.strip() + "\n", printed.strip() + "\n", OPTIONS):
        pytest.fail(f"{name(page)}:{line} shows\n{expected.strip()}\nbut it prints\n{printed.strip()}", pytrace=False)


@pytest.mark.parametrize("page", [page for page in PAGES if with_code(page)], ids=name)
def test_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DPLATEAU_KEYS", str(tmp_path / "keys"))
    namespace: dict[str, object] = {"__name__": "page"}
    printed = ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # A page must not lead a reader into a warning.
        for block in blocks(page):
            if block.title:
                Path(block.title).write_text(block.text, encoding="utf-8")
            if block.note == "not run" or lacking(block):
                continue
            if block.kind == "python":
                printed = run_python(block, page, namespace)
            elif block.kind == "text" and printed:
                compare(block.text, printed, page, block.line)
            elif block.kind == "console" and page.name != "README.md":
                run_console(block, page)


def test_every_fence_is_read() -> None:
    """A fence that the pattern above does not see would not be tested."""
    for page in PAGES:
        fences = len(re.findall(r"^```", page.read_text(encoding="utf-8"), flags=re.M))
        assert fences == 2 * len(blocks(page)), f"{name(page)}: a code block without a language, indented, or with another title"


def test_blocks_without_their_package_are_left_out() -> None:
    notes = (None, "not run", "needs dplateau", "needs nothing of the kind")
    assert [lacking(Block("python", None, note, "", 1)) for note in notes] == [False, False, False, True]


def test_comparison_can_fail(tmp_path: Path) -> None:
    block = Block("python", None, None, "print(1 + 1)  # 3\n", 1)
    with pytest.raises(pytest.fail.Exception, match="but it prints"):
        run_python(block, ROOT / "README.md", {})


@pytest.mark.parametrize(("page", "d", "delta"), [("README.md", 170, None), ("docs/tutorial.md", 64, 1e-5)])
def test_the_first_certificates_that_readers_see_have_the_digests_of_their_plans(page: str, d: int, delta: float | None) -> None:
    """Their other numbers are not compared, since the noise is fresh every time."""
    digests = re.findall(r"^digest +(\w+), of the run$", (ROOT / page).read_text(encoding="utf-8"), re.M)
    assert digests == [dp.plan(32_561, d, epsilon=1.0, delta=delta).run.digest[:16]]


def test_command_line_page_lists_every_option() -> None:
    from typer.main import get_command

    from dplateau.cli.main import app

    page = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for command, parts in re.findall(r"^## dplateau ([\w-]+)\n(.*?)(?=^## |\Z)", page, flags=re.M | re.S):
        parsers = [commands[command], *getattr(commands[command], "commands", {}).values()]  # a group has commands of its own
        params = [option for parser in parsers for option in parser.params]
        flags = {flag for option in params for flag in (*option.opts, *option.secondary_opts) if flag.startswith("--")} - {"--help"}
        # What several commands share is described once, under its own heading.
        shared = page[page.index("## What ran") : page.index("## Exit status")]
        assert not {flag for flag in flags if f"`{flag}`" not in parts + shared}, command
        assert not set(re.findall(r"`(--[a-z][a-z0-9-]*)`", parts)) - flags, command
        assert {parser.name for parser in parsers[1:]} == set(re.findall(rf"^### dplateau {command} ([\w-]+)$", parts, flags=re.M))
    assert set(commands) == set(re.findall(r"^## dplateau ([\w-]+)$", page, flags=re.M))
