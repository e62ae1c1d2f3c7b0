"""What reads the arguments: commands whose options are given once each, their help, and what was not understood in one line."""

from __future__ import annotations

from collections import Counter
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
    message = error.format_message().rstrip(".")
    if hasattr(error, "possibilities"):
        message = error.message.rstrip(".")
        near = f". Did you mean {error.possibilities[0]}?" if error.possibilities else ""
    elif isinstance(error, typer.BadParameter) and (wanted := _wanted(error)) is not None:
        message, near = f"{message.partition(':')[0]}: expected {wanted}", ""
    else:
        near = ""
    said = f"{message}{near}"
    return f"{said}{'' if said.endswith('?') else '.'} Try '{getattr(error.ctx, 'command_path', 'dplateau')} --help'."


def _wanted(error: Any) -> str | None:
    """What a number should have been; how that is said depends on the version of typer."""
    if "integer" in error.message:
        return "a whole number"
    return "a number" if any(word in error.message for word in ("number", "float")) else None
