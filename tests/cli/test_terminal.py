"""What commands print on terminals of 80 columns, with colour and without, and into a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from functools import cache

import pytest

STYLE = re.compile(r"\x1b\[([0-9;]*)m")
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ACCOUNT = ("account", "--n", 60_000, "--batch-size", 256, "--steps", 3516, "--noise-multiplier", 1.3, "--delta", 1e-5)
LAST = (
    *("account", "--n", 60_000, "--sampling", "cyclic", "--batch-size", 1500, "--steps", 8000, "--noise-multiplier", 3),
    *("--step-size", 0.05, "--smoothness", 0.25, "--diameter", 10, "--adjacency", "replace", "--released", "last"),
)
AUDIT = ("audit", "--settings", 3)
COMMANDS = {
    "account": ACCOUNT,
    "account the last iterate": LAST,
    "audit": AUDIT,
    "plan": ("plan", "--n", 1_000_000, "--d", 100, "--epsilon", 1),
    "trade-off": ("plot-trade-off", *ACCOUNT[1:]),
    "help": ("--help",),
    "help of train": ("train", "--help"),
    "error": ("account", "--n", 60_000),
}


@cache
def on_a_terminal(arguments: tuple[object, ...], columns: int = 80, **variables: str) -> str:
    """All that a terminal of that width is sent, by output and error together."""
    terminal, other_end = pty.openpty()
    fcntl.ioctl(other_end, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CI")}
    process = subprocess.Popen(
        [sys.executable, "-c", "from dplateau.cli.main import run; run()", *map(str, arguments)],
        stdin=other_end,
        stdout=other_end,
        stderr=other_end,
        env={**kept, "TERM": "xterm-256color", **variables},
    )
    os.close(other_end)
    shown = b""
    with suppress(OSError):  # how Linux tells that the other end is closed
        while part := os.read(terminal, 65_536):
            shown += part
    os.close(terminal)
    process.wait()
    return shown.decode()


def lines_of(shown: str) -> list[str]:
    """Lines as they stand on the screen, and each state of a line that was written again."""
    return [line.rstrip() for line in re.split(r"[\r\n]+", CONTROL.sub("", shown))]


def colours(shown: str) -> set[str]:
    """The colours that are switched on, out of all styles."""
    parts = {part for style in STYLE.findall(shown) for part in style.split(";")}
    return {part for part in parts if re.fullmatch(r"3[0-8]|4[0-8]|9[0-7]|10[0-7]", part)}


@pytest.mark.parametrize("name", COMMANDS)
def test_eighty_columns_are_enough(name):
    shown = on_a_terminal(COMMANDS[name])
    # An error is one line, however long, so that programs can read it; the terminal breaks it.
    assert name == "error" or max(map(len, lines_of(shown))) <= 80
    assert "Traceback" not in shown


@pytest.mark.parametrize("name", ["account", "audit"])
def test_colour_says_nothing_that_words_do_not(name):
    """The same words with colour, with NO_COLOR, on a terminal that has none, and into a pipe."""
    coloured = on_a_terminal(COMMANDS[name])
    assert colours(coloured)
    bare, dumb = on_a_terminal(COMMANDS[name], NO_COLOR="1"), on_a_terminal(COMMANDS[name], TERM="dumb")
    assert not colours(bare)
    assert not STYLE.search(dumb)
    command = [sys.executable, "-c", "from dplateau.cli.main import run; run()", *map(str, COMMANDS[name])]
    piped = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in piped.stdout + piped.stderr
    result = [line.rstrip() for line in piped.stdout.splitlines()]
    for shown in (coloured, bare, dumb):
        assert [line for line in lines_of(shown) if line][-len([line for line in result if line]) :] == [
            line for line in result if line
        ]


def test_a_narrow_terminal_loses_nothing():
    """Words wrap; names and numbers stay whole."""
    narrow = on_a_terminal(ACCOUNT, columns=60)
    assert max(map(len, lines_of(narrow))) <= 60
    assert all(word in narrow for word in ("exact-composition", "0.864541", "advanced-composition", "92.9822"))


def test_progress_is_one_line(table, tmp_path):
    train = ("train", table / "rows.csv", "--schema", table / "schema.toml", "--epsilon", 1, "--output", tmp_path / "model")
    shown = on_a_terminal(train)
    bars = [line for line in lines_of(shown) if line.startswith("training") and "steps" in line]
    assert bars
    assert max(map(len, bars)) <= 80
    assert "\x1b[1A" not in shown  # the cursor never has to go up again
