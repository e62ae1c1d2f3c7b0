"""delta(epsilon) of every kind of guarantee is the inverse of its epsilon(delta)."""

from __future__ import annotations

import math

import mpmath as mp
import pytest

import dplateau as dp
from dplateau.accounting import ExactComposition
from dplateau.accounting.privacy_loss import PoissonRemove
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses import ANALYSES, ExactCompositionBound, RenyiCompositionBound

RUNS = {
    "contour": dp.Run(n=10_000, sampling=dp.Poisson(100), steps=1000, noise_multiplier=1.0),
    "fixed size": dp.Run(n=10_000, sampling=dp.FixedSize(100), steps=1000, noise_multiplier=2.0, adjacency="replace"),
    "one step": dp.Run(n=10_000, sampling=dp.Poisson(500), steps=1, noise_multiplier=1.0),
    "lattice": dp.Run(n=1000, sampling=dp.Poisson(10), steps=3, noise_multiplier=0.5),
    "full batch": dp.Run(n=10_000, sampling=dp.FullBatch(), steps=20, noise_multiplier=8.0),
}


@pytest.mark.parametrize("name", RUNS)
def test_the_profile_inverts_epsilon(name: str) -> None:
    guarantee = ExactCompositionBound().guarantee(RUNS[name])
    epsilon = guarantee.epsilon(1e-5)
    delta = guarantee.delta((epsilon.lower + epsilon.upper) / 2)
    assert delta.lower <= 1e-5 * (1 + 1e-4)
    assert delta.upper >= 1e-5 * (1 - 1e-4)
    assert delta.upper == pytest.approx(1e-5, rel=1e-4)
    assert guarantee.delta(epsilon.upper + 1e-3).upper < 1e-5 < guarantee.delta(epsilon.lower - 1e-3).lower


def test_the_renyi_profile_inverts_its_epsilon() -> None:
    guarantee = RenyiCompositionBound().guarantee(RUNS["contour"])
    epsilon = guarantee.epsilon(1e-5).upper
    assert guarantee.delta(epsilon).upper == pytest.approx(1e-5, rel=1e-2)


CONVEX = {
    "n": 1000,
    "noise_multiplier": 12.0,
    "step_size": 0.5,
    "smoothness": 1.0,
    "strong_convexity": 0.1,
    "l2": 0.1,
    "diameter": 2.0,
    "adjacency": "replace",
    "released": "last",
}
COVERED = [
    RUNS["contour"],
    dp.Run(sampling=dp.FullBatch(), steps=200, **CONVEX),
    dp.Run(sampling=dp.Cyclic(100), steps=2000, **CONVEX),
    dp.Run(sampling=dp.Shuffled(100), steps=200, **CONVEX),
    dp.Run(sampling=dp.OnePass(100), steps=10, **CONVEX),
    dp.Run(sampling=dp.FixedSize(100), steps=2000, **CONVEX),
    dp.Run(sampling=dp.Poisson(100), steps=2000, **CONVEX),
    dp.Run(sampling=dp.FixedSize(100), steps=400, **CONVEX | {"step_size": [0.5 - t / 1000 for t in range(400)]}),
    dp.Run(sampling=dp.Cyclic(100), steps=20_000, **CONVEX | {"step_size": 1.0, "diameter": 0.1}),
    dp.Run(sampling=dp.FullBatch(), steps=20_000, **CONVEX | {"step_size": 1.0, "diameter": 0.1}),
    dp.Run(n=10_000, sampling=dp.Poisson(10), steps=5000, noise_multiplier=40.0),
]


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_profiles_fall_and_invert_epsilon(analysis) -> None:
    covered = [run for run in COVERED if analysis.why_not(run) is None and analysis.guarantee(run).why_not(1e-4) is None]
    assert covered, "no run here is covered by this analysis"
    for run in covered[:2]:
        guarantee = analysis.guarantee(run)
        epsilon = guarantee.epsilon(1e-4).upper
        values = [guarantee.delta(epsilon * factor).upper for factor in (0.5, 1.0, 1.5)]
        assert values == sorted(values, reverse=True)
        assert all(0 <= value <= 1 for value in values)
        assert values[1] == pytest.approx(1e-4, rel=0.05)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
def test_whatever_dominates_an_analysis_covers_its_runs_and_is_no_worse(analysis) -> None:
    better = next((other for other in ANALYSES if other.name == analysis.dominated_by), None)
    for run in COVERED if better else []:
        if analysis.why_not(run) is None:
            assert better.guarantee(run).epsilon(1e-5).upper <= analysis.guarantee(run).epsilon(1e-5).upper * (1 + 1e-3)


def test_the_gaussian_profile_is_the_formula() -> None:
    guarantee = ExactCompositionBound().guarantee(RUNS["full batch"])
    mu, epsilon = math.sqrt(20) / 8, 1.5
    phi = lambda x: math.erfc(-x / math.sqrt(2)) / 2  # noqa: E731
    formula = phi(mu / 2 - epsilon / mu) - math.exp(epsilon) * phi(-mu / 2 - epsilon / mu)
    assert guarantee.delta(epsilon).lower <= formula * (1 + 1e-11)
    assert guarantee.delta(epsilon).upper == pytest.approx(formula, rel=1e-10)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_profile_that_overflows_is_trivial_and_no_error(adjacency) -> None:
    run = dp.Run(n=100, sampling=dp.Poisson(10), steps=1, noise_multiplier=1e-3, adjacency=adjacency)
    found = ExactCompositionBound().guarantee(run).delta(1.0)
    assert 0 <= found.lower <= found.upper <= 1
    assert found.upper >= 0.05


def test_what_sampling_never_exceeds_is_rounded_up_for_any_mu() -> None:
    """A record that is nearly always drawn: the two runs differ by no less than a Gaussian does, but for that share."""
    q, mu = 1 - 2.0**-53, 757613.4051751833 * math.sqrt(2)
    composition = Composition((Repeated(PoissonRemove(q, mu / math.sqrt(2)), 2),))
    epsilon = mu * mu / 2 + 17.0 * mu
    with mp.workdps(60):
        x = mp.mpf(epsilon) / mp.mpf(mu) - mp.mpf(mu) / 2
        y = x + mp.mpf(mu)
        least = mp.mpf(q) ** 2 * (mp.ncdf(-x) - mp.npdf(x) * (1 / y - 1 / y**3 + 3 / y**5))
        assert ExactComposition((composition,)).delta(epsilon).upper >= least


def test_no_delta_of_a_run_with_noise_is_zero() -> None:
    for sampling in (dp.FullBatch(), dp.Poisson(100)):
        run = dp.Run(n=10_000, sampling=sampling, steps=20, noise_multiplier=8.0)
        assert ExactCompositionBound().guarantee(run).delta(1e4).upper > 0
