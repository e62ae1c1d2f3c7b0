"""Accounts of a ledger and their entries, for the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from dplateau.accounting.enclosure import rounded_up
from dplateau.ledger.account import State
from dplateau.ledger.entry import Entry, Head
from dplateau.report import ledger_words as words
from dplateau.report.text import facts
from dplateau.spec.one_line import printable

SHOWN: Final = 20
"""Entries of an account, the last ones, and problems, the first ones."""


def accounts_text(states: Sequence[State]) -> RenderableType:
    """What ``dplateau ledger show`` shows."""
    if not states:
        return "The ledger has no account yet: open one with dplateau ledger create."
    table = _table(("account", "left"), ("records", "right"), ("epsilon", "right"), ("delta", "right"), ("left", "right"))
    table.add_column("reserved", justify="right")
    for one in states:
        left = words.percent_down(one.left)
        shown = Text("closed", "dim") if one.closed else Text(left, "bold green" if one.left > 0 else "bold red")
        table.add_row(printable(one.name), f"{one.n:,}", rounded_up(one.epsilon), rounded_up(one.delta), shown, f"{one.reserved:,}")
    return table


def account_text(state: State, entries: Sequence[Entry]) -> RenderableType:
    """What ``dplateau ledger show NAME`` shows."""
    left = Text.assemble((words.percent_down(state.left), "bold green" if state.left > 0 else "bold red"), words.left(state))
    table = _table(("entry", "right"), ("time (UTC)", "left"), ("who", "left"), ("what", "left"), ("cost", "right"))
    for entry in entries[-SHOWN:]:
        cost = "" if (share := words.cost(entry, state)) is None else words.percent_up(share)
        table.add_row(str(entry.number), words.minute(entry.time), printable(entry.who), words.what(entry), cost)
    more = [] if len(entries) <= SHOWN else [Text(f"and {len(entries) - SHOWN:,} earlier entries", "dim")]
    return Group(Text(printable(state.name), "bold"), left, "", facts(*words.facts(state), *_parts(state)), "", table, *more)


def verified_text(problems: Sequence[str], last: Head, known: Head | None, unproved: Sequence[str] | None = None) -> RenderableType:
    """What ``dplateau ledger verify`` shows; ``unproved`` is None where nobody asked for a proof."""
    if problems:
        return Group(Text("the ledger is NOT what was written", "bold red"), "", *_shown(problems))
    first = Text(f"all {last.number:,} entries follow from each other, and their sums are right", "bold green")
    against = "no head was given: entries that were cut off at the end are not found" if known is None else f"entry {known.number}"
    rows = facts(("head", f"{last.number}:{last.digest}"), ("against", against), least=7)  # A head has to fit into a line.
    if unproved is None:
        return Group(first, "", rows)
    if unproved:
        return Group(first, Text("not everything was proved a second time", "bold yellow"), "", *_shown(unproved), "", rows)
    return Group(first, Text("every cost and budget is proved a second time, in ball arithmetic", "bold green"), "", rows)


def _shown(sentences: Sequence[str]) -> list[RenderableType]:
    """The first of them."""
    more = [f"  and {len(sentences) - SHOWN:,} more"] if len(sentences) > SHOWN else []
    return [*(Padding(printable(one), (0, 0, 0, 2)) for one in sentences[:SHOWN]), *more]


def _parts(state: State) -> Iterator[tuple[str, RenderableType]]:
    """What every part has spent; of a partition with many, such as the batches of a stream, the largest sum alone."""
    for partition, group in groupby(state.parts, key=lambda one: one[0]):
        parts = list(group)
        if len(parts) > SHOWN:
            largest = words.percent_up(max(share for _, _, share in parts))
            yield f"{len(parts):,} parts", f"of {printable(partition)}: {largest} of the budget at most"
        else:
            yield from (
                (f"part {printable(part)}", f"of {printable(partition)}: {words.percent_up(share)} of the budget")
                for _, part, share in parts
            )


def _table(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=name not in ("what", "account", "who"), overflow="fold")
    return table
