"""Whether an account covers one more run: what it would cost and leave, and the words where it does not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dplateau.filter import cost_of, no_cost
from dplateau.ledger.book import Part, Terms
from dplateau.ledger.hint import what_fits
from dplateau.ledger.sums import Sums, covers
from dplateau.spec import InputError, Run, Runs


@dataclass(frozen=True)
class Forecast:
    """What a run would cost an account, in shares of its budget.

    Attributes
    ----------
    cost : float
        Of the run; infinite where no proved bound can be used.
    room : float
        What such a run may cost: for one on a part that is more than what is left while another part has spent more.
    left, leaves : float
        What is left now, and what would be left after it; the same where it does not fit.
    fits : bool
        Whether the budget covers it.
    says : str
        Where it does not: what would fit, or why nothing does.
    """

    cost: float
    room: float
    left: float
    leaves: float
    fits: bool
    says: str = ""


def forecast(run: Run | Runs, part: Part | None, before: Sums, terms: Terms, *, closed: bool) -> Forecast:
    """What a run that was checked would cost and leave."""
    whole, budget, cost = part is None, terms.budget, cost_of(run, terms.order)
    after = before.after(cost, whole=whole)
    fits, says = not closed and covers(budget, after), ""
    if closed:
        says = "The account is closed."
    elif not math.isfinite(cost):
        why = no_cost(run, terms.order)
        says = why[:1].upper() + why[1:]
    elif not fits:
        says = _hint(run, before, terms, whole)
    left = before.left(budget)
    return Forecast(cost / budget, before.room(budget), left, after.left(budget) if fits else left, fits, says)


def check(run: Run | Runs, part: Part | None, terms: Terms) -> None:
    """Raise unless the run is on these records."""
    if not isinstance(run, (Run, Runs)):
        raise InputError(f"expected a run, got {type(run).__name__}.")
    if run.adjacency != terms.adjacency:
        raise InputError(f"the run has adjacency {run.adjacency}, the account {terms.adjacency}: they must agree.")
    if (run.unit == "row") != (terms.unit == "row"):
        raise InputError(
            f"a record of the run is a {run.unit}, of the account a {terms.unit}: what one costs says nothing of the other. Name "
            "an account of these records; to train for persons, give groups= or --person."
        )
    if run.n > terms.n:
        raise InputError(f"the run has n {run.n:,}, and the account {terms.n:,} records in all: name the account of these records.")
    if part is None:
        return
    if terms.adjacency != "add-remove":
        raise InputError(
            f"part is for add-remove, and the account is kept under {terms.adjacency}: there a record may move from one part to "
            "another, and no bound on a run says what that costs. Leave part out: the run then counts as one on all records."
        )


def refusal(name: str, run: Run | Runs, part: Part | None, cost: float, before: Sums, terms: Terms, *, done: int = 0) -> str:
    """What is left, and what would fit; ``run`` is what comes after ``done`` steps."""
    whole = part is None
    room = before.room(terms.budget)
    where = "" if part is None else f" for part {part.part!r} of {part.partition!r}"
    what = f"the run, from step {done + 1:,} on," if done else "the run"
    said = f"{what} costs {cost / terms.budget:.3g} of the budget of {name!r}, and {room:.3g} of it is left{where}"
    hint = _hint(run, before, terms, whole, own=bool(done))
    return f"{said}: nothing was reserved.{' ' if hint else ''}{hint}"


def _hint(run: Run | Runs, before: Sums, terms: Terms, whole: bool, *, own: bool = False) -> str:
    def fits(cost: float) -> bool:
        return covers(terms.budget, before.after(cost, whole=whole))

    return what_fits(run, terms.order, fits, own=own) if isinstance(run, Run) else ""
