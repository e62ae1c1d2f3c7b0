"""What reads the arguments: commands whose options are given once each, their help, and what was not understood in one line."""

from __future__ import annotations

from collections import Counter
from difflib import get_close_matches
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from dplateau.cli.help import help_text
from dplateau.spec.errors import InputError

USAGE_ERROR: type[Any] = typer.BadParameter.__bases__[0]
"""The base of what the parser raises; typer exports it under no name of its own."""


class Command(TyperCommand):
    """Refuses an option that is given several times, unless it is one that takes several values.

    The parser would take the last of them and be silent about the others.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # completion
            try:
                _, _, found = self.make_parser(ctx).parse_args(args=list(args))
            except Exception as error:
                if getattr(error, "ctx", ctx) is None:
                    vars(error)["ctx"] = ctx  # which command it was
                raise
            for option, times in Counter(found).items():
                if times > 1 and not (getattr(option, "multiple", False) or getattr(option, "is_flag", False)):
                    raise InputError(f"{option.opts[0]} is given {times} times: give it once.")
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


class Commands(TyperGroup):
    """Commands that belong together. Without a command the help is printed, which is not an error."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, args or ["--help"])

    def format_help(self, ctx: Any, formatter: Any) -> None:
        formatter.write(help_text(self, ctx))


def not_understood(error: Any) -> str:
    """What the parser did not understand, and where to read on."""
    message, near = error.format_message().rstrip("."), ""
    if hasattr(error, "possibilities"):
        message = error.message.rstrip(".")
        option = getattr(error, "option_name", None)
        found = _near(option, error.ctx) if option else next(iter(error.possibilities or ()), None)
        near = f". Did you mean {found}?" if found else ""
    elif isinstance(error, typer.BadParameter) and (wanted := _wanted(error)) is not None:
        message = f"{message.partition(':')[0]}: expected {wanted}"
    said = f"{message}{near}"
    return f"{said}{'' if said.endswith('?') else '.'} Try '{getattr(error.ctx, 'command_path', 'dplateau')} --help'."


def _near(wrong: str, ctx: Any) -> str | None:
    """The option that was meant, where one has the name in its own, or is spelt nearly so."""
    names = [name for option in ctx.command.params for name in option.opts if name.startswith("--")]
    word = wrong.lstrip("-")
    inside = [name for name in names if len(word) > 2 and (name.startswith(f"--{word}") or word in name[2:].split("-"))]
    return next(iter(inside or get_close_matches(wrong, names, 1, 0.85)), None)


def _wanted(error: Any) -> str | None:
    """What a number should have been; how that is said depends on the version of typer."""
    if "integer" in error.message:
        return "a whole number"
    return "a number" if any(word in error.message for word in ("number", "float")) else None
