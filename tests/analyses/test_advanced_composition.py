# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom

import dplateau as dp
from dplateau.accounting.advanced import AdvancedComposition, advanced_composition
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.gaussian import gdp_delta, gdp_epsilon
from dplateau.accounting.mechanism import on_grid
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace
from dplateau.analyses import AdvancedCompositionBound, ExactCompositionBound
from dplateau.analyses import advanced_composition as module

ADVANCED, EXACT = AdvancedCompositionBound(), ExactCompositionBound()


def test_the_printed_formula() -> None:
    e, d, slack = [0.1, 0.5, 0.9], [1e-6, 0.0, 1e-3], 1e-5
    epsilon, delta = advanced_composition(e, d, slack)
    mean = sum(x * (math.exp(x) - 1) / (math.exp(x) + 1) for x in e)
    assert epsilon == pytest.approx(math.sqrt(2 * math.log(1 / slack) * sum(x * x for x in e)) + mean)
    assert delta == pytest.approx(1 - (1 - 1e-6) * (1 - 1e-3) + slack)


def test_rounded_up() -> None:
    rng = np.random.default_rng(3)
    for slack in (1e-6, 0.3, 1 - 2.0**-50):
        for count in (1, 3, 20):
            e, d = rng.random(count), rng.random(count) / 1e6
            epsilon, delta = advanced_composition(e, d, slack)
            with mp.workdps(40):
                mean = sum(x * mp.tanh(x / 2) for x in map(mp.mpf, e))
                assert epsilon >= mp.sqrt(-2 * mp.log(slack) * sum(mp.mpf(x) ** 2 for x in e)) + mean
                assert delta >= min(1 - mp.fprod(1 - mp.mpf(x) for x in d) + mp.mpf(slack), 1)


@pytest.mark.parametrize("e", [1e-170, 1e-310])
def test_squares_of_small_epsilons_are_not_lost(e: float) -> None:
    epsilon, _ = advanced_composition([e] * 4, [0.0] * 4, 1e-5)
    assert epsilon == pytest.approx(2 * e * math.sqrt(2 * math.log(1e5)), rel=1e-9)


@pytest.mark.parametrize("count", [1, 10, 200])
@pytest.mark.parametrize("e", [0.01, 0.5, 1.5, 4.0])
@pytest.mark.parametrize("d", [0.0, 1e-4])
def test_never_below_the_optimal_composition(count: int, e: float, d: float) -> None:
    """Kairouz, Oh, Viswanath: randomised response with a leak is the worst there is, also for e >= 1. A binomial sum."""
    for slack in (1e-2, 1e-6):
        epsilon, delta = advanced_composition([e] * count, [d] * count, slack)
        j = np.arange(count + 1)
        loss, p = (2 * j - count) * e, binom.pmf(j, count, 1 / (1 + math.exp(-e)))
        silent = (1 - d) ** count
        worst = 1 - silent + silent * float(p @ np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0))
        assert worst <= delta


def test_what_is_no_probability() -> None:
    for e, d, slack, says in (
        ([0.1], [0.1, 0.1], 0.1, "advanced composition needs"),
        ([-0.1], [0.1], 0.1, r"epsilons\[0\] is -0.1"),
        ([0.1], [1.1], 0.1, "advanced composition needs"),
        ([0.1], [0.1], 0.0, "slack is 0"),
        ([0.1], [0.1], 1.0, "advanced composition needs"),
        ([math.nan], [0.0], 0.1, r"epsilons\[0\] is nan"),
    ):
        with pytest.raises(dp.InputError, match=says):
            advanced_composition(e, d, slack)
    assert advanced_composition([0.1], [1.0], 0.5)[1] == 1.0


@pytest.mark.parametrize("q", [1e-3, 0.1, 0.7])
@pytest.mark.parametrize("z", [0.4, 1.0, 5.0])
def test_amplification_of_every_law(q: float, z: float) -> None:
    """(log(1 + q (e^e - 1)), q delta_G(e)) of the pairs that exact composition uses, each with the sensitivity that is claimed."""
    for law, shift in ((PoissonRemove, 1), (PoissonAdd, 1), (PoissonReplace, 2), (Amplified, 2)):
        step = law(q, (2 if law is Amplified else 1) / z)
        for e in (0.0, 0.1, 1.0, 3.0, 8.0):
            amplified = math.log1p(q * math.expm1(e))
            delta = math.exp(float(step.log_delta(np.array(amplified))))
            assert delta <= q * gdp_delta(shift / z, e) * (1 + 1e-9)


def test_replace_needs_the_doubled_sensitivity() -> None:
    step = PoissonReplace(0.1, 1.0)
    assert math.exp(float(step.log_delta(np.array(math.log1p(0.1 * math.expm1(0.5)))))) > 1.1 * 0.1 * gdp_delta(1.0, 0.5)


