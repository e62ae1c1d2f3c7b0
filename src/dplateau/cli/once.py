"""A command whose options are given once each: the parser would take the last of several and be silent about the others."""

from __future__ import annotations

from collections import Counter
from typing import Any

from typer.core import TyperCommand

from dplateau.spec import InputError


class Once(TyperCommand):
    """Refuses an option that is given several times, unless it is one that takes several values."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # completion
            _, _, found = self.make_parser(ctx).parse_args(args=list(args))
            for option, times in Counter(found).items():
                if times > 1 and not (getattr(option, "multiple", False) or getattr(option, "is_flag", False)):
                    raise InputError(f"{option.opts[0]} is given {times} times: give it once.")
        return super().parse_args(ctx, args)
