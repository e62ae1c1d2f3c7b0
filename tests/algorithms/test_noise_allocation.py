"""Noise for falling steps: M and its least value, the optimum under exact accounting, and what the paper's sigma is."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.algorithms import (
    adagrad_noise,
    adaptation_gain,
    adapted_noise,
    least_noise_cost,
    noise_cost,
    noise_energy,
    optimal_noise,
    polynomial_decay,
    printed_sigma,
    square_root_decay,
)
from dplateau.spec import InputError

DELTA = 1e-5
SHARES = st.lists(st.floats(0.01, 100), min_size=2, max_size=20)


def levels(steps=2_000, count=4):
    """Falling steps in few levels, which are quick to account for."""
    return tuple(np.repeat(polynomial_decay(count, 1.0, 12.0), steps // count).tolist())


def run(eta=None, **changes):
    eta = levels() if eta is None else eta
    fields = {"n": 50_000, "sampling": dp.Poisson(256), "steps": len(eta), "noise_multiplier": 1.0, "step_size": eta}
    return dp.Run(**(fields | changes))


def calibrated(made, noise, epsilon):
    return dp.calibrate(made.replace(noise_multiplier=noise), epsilon=epsilon, delta=DELTA)


def test_m_by_hand():
    # alpha = (1, 2), b = (1, 4): (1 + 1/4) (1 + 1/4); alpha = sqrt(b) gives the same (1 + 1/4)^2.
    assert noise_cost([1.0, 2.0], [1.0, 4.0]) == pytest.approx(1.25**2)
    assert least_noise_cost([1.0, 4.0]) == pytest.approx(1.25**2)
    assert noise_cost([1.0, 1.0], [1.0, 4.0]) == pytest.approx(2 * (1 + 1 / 16))
    assert adaptation_gain([1.0, 4.0]) == pytest.approx(2 * (1 + 1 / 16) / 1.25**2)


@settings(max_examples=100, deadline=None)
@given(SHARES, st.data())
def test_adapted_noise_has_the_least_m(b, data):
    alpha = data.draw(st.lists(st.floats(0.01, 100), min_size=len(b), max_size=len(b)))
    adapted = adapted_noise(1 / np.array(b))
    assert noise_cost(adapted, b) == pytest.approx(least_noise_cost(b))
    assert noise_cost(alpha, b) >= least_noise_cost(b) * (1 - 1e-12)
    assert adaptation_gain(b) >= 1 - 1e-12
    assert np.sum(np.array(adapted) ** -2.0) == pytest.approx(len(b))


def test_the_papers_other_relation_has_not_the_least_m():
    """Remark 4.1 and appendix C.2: ``alpha_t alpha_{T+1-t} = b_t``. Here b = (1, 1) and alpha = (2, 1/2): 4.25^2, and not 4."""
    assert noise_cost([2.0, 0.5], [1.0, 1.0]) == pytest.approx(4.25**2)
    assert least_noise_cost([1.0, 1.0]) == pytest.approx(4.0)


def test_the_gain_grows_like_a_quarter_of_the_logarithm():
    for steps in (10**4, 10**6):
        b = np.sqrt(20 + np.arange(1, steps + 1))
        assert adaptation_gain(b) == pytest.approx(math.log1p(steps / 20) / 4, rel=0.1 if steps == 10**4 else 0.01)


def test_noise_for_adagrad():
    noise = np.array(adagrad_noise(3, 2.0, 5.0))
    assert (noise / noise[0]) ** 4 == pytest.approx(np.array([9, 14, 19]) / 9)
    assert adagrad_noise(3, 2.0, 0.0) == pytest.approx((1, 1, 1))
    assert adagrad_noise(3, 1e200, 1e300) == pytest.approx((1, 1, 1))  # b_0^2 is larger than any double
    assert adagrad_noise(2, 1e200, 1e308) == pytest.approx(adagrad_noise(2, 1.0, 1e-92))


def test_the_energy_is_that_of_weights_without_gradients():
    made = run((0.5, 0.25), steps=2, noise_multiplier=(3.0, 4.0), sampling=dp.Poisson(10))
    assert noise_energy(made) == pytest.approx((0.5 * 3 / 10) ** 2 + (0.25 * 4 / 10) ** 2)
    different = made.replace(sampling=dp.Poisson((10, 5)))
    assert noise_energy(different) == pytest.approx((0.5 * 3 / 10) ** 2 + (0.25 * 4 / 5) ** 2)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_with_full_batches_adapted_noise_is_optimal(adjacency):
    made = run(sampling=dp.FullBatch(), adjacency=adjacency)
    best = optimal_noise(made, epsilon=1.0, delta=DELTA)
    assert best.noise_multiplier == pytest.approx(calibrated(made, adapted_noise(levels()), 1.0).noise_multiplier, rel=1e-12)
    assert np.array(best.noise_multiplier) ** 2 * np.array(levels()) == pytest.approx(best.noise_multiplier[0] ** 2 * levels()[0])
    # By M: the energies of constant and of adapted noise, at equal privacy, have the ratio M_dp/M_adp.
    constant = calibrated(made, 1.0, 1.0)
    assert noise_energy(constant) / noise_energy(best) == pytest.approx(adaptation_gain(1 / np.array(levels())), rel=1e-5)


CASES = [(dp.Poisson(256), "add-remove", 0.5), (dp.Poisson(256), "add-remove", 4.0), (dp.FixedSize(256), "replace", 4.0)]


@pytest.mark.parametrize(("sampling", "adjacency", "epsilon"), CASES, ids=["little", "much", "replace"])
def test_no_other_allocation_is_better(sampling, adjacency, epsilon):
    made = run(sampling=sampling, adjacency=adjacency)
    best = optimal_noise(made, epsilon=epsilon, delta=DELTA)
    least, z = noise_energy(best), np.array(best.noise_multiplier)
    assert epsilon * 0.999 < dp.account(best, DELTA).epsilon <= epsilon

    def tilted(tilt):
        return noise_energy(calibrated(made, tuple((z * np.exp(np.repeat(tilt, 500))).tolist()), epsilon))

    rng = np.random.default_rng(0)
    for tilt in (np.linspace(-1, 1, 4), rng.normal(size=4)):
        for size in (0.1, -0.1):
            assert tilted(size * tilt) > least * (1 - 0.01)
    # Farther away all are clearly worse, so that the comparison has power.
    assert tilted(0.4 * np.linspace(-1, 1, 4)) > 1.03 * least
    assert tilted(-0.4 * np.linspace(-1, 1, 4)) > 1.03 * least


@pytest.mark.parametrize(("epsilon", "adapted_wins"), [(0.3, True), (6.0, False)])
def test_where_noise_is_little_constant_noise_beats_adapted_noise(epsilon, adapted_wins):
    """What alpha = sqrt(b) gains under accounting by the sum of 1/alpha^2 is more than lost under the exact one."""
    constant, adapted = (noise_energy(calibrated(run(), noise, epsilon)) for noise in (1.0, adapted_noise(levels())))
    best = noise_energy(optimal_noise(run(), epsilon=epsilon, delta=DELTA))
    assert (adapted < constant) is adapted_wins
    assert best <= min(adapted, constant)
    assert best < 0.95 * max(adapted, constant)


def test_with_much_noise_adapted_noise_is_nearly_optimal():
    adapted = noise_energy(calibrated(run(), adapted_noise(levels()), 0.05))
    best = noise_energy(optimal_noise(run(), epsilon=0.05, delta=DELTA))
    assert 1 <= adapted / best < 1.001


def test_batch_sizes_may_differ():
    sizes = (256.0,) * 1_000 + (500.0,) * 1_000
    made = run(sampling=dp.Poisson(sizes))
    best = optimal_noise(made, epsilon=4.0, delta=DELTA)
    weights = (np.array(levels()) / np.array(sizes)) ** 2
    assert noise_energy(best) < 0.99 * noise_energy(calibrated(made, tuple((weights**-0.25).tolist()), 4.0))
    assert noise_energy(best) < 0.99 * noise_energy(calibrated(made, 1.0, 4.0))


def test_equal_steps_get_equal_noise():
    best = optimal_noise(run((0.1,) * 2_000), epsilon=2.0, delta=DELTA)
    assert noise_energy(best) == pytest.approx(noise_energy(calibrated(run((0.1,) * 2_000), 1.0, 2.0)), rel=1e-6)


def test_the_run_keeps_what_it_says():
    made = run(released="last", update="post-processed", clip_norm=2.0, smoothness=1.0, strong_convexity=0.1, diameter=5.0)
    best = optimal_noise(made, epsilon=2.0, delta=DELTA)
    assert best.replace(noise_multiplier=1.0) == made
    assert dp.account(best, DELTA).epsilon <= 2.0


def test_the_papers_sigma_and_the_exact_one():
    """Its noise costs far less than it says: at T = 11,760 of their batches, epsilon 12.8 (their 0.8) is really 0.18."""
    alpha = adapted_noise(polynomial_decay(11_760, 20, 1))
    z = printed_sigma(50_000, 12.8, DELTA, alpha, batch_size=256) * 256
    assert z == pytest.approx(printed_sigma(50_000, 12.8, DELTA, [1.0] * 11_760, batch_size=256) * 256)
    logs = math.log(16 * 11_760 * 256 / 0.5) * math.log(1.25e5)
    assert z == pytest.approx(16 * 256 * math.sqrt(logs * 11_760) / (50_000 * 12.8))
    made = run((0.1,) * 11_760, n=50_000, sampling=dp.Poisson(256), noise_multiplier=z)
    assert dp.account(made, DELTA).epsilon == pytest.approx(0.1764, abs=1e-4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: noise_cost([1.0], [1.0, 2.0]), "alpha has 1 entries and b has 2"),
        (lambda: adapted_noise([0.1, 0.0]), "step_sizes"),
        (lambda: noise_energy(run().replace(step_size=None)), "no step_size"),
        (lambda: noise_energy(run((0.1,) * 3, n=50, sampling=dp.Cyclic((20, 30)))), "differs within an epoch"),
        (lambda: optimal_noise(run(sampling=dp.Cyclic(20)), epsilon=1.0, delta=DELTA), "under cyclic sampling"),
        (lambda: optimal_noise(run(), epsilon=-1.0, delta=DELTA), "epsilon"),
        (lambda: optimal_noise(run(sampling=dp.Poisson(tuple(range(1, 2001)))), epsilon=1.0, delta=DELTA), "2000 different values"),
        (lambda: printed_sigma(10, 1.0, 2.0, [1.0]), "delta is 2"),
        (lambda: adagrad_noise(3, 0.0, 1.0), "b0"),
    ],
)
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_steps_that_almost_vanish_are_allocated():
    eta = tuple(np.repeat(square_root_decay(4, 0.1, 1e-9), 500).tolist())
    best = optimal_noise(run(eta), epsilon=2.0, delta=DELTA)
    assert dp.account(best, DELTA).epsilon <= 2.0
    assert best.noise_multiplier[-1] > 100 * best.noise_multiplier[0]


@pytest.mark.parametrize("sampling", [dp.Poisson(1_000), dp.FixedSize(1_000)], ids=["poisson", "fixed-size"])
def test_batches_that_are_full_get_adapted_noise(sampling):
    eta = levels(steps=40)
    made = run(eta, n=1_000, sampling=sampling, adjacency="replace")
    best = optimal_noise(made, epsilon=1.0, delta=DELTA)
    assert best.noise_multiplier == pytest.approx(calibrated(made, adapted_noise(eta), 1.0).noise_multiplier, rel=1e-3)
