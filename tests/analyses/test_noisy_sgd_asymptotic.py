# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import Asymptotic
from dplateau.accounting.privacy_loss import PoissonAdd
from dplateau.accounting.renyi import renyi_divergence
from dplateau.accounting.terms import Composition, Repeated
from dplateau.analyses.noisy_sgd_asymptotic import NoisySGDPlateau, NoisySGDStronglyConvexPlateau, burn_in, greatest_order
from dplateau.analyses.refuted import PrintedNoisySGD, PrintedNoisySGDSchedule, PrintedNoisySGDStronglyConvex


def noisy(**changes: object) -> dp.Run:
    values = {
        "n": 10_000,
        "sampling": dp.FixedSize(100),
        "steps": 100_000,
        "noise_multiplier": 20.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "diameter": 1.0,
        "adjacency": "replace",
        "released": "last",
    }
    return dp.Run(**(values | changes))


def test_by_hand() -> None:
    # sigma = 20/100; T-bar = 1 * 10,000/0.5; 17 L^2/(n^2 sigma^2) T-bar.
    run = noisy()
    assert NoisySGDPlateau().burn_in(run) == 20_000
    assert NoisySGDPlateau().guarantee(run).rho == pytest.approx(17 / (1e8 * 0.04) * 20_000)
    assert NoisySGDPlateau().guarantee(run.replace(steps=500)).rho == pytest.approx(17 / (1e8 * 0.04) * 500)
    assert NoisySGDPlateau().guarantee(run.replace(adjacency="add-remove")).rho == pytest.approx(5 / (1e8 * 0.04) * 20_000)
    assert NoisySGDPlateau().status is Asymptotic


def test_the_constant_follows_from_the_printed_bound() -> None:
    """At every order that is allowed the formula is above what its proof starts from, before constants are dropped."""
    run = noisy()
    most = greatest_order(run)
    assert 2 < most < 1e6
    for order in np.geomspace(1.5, most, 6):
        assert NoisySGDPlateau().guarantee(run).divergence(float(order)) >= PrintedNoisySGD().guarantee(run).divergence(
            float(order)
        )
    strong = run.replace(strong_convexity=0.01)
    for order in np.geomspace(1.5, greatest_order(strong), 6):
        claimed = NoisySGDStronglyConvexPlateau().guarantee(strong).divergence(float(order))
        assert claimed >= PrintedNoisySGDStronglyConvex().guarantee(strong).divergence(float(order))
    assert math.isinf(NoisySGDPlateau().guarantee(run).divergence(1.01 * most))


def test_the_lemma_of_the_sampled_step() -> None:
    """Lemma 2.12 up to the greatest order: S_a <= 2 a q^2/s^2, with s = 20/(2 sqrt(2))."""
    run, s = noisy(), 20 / (2 * math.sqrt(2))
    for order in np.geomspace(1.1, greatest_order(run), 8):
        step = renyi_divergence(Composition((Repeated(PoissonAdd(0.01, 1 / s), 1),)), float(order))
        assert step <= 2 * order * 0.01**2 / s**2


def test_burn_in_of_strongly_convex_losses() -> None:
    run = noisy(strong_convexity=0.01)
    steps = NoisySGDStronglyConvexPlateau().burn_in(run)
    assert steps < NoisySGDPlateau().burn_in(run)
    # It balances the two terms: no other look-back is better by more than rounding to whole steps.
    look, c, far = np.arange(1.0, 20_000), 1 - 0.005, 2.0
    cost = (16 * look / 1e8 + c ** (2 * look) * far**2) / 0.04
    assert NoisySGDStronglyConvexPlateau().guarantee(run).rho == pytest.approx(float(cost.min()), rel=1e-4)
    more = NoisySGDStronglyConvexPlateau().guarantee(run.replace(steps=10**7)).rho
    assert more == NoisySGDStronglyConvexPlateau().guarantee(run).rho
    assert NoisySGDStronglyConvexPlateau().guarantee(run.replace(noise_multiplier=40.0)).rho == pytest.approx(more / 4)


