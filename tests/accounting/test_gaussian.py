# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from dplateau.accounting import ExactComposition, GaussianDP, gdp_delta, gdp_epsilon, gdp_mu
from dplateau.accounting.gaussian import SLACK, log_gdp_delta
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonRemove
from dplateau.accounting.renyi import RenyiDP
from dplateau.accounting.terms import Composition, Repeated
from dplateau.accounting.zcdp import ZeroConcentratedDP

from . import reference

MUS = (1e-6, 1e-3, 0.05, 0.3, 0.999, 1.0, 1.7, 5.0, 20.0, 100.0)
EPSILONS = (-1.0, -0.01, 0.0, 1e-7, 1e-4, 0.01, 0.3, 1.0, 4.0, 12.0, 100.0, 700.0, 5000.0)


@pytest.mark.parametrize("mu", MUS)
def test_log_delta_in_sixty_digits(mu: float) -> None:
    for epsilon in EPSILONS:
        exponent = (epsilon / mu) ** 2
        if exponent > 4000:
            continue
        with mp.workdps(60 + int(exponent / 4)):
            exact = float(mp.log(reference.gdp_delta(mu, epsilon)))
        assert float(log_gdp_delta(mu, epsilon)) == pytest.approx(exact, rel=1e-12, abs=1e-12), epsilon


def test_far_tails_stay_ordered() -> None:
    epsilon = np.array(EPSILONS)
    for mu in MUS:
        value = log_gdp_delta(mu, epsilon)
        assert not np.isnan(value).any()
        assert (value[1:] <= value[:-1] + 1e-15).all()
        assert (value <= 0).all()
    assert (log_gdp_delta(0.0, epsilon[2:]) == -np.inf).all()


@pytest.mark.parametrize("delta", [1e-300, 1e-40, 1e-12, 1e-5, 0.01, 0.3])
@pytest.mark.parametrize("mu", [0.01, 0.5, 1.0, 3.0, 30.0])
def test_epsilon_and_mu_are_inverse(mu: float, delta: float) -> None:
    epsilon = gdp_epsilon(mu, delta)
    if epsilon == 0:
        assert gdp_delta(mu, 0.0) <= delta
        return
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-11)
    assert math.log(gdp_delta(mu, epsilon)) == pytest.approx(math.log(delta), rel=1e-12, abs=1e-11)
    enclosure = GaussianDP(mu).epsilon(delta)
    with mp.workdps(400):
        assert reference.gdp_delta(mu, enclosure.upper) <= mp.mpf(delta)
        assert reference.gdp_delta(mu, enclosure.lower) >= mp.mpf(delta)
    assert enclosure.width <= 3 * SLACK * (epsilon + mu)


@pytest.mark.parametrize("mu", [1e-9, 1e-3, 2.0])
def test_an_epsilon_next_to_zero_is_rounded_up(mu: float) -> None:
    for share in (1e-16, 1e-15, 1e-14, 1e-10):
        delta = gdp_delta(mu, 0.0) * (1 - share)
        with mp.workdps(60):
            assert reference.gdp_delta(mu, GaussianDP(mu).epsilon(delta).upper) <= mp.mpf(delta)


def test_no_delta_of_noise_is_zero() -> None:
    assert GaussianDP(1.0).delta(1e3).upper > 0
    assert GaussianDP(0.0).delta(1e3).upper == 0


@pytest.mark.parametrize("mu", MUS)
def test_a_divergence_is_rounded_up(mu: float) -> None:
    for order in (1.0 + 2.0**-52, 1.1, 2.0, 7.3, 1e6):
        exact, equal = Fraction(order) * Fraction(mu) ** 2 / 2, MixtureOfGaussianDP((mu, mu), (0.5, 0.5))
        for guarantee in (GaussianDP(mu), ExactComposition((Composition((), mu),)), equal):
            assert exact <= Fraction(guarantee.divergence(order))


def test_known_values() -> None:
    assert gdp_epsilon(1.0, 1e-5) == pytest.approx(4.377178, abs=1e-6)
    assert GaussianDP(1.0).mu == 1.0
    # Balle and Wang 2018: sigma at (1, 1e-5) is 3.7306.
    assert 1 / gdp_mu(1.0, 1e-5) == pytest.approx(3.730632, abs=1e-6)
    assert gdp_delta(2.0, 0.0) == pytest.approx(math.erf(1 / math.sqrt(2)), rel=1e-14)


def test_negative_epsilon_is_the_symmetric_profile() -> None:
    for epsilon in (1e-9, 0.1, 3.0, 40.0):
        mirrored = -math.expm1(-epsilon) + math.exp(-epsilon) * gdp_delta(0.7, epsilon)
        assert gdp_delta(0.7, -epsilon) == pytest.approx(mirrored, rel=1e-13)


