"""``Filter``: runs that are chosen on the way, until a budget is spent."""

from __future__ import annotations

import math
import warnings
from threading import Lock
from typing import Final

from dplateau._account import checked_delta, leading_analyses
from dplateau.accounting import Bound, Guarantee, gdp_mu
from dplateau.accounting.gaussian import ULP
from dplateau.accounting.renyi import convert
from dplateau.accounting.roots import minimum
from dplateau.analyses.composed import composed
from dplateau.analyses.private_selection import best_of_candidates
from dplateau.spec import InputError, Run, Runs, Selection, UncertifiedError
from dplateau.spec.arguments import integer, one_of, real
from dplateau.spec.names import ADJACENCIES, NOTIONS, UNITS
from dplateau.spec.runs import runs_of

ROOM: Final = 1e-9
"""Relative room for rounding in the budget."""
LARGEST: Final = 1e300
"""Epsilon of a budget: beyond it, squares are no numbers."""
SHARE: Final = 1e-6
"""The delta at which the bounds of candidates are compared."""
_ONE_AT_A_TIME: Final = Lock()
"""Threads spend one after the other; a lock of its own would keep a filter from being copied or pickled."""


class Filter:
    """A budget for runs on the same records that are chosen on the way: which run comes next, and whether there is one, may depend
    on everything that was released before. **Proved** (``docs/proofs/filter.md``).

    Exact composition is for runs that are fixed in advance; it is not known to hold for a filter. These two privacy notions are:

    - ``"renyi"``: the Renyi divergences of all runs at one order, fixed in advance, stay within what (epsilon, delta) allows at it;
    - ``"gaussian"``: the squared mu of all runs stay within the squared mu that (epsilon, delta) allows. Only runs with a GDP bound
      are admitted: batches in a fixed order, or full ones. For these it costs nothing against exact composition.

    Parameters
    ----------
    n : int
        Number of records. Public.
    epsilon, delta : float
        What all runs together must satisfy, however they are chosen.
    adjacency : {"add-remove", "replace"}
        Of all runs.
    notion : {"renyi", "gaussian"}, default "renyi"
        The privacy notion in which the budget is kept.
    unit : {"row", "person"}
        What a record is, in all runs.
    order : float, optional
        Of the Renyi divergence, above 1; by default the best one for Gaussian noise that just meets epsilon and delta.
    currency : str, optional
        The old name of ``notion``. Warns.

    Raises
    ------
    InputError
        An argument is out of range.

    Examples
    --------
    >>> import dplateau as dp
    >>> budget = dp.Filter(n=60_000, epsilon=2.0, delta=1e-5)
    >>> run = dp.Run(n=60_000, sampling=dp.Poisson(batch_size=256), steps=1000, noise_multiplier=1.0)
    >>> budget.spend(run)
    >>> round(budget.left, 3)
    0.836
    """

    def __init__(
        self,
        *,
        n: int,
        epsilon: float,
        delta: float,
        adjacency: str = "add-remove",
        notion: str = "renyi",
        order: float | None = None,
        unit: str = "row",
        currency: str | None = None,
    ) -> None:
        if currency is not None:
            warnings.warn("dplateau.Filter: currency is notion now.", DeprecationWarning, stacklevel=2)
            notion = currency
        self.n = integer("n", n)
        self.epsilon, self.delta = real("epsilon", epsilon), checked_delta(delta, self.n)
        if self.epsilon > LARGEST:
            raise InputError(f"epsilon is {self.epsilon:g}: expected at most {LARGEST:g}.")
        for name, value, allowed in (("adjacency", adjacency, ADJACENCIES), ("notion", notion, NOTIONS), ("unit", unit, UNITS)):
            one_of(name, value, allowed)
        self.adjacency, self.notion, self.unit = adjacency, notion, unit
        mu = gdp_mu(self.epsilon, self.delta)
        if notion == "gaussian":
            if order is not None:
                raise InputError('order is for notion="renyi": leave it out.')
            self.order = None
            self.budget = (mu * (1 - ROOM)) ** 2
        else:
            self.order = _best_order(mu, self.delta) if order is None else real("order", order, low=1.0)
            self.budget = _divergence_within(self.epsilon, self.delta, self.order)
        if self.budget <= 0:
            small = "epsilon" if self.order is None else f"order {self.order:g}"
            raise InputError(f"{small} leaves no budget at epsilon {self.epsilon:g} and delta {self.delta:g}: raise it.")
        self._runs: list[tuple[Run, float]] = []

    def __repr__(self) -> str:
        return f"<Filter: {self.left:.1%} left of epsilon {self.epsilon:g} at delta {self.delta:g}, {len(self._runs)} runs>"

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that were admitted, in their order."""
        return tuple(run for run, _ in self._runs)

    @property
    def spent(self) -> float:
        """What the admitted runs cost, in units of ``budget``: a Renyi divergence or a squared mu."""
        return math.fsum(cost for _, cost in self._runs) * (1 + ROOM)

    @property
    def left(self) -> float:
        """The share of the budget that is left, from 1 to 0."""
        return max(1 - self.spent / self.budget, 0.0)

    def cost(self, run: Run) -> float:
        """What a run would cost, by the least of its proved bounds, in units of ``budget``; infinite where none can be used.

        Raises
        ------
        InputError
            The run is on another number of records, or of other ones, or under another adjacency.
        """
        if not isinstance(run, Run):
            raise InputError(f"expected a run, got {type(run).__name__}.")
        for name in ("n", "adjacency", "unit"):
            if getattr(run, name) != getattr(self, name):
                raise InputError(f"the run has {name} {getattr(run, name)}, the filter {getattr(self, name)}: they must agree.")
        return cost_of(run, self.order)

    def allows(self, run: Run) -> bool:
        """Whether the budget covers one more run. The answer may be used for the choice of the next one."""
        return self._covers(self.cost(run))

    def _covers(self, cost: float) -> bool:
        return math.fsum([*(paid for _, paid in self._runs), cost]) * (1 + ROOM) <= self.budget

    def spend(self, run: Run) -> None:
        """Take a run out of the budget. Call it before the run draws its first noise.

        Raises
        ------
        UncertifiedError
            The budget does not cover it. Nothing is spent.
        """
        cost = self.cost(run)
        with _ONE_AT_A_TIME:
            if self._covers(cost):
                self._runs.append((run, cost))
                return
        if math.isinf(cost):
            raise UncertifiedError(no_cost(run, self.order))
        raise UncertifiedError(
            f"the run costs {cost / self.budget:.3g} of the budget, and {self.left:.3g} of it is left: nothing was spent."
        )


def cost_of(run: Run | Runs, order: float | None) -> float:
    """The least that a proved bound says a run costs; of several, fixed in advance, of them together or one by one.

    Parameters
    ----------
    run : Run or Runs
        What is to be paid for.
    order : float or None
        Of the Renyi divergence; None for squared mu.

    Returns
    -------
    float
        A Renyi divergence or a squared mu; infinite where no bound has one.
    """
    if isinstance(run, Run):
        return min(costs_of(run, order).values(), default=math.inf)
    if isinstance(run, Selection) and isinstance(best := best_of_candidates(run, leading_analyses(), SHARE), Bound):
        return min(_read(best.guarantee, order), cost_of(Runs(run.runs), order))
    # A sum of the larger directions may exceed the larger of the sums by direction, which one composition has.
    each = math.fsum(cost_of(one, order) for one in run.runs) * (1 + ROOM)
    bounds = [bound for analysis in leading_analyses() if isinstance(bound := composed(analysis, run), Bound)]
    return min([each, *(_read(bound.guarantee, order) for bound in bounds)])


def costs_of(run: Run, order: float | None) -> dict[str, float]:
    """The bounds that cover a run, by their names, and what each says it costs."""
    return {one.name: _read(one.guarantee(run), order) for one in leading_analyses() if one.why_not(run) is None}


def no_cost(run: Run | Runs, order: float | None) -> str:
    """Why a run with an infinite cost cannot be paid for, and what to do."""
    what = "a GDP bound" if order is None else f"a finite Renyi divergence of order {order:.4g}"
    allocated = any(one.sampling.allocated for one in runs_of(run))
    other = "draw Poisson batches instead" if allocated else 'use notion="renyi", or raise the noise'
    return f"no proved bound gives the run {what}: {other}."


def _read(guarantee: Guarantee, order: float | None) -> float:
    if order is not None:
        return guarantee.divergence(order)
    return math.inf if guarantee.mu is None else guarantee.mu**2


def _divergence_within(epsilon: float, delta: float, order: float) -> float:
    """The divergence of one order that has (epsilon, delta), rounded down: what the conversion adds may nearly be epsilon."""
    added = convert(order, 0.0, delta, classical=False)
    terms = epsilon - math.log1p(-1 / order) + (1 - math.log(delta) + math.log(order)) / (order - 1)
    return (epsilon - added) * (1 - ROOM) - 8 * ULP * terms


def _best_order(mu: float, delta: float) -> float:
    """The order at which mu-GDP has the least epsilon."""
    x, _ = minimum(lambda x: convert(1 + math.exp(x), (1 + math.exp(x)) * mu**2 / 2, delta, classical=False), -5.0, 12.0, xtol=1e-3)
    return 1 + math.exp(x)
