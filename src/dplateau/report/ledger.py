"""Accounts of a ledger and their entries, for the terminal."""

from __future__ import annotations

import math
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
from dplateau.report.text import facts
from dplateau.spec import ADJACENCIES

SHOWN: Final = 20
"""Entries of an account, the last ones, and problems, the first ones."""
_MINUTES: Final = 16
"""Characters of a time up to its minutes."""
_PROTECTS: Final[dict[str, str]] = dict(zip(ADJACENCIES, ("added or removed", "replaced by another"), strict=True))


def accounts_text(states: Sequence[State]) -> RenderableType:
    """What ``dplateau ledger show`` shows."""
    if not states:
        return "The ledger has no account yet: open one with dplateau ledger create."
    table = _table(("account", "left"), ("records", "right"), ("epsilon", "right"), ("delta", "right"), ("left", "right"))
    table.add_column("reserved", justify="right")
    for one in states:
        left = _percent_down(one.left)
        shown = Text("closed", "dim") if one.closed else Text(left, "bold green" if one.left > 0 else "bold red")
        table.add_row(one.name, f"{one.n:,}", f"{one.epsilon:g}", f"{one.delta:g}", shown, f"{one.reserved:,}")
    return table


def account_text(state: State, entries: Sequence[Entry]) -> RenderableType:
    """What ``dplateau ledger show NAME`` shows."""
    left = Text.assemble((_percent_down(state.left), "bold green" if state.left > 0 else "bold red"), " of the budget is left")
    if state.closed:
        left.append(", and the account is closed: nothing can be reserved")
    kept = "squared mu" if state.order is None else f"Renyi divergence of order {state.order:.4g}"
    rows: list[tuple[str, RenderableType]] = [
        ("budget", f"epsilon {state.epsilon:g} at delta {state.delta:g}, for all trainings together"),
        ("protects", f"one {state.unit} {_PROTECTS[state.adjacency]}, among {state.n:,} ({state.adjacency}); n is {state.n_is}"),
        ("kept in", f"{kept}: {rounded_up(state.spent)} of {state.budget:.6g} is spent"),
        ("trainings", f"{state.reserved:,} reserved, {state.committed:,} of them committed"),
        *_parts(state),
    ]
    table = _table(("entry", "right"), ("time (UTC)", "left"), ("who", "left"), ("what", "left"), ("cost", "right"))
    for entry in entries[-SHOWN:]:
        cost = "" if entry.cost is None else _percent_up(entry.cost / state.budget)
        table.add_row(str(entry.number), entry.time[:_MINUTES].replace("T", " "), entry.who, _what(entry), cost)
    more = [] if len(entries) <= SHOWN else [Text(f"and {len(entries) - SHOWN:,} earlier entries", "dim")]
    return Group(Text(state.name, "bold"), left, "", facts(*rows), "", table, *more)


def verified_text(problems: Sequence[str], last: Head, known: Head | None) -> RenderableType:
    """What ``dplateau ledger verify`` shows."""
    if problems:
        shown = [Padding(one, (0, 0, 0, 2)) for one in problems[:SHOWN]]
        more = [f"  and {len(problems) - SHOWN:,} more"] if len(problems) > SHOWN else []
        return Group(Text("the ledger is NOT what was written", "bold red"), "", *shown, *more)
    first = f"all {last.number:,} entries follow from each other, and their sums are right"
    against = "no head was given: entries that were cut off at the end are not found" if known is None else f"entry {known.number}"
    rows = facts(("head", f"{last.number}:{last.digest}"), ("checked with", against))
    return Group(Text(first, "bold green"), "", rows)


def _parts(state: State) -> Iterator[tuple[str, RenderableType]]:
    """What every part has spent; of a partition with many, such as the batches of a stream, the largest sum alone."""
    for partition, group in groupby(state.parts, key=lambda one: one[0]):
        parts = list(group)
        if len(parts) > SHOWN:
            largest = _percent_up(max(share for _, _, share in parts))
            yield f"{len(parts):,} parts", f"of {partition}: {largest} of the budget at most"
        else:
            yield from ((f"part {part}", f"of {partition}: {_percent_up(share)} of the budget") for _, part, share in parts)


def _table(*columns: tuple[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name, justify in columns:
        table.add_column(name, justify=justify, no_wrap=name not in ("what", "account"))
    return table


def _what(entry: Entry) -> str:
    """An entry in a few words."""
    data = entry.data
    if entry.kind == "committed":
        return f"committed {entry.reservation}" + (", with a certificate" if data.get("certificate_sha256") else "")
    if entry.kind != "reserved":
        return entry.kind
    runs = data["run"].get("runs", [data["run"]])
    steps = sum(run["steps"] for run in runs)
    words = [f"{len(runs)} runs, {steps:,} steps" if len(runs) > 1 else f"{steps:,} steps"]
    words[0] += f", from step {data['done'] + 1:,} on" if data.get("done") else ""
    words += [f"{entry.partition}: {entry.part}"] if entry.part is not None else []
    words += [data["purpose"]] if data.get("purpose") else []
    return f"reserved: {'; '.join(words)}"


def _percent_down(share: float) -> str:
    return f"{math.floor(share * 1000) / 10:g} %"


def _percent_up(share: float) -> str:
    return f"{math.ceil(share * 1000) / 10:g} %"
