"""Whether a second accountant, in ball arithmetic, confirms what entries say: costs of runs, and budgets. Needs ``verify``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dplateau.certificate.proof import candidates
from dplateau.filter import ROOM, SHARE, costs_of
from dplateau.ledger.book import Terms, part_of
from dplateau.ledger.continued import continued
from dplateau.ledger.entry import Entry
from dplateau.ledger.grant import check
from dplateau.spec import Run, Runs, Selection
from dplateau.spec.missing import explained
from dplateau.spec.runs import runs_of
from dplateau.spec.selection import run_from_dict
from dplateau.verifier.outcome import Checked, Outcome, Part


def unproved(entries: Iterable[Entry]) -> Iterator[str]:
    """What is not confirmed, in sentences: of a budget, or of a cost.

    A run costs at most what its entry says, and everything that costs a budget together has its epsilon and delta. Equal runs are
    looked at once. Costs are computed anew, by other code, from the run's exact numbers; sums are what ``verify`` looks at.
    """
    accounts: dict[str, Terms] = {}
    known: dict[tuple[str, float | None, float], Checked] = {}
    for entry in entries:
        try:
            if entry.kind == "opened":
                terms = accounts[entry.account] = Terms(**entry.data)
                found, what = _budget(terms), "its budget"
            elif entry.kind == "reserved":
                run, _ = continued(run_from_dict(entry.data.get("run")), entry.data.get("done", 0))
                terms = accounts[entry.account]
                check(run, part_of(entry), terms)
                order, cost = terms.order, entry.cost or 0.0
                key = run.digest, order, cost
                if key not in known:
                    known[key] = checked_cost(run, order, cost)
                found, what = known[key], "the cost of its run"
            else:
                continue
        except (ValueError, TypeError, KeyError):
            yield f"entry {entry.number} says nothing that could be proved."
            continue
        if found.outcome is not Outcome.VERIFIED:
            yield f"entry {entry.number}: {what} was not proved: {found.why}."


def _budget(terms: Terms) -> Checked:
    with explained():
        from dplateau.verifier.divergence import check_budget
    return check_budget(terms.order, terms.budget, terms.epsilon, terms.delta)


def checked_cost(run: Run | Runs, order: float | None, cost: float) -> Checked:
    """Whether a run costs at most so much, but for the room that sums have: a Renyi divergence, or squared mu without an order."""
    with explained():
        from dplateau.verifier.divergence import check_cost
        from dplateau.verifier.selection import check_selection_cost
    cost *= 1 + ROOM / 2  # Sums are multiplied by 1 + ROOM before a budget has to cover them.
    if isinstance(run, Selection) and order is not None:
        found = check_selection_cost(candidates(run, SHARE), run.probability, order, cost)
        if found.outcome is Outcome.VERIFIED:
            return found
    return check_cost([_cheapest(one, order) for one in runs_of(run)], order, cost)


def _cheapest(run: Run, order: float | None) -> Part:
    """A run with the bound by which it costs least."""
    costs = costs_of(run, order)
    return Part(run, min(costs, key=costs.__getitem__))
