"""delta(epsilon) of every kind of guarantee is the inverse of its epsilon(delta)."""

from __future__ import annotations

import math

import pytest

import dplateau as dp
from dplateau.analyses import ANALYSES, ExactCompositionAnalysis, RenyiComposition

RUNS = {
    "contour": dp.Run(n=10_000, sampling=dp.Poisson(100), steps=1000, noise_multiplier=1.0),
    "fixed size": dp.Run(n=10_000, sampling=dp.FixedSize(100), steps=1000, noise_multiplier=2.0, adjacency="replace"),
    "one step": dp.Run(n=10_000, sampling=dp.Poisson(500), steps=1, noise_multiplier=1.0),
    "lattice": dp.Run(n=1000, sampling=dp.Poisson(10), steps=3, noise_multiplier=0.5),
    "full batch": dp.Run(n=10_000, sampling=dp.FullBatch(), steps=20, noise_multiplier=8.0),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_profile_inverts_epsilon(name: str) -> None:
    guarantee = ExactCompositionAnalysis().guarantee(RUNS[name])
    epsilon = guarantee.epsilon(1e-5)
    delta = guarantee.delta((epsilon.lower + epsilon.upper) / 2)
    assert delta.lower <= 1e-5 * (1 + 1e-4)
    assert delta.upper >= 1e-5 * (1 - 1e-4)
    assert delta.upper == pytest.approx(1e-5, rel=1e-4)
    assert guarantee.delta(epsilon.upper + 1e-3).upper < 1e-5 < guarantee.delta(epsilon.lower - 1e-3).lower


def test_the_renyi_profile_inverts_its_epsilon() -> None:
    guarantee = RenyiComposition().guarantee(RUNS["contour"])
    epsilon = guarantee.epsilon(1e-5).upper
    assert guarantee.delta(epsilon).upper == pytest.approx(1e-5, rel=1e-2)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_profiles_fall_and_proved_ones_are_ordered(analysis) -> None:
    run = RUNS["contour"]
    guarantee = analysis.guarantee(run)
    values = [guarantee.delta(epsilon).upper for epsilon in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values, reverse=True)
    assert all(0 < value < 1 for value in values)
    exact = ExactCompositionAnalysis().guarantee(run)
    if analysis.status.certifies:
        assert all(exact.delta(e).upper <= value * (1 + 1e-6) for e, value in zip((0.5, 1.0, 2.0, 4.0), values, strict=True))


def test_the_gaussian_profile_is_the_formula() -> None:
    guarantee = ExactCompositionAnalysis().guarantee(RUNS["full batch"])
    mu, epsilon = math.sqrt(20) / 8, 1.5
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    formula = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert guarantee.delta(epsilon).lower <= formula * (1 + 1e-11)
    assert guarantee.delta(epsilon).upper == pytest.approx(formula, rel=1e-10)
