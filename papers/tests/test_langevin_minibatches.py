"""Ryffel, Bach, Pointcheval 2022, Theorem 4.2 with minibatches: Lemma 3.3 moves the expectation over the batch into the divergence.

Losses ``theta^2 / 2 + a theta`` on [-2, 2] with |a| <= 3 for the record and a = 0 for the others: Lipschitz constant L = 5, strong
convexity and smoothness 1, step size 1/2, 30 steps, delta = 1e-5, neighbours with a = 3 and a = -3. A batch of m out of n holds the
record with probability m/n and then pulls n/m times harder than the average of all records would.
"""

# pyright: basic, reportArgumentType=false
from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp
from scipy.stats import norm

from dplateau.accounting import gdp_delta, gdp_epsilon
from dplateau_papers.p4.settings import DELTA, HALVED, HALVINGS, halved_laws, printed_variance


def variance(n: int, epsilon: float) -> float:
    return printed_variance(n, epsilon, HALVED.lipschitz)


# n, m, the claimed epsilon, the exact epsilon at delta = 1e-5, the exact delta at the claimed epsilon.
MINIBATCHES = [
    (1000, 10, 1.0, 2.7708, 2.4528e-4),
    (1000, 10, 4.0, 60.462, 1.2033e-2),
    (10_000, 100, 1.0, 2.7708, 2.4528e-4),
    (300, 1, 1.0, 21.909, 3.7752e-3),
]


@pytest.mark.parametrize(("n", "m", "claimed", "epsilon", "delta"), MINIBATCHES)
def test_minibatches_cost_more_than_claimed(n, m, claimed, epsilon, delta):
    laws = halved_laws(n, m, claimed)
    assert laws.epsilon(DELTA) == pytest.approx(epsilon, rel=5e-5)
    assert laws.delta(claimed) == pytest.approx(delta, rel=5e-5)
    assert laws.epsilon(DELTA) > 2 * claimed
    assert laws.delta(claimed) > 20 * DELTA
    # The paper starts from a Gaussian; where a run of 30 halvings starts makes no difference.
    assert halved_laws(n, m, claimed, start=math.sqrt(2 * variance(n, claimed))).epsilon(DELTA) == pytest.approx(epsilon, rel=5e-5)


def test_full_batch_holds():
    """Two Gaussians: the gap of the means is a sum of halves, and so is the variance."""
    n = 1000
    laws = halved_laws(n, n, 1.0)
    gap = HALVINGS * 6 / n * 2
    mu = gap / math.sqrt(2 * HALVINGS * variance(n, 1.0) / (1 - 0.25))
    assert laws.epsilon(DELTA) == pytest.approx(gdp_epsilon(mu, DELTA), rel=1e-6)
    assert laws.epsilon(DELTA) == pytest.approx(0.24888, rel=1e-4)
    assert laws.delta(1.0) == pytest.approx(gdp_delta(mu, 1.0), rel=1e-4)
    assert 0 < laws.delta(1.0) < 1e-40


@pytest.mark.parametrize(("n", "m", "claimed", "epsilon"), [row[:4] for row in MINIBATCHES[:3]])
def test_without_the_oracle(n, m, claimed, epsilon):
    """The same from the coins of the last 14 steps, which is all that 30 halvings leave, by a test whose errors are in closed form.

    The walls are many deviations away there (not so in the last row, where batches of one record reach them).
    """
    last, q = 14, m / n
    deviation = math.sqrt(2 * HALVINGS * variance(n, claimed) / (1 - 0.25))
    coins = np.array(list(product((0, 1), repeat=last)))
    weights = coins.sum(axis=1) * math.log(q) + (last - coins.sum(axis=1)) * math.log1p(-q)
    means = coins @ (HALVINGS * 3 / m * 0.5 ** np.arange(last))
    found = []
    for x in np.linspace(norm.ppf(1 - 100 * DELTA), 60, 800) * deviation:
        hit, false = (logsumexp(weights + log_ndtr((sign * means - x) / deviation)) for sign in (1, -1))
        if hit > math.log(DELTA):
            found.append(hit + math.log1p(-DELTA * math.exp(-hit)) - false)
    assert max(found) == pytest.approx(epsilon, rel=2e-3)
    assert max(found) > 2 * claimed
