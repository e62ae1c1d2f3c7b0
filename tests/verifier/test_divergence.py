"""Costs of runs in ball arithmetic: against closed forms, sums with many digits, and what a filter says."""

# pyright: basic
from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.filter import ROOM, costs_of

pytest.importorskip("flint")
from dplateau.verifier.divergence import check_budget, check_cost
from dplateau.verifier.outcome import Outcome, Part

EXACT = "exact-composition"
FULL = dp.Run(n=1000, sampling=dp.FullBatch(), steps=7, noise_multiplier=3.0)
POISSON = dp.Run(n=1000, sampling=dp.Poisson(20), steps=40, noise_multiplier=0.8)
LAST = FULL.replace(steps=5000, step_size=0.5, smoothness=0.25, strong_convexity=0.1, diameter=2.0, released="last")


def moment(order: int, *, removed: bool) -> mp.mpf:
    """``E (p/q)^order`` under q of one Poisson step: a binomial sum, or, the other way, a quadrature."""
    q, mu = mp.mpf(20) / 1000, 1 / mp.mpf(POISSON.noise_multiplier)
    if removed:
        terms = (mp.binomial(order, k) * q**k * (1 - q) ** (order - k) * mp.exp(mu**2 * k * (k - 1) / 2) for k in range(order + 1))
        return mp.fsum(terms)
    return mp.quad(lambda x: mp.npdf(x) * (1 - q + q * mp.exp(mu * x - mu**2 / 2)) ** (1 - order), [-20, -5, 0, 5, 20])


@pytest.mark.parametrize("order", [2, 5, 17])
def test_the_divergence_of_a_sampled_step_is_a_binomial_sum(order: int) -> None:
    with mp.workdps(30):
        truth = max(moment(order, removed=True), moment(order, removed=False))
        cost = float(POISSON.steps * mp.log(truth) / (order - 1))
    part = [Part(POISSON, EXACT)]
    found = check_cost(part, float(order), cost * (1 + 1e-12))
    assert found.outcome is Outcome.VERIFIED
    assert found.upper == pytest.approx(cost, rel=1e-12)
    less = check_cost(part, float(order), cost * (1 - 1e-12))
    assert (less.outcome, less.why) == (Outcome.NOT_DECIDED, "another bound may give less")


def test_gaussians_cost_what_closed_forms_say() -> None:
    part = [Part(FULL, EXACT)]
    assert check_cost(part, 5.5, 5.5 * 7 / 9 / 2 * (1 + 1e-15)).outcome is Outcome.VERIFIED
    assert check_cost(part, 5.5, 5.5 * 7 / 9 / 2 * (1 - 1e-15)).outcome is Outcome.NOT_DECIDED
    assert check_cost(part, None, 7 / 9 * (1 + 1e-15)).outcome is Outcome.VERIFIED
    assert check_cost(part, None, 7 / 9 * (1 - 1e-15)).outcome is Outcome.NOT_DECIDED
    two = [*part, Part(POISSON.replace(noise_multiplier=2.0), EXACT)]
    alone = check_cost(two[1:], 5.5, 100.0).upper
    assert check_cost(two, 5.5, 100.0).upper == pytest.approx(5.5 * 7 / 18 + alone, rel=1e-12)


@pytest.mark.parametrize(
    ("part", "order", "why"),
    [
        (Part(POISSON, EXACT), None, "not a GDP bound"),
        (Part(POISSON, EXACT), 1.0, "must be above 1"),
        (Part(POISSON, "renyi-composition"), 3.0, "no second computation"),
        (
            Part(POISSON.replace(sampling=dp.RandomAllocation(20), steps=50, adjacency="replace"), EXACT),
            3.0,
            "no finite Renyi divergence",
        ),
        (
            Part(LAST.replace(sampling=dp.Poisson(500), noise_multiplier=40.0), "sampled-last-iterate", 50),
            3.0,
            "leaves something to chance",
        ),
    ],
)
def test_what_has_no_cost_is_not_decided(part: Part, order: float | None, why: str) -> None:
    found = check_cost([part], order, 1e6)
    assert found.outcome is Outcome.NOT_DECIDED
    assert found.why is not None
    assert why in found.why


def random_run(rng: np.random.Generator) -> dp.Run:
    n = int(10 ** rng.uniform(2, 5))
    size = max(1, round(n * 10 ** rng.uniform(-3, -0.7)))
    scheme = rng.choice([dp.Poisson(size), dp.FixedSize(size), dp.Cyclic(size), dp.Shuffled(size), dp.FullBatch()])  # type: ignore[arg-type]
    run = dp.Run(
        n=n, sampling=scheme, steps=int(10 ** rng.uniform(0, 4)), noise_multiplier=10.0 ** rng.uniform(0, 2),
        adjacency=str(rng.choice(["add-remove", "replace"])),
    )  # fmt: skip
    if rng.random() < 0.5:
        run = run.replace(step_size=0.5, smoothness=1.0, strong_convexity=0.1, l2=0.1, diameter=1.0, released="last")
    return run


@pytest.mark.parametrize("seed", range(24))
def test_no_cost_of_a_filter_is_too_small(seed: int) -> None:
    """At the orders that somebody could choose, those next to 1 too, where the logarithm of a moment is next to 0."""
    rng = np.random.default_rng([seed, 5])
    run = random_run(rng)
    order = None if rng.random() < 0.2 else 1 + 10.0 ** rng.uniform(-6, 2)
    costs = {name: cost for name, cost in costs_of(run, order).items() if math.isfinite(cost)}
    if not costs:
        assert order is None
        return
    name = min(costs, key=costs.__getitem__)
    found = check_cost([Part(run, name)], order, costs[name] * (1 + ROOM / 2))
    assert found.outcome is Outcome.VERIFIED, (run, order, name, costs, found)


@pytest.mark.parametrize("notion", ["renyi", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 1e-9), (1.0, 1e-5), (8.0, 1e-12), (300.0, 1e-5)])
def test_budgets_are_what_epsilon_and_delta_allow(notion: str, epsilon: float, delta: float) -> None:
    one = dp.Filter(n=1000, epsilon=epsilon, delta=delta, notion=notion)
    assert check_budget(one.order, one.budget, epsilon, delta).outcome is Outcome.VERIFIED
    assert check_budget(one.order, one.budget * (1 + 1e-7), epsilon, delta).outcome is Outcome.NOT_DECIDED


def test_orders_that_are_too_high_for_an_epoch_are_left_open_at_once() -> None:
    run = dp.Run(n=100, sampling=dp.RandomAllocation(10), steps=20, noise_multiplier=20.0)
    for order in (1e4, 1e300):
        found = check_cost([Part(run, EXACT)], order, 1.0)
        assert found.outcome is Outcome.NOT_DECIDED
        assert found.seconds < 5
