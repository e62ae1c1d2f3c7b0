# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
"""Our accountant beside dp-accounting's own."""

from __future__ import annotations

import copy
import logging
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import NeighboringRelation
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from scipy.stats import norm

import dplateau as dp
from dplateau.interchange.dp_accounting_accountant import PlateauAccountant

ADD_REMOVE, REPLACE, SPECIAL = (
    NeighboringRelation.ADD_OR_REMOVE_ONE,
    NeighboringRelation.REPLACE_ONE,
    NeighboringRelation.REPLACE_SPECIAL,
)
GAUSSIAN = dp_accounting.GaussianDpEvent
SELF = dp_accounting.SelfComposedDpEvent
COMPOSED = dp_accounting.ComposedDpEvent
FIXED = dp_accounting.SampledWithoutReplacementDpEvent
DELTA = 1e-5


def poisson(rate: float, noise: float, steps: int = 1) -> dp_accounting.DpEvent:
    return SELF(dp_accounting.PoissonSampledDpEvent(rate, GAUSSIAN(noise)), steps)


@pytest.fixture(autouse=True)
def _quiet() -> None:
    logging.disable(logging.WARNING)


@pytest.mark.parametrize("relation", [ADD_REMOVE, REPLACE, SPECIAL])
@pytest.mark.parametrize(
    "event",
    [
        GAUSSIAN(4.0),
        SELF(GAUSSIAN(20.0), 30),
        poisson(0.01, 1.0, 300),
        poisson(0.2, 4.0, 20),
        COMPOSED([poisson(0.01, 1.0, 100), GAUSSIAN(5.0), poisson(0.02, 1.5, 50)]),
    ],
    ids=["gaussian", "gaussians", "poisson", "frequent", "mixed"],
)
def test_agrees_with_privacy_loss_distributions(event: dp_accounting.DpEvent, relation: NeighboringRelation) -> None:
    ours, peer = PlateauAccountant(relation).compose(event), PLDAccountant(relation).compose(event)
    # The peer rounds losses upwards by less than 1e-4 a step, much less in the mean: it cannot be below the truth.
    epsilon = ours.get_epsilon(DELTA)
    assert epsilon - 1e-6 <= peer.get_epsilon(DELTA) <= epsilon * 1.002
    for target in (0.5, 2.0):
        delta = ours.get_delta(target)
        assert delta * (1 - 1e-5) - 1e-12 <= peer.get_delta(target) <= delta * 1.01 + 1e-11  # Its transforms round, too.


def test_below_the_renyi_accountant_where_that_is_a_bound() -> None:
    halved = FIXED(1_000, 20, GAUSSIAN(2.0))
    cases = [
        (ADD_REMOVE, poisson(0.01, 1.0, 300), poisson(0.01, 1.0, 300)),
        (REPLACE, SELF(FIXED(1_000, 20, GAUSSIAN(4.0)), 40), SELF(halved, 40)),
        (REPLACE, GAUSSIAN(4.0), GAUSSIAN(2.0)),
        (ADD_REMOVE, *2 * (dp_accounting.PoissonSampledDpEvent(0.1, COMPOSED([GAUSSIAN(3.0), SELF(GAUSSIAN(8.0), 4)])),)),
    ]
    for relation, event, for_the_peer in cases:
        ours = PlateauAccountant(relation).compose(event).get_epsilon(DELTA)
        peer = RdpAccountant(neighboring_relation=relation).compose(for_the_peer).get_epsilon(DELTA)
        assert 0 < ours < peer < 2 * ours + 0.2


def test_many_noise_levels() -> None:
    noise = np.linspace(1.0, 2.0, 500)
    accountant = PlateauAccountant()
    for z in noise:
        accountant.compose(dp_accounting.PoissonSampledDpEvent(2.0**-7, GAUSSIAN(float(z))))
    run = dp.Run(n=2**20, sampling=dp.Poisson(2**13), steps=500, noise_multiplier=noise)
    assert accountant.get_epsilon(1e-7) == pytest.approx(dp.account(run, 1e-7).epsilon, rel=1e-9)


def test_composes_as_counts() -> None:
    once = PlateauAccountant().compose(COMPOSED([poisson(0.1, 2.0, 6), GAUSSIAN(9.0)]), 5)
    piecewise = PlateauAccountant()
    for _ in range(5):
        piecewise.compose(GAUSSIAN(9.0)).compose(poisson(0.1, 2.0), 6)
    assert once.get_epsilon(DELTA) == piecewise.get_epsilon(DELTA)
    assert copy.deepcopy(once).compose(GAUSSIAN(9.0)).get_epsilon(DELTA) > once.get_epsilon(DELTA)
    assert once.ledger == SELF(COMPOSED([poisson(0.1, 2.0, 6), GAUSSIAN(9.0)]), 5)


def test_what_costs_nothing_and_what_costs_everything() -> None:
    fresh = PlateauAccountant()
    fresh.compose(dp_accounting.NoOpDpEvent()).compose(dp_accounting.PoissonSampledDpEvent(0.0, GAUSSIAN(1.0)))
    assert (fresh.get_epsilon(DELTA), fresh.get_epsilon(0.0), fresh.get_delta(0.0)) == (0, 0, 0)
    for event in (dp_accounting.NonPrivateDpEvent(), GAUSSIAN(0.0), poisson(0.1, 0.0), FIXED(10, 1, GAUSSIAN(0.0)), GAUSSIAN(0)):
        spent = PlateauAccountant(REPLACE).compose(COMPOSED([GAUSSIAN(5.0), event]))
        assert (spent.get_epsilon(DELTA), spent.get_delta(1.0)) == (math.inf, 1.0)
    some = PlateauAccountant().compose(GAUSSIAN(5.0))
    assert (some.get_epsilon(0.0), some.get_epsilon(1.0)) == (math.inf, 0.0)


