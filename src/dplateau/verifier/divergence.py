"""What runs cost a budget (``docs/proofs/filter.md``): a Renyi divergence of one order, or squared mu.

The divergence of order a = 1 + c is ``log(M(c))/c``, ``M(c) = E exp(c loss)``, of the direction that costs more.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Final

from flint import arb

from dplateau.verifier.balls import exact, gaussian_delta, largest, precision
from dplateau.verifier.check import together
from dplateau.verifier.epoch import Epoch
from dplateau.verifier.laws import Sampled
from dplateau.verifier.outcome import Checked, Outcome, Part, failed
from dplateau.verifier.quadrature import nodes
from dplateau.verifier.statement import Composition, Law, Mixture, Statement

_ERROR: Final = exact(1e-30)
SURELY: Final = 1.0
"""The delta of bounds that leave something to chance; none of them has a cost."""


def _moment(law: Law, c: arb) -> arb:
    """M(c) of one step, or of one epoch."""
    if isinstance(law, Epoch):
        return law.moment(c)
    if not isinstance(law, Sampled):
        raise ValueError("a record replaced under random allocation has no finite Renyi divergence")
    return nodes(law, c, exact(0), _ERROR).moment(c)


def log_moment(said: Statement, c: arb) -> arb:
    """``log M(c)``, the larger one of both directions.

    Raises
    ------
    ValueError
        The statement holds with some probability only, or of a law that has no moments.
    """
    if not said.slack.is_zero():
        raise ValueError("a bound that leaves something to chance has no Renyi divergence")
    known = {law: _moment(law, c) for mixture in said.directions for _, one in mixture for law, _ in one.parts}

    def moment(one: Composition) -> arb:
        found = (c * (c + 1) / 2 * one.square).exp()
        for law, count in one.parts:
            found *= known[law] ** count
        return found

    def mean(mixture: Mixture) -> arb:  # What the weights leave has loss 0.
        return 1 + sum((weight * (moment(one) - 1) for weight, one in mixture), exact(0))

    return largest(*map(mean, said.directions)).log()


def less_one(order: float) -> arb:
    """c of an order."""
    if not order > 1:
        raise ValueError(f"the order is {order:g}: it must be above 1")
    return exact(order) - 1


def divergence(parts: Sequence[Part], order: float) -> arb:
    """The Renyi divergence of runs on the same records together."""
    c = less_one(order)
    return log_moment(together(parts, SURELY), c) / c


def squared_mu(parts: Sequence[Part]) -> arb:
    """The squared mu of runs on the same records together."""
    said = together(parts, SURELY)
    squares = [one.square for mixture in said.directions for _, one in mixture if not one.parts]
    if len(squares) < sum(map(len, said.directions)) or len(squares) > len(said.directions) or not said.slack.is_zero():
        raise ValueError("the bound is not a GDP bound")
    return largest(*squares)


def converted(found: arb, order: float, delta: float) -> arb:
    """The epsilon at ``delta`` that a Renyi divergence gives (``docs/proofs/renyi-composition.md``)."""
    a, c = exact(order), less_one(order)
    return found + (c / a).log() - (a * exact(delta)).log() / c


def decided(found: Callable[[], arb], claimed: float | Fraction, why: str) -> Checked:
    """Whether what is ``found`` is at most what is claimed; ``why`` that is not refuted otherwise."""
    start, verified, upper = time.perf_counter(), False, math.inf
    with precision():
        try:
            ball = found().max(exact(0))
            if not ball.is_finite():
                raise ArithmeticError("it gives no number")
            verified, upper = ball <= exact(claimed), math.nextafter(float(ball.upper()), math.inf)
        except ValueError as error:
            why = str(error)
        except (ArithmeticError, MemoryError) as error:
            why = failed(error)
    seconds = time.perf_counter() - start
    if verified:
        return Checked(Outcome.VERIFIED, None, 0.0, min(upper, float(claimed)), seconds)
    return Checked(Outcome.NOT_DECIDED, why, 0.0, upper, seconds)


def check_cost(parts: Sequence[Part], order: float | None, cost: float | Fraction) -> Checked:
    """Whether runs on the same records cost at most so much together: a divergence, or squared mu where there is no order."""
    return decided(lambda: squared_mu(parts) if order is None else divergence(parts, order), cost, "another bound may give less")


def check_budget(order: float | None, budget: float, epsilon: float, delta: float) -> Checked:
    """Whether everything that costs at most ``budget`` is (epsilon, delta)-private."""
    if order is not None:
        return decided(lambda: converted(exact(budget), order, delta), epsilon, "such costs allow a larger epsilon")
    return decided(lambda: gaussian_delta(exact(budget).sqrt(), exact(epsilon)), delta, "such costs allow a larger delta")