def test_delta_at_large_mu() -> None:
    """epsilon / mu and mu / 2 nearly agree there, and each loses a rounding of mu."""
    rng = np.random.default_rng(0)
    for _ in range(300):
        mu, x = 10 ** rng.uniform(2, 6), rng.uniform(-3, 12)
        epsilon = mu * mu / 2 + mu * x
        with mp.workdps(60):
            m, e = mp.mpf(mu), mp.mpf(epsilon)
            truth = mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)
            found = GaussianDP(mu).delta(epsilon)
            assert found.lower <= truth <= found.upper


@pytest.mark.parametrize("mu", [300.0, 1e4, 1e6])
def test_delta_of_mixtures_and_of_frequent_draws_at_large_mu(mu: float) -> None:
    # Where mu is large, epsilon / mu and mu / 2 nearly agree: a relative room of 1e-12 is too little.
    rate, steps = 1 - 2.0**-53, 100
    drawn = ExactComposition((Composition((Repeated(PoissonRemove(rate, mu / 10), steps),)),))
    for k in np.linspace(-2, 8, 30):
        epsilon = mu * mu / 2 + k * mu
        with mp.workdps(60):
            exact = reference.gdp_delta(mu, epsilon)
            assert MixtureOfGaussianDP((mu, mu), (0.5, 0.5)).delta(epsilon).upper >= exact
            for mus in ((mu, 1.0), (1.0, mu)):  # The smaller mu adds nothing so far out, and the larger one decides on the room.
                found = MixtureOfGaussianDP(mus, (0.5, 0.5)).delta(epsilon)
                assert found.lower <= exact / 2 <= found.upper
            assert drawn.delta(epsilon).upper >= exact * mp.mpf(rate) ** steps


def test_epsilon_of_mixtures_where_delta_hardly_falls() -> None:
    # Delta is 1e-5 but for a share of 1e-16 up to an epsilon of 490,000: it is above the next smaller number.
    delta = math.nextafter(1e-5, 0.0)
    for mus, far in (((1000.0, 0.0), 490_000), ((1000.0, 1e-300), 490_000)):
        found = MixtureOfGaussianDP(mus, (1e-5, 1 - 1e-5))
        assert found.epsilon(delta).upper == found.upper(delta) > far


def test_epsilon_of_mixtures_next_to_0() -> None:
    mus, weights, delta = (1.7628432819582527, 0.7802237837415016), (0.6183689966753316, 0.38163100332466837), 0.5004127171137186
    upper = MixtureOfGaussianDP(mus, weights).upper(delta)
    with mp.workdps(40):
        assert sum(w * reference.gdp_delta(mp.mpf(mu), mp.mpf(upper)) for mu, w in zip(mus, weights, strict=True)) <= delta


@pytest.mark.parametrize("mu", [5e-324, 1e-300, 1e-160])
def test_delta_far_beyond_a_tiny_mu(mu: float) -> None:
    for epsilon in (1.0, 1e10, 1e300):
        assert gdp_delta(mu, epsilon) == 5e-324
        assert GaussianDP(mu).delta(epsilon).lower == 0


def test_no_delta_is_zero_by_underflow() -> None:
    drawn = [ExactComposition((Composition((Repeated(PoissonRemove(0.1, 1.0), steps),)),)) for steps in (1, 3)]
    renyi = RenyiDP((Composition((), 1.0),))
    for guarantee in (GaussianDP(1.0), MixtureOfGaussianDP((1.0, 0.5), (0.5, 0.5)), ZeroConcentratedDP(0.5), renyi, *drawn):
        found = guarantee.delta(90.0)
        assert found.lower == 0
        assert found.upper > 0
    assert GaussianDP(0.0).delta(1.0).upper == 0


@pytest.mark.parametrize("delta", [1e-299, 1e-305, 1e-310])
def test_epsilon_of_mixtures_at_the_least_deltas(delta: float) -> None:
    equal, alone = MixtureOfGaussianDP((1.0, 1.0), (0.5, 0.5)).epsilon(delta), GaussianDP(1.0).epsilon(delta)
    assert equal.upper == pytest.approx(alone.upper, rel=1e-12)


def test_mixtures_with_a_mu_beyond_double_precision() -> None:
    for mu in (1e120, math.inf):
        found = MixtureOfGaussianDP((mu, 1.0), (1e-9, 1 - 1e-9)).epsilon(1e-5)
        assert (found.lower, found.upper) == (0, math.inf)
