"""Exact composition is not a filter: where the next run is chosen by what earlier ones released, it may say too little.

Claim (nobody's theorem, a common mistake): stop before the exact composition of the runs *that took place* exceeds epsilon.
True: fixed in advance, every branch meets (epsilon, delta), and the choice between branches does not. Proof of what holds instead:
``docs/proofs/filter.md``.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np

import dplateau as dp
from dplateau.accounting import compositions
from dplateau.accounting.gaussian import log_gdp_delta

Law = list[tuple[Fraction, Fraction]]
"""Likelihood ratios P/Q, and their probabilities under P."""


def randomised_response(odds: Fraction, count: int = 1) -> Law:
    p = odds / (1 + odds)
    return [(odds ** (count - 2 * j), comb(count, j) * p ** (count - j) * (1 - p) ** j) for j in range(count + 1)]


def delta(law: Law, y: Fraction) -> Fraction:
    """The profile at ``epsilon = log y``."""
    return sum((p * max(1 - y / ratio, Fraction(0)) for ratio, p in law), Fraction(0))


def test_randomised_response_in_exact_arithmetic() -> None:
    """One answer, then either one loud answer or four quieter ones, as the first came out."""
    first, loud, quiet = (
        randomised_response(Fraction(5, 4)),
        randomised_response(Fraction(8)),
        randomised_response(Fraction(9, 4), 4),
    )
    y = Fraction(13, 2)
    fixed = [sum(p * delta(second, y / ratio) for ratio, p in first) for second in (loud, quiet)]
    chosen = sum(p * max(delta(loud, y / ratio), delta(quiet, y / ratio)) for ratio, p in first)
    assert fixed[0] == Fraction(14, 81)
    assert fixed[1] < fixed[0]
    assert chosen > Fraction(7, 5) * fixed[0]


def test_runs_of_the_library() -> None:
    """A step on all records, then either another one or a step on a rare record with little noise: delta almost doubles."""
    n, goal = 100_000, 5e-6
    first = dp.Run(n=n, sampling=dp.FullBatch(), steps=1, noise_multiplier=2.0)
    epsilon = 1.3 * dp.account(first, goal).epsilon

    full = dp.Run(n=n, sampling=dp.FullBatch(), steps=1, noise_multiplier=2.581)
    rare = dp.Run(n=n, sampling=dp.Poisson(1), steps=1, noise_multiplier=0.18278)
    for second in (full, rare):
        assert 0.999 * epsilon < dp.account(dp.compose(first, second), goal).epsilon <= epsilon
    law, mu = compositions(rare)[0][0].terms[0].law, 1 / 2.0
    x = np.linspace(-12, 12, 200_001)
    loss, p = mu * x + mu**2 / 2, np.exp(-(x**2) / 2) * (x[1] - x[0]) / math.sqrt(2 * math.pi)
    deltas = [np.exp(law.log_delta(epsilon - loss)), np.exp(log_gdp_delta(1 / full.noise_multiplier, epsilon - loss))]
    for each in deltas:  # Fixed in advance each of them meets the goal, exactly.
        assert 0.99 * goal < float(p @ each) <= goal
    assert float(p @ np.maximum(*deltas)) > 1.9 * goal
    # The filter does not let the rare one through.
    budget = dp.Filter(n=n, epsilon=epsilon, delta=goal)
    budget.spend(first)
    assert not budget.allows(rare)
