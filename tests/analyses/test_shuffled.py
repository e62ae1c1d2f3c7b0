"""The mixture over the last epoch."""

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import gdp_delta
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.analyses import FixedOrderBound, ShuffledBound
from dplateau.analyses.last_uses import constant_steps
from dplateau.analyses.shuffled import _places


def run_of(**changes):
    settings = {
        "n": 100,
        "sampling": dp.Shuffled(10),
        "steps": 60,
        "noise_multiplier": 3.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "diameter": 4.0,
        "released": "last",
    }
    return dp.Run(**{**settings, **changes})


def guarantee(run):
    return ShuffledBound().bound(run).guarantee


def test_the_mixture_is_the_mean_of_gaussian_profiles():
    mixture = MixtureOfGaussianDP((0.0, 0.5, 2.0), (0.5, 0.3, 0.2))
    for epsilon in (0.0, 0.5, 3.0):
        mean = 0.3 * gdp_delta(0.5, epsilon) + 0.2 * gdp_delta(2.0, epsilon)
        assert mixture.delta(epsilon).lower <= mean <= mixture.delta(epsilon).upper * (1 + 1e-12)
    found = mixture.epsilon(1e-5)
    assert mixture.delta(found.upper).lower <= 1e-5 <= mixture.delta(found.lower).upper * (1 + 1e-9)
    assert mixture.epsilon(0.9).upper == 0
    assert mixture.mu is None
    assert MixtureOfGaussianDP((0.7, 0.7), (0.5, 0.5)).mu == 0.7


def test_places_are_all_places_with_their_sizes():
    places, weights = _places(run_of(n=95, steps=57))
    # Ten batches, the last of five records; the last epoch has seven steps, and leaves out 25 records.
    assert places.tolist() == [-1, 0, 1, 2, 3, 4, 5, 6]
    assert weights == pytest.approx([0.25 / 0.95] + [10 / 95] * 7, rel=1e-12)
    many, shares = _places(run_of(n=10_000, sampling=dp.Shuffled(10), steps=10_000))
    assert 64 < len(many) < 256
    assert many[-64:].tolist() == list(range(936, 1000))
    assert sum(shares) == pytest.approx(1)


def test_rounding_places_only_loses():
    run = run_of(n=3000, sampling=dp.Shuffled(10), steps=900)
    rounded = guarantee(run)
    exact = constant_steps(run).cost(np.arange(300.0), np.asarray(300.0), 3)
    fine = MixtureOfGaussianDP(tuple(exact.tolist()), (1 / 300,) * 300)
    assert fine.epsilon(1e-5).upper <= rounded.epsilon(1e-5).upper * (1 + 1e-14) <= fine.epsilon(1e-5).upper * 1.001
    assert fine.epsilon(1e-5).lower * 0.99 <= rounded.epsilon(1e-5).lower <= fine.epsilon(1e-5).lower


def test_it_is_below_the_worst_place_of_full_epochs_and_above_its_share_of_it():
    run = run_of()
    worst = FixedOrderBound().bound(run.replace(sampling=dp.Cyclic(10))).guarantee
    mixed = guarantee(run)
    for epsilon in (0.1, 0.5, 1.0):
        assert worst.delta(epsilon).lower / 10 <= mixed.delta(epsilon).upper <= worst.delta(epsilon).upper


def test_one_epoch_uses_every_record_once():
    run = run_of(steps=10, diameter=None)
    later = np.arange(10, 0, -1)
    mus = 1 / (3.0 * np.sqrt(later))
    assert guarantee(run).mus == pytest.approx(mus, abs=1e-5)
    cut = guarantee(run.replace(steps=4))
    assert cut.mus[0] == pytest.approx(0, abs=1e-5)
    assert cut.weights[0] == pytest.approx(0.6)


@pytest.mark.parametrize("changes", [{}, {"steps": 57}, {"n": 95, "steps": 57}, {"strong_convexity": 0.2}, {"diameter": None}])
def test_schedules_that_do_not_vary_give_the_same(changes):
    run = run_of(**changes)
    listed = run.replace(noise_multiplier=[3.0] * run.steps)
    assert guarantee(listed).epsilon(1e-5).upper == pytest.approx(guarantee(run).epsilon(1e-5).upper, rel=1e-6)


def test_varying_steps_are_rounded_to_the_worst_of_each_epoch():
    decaying = (0.9 / np.sqrt(1 + np.arange(60.0))).tolist()
    run = run_of(step_size=decaying)
    per_place = FixedOrderBound().bound(run.replace(sampling=dp.Cyclic(10))).guarantee
    # Larger than the mean over places of a cyclic order, whose uses are an epoch apart.
    assert guarantee(run).delta(0.5).upper >= per_place.delta(0.5).lower / 10


def test_forgotten_epochs():
    run = run_of(strong_convexity=0.9, step_size=1.0, steps=4000)
    listed = run.replace(noise_multiplier=[3.0] * 4000)
    assert guarantee(listed).epsilon(1e-5).upper == pytest.approx(guarantee(run).epsilon(1e-5).upper, rel=1e-2)
    long_epochs = run_of(n=4000, sampling=dp.Shuffled(1), strong_convexity=0.9, step_size=1.0, steps=4000)
    listed = long_epochs.replace(noise_multiplier=[3.0] * 4000)
    assert guarantee(listed).epsilon(1e-5).upper >= guarantee(long_epochs).epsilon(1e-5).upper * (1 - 1e-6)


@pytest.mark.parametrize(("sampling", "bound"), [(dp.Shuffled(10), ShuffledBound()), (dp.Cyclic(10), FixedOrderBound())])
def test_of_many_equal_steps_only_those_that_count_are_written_out(sampling, bound):
    """The last batch of an epoch has one record, and contracts less."""
    short, long = (
        run_of(n=101, sampling=sampling, steps=steps, strong_convexity=0.3, diameter=None) for steps in (11 * 10**4, 11 * 10**9)
    )
    assert bound.guarantee(long).epsilon(1e-5).upper == pytest.approx(bound.guarantee(short).epsilon(1e-5).upper, rel=0.1)
    slow = run_of(n=101, sampling=sampling, steps=10**10, strong_convexity=1e-9, diameter=None)
    assert "10,000,000,000 steps would have to be looked at" in bound.why_not(slow)


def test_places_of_long_epochs_are_not_written_out():
    places, weights = _places(run_of(n=10**15, sampling=dp.Shuffled(10), steps=10**14 - 5))
    assert len(places) < 1500
    assert weights[0] == pytest.approx(5e-14, rel=1e-9)
    assert sum(weights) == pytest.approx(1)
