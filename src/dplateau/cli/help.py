"""How ``--help`` looks: text in two columns. It is written without rich, whose import takes longer than all the rest."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any, Final, TypeAlias

from dplateau.cli.output import WIDEST

LEFT: Final = 28
"""Columns that a name gets at most before what it means; after a longer one that begins in the next line."""
LEAST: Final = 40
LAST: Final = ("The result", "Options")
"""What comes after everything else: where the result goes, and what every command has."""
Panels: TypeAlias = dict[str, list[tuple[str, str]]]
"""Names and what they mean, by the heading that they stand under."""
HEADING, NAME, PLAIN = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def help_text(command: Any, ctx: Any) -> str:
    """What ``--help`` of a command, or of a group of commands, prints."""
    width = max(LEAST, min(shutil.get_terminal_size().columns, WIDEST))
    parts = [
        f"{_styled('Usage:', HEADING)} {ctx.command_path} {' '.join(_usage(command, ctx))}",
        *_about(command.help or "", width),
    ]
    if hasattr(command, "list_commands"):
        found: Panels = {}
        for name in command.list_commands(ctx):
            one = command.get_command(ctx, name)
            found.setdefault(_panel(one, "Commands"), []).append((name, _first(one.help or "")))
        parts += _tables(found, width)
    panels: Panels = {}
    for param in (one for one in command.get_params(ctx) if not getattr(one, "hidden", False)):
        usual = "Options" if param.param_type_name == "option" else "Arguments"
        panels.setdefault(_panel(param, usual), []).append((_names(param), _meaning(param)))
    for last in LAST:
        if last in panels:
            panels[last] = panels.pop(last)
    parts += _tables(panels, width)
    if command.epilog:
        parts.append("\n".join(wrap(command.epilog, width)))
    return "\n\n".join(parts)


def _usage(command: Any, ctx: Any) -> Iterator[str]:
    """What comes after the name: options, and arguments, in brackets where they may be left out."""
    yield "[OPTIONS]"
    for param in command.get_params(ctx):
        if param.param_type_name == "argument":
            yield param.metavar if param.required else f"[{param.metavar}]"
    if hasattr(command, "list_commands"):
        yield "COMMAND ..."


def _about(text: str, width: int) -> Iterator[str]:
    """The paragraphs of a docstring. Examples can be copied: their lines go on after a backslash."""
    for paragraph in text.strip().split("\n\n"):
        words = " ".join(paragraph.split())
        if words.startswith("dplateau "):
            together = re.sub(r"(--[\w-]+) (?!-)", "\\1\N{NO-BREAK SPACE}", words)  # an option and its value
            lines = wrap(together, width - 4, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
            yield "  " + " \\\n  ".join(lines).replace("\N{NO-BREAK SPACE}", " ")
        else:
            yield "\n".join(wrap(words, width, break_on_hyphens=False))


def _panel(thing: Any, usual: str) -> str:
    """The heading under which a command or a parameter stands."""
    found = getattr(thing, "rich_help_panel", None)
    return found if isinstance(found, str) else usual


def _first(text: str) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join(text.strip().partition("\n\n")[0].split())


def _names(param: Any) -> str:
    """``-o, --output FILE``, or the name of an argument."""
    if param.param_type_name == "argument":
        return param.metavar
    flags = ", ".join([*sorted(param.opts, key=len), *param.secondary_opts])
    return flags if param.is_flag or not param.metavar else f"{flags} {param.metavar}"


def _meaning(param: Any) -> str:
    """What it is, whether it must be given, and what it is where it is not."""
    text = param.help or ""
    if param.required:
        return f"{text} (required)"
    default = getattr(param, "default", None)
    absent = default is None or default is False or default in ("", ())  # 0 is a default
    if absent or not getattr(param, "show_default", False) or callable(default):
        return text
    if default is True:
        default = param.opts[0]
    return f"{text} (default: {f'{default:g}' if isinstance(default, float) else default})"


def _tables(panels: Panels, width: int) -> Iterator[str]:
    """Every panel under its heading; names and meanings of all of them are in the same columns."""
    left = max((len(name) for rows in panels.values() for name, _ in rows if len(name) <= LEFT), default=LEFT)
    for title, rows in panels.items():
        yield "\n".join([_styled(f"{title}:", HEADING), *_table(rows, left, width)])


def _table(rows: Iterable[tuple[str, str]], left: int, width: int) -> Iterator[str]:
    """Names, and beside them what they mean."""
    for name, meaning in rows:
        first, *rest = wrap(meaning, width - left - 4, break_on_hyphens=False) or [""]
        shown = _styled(name, NAME)
        if len(name) > left:
            yield f"  {shown}"
            yield f"  {'':{left}}  {first}".rstrip()
        else:
            yield f"  {shown}{' ' * (left - len(name))}  {first}".rstrip()
        yield from (f"  {'':{left}}  {line}".rstrip() for line in rest)


def _styled(text: str, style: str) -> str:
    """In bold, or in colour, on a terminal that has it."""
    if not sys.stdout.isatty() or os.environ.get("TERM") == "dumb" or (style is NAME and os.environ.get("NO_COLOR")):
        return text
    return re.sub(r"(.+)", rf"{style}\1{PLAIN}", text)