SAMPLINGS: list[Any] = [dp.Poisson(30), dp.FixedSize(30), dp.FixedSize(1000), dp.FullBatch()]


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: f"{one.kind}-{getattr(one, 'batch_size', '')}")
def test_never_below_exact_composition(sampling: dp.Sampling, adjacency: str) -> None:
    random = np.random.default_rng(5)
    for _ in range(3):
        steps, z, delta = int(10 ** random.uniform(0, 3)), 10 ** random.uniform(0.2, 1.5), 10 ** random.uniform(-9, -3.5)
        run = dp.Run(n=1000, sampling=sampling, steps=steps, noise_multiplier=z, adjacency=adjacency)
        found, exact = ADVANCED.guarantee(run), EXACT.guarantee(run)
        epsilon = found.epsilon(delta)
        assert exact.epsilon(delta).lower <= epsilon.upper
        if epsilon.upper < 600:
            back = found.delta(epsilon.upper).upper
            assert delta * 0.9 < back < delta * 1.1
            assert exact.delta(epsilon.upper).lower <= back


def test_one_full_step_costs_little_more_than_it_costs() -> None:
    """Power: with one step that is not sampled the lemma loses its slack term and no more."""
    found = AdvancedComposition(np.ones(1), np.ones(1), np.ones(1))
    alone = gdp_epsilon(1.0, 0.5e-5)
    assert found.epsilon(1e-5).upper < math.sqrt(2 * math.log(2e5)) * alone + alone


def test_sensitivities() -> None:
    wanted = {("poisson", "add-remove"): 1, ("full", "add-remove"): 1, ("fixed-size", "add-remove"): 2}
    for sampling in SAMPLINGS:
        for adjacency in ("add-remove", "replace"):
            run = dp.Run(n=1000, sampling=sampling, steps=3, noise_multiplier=4.0, adjacency=adjacency)
            found = ADVANCED.guarantee(run)
            assert found.gap.tolist() == [wanted.get((sampling.kind, adjacency), 2) / 4]
            assert found.rate.tolist() == [getattr(sampling, "batch_size", 1000) / 1000]


def test_levels_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 200
    run = dp.Run(
        n=1000, sampling=dp.Poisson(np.linspace(5, 50, steps)), steps=steps, noise_multiplier=np.linspace(1, 3, steps)[::-1].copy()
    )
    rounded = ADVANCED.guarantee(run)
    monkeypatch.setattr(module, "_LEVELS", 10_000)
    exact = ADVANCED.guarantee(run)
    assert exact.rate.size == steps
    assert rounded.rate.size < 80
    assert rounded.count.sum() == steps
    assert rounded.rate @ rounded.count >= exact.rate.sum()
    least, found = (one.epsilon(1e-6).upper for one in (exact, rounded))
    assert least <= found * (1 + 1e-4)
    assert found < 1.2 * least
    values = np.geomspace(0.01, 0.7, 300)
    monkeypatch.setattr(module, "_LEVELS", 32)
    assert (on_grid(values, 32, up=True) >= values).all()
    assert np.unique(on_grid(values, 32, up=True)).size <= 33


def test_too_little_noise_is_infinite() -> None:
    run = dp.Run(n=1000, sampling=dp.Poisson(10), steps=10, noise_multiplier=1e-3)
    found = ADVANCED.guarantee(run)
    assert found.epsilon(1e-5).upper == math.inf
    # A record that is drawn at all is seen: 1 - 0.99^10.
    assert 1 - 0.99**10 <= found.delta(50.0).upper < 0.11


def test_other_samplings_are_declined() -> None:
    for sampling in (dp.Cyclic(10), dp.Shuffled(10), dp.OnePass(10)):
        reason = ADVANCED.why_not(dp.Run(n=100, sampling=sampling, steps=1, noise_multiplier=1.0))
        assert reason == f"it is for sampling Poisson, FixedSize, FullBatch, the run's is {type(sampling).__name__}."


def test_steps_of_several_rates_share_delta_with_the_slack() -> None:
    """The least of what the lemma says of all steps, one by one, for many ways to share delta."""
    rate, gap, count = np.array([0.01, 0.2]), np.array([0.5, 0.3]), np.array([50, 20])
    best = math.inf
    for share in np.linspace(0.01, 0.99, 99):
        each = share * 1e-5 / 4.5
        alone = np.log1p(rate * np.expm1([gdp_epsilon(mu, each) for mu in gap]))
        epsilon, delta = advanced_composition(np.repeat(alone, count), np.repeat(rate * each, count), (1 - share) * 1e-5)
        assert delta <= 1e-5 * (1 + 1e-9)
        best = min(best, epsilon)
    assert best * (1 - 1e-4) <= AdvancedComposition(rate, gap, count).epsilon(1e-5).upper <= best * (1 + 1e-4)
