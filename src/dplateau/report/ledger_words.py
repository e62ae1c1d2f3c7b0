"""The words for accounts and entries of a ledger that the terminal and the pages share."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from typing import Any, Final

from dplateau.accounting.enclosure import rounded_up
from dplateau.certificate.words import ADJACENCY
from dplateau.ledger.account import State
from dplateau.ledger.entry import NAMES, Entry
from dplateau.ledger.grant import Forecast
from dplateau.spec import LedgerError
from dplateau.spec.one_line import printable

_MINUTES: Final = 16
"""Characters of a time up to its minutes."""
_MUCH: Final = 1e-3
"""A share that is worth a sentence."""


def percent_down(share: float) -> str:
    """A share of a budget that is left: never larger than it is."""
    return f"{math.floor(share * 1000) / 10:g} %"


def percent_up(share: float) -> str:
    """A share of a budget that is spent: never smaller than it is."""
    thousandths = share * 1000
    return f"{math.ceil(thousandths) / 10 if thousandths < math.inf else thousandths:.15g} %"


def minute(time: str) -> str:
    """When an entry was written, in UTC."""
    return printable(time)[:_MINUTES].replace("T", " ")


def left(state: State) -> str:
    """What is left of an account."""
    closed = ", and the account is closed: nothing can be reserved" if state.closed else ""
    return f" of the budget is left{closed}"


def facts(state: State) -> list[tuple[str, str]]:
    """An account in words."""
    protects = ADJACENCY[state.adjacency].format(unit=state.unit)
    kept = "squared mu" if state.order is None else f"Renyi divergence of order {state.order:.4g}"
    return [
        ("budget", f"epsilon {rounded_up(state.epsilon)} at delta {rounded_up(state.delta)}, for all trainings together"),
        ("protects", printable(f"{protects}, among {state.n:,} ({state.adjacency}); n is {state.n_is}")),
        ("kept in", f"{kept}: {rounded_up(state.spent)} of {state.budget:.6g} is spent"),
        ("trainings", f"{state.reserved:,} reserved, {state.committed:,} of them committed"),
    ]


def changed(entry: Entry) -> LedgerError:
    """The error for an entry that dplateau did not write."""
    return LedgerError(f"entry {entry.number} cannot be read: it was changed. dplateau ledger verify says what else was.")


def body(entry: Entry) -> dict[str, Any]:
    """What an entry says besides its numbers.

    Raises
    ------
    LedgerError
        It was changed, and cannot be read.
    """
    try:
        return entry.data
    except LedgerError:
        raise changed(entry) from None


def cost(entry: Entry, state: State) -> float | None:
    """The share of the budget that a reservation costs by itself.

    Raises
    ------
    LedgerError
        It was changed, and is not a number.
    """
    return None if entry.cost is None else share(entry, entry.cost, state)


def share(entry: Entry, value: object, state: State) -> float:
    """A sum in an entry as a share of the budget.

    Raises
    ------
    LedgerError
        The entry was changed: it is no number, or far from what fits into a budget.
    """
    if isinstance(value, int | float) and math.isfinite(found := value / state.budget):
        return found
    raise changed(entry)


def steps(entry: Entry) -> str:
    """How many runs and steps were reserved.

    Raises
    ------
    LedgerError
        The entry was changed, and names no run.
    """
    try:
        data = body(entry)
        run = data["run"]
        best = f"best of {len(run['candidates']):,} candidates, " if "candidates" in run else ""
        runs = [one for part in run.get("candidates", [run]) for one in part.get("runs", [part])]
        count = f"{sum(one['steps'] for one in runs):,} steps"
        rest = f", from step {data['done'] + 1:,} on" if data.get("done") else ""
        return f"{best}{len(runs)} runs, {count}" if len(runs) > 1 else f"{best}{count}{rest}"
    except (TypeError, KeyError, AttributeError, ValueError):
        raise changed(entry) from None


def what(entry: Entry) -> str:
    """An entry in a few words."""
    if entry.kind == "committed":
        certificate = ", with a certificate" if body(entry).get("certificate_sha256") else ""
        return f"committed {entry.reservation}{certificate}" + (", which certifies nothing" if void(entry) else "")
    if entry.kind != "reserved":
        return printable(entry.kind)
    words = [steps(entry)]
    words += [f"{entry.partition}: {entry.part}"] if entry.part is not None else []
    words += [str(purpose)] if (purpose := body(entry).get("purpose")) else []
    return printable(f"reserved: {'; '.join(words)}")


def void(entry: Entry) -> bool:
    """Whether a training was committed with a certificate that certifies nothing, say of a fixed seed: no budget covers that."""
    data = body(entry)
    return entry.kind == "committed" and bool(data.get("certificate_sha256")) and not data.get("certifies")


def foreseen(found: Forecast, part: tuple[str, str] | None = None) -> tuple[str, str]:
    """What a planned training would leave: the answer, and what is to be known about it."""
    if found.fits:
        takes = found.left - found.leaves
        answer = f"It would take {percent_up(takes)} of the budget, and leave {percent_down(found.leaves)}."
        if part is None or found.cost - takes < _MUCH:
            return answer, ""
        return answer, f"It costs {percent_up(found.cost)} for the part, but another part of {part[0]} has spent more."
    if not math.isfinite(found.cost) or found.cost <= found.room:  # no bound, or no account that pays
        return "It cannot be paid from this budget.", found.says
    where = "" if part is None else f" for {part[1]} of {part[0]}"
    free = f"{percent_down(found.room)} is left{where}"
    return f"It would take {percent_up(found.cost)} of the budget, and {free}: it does not fit.", found.says


def to_json(entries: Sequence[Entry]) -> str:
    """Entries as ``dplateau ledger export`` writes them.

    Raises
    ------
    LedgerError
        One was changed, and holds what JSON has no word for: bytes, or an infinite number.
    """
    return json.dumps({"entries": list(map(plain, entries))}, indent=1) + "\n"


def plain(entry: Entry) -> dict[str, Any]:
    """An entry as plain data for JSON; raises what ``to_json`` does."""
    try:
        json.dumps(data := entry.to_dict(), allow_nan=False)
    except (TypeError, ValueError):
        raise changed(entry) from None
    return data


def to_csv(entries: Sequence[Entry]) -> str:
    """The same as a table, one entry a line."""
    lines = io.StringIO()
    table = csv.writer(lines, lineterminator="\n")
    table.writerow(NAMES)
    table.writerows([_cell(getattr(entry, name)) for name in NAMES] for entry in entries)
    return lines.getvalue()


def _cell(value: Any) -> Any:
    """A value for a spreadsheet, which would take some texts for formulas."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