@pytest.mark.parametrize("analysis", [NoisySGDPlateau(), NoisySGDStronglyConvexPlateau()])
def test_not_applicable(analysis: NoisySGDPlateau | NoisySGDStronglyConvexPlateau) -> None:
    run = noisy(strong_convexity=0.01)
    assert analysis.why_not(run) is None
    for changes, words in (
        ({"noise_multiplier": 11.0}, "not above 8 sqrt(2)"),
        ({"noise_multiplier": 5.0, "adjacency": "add-remove"}, "not above 4 sqrt(2)"),
        ({"diameter": None}, "diameter"),
        ({"noise_multiplier": (20.0, 21.0) * 50_000}, "constant"),
        ({"sampling": dp.Cyclic(100)}, "it is for sampling"),
    ):
        assert words in (analysis.why_not(run.replace(**changes)) or "")


def test_falling_steps() -> None:
    """Example 5.9: min{T, D n T^c/(L eta_1)} up to a constant, at every order above (5.7) as printed."""
    assert "constant" in (
        NoisySGDStronglyConvexPlateau().why_not(noisy(strong_convexity=0.01, step_size=(0.5, 0.4) * 50_000)) or ""
    )
    per_look, rhos = 17 / (1e8 * 0.04), []
    for steps in (10_000, 100_000, 1_000_000):
        run = noisy(steps=steps, step_size=tuple(0.5 * np.arange(1.0, steps + 1) ** -0.25))
        assert NoisySGDPlateau().why_not(run) is None
        rhos.append(NoisySGDPlateau().guarantee(run).rho)
        assert rhos[-1] == pytest.approx(per_look * min(steps, 20_000 * steps**0.25), rel=1e-4)
        for order in np.geomspace(1.5, greatest_order(noisy()), 6):
            printed = PrintedNoisySGDSchedule().guarantee(run).divergence(float(order))
            assert NoisySGDPlateau().guarantee(run).divergence(float(order)) >= printed
    assert rhos[0] < rhos[1] < rhos[2] < 10 * rhos[1]


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize("sampling", [dp.FixedSize(2000), dp.FixedSize(9000), dp.FixedSize(10_000)])
def test_large_batches_by_hand(sampling: dp.FixedSize, adjacency: str) -> None:
    """Footnote 12: a record in every batch, with any noise and at any order; both forms balance their two terms."""
    size, moved = sampling.batch_size, 2.0 if adjacency == "replace" else 1.0
    run = noisy(sampling=sampling, noise_multiplier=0.5, adjacency=adjacency)
    sigma = 0.5 / size
    assert NoisySGDPlateau().why_not(run) is None
    assert NoisySGDPlateau().guarantee(run).rho == pytest.approx((moved**2 / size**2 + 1e-8) / sigma**2 * 20_000)
    assert NoisySGDPlateau().guarantee(run).divergence(1e7) < math.inf
    strong = noisy(sampling=sampling, noise_multiplier=0.5, adjacency=adjacency, strong_convexity=0.01)
    look, c = np.arange(1.0, 20_000), 1 - 0.005
    cost = (moved**2 * look / size**2 + c ** (2 * look) * 2.0**2) / sigma**2
    assert NoisySGDStronglyConvexPlateau().guarantee(strong).rho == pytest.approx(float(cost.min()), rel=1e-2)


def test_large_full_batches_are_above_what_is_proved() -> None:
    """At a rate of one, nothing is drawn: the formula is a bound, and the exact one of fixed order is below it."""
    settings = {"sampling": dp.FixedSize(1000), "n": 1000, "noise_multiplier": 40.0, "step_size": 0.5, "adjacency": "add-remove"}
    for steps in (10, 1000, 100_000):
        run = noisy(steps=steps, **settings)
        exact = dp.account(run.replace(sampling=dp.FullBatch()), delta=1e-6).epsilon
        assert exact <= NoisySGDPlateau().guarantee(run).epsilon(1e-6).upper


def test_the_burn_in_of_a_run_whatever_its_batches():
    settings = {"n": 1000, "steps": 10, "noise_multiplier": 3.0, "step_size": 0.5, "smoothness": 1.0, "strong_convexity": 0.0}
    for sampling in (dp.Cyclic(10), dp.Shuffled(10), dp.Poisson(10), dp.FullBatch()):
        run = dp.Run(sampling=sampling, diameter=2.0, released="last", **settings)
        assert burn_in(run) == 4000  # D n / (L eta)
        curved = burn_in(run.replace(strong_convexity=0.1))
        assert 20 < curved < 1000
        assert curved < burn_in(run.replace(strong_convexity=0.01)) < 4000
    assert burn_in(run.replace(diameter=None)) is None
    assert burn_in(run.replace(released="all")) is None
    assert burn_in(run.replace(step_size=[0.5] * 10)) is None