def test_hardly_any_noise_is_infinite_not_an_error() -> None:
    for noise in (1e-308, 1e-160, 1e-40, 1e-9):
        for event in (GAUSSIAN(noise), poisson(0.01, noise, 100), FIXED(100, 1, GAUSSIAN(noise))):
            spent = PlateauAccountant(REPLACE).compose(event)
            assert spent.get_epsilon(DELTA) > 1e6
            assert spent.get_delta(1.0) > 0.009


def test_bad_arguments() -> None:
    spent = PlateauAccountant().compose(GAUSSIAN(5.0))
    for delta in (-0.1, 1.1, math.nan):
        with pytest.raises(dp.InputError, match="delta"):
            spent.get_epsilon(delta)
    for epsilon in (-1.0, math.inf, math.nan):
        with pytest.raises(dp.InputError, match="epsilon"):
            spent.get_delta(epsilon)
    with pytest.raises(TypeError, match="DpEvent"):
        spent.compose("gaussian")


def test_refuses_whole_events_and_keeps_its_state() -> None:
    spent = PlateauAccountant().compose(GAUSSIAN(5.0))
    before = spent.get_epsilon(DELTA)
    for event in (COMPOSED([GAUSSIAN(1.0), dp_accounting.LaplaceDpEvent(1.0)]), FIXED(100, 1, GAUSSIAN(1.0))):
        assert not spent.supports(event)
        with pytest.raises(dp_accounting.UnsupportedEventError, match=r"LaplaceDpEvent|REPLACE_SPECIAL"):
            spent.compose(event)
    assert (spent.get_epsilon(DELTA), spent.ledger) == (before, GAUSSIAN(5.0))
    assert PlateauAccountant(SPECIAL).supports(FIXED(100, 1, GAUSSIAN(1.0)))


def test_calibrates() -> None:
    noise = dp_accounting.calibrate_dp_mechanism(PlateauAccountant, lambda z: poisson(0.01, z, 1_000), 2.0, DELTA)
    run = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=1_000, noise_multiplier=1.0)
    assert noise == pytest.approx(dp.calibrate(run, epsilon=2.0, delta=DELTA).noise_multiplier, abs=2e-6)
    assert PlateauAccountant().compose(poisson(0.01, noise, 1_000)).get_epsilon(DELTA) <= 2.0
    bracket = dp_accounting.ExplicitBracketInterval(1, 10_000)
    steps = dp_accounting.calibrate_dp_mechanism(
        PlateauAccountant, lambda k: poisson(0.01, 1.5, k), 2.0, DELTA, bracket_interval=bracket, discrete=True
    )
    spent = [PlateauAccountant().compose(poisson(0.01, 1.5, steps + k)).get_epsilon(DELTA) for k in (0, 2)]
    assert spent[0] <= 2.0 < spent[1]


def adaptive_delta(epsilon: float, rate: float, signs: np.ndarray, mus: tuple[float, float]) -> float:
    """delta of two Gaussian releases on one Poisson sample, by summation: the second shifts look at the first release.

    ``signs`` has the directions of g and h: shape (2, 1 + cells of the first release).
    """
    grid = np.linspace(-9, 9, 601)
    cells = np.clip(((grid + 3) / 6 * (signs.shape[1] - 1)).astype(int), 0, signs.shape[1] - 2)
    absent = np.outer(norm.pdf(grid), norm.pdf(grid))

    def law(sign: np.ndarray) -> np.ndarray:
        first = norm.pdf(grid - sign[0] * mus[0])[:, None]
        return (1 - rate) * absent + rate * first * norm.pdf(grid[None, :] - (sign[1:][cells] * mus[1])[:, None])

    gap = law(signs[0]) - math.exp(epsilon) * law(signs[1])
    return float(np.maximum(gap, 0).sum()) * (grid[1] - grid[0]) ** 2


def test_no_adaptive_choice_on_one_sample_costs_more_than_one_release() -> None:
    rng = np.random.default_rng(5)
    rate, mus = 0.3, (0.8, 1.1)
    event = dp_accounting.PoissonSampledDpEvent(rate, COMPOSED([GAUSSIAN(1 / mu) for mu in mus]))
    for relation in (REPLACE, ADD_REMOVE):
        spent = PlateauAccountant(relation).compose(event)
        for epsilon in (0.0, 0.4, 1.0):
            bound = spent.get_delta(epsilon)
            for _ in range(20):
                signs = rng.uniform(-1, 1, size=(2, 8))
                signs[1] *= relation is REPLACE
                assert adaptive_delta(epsilon, rate, signs, mus) <= bound * (1 + 1e-4)
            worst = np.ones((2, 8)) * [[1], [-1 if relation is REPLACE else 0]]
            reached = max(adaptive_delta(epsilon, rate, pair, mus) for pair in (worst, worst[::-1]))
            assert reached == pytest.approx(bound, rel=2e-3)
