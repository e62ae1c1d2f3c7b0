"""From runs to compositions: closed forms of the fixed orders, and noise that differs from step to step."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import logging
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, compositions, gdp_epsilon, mechanism
from dplateau.accounting.family import Family
from dplateau.accounting.privacy_loss import PoissonRemove
from dplateau.analyses import ExactCompositionBound

DELTA = 1e-5


def exact(**fields: Any) -> Enclosure:
    return ExactCompositionBound().guarantee(dp.Run(**fields)).epsilon(DELTA)


def mu(**fields: Any) -> float:
    (composition,), rounded = compositions(dp.Run(**fields))
    assert not composition.terms
    assert not rounded
    return composition.gaussian


@pytest.mark.parametrize("sampling", [dp.Poisson(10), dp.FixedSize(10), dp.Cyclic(10), dp.FullBatch(), dp.RandomAllocation(10)])
@pytest.mark.parametrize("noise", [1e170, (1e300, 1e170), (1e170, 1e300)])
def test_noise_whose_squared_inverse_is_no_number(sampling: Any, noise: Any) -> None:
    run = dp.Run(n=100, sampling=sampling, steps=2, noise_multiplier=noise)
    found = ExactCompositionBound().guarantee(run)
    # The probability that the record is used once, at the least, and then a Gaussian with mu of 1e-170.
    assert found.delta(0.0).upper >= 0.1 * 3.9e-171
    assert found.epsilon(1e-200).upper > 1e-168 > found.epsilon(1e-200).lower
    assert found.epsilon(1e-90) == Enclosure(0.0, 0.0)


@pytest.mark.parametrize(("adjacency", "twice"), [("add-remove", 1.0), ("replace", 2.0)])
def test_fixed_orders_are_gaussian(adjacency: str, twice: float) -> None:
    common: dict[str, Any] = {"n": 100, "adjacency": adjacency, "noise_multiplier": 2.0}
    assert mu(sampling=dp.FullBatch(), steps=9, **common) == pytest.approx(twice * 1.5)
    assert mu(sampling=dp.OnePass(10), steps=7, **common) == pytest.approx(twice * 0.5)
    for order in (dp.Cyclic, dp.Shuffled):
        for steps, epochs in ((1, 1), (4, 1), (5, 2), (8, 2), (9, 3)):
            # 100 is not divisible by 30: an epoch has 4 batches, and a begun epoch counts.
            assert mu(sampling=order(30), steps=steps, **common) == pytest.approx(twice * math.sqrt(epochs) / 2)
        assert mu(sampling=order([60, 40]), steps=4, **common) == pytest.approx(twice * math.sqrt(2) / 2)
    value = exact(sampling=dp.Cyclic(30), steps=9, **common)
    assert value.lower <= gdp_epsilon(twice * math.sqrt(3) / 2, DELTA) <= value.upper


def test_the_worst_position_counts() -> None:
    z = (1.0, 2.0, 4.0, 4.0, 1.0, 2.0, 2.0)
    common: dict[str, Any] = {"n": 90, "noise_multiplier": z, "steps": 7}
    # Positions of a cyclic record: {0, 3, 6}, {1, 4}, {2, 5}; a shuffled one may meet each epoch's least noise.
    worst = max(1 + 1 / 16 + 1 / 4, 1 / 4 + 1, 1 / 16 + 1 / 4)
    assert mu(sampling=dp.Cyclic(30), **common) == pytest.approx(math.sqrt(worst))
    assert mu(sampling=dp.Shuffled(30), **common) == pytest.approx(math.sqrt(1 + 1 + 1 / 4))
    assert mu(sampling=dp.OnePass(12), **common) == pytest.approx(1.0)
    assert mu(sampling=dp.FullBatch(), **common) == pytest.approx(math.sqrt(sum(v**-2 for v in z)))


SAMPLED = [(dp.Poisson, "add-remove"), (dp.Poisson, "replace"), (dp.FixedSize, "add-remove"), (dp.FixedSize, "replace")]


@pytest.mark.parametrize(("scheme", "adjacency"), SAMPLED)
def test_the_order_of_the_noise_does_not_matter(scheme: type, adjacency: str) -> None:
    z = np.repeat([0.8, 1.1, 1.6, 3.0], 50)
    common: dict[str, Any] = {"n": 1000, "sampling": scheme(20), "steps": 200, "adjacency": adjacency}
    one = exact(noise_multiplier=z, **common)
    assert one == exact(noise_multiplier=np.random.default_rng(0).permutation(z), **common)
    assert exact(noise_multiplier=[1.3] * 200, **common) == exact(noise_multiplier=1.3, **common)
    assert exact(noise_multiplier=3.0, **common).upper < one.lower
    assert one.upper < exact(noise_multiplier=0.8, **common).lower
    same = exact(**{**common, "sampling": scheme([20] * 200), "noise_multiplier": 1.3})
    assert same == exact(noise_multiplier=1.3, **common)


@pytest.mark.parametrize(("scheme", "adjacency"), SAMPLED)
def test_a_full_batch_is_no_sampling(scheme: type, adjacency: str) -> None:
    common: dict[str, Any] = {"n": 50, "steps": 30, "noise_multiplier": 6.0, "adjacency": adjacency}
    assert exact(sampling=scheme(50), **common) == exact(sampling=dp.FullBatch(), **common)
    half = exact(**{**common, "sampling": scheme([50] * 15 + [10] * 15)})
    assert half.upper < exact(sampling=dp.FullBatch(), **common).lower
    assert half.lower > exact(**{**common, "sampling": scheme(10)}).upper


def test_two_noise_levels_against_the_peer() -> None:
    logging.disable(logging.WARNING)
    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution as pld

    for adjacency, relation in (
        ("add-remove", NeighboringRelation.ADD_OR_REMOVE_ONE),
        ("replace", NeighboringRelation.REPLACE_ONE),
    ):
        parts = [
            pld.from_gaussian_mechanism(z, sampling_prob=q, neighboring_relation=relation).self_compose(count)
            for z, q, count in ((1.0, 0.02, 150), (2.0, 0.05, 250))
        ]
        high = parts[0].compose(parts[1]).get_epsilon_for_delta(DELTA)
        ours = exact(
            n=1000,
            sampling=dp.Poisson([20] * 150 + [50] * 250),
            steps=400,
            noise_multiplier=[1.0] * 150 + [2.0] * 250,
            adjacency=adjacency,
        )
        assert ours.width <= 1e-6
        assert ours.lower <= high <= ours.upper + 1e-4


@pytest.mark.parametrize(("scheme", "adjacency"), SAMPLED)
def test_many_noise_levels_contain_the_value_level_by_level(scheme: type, adjacency: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z = np.geomspace(0.9, 2.5, 300)
    run = dp.Run(n=10_000, sampling=scheme(300), steps=300, noise_multiplier=z, adjacency=adjacency)
    usual = ExactCompositionBound().guarantee(run).epsilon(DELTA)
    monkeypatch.setattr(mechanism, "DISTINCT", 10_000)
    monkeypatch.setattr(mechanism, "_FEW", 10_000)
    directions, rounded = compositions(run)
    assert not rounded
    assert all(len(composition.terms) == 300 for composition in directions)
    plain = ExactComposition(directions).epsilon(DELTA)
    assert plain.width <= 1e-6
    assert usual.lower <= plain.upper
    assert plain.lower <= usual.upper
    # Three centres form no families: a factor of 2.8 in the noise is rounded to 49 levels.
    assert usual.width <= (0.5 if (scheme, adjacency) == (dp.FixedSize, "add-remove") else 0.02)


def test_rounding_of_rates_and_noise_is_outward(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    run = dp.Run(n=1000, sampling=dp.Poisson(rng.uniform(10, 30, 60)), steps=60, noise_multiplier=rng.uniform(1, 2, 60))
    plain = ExactCompositionBound().guarantee(run).epsilon(DELTA)
    monkeypatch.setattr(mechanism, "DISTINCT", 6)
    _, rounded = compositions(run)
    assert rounded
    coarse = ExactCompositionBound().guarantee(run).epsilon(DELTA)
    assert coarse.lower < plain.lower
    assert plain.upper < coarse.upper
    rate, noise = np.array(run.sampling.divisors(1000)) / 1000, np.array(run.noise_multiplier)
    for values in (rate, noise):
        assert (mechanism.on_grid(values, 6, up=True) >= values).all()
        assert (mechanism.on_grid(values, 6, up=False) <= values).all()
        assert np.unique(mechanism.on_grid(values, 6, up=True)).size <= 6


@pytest.mark.parametrize("sampling", [dp.Poisson, dp.FixedSize])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_steps_in_which_every_record_is_drawn_are_gaussian_at_every_noise(sampling: Any, adjacency: str) -> None:
    """Beside steps that draw some, which stay terms: squares of 1/z add up, whichever noise a step has."""
    noise = (1.0, 3.0, 2.0, 2.0, 5.0, 2.5)
    run = dp.Run(n=100, sampling=sampling([100, 10, 100, 100, 20, 100]), steps=6, noise_multiplier=noise, adjacency=adjacency)
    squares = 1 + 2 * 0.5**2 + 0.4**2
    for composition in compositions(run)[0]:
        assert composition.gaussian == pytest.approx(math.sqrt(squares) * (2 if adjacency == "replace" else 1), rel=1e-14)
        assert sum(count for _, count in composition.laws) == 2


def test_directions_of_poisson_sampling() -> None:
    directions, _ = compositions(dp.Run(n=100, sampling=dp.Poisson(10), steps=3, noise_multiplier=2.0))
    remove, add = (composition.terms[0].repeated[0].law for composition in directions)
    assert remove == PoissonRemove(0.1, 0.5)
    assert add == remove.reverse


def test_laws_with_an_empty_place_form_no_families() -> None:
    """What bounds the interpolation is not proved for them."""
    noise = np.geomspace(1.0, 3.0, 40)
    for sampling, families in ((dp.FixedSize(10), False), (dp.Poisson(10), True)):
        run = dp.Run(n=100, sampling=sampling, steps=40, noise_multiplier=list(noise), adjacency="add-remove")
        terms = [term for direction in compositions(run)[0] for term in direction.terms]
        assert any(isinstance(term, Family) for term in terms) is families


@pytest.mark.parametrize(
    ("n", "left", "delta"), [(105_335_883_769_542, 3, 1e-30), (2_084_933_074_471, 4, 0.6), (50_046_767_972, 4, 1e-12)]
)
def test_a_rate_next_to_one_is_rounded_up(n: int, left: int, delta: float) -> None:
    """What is left to 1 bounds what an absence may lose, and a double knows little of it."""
    run = dp.Run(n=n, sampling=dp.Poisson(n - left), steps=1, noise_multiplier=0.09, adjacency="replace")
    found = ExactCompositionBound().guarantee(run).epsilon(delta)
    with mp.workdps(600):

        def exact(epsilon: float) -> mp.mpf:
            q, mu, y = mp.mpf(n - left) / n, 1 / mp.mpf(0.09), mp.exp(mp.mpf(epsilon))
            a, b = q * mp.exp(-(mu**2) / 2), (1 - q) * (1 - y)
            h = mp.log((mp.sqrt(b * b + 4 * a * a * y) - b) / (2 * a)) / mu
            return (1 - q) * (1 - y) * mp.ncdf(-h) + q * (mp.ncdf(mu - h) - y * mp.ncdf(-mu - h))

        assert exact(found.upper) <= delta <= exact(found.lower)
    assert found.width < 1.0
