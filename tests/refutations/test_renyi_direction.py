"""Altschuler, Talwar 2022, Definition 2.10, takes the smaller direction of the Renyi divergence.

One step, replace, gradients of norm 1, noise s: printed is D(N(0, s^2) || (1 - q) N(0, s^2) + q N(2, s^2)). The truth, for a record
whose gradient turns round, is the divergence of the mixtures with centres 1 and -1, and it is larger.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

from dplateau.accounting.privacy_loss import PoissonAdd, PoissonReplace, StepLaw
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.terms import Composition, Repeated


def quadrature(order: float, q: float, noise: float, centre: float, other: float) -> float:
    """The Renyi divergence of the mixtures with the given centres, from its definition."""

    def log_mixture(x: float, at: float) -> float:
        return float(norm.logpdf(x)) + math.log1p(q * math.expm1(at * x / noise - at**2 / noise**2 / 2))

    def integrand(x: float) -> float:
        return math.exp(order * log_mixture(x, centre) + (1 - order) * log_mixture(x, other))

    reach = 15 + 2 * order / noise
    value, _ = quad(integrand, -reach, reach, points=[0.0, order / noise, 2 * order / noise], limit=600, epsabs=0, epsrel=1e-11)
    return math.log(value) / (order - 1)


# Rate, noise in gradient norms, order, the truth, the printed bound.
CASES = [(0.1, 4.0, 8, 9.97e-3, 9.24e-3), (0.1, 4.0, 32, 4.15e-2, 2.59e-2), (0.5, 1.0, 8, 3.90, 0.57)]


@pytest.mark.parametrize(("q", "noise", "order", "truth", "printed"), CASES)
def test_the_printed_bound_is_below_the_truth(q: float, noise: float, order: int, truth: float, printed: float) -> None:
    def divergence(law: StepLaw) -> float:
        return renyi_divergence(Composition((Repeated(law, 1),)), order)

    claimed, true = divergence(PoissonAdd(q, 2 / noise)), divergence(PoissonReplace(q, 1 / noise))
    assert claimed == pytest.approx(quadrature(order, q, noise, 0, 2), rel=1e-7)
    assert true == pytest.approx(quadrature(order, q, noise, 1, -1), rel=1e-7)
    assert claimed < true
    assert claimed == pytest.approx(printed, rel=0.01)
    assert true == pytest.approx(truth, rel=0.01)
    # The other direction of the printed pair is large enough.
    assert quadrature(order, q, noise, 2, 0) > true
