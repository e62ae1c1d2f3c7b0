"""Altschuler, Talwar 2022, (B.2), (B.3), (5.7): printed with the smaller direction of the sampled step.

Printed: ``T S_a`` with ``S_a = D_a(N || mixture)``, whose privacy loss never exceeds log(1/(1 - q)) a step. True: a record whose
gradient turns round moves the mean by up to two gradient norms the other way, and that loss is not bounded.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

import dplateau as dp
from dplateau.accounting import Refuted
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDBound, NoisySGDScheduleBound, NoisySGDStronglyConvexBound
from dplateau.analyses.base import Analysis
from dplateau.analyses.refuted import PrintedNoisySGD, PrintedNoisySGDSchedule, PrintedNoisySGDStronglyConvex

PAIRS = [
    (PrintedNoisySGD(), NoisySGDBound()),
    (PrintedNoisySGDStronglyConvex(), NoisySGDStronglyConvexBound()),
    (PrintedNoisySGDSchedule(), NoisySGDScheduleBound()),
]


def one_step(q: float, z: float, adjacency: str) -> dp.Run:
    """One noisy step on a wide set; losses v x + x^2/20000, v = -1 or 1 for the record and 0 for all others, from x = 0."""
    return dp.Run(
        n=1000,
        sampling=dp.Poisson(1000 * q),
        steps=1,
        noise_multiplier=z,
        step_size=0.5,
        smoothness=1.0,
        strong_convexity=1e-4,
        diameter=1e6,
        adjacency=adjacency,
        released="last",
    )


def true_delta(q: float, z: float, adjacency: str, epsilon: float) -> float:
    """The exact delta of that step: N(0, z^2) moved by 1 with probability q, against moved by -1 (or never)."""

    def mixture(x: float, centre: float) -> float:
        return float((1 - q) * norm.pdf(x, 0, z) + q * norm.pdf(x, centre, z))

    other = -1.0 if adjacency == "replace" else 0.0
    value, _ = quad(
        lambda x: max(mixture(x, 1.0) - math.exp(epsilon) * mixture(x, other), 0.0), -20 * z, 20 * z, limit=800, epsabs=1e-14
    )
    return value


@pytest.mark.parametrize(("printed", "repaired"), PAIRS, ids=lambda analysis: analysis.name)
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(("q", "z"), [(0.5, 1.0), (0.1, 1.0), (0.01, 0.7)])
def test_one_step(printed: Analysis, repaired: Analysis, adjacency: str, q: float, z: float) -> None:
    run = one_step(q, z, adjacency)
    if isinstance(printed, PrintedNoisySGDSchedule):
        run = run.replace(step_size=(0.5,))
    assert printed.why_not(run) is None
    assert printed.status is Refuted
    claimed = printed.guarantee(run).epsilon(1e-5).upper
    assert claimed <= -1.2 * math.log1p(-q)
    assert true_delta(q, z, adjacency, claimed) > 10 * 1e-5
    # Noise that only just hides the record is far from what the printed bound says: the repair holds.
    enough = repaired.guarantee(run).epsilon(1e-5).upper
    assert true_delta(q, z, adjacency, enough) <= 1e-5
    assert enough > 3 * claimed


@pytest.mark.parametrize(("order", "truth", "printed"), [(8, 9.97e-3, 9.24e-3), (32, 4.15e-2, 2.59e-2)])
def test_divergence_of_one_step(order: int, truth: float, printed: float) -> None:
    run = one_step(0.1, 4.0, "replace")
    assert PrintedNoisySGD().guarantee(run).divergence(order) == pytest.approx(printed, rel=0.01)
    assert NoisySGDBound().guarantee(run).divergence(order) == pytest.approx(truth, rel=0.01)
