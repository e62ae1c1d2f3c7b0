"""Trade-off functions with closed forms, against 40-digit arithmetic and against each other."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

from dplateau.accounting import gdp_delta, gdp_epsilon
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace
from dplateau.accounting.trade_offs import (
    Gaussian,
    OfPair,
    Piecewise,
    TradeOff,
    epsilon_delta,
    functionals,
    maximum,
    minimum,
    mixture,
    of_table,
    product,
)
from dplateau.accounting.trade_offs.operations import Subsampled
from dplateau.spec import InputError

ALPHA = np.array([0.0, 1e-12, 1e-6, 1e-3, 0.03, 0.2, 0.5, 0.8, 0.97, 1 - 1e-6, 1.0])
EPSILON = np.array([-30.0, -4.0, -1.0, -0.2, 0.0, 1e-6, 0.3, 1.0, 3.0, 8.0])
SMOOTH: list[TradeOff] = [
    Gaussian(0.01),
    Gaussian(1.0),
    Gaussian(6.0),
    OfPair(PoissonRemove(0.01, 2.0)),
    OfPair(PoissonAdd(0.3, 1.0)),
    OfPair(PoissonReplace(0.1, 0.7)),
    OfPair(Amplified(0.2, 1.5)),
    Gaussian(1.0).subsampled(0.05),
    Gaussian(2.0).subsampled(0.4).inverse,
    Gaussian(1.0).amplified(0.1),
    epsilon_delta(0.7, 0.02).subsampled(0.3),
    Subsampled(epsilon_delta(0.7, 0.02), 0.3),
    mixture([Gaussian(0.5), epsilon_delta(1.0, 1e-3)], [0.3, 0.7]),
    minimum(Gaussian(0.5), epsilon_delta(1.0, 1e-3)),
    epsilon_delta(1.0, 1e-3),
    epsilon_delta(0.0, 0.1),
    of_table(np.array([0.0, 0.5, 1.0, 2.0]), np.array([0.3, 0.1, 0.02, 1e-4])),
]


def gaussian(alpha: float, mu: float) -> mp.mpf:
    with mp.workdps(40):
        a = mp.mpf(alpha)
        quantile = -mp.sqrt(2) * mp.erfinv(2 * a - 1)
        return mp.ncdf(quantile - mu)


@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0])
def test_gaussian_to_many_digits(mu: float) -> None:
    for alpha in (1e-12, 1e-5, 0.01, 0.3, 0.5, 0.77, 0.999):
        assert Gaussian(mu)(alpha) == pytest.approx(float(gaussian(alpha, mu)), rel=1e-10)
        assert 1 - Gaussian(mu)(alpha) == pytest.approx(float(1 - gaussian(alpha, mu)), rel=1e-9, abs=1e-15)
    for epsilon in (0.0, 0.5, 3.0):
        assert Gaussian(mu).delta(epsilon) == pytest.approx(gdp_delta(mu, epsilon), rel=1e-12)
    assert Gaussian(mu).epsilon(1e-6) == pytest.approx(gdp_epsilon(mu, 1e-6), rel=1e-12)


@pytest.mark.parametrize("f", SMOOTH, ids=lambda f: type(f).__name__)
class TestEvery:
    """What makes a trade-off function, and the duality with its profile (P2, section 2.1)."""

    def test_it_is_one(self, f: TradeOff) -> None:
        alpha = np.linspace(0, 1, 2001)
        value = f(alpha)
        assert value[-1] == 0
        assert (value <= 1 - alpha + 1e-15).all()
        assert (np.diff(value) <= 1e-14).all()
        assert (np.diff(value, 2) >= -1e-11).all()
        assert isinstance(f(0.5), float)

    def test_the_profile_is_the_conjugate(self, f: TradeOff) -> None:
        for epsilon in (-2.0, 0.0, 0.4, 1.5):
            found = minimize_scalar(
                lambda a, e=epsilon: f(a) + math.exp(e) * a, bounds=(0, 1), method="bounded", options={"xatol": 1e-13}
            )
            ends = min(f(0.0), f(1.0) + math.exp(epsilon))
            expected = 1 - min(found.fun, ends)
            assert f.delta(epsilon) == pytest.approx(expected, abs=1e-8)
            assert f.conjugate(-math.exp(epsilon)) == pytest.approx(expected - 1, abs=1e-8)
        assert f.conjugate(0.0) == 0

    def test_the_double_conjugate_is_itself(self, f: TradeOff) -> None:
        """sup over slopes of slope * alpha - f*(slope) (closed convex functions)."""
        epsilon = np.concatenate([np.linspace(-4, 4, 80_001), np.sinh(np.linspace(-16, 16, 20_001)) / 1e5])
        conjugate = np.exp(f.log_delta(epsilon)) - 1
        for alpha in (0.01, 0.2, 0.6, 0.95):
            assert np.max(-np.exp(epsilon) * alpha - conjugate) == pytest.approx(f(alpha), abs=2e-5)

    def test_the_inverse(self, f: TradeOff) -> None:
        back = f.inverse
        for alpha in (0.05, 0.3, 0.6):
            # f^-1(alpha) = inf {x: f(x) <= alpha}; both are continuous.
            x = back(alpha)
            assert f(x) <= alpha + 1e-9
            assert x < 1e-9 or f(max(x - 1e-7, 0.0)) >= alpha - 1e-12
        assert np.allclose(back.inverse(ALPHA), f(ALPHA), atol=1e-13)
        for epsilon in (-1.0, 0.2, 2.0):
            reverse = 1 - math.exp(epsilon) + math.exp(epsilon) * f.delta(-epsilon)
            assert back.delta(epsilon) == pytest.approx(max(reverse, 0.0), abs=1e-12)

    def test_errors_of_the_likelihood_ratio_test(self, f: TradeOff) -> None:
        """alpha and beta of every test lie on f; delta is their weighted sum."""
        for epsilon in EPSILON[2:]:
            alpha = math.exp(float(f.log_alpha(np.array(epsilon))))
            beta = 1 - f.delta(float(epsilon)) - math.exp(epsilon) * alpha
            assert f(min(alpha, 1.0)) == pytest.approx(max(beta, 0.0), abs=1e-9)

    def test_polygon(self, f: TradeOff) -> None:
        line = f.polygon()
        alpha = np.linspace(0, 1, 501)
        gap = f(alpha) - line(alpha)
        assert gap.min() >= -1e-12
        assert gap.max() <= 3e-5

    def test_symmetrized(self, f: TradeOff) -> None:
        s = f.symmetrized
        alpha = np.linspace(0, 1, 101)
        both = np.minimum(f(alpha), f.inverse(alpha))
        assert (s(alpha) <= both + 1e-12).all()
        assert np.allclose(s(alpha), s.inverse(alpha), atol=1e-9)
        for epsilon in (0.0, 0.5, 2.0):
            assert s.delta(epsilon) == pytest.approx(max(f.delta(epsilon), f.inverse.delta(epsilon)), abs=1e-12)

    def test_enclosure_and_epsilon(self, f: TradeOff) -> None:
        for alpha in (0.0, 0.3, 1.0):
            found = f.enclosure(alpha)
            assert found.lower - 1e-15 <= f(alpha) <= found.upper + 1e-15
        for delta in (0.2, 0.05):
            epsilon = f.epsilon(delta)
            assert epsilon == math.inf or f.delta(epsilon) <= delta * (1 + 1e-9)
            assert not 0 < epsilon < math.inf or f.delta(epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)

    def test_refused(self, f: TradeOff) -> None:
        for alpha in (-0.1, 1.1, math.nan, np.array([0.5, 2.0])):
            with pytest.raises(InputError, match="type I error"):
                f(alpha)
        for delta in (0.0, -1.0, 1.5, math.nan):
            with pytest.raises(InputError, match="delta"):
                f.epsilon(delta)
        with pytest.raises(InputError, match="slope"):
            f.conjugate(0.5)
        for p in (0.0, -0.2, 1.5, math.nan, True):
            with pytest.raises(InputError, match="p is"):
                f.subsampled(p)
        for times in (0, 1.5):
            with pytest.raises(InputError, match=r"count|size"):
                f**times


class TestSampling:
    """f_p, its inverse and C_p(f) (P2, section 2.2; Dong, Roth, Su 2022, section 4)."""

    @pytest.mark.parametrize(("q", "mu"), [(0.01, 2.0), (0.3, 0.5), (0.9, 1.0), (1e-4, 0.1)])
    def test_poisson_is_f_p(self, q: float, mu: float) -> None:
        ours, law = Gaussian(mu).subsampled(q), OfPair(PoissonRemove(q, mu))
        assert np.allclose(ours(ALPHA), law(ALPHA), atol=1e-14, rtol=0)
        assert np.allclose(ours(ALPHA), q * Gaussian(mu)(ALPHA) + (1 - q) * (1 - ALPHA), atol=1e-14, rtol=0)
        assert np.allclose(ours.inverse(ALPHA), law.inverse(ALPHA), atol=1e-14, rtol=0)
        for f, g in ((ours, law), (ours.inverse, law.inverse)):
            with np.errstate(divide="ignore"):
                assert np.allclose(f.log_delta(EPSILON), g.log_delta(EPSILON), rtol=1e-9, equal_nan=False)

    @pytest.mark.parametrize(("q", "mu"), [(0.01, 2.0), (0.3, 0.5), (0.9, 1.0)])
    def test_fixed_size_is_c_p(self, q: float, mu: float) -> None:
        assert np.allclose(Gaussian(mu).amplified(q)(ALPHA), OfPair(Amplified(q, mu))(ALPHA), atol=1e-14, rtol=0)

    def test_c_p_of_epsilon_delta(self) -> None:
        """(epsilon, delta)-DP on a sample gives (log(1 + p (e^epsilon - 1)), p delta)-DP, and more (P2, section 2.2)."""
        f = epsilon_delta(1.0, 0.01)
        c = f.amplified(0.2)
        known = epsilon_delta(math.log1p(0.2 * math.expm1(1.0)), 0.002)
        alpha = np.linspace(0, 1, 401)
        assert (c(alpha) >= known(alpha) - 1e-14).all()
        assert (c(alpha) - known(alpha)).max() > 0.01

    def test_piecewise_and_smooth_agree(self) -> None:
        f = epsilon_delta(0.8, 0.03)
        exact, general = f.subsampled(0.25), Subsampled(f, 0.25)
        assert isinstance(exact, Piecewise)
        assert np.allclose(exact(ALPHA), general(ALPHA), atol=1e-13)
        assert np.allclose(exact.inverse(ALPHA), general.inverse(ALPHA), atol=1e-13)
        assert exact.certain == pytest.approx(general.certain)
        assert exact.greatest == pytest.approx(general.greatest)
        assert exact.inverse.greatest == pytest.approx(general.inverse.greatest)

    def test_sampling_twice(self) -> None:
        assert np.allclose(Gaussian(1).subsampled(0.5).subsampled(0.2)(ALPHA), Gaussian(1).subsampled(0.1)(ALPHA), atol=1e-14)
        assert Gaussian(1).subsampled(1.0) == Gaussian(1)

    @pytest.mark.parametrize("f", [Piecewise([0.0, 1.0], [0.4, 0.0]), Piecewise([0.0, 0.4], [1.0, 0.0])])
    def test_all_of_it_is_itself(self, f: Piecewise) -> None:
        """What P never shows, and what Q never does, change places in the inverse."""
        whole = Subsampled(f, 1.0)
        for found, expected in ((whole, f), (whole.inverse, f.inverse)):
            assert found.certain == expected.certain
            assert np.allclose(found(ALPHA), expected(ALPHA), atol=1e-15)
            assert np.allclose(product([(found, 3)])(ALPHA), product([(expected, 3)])(ALPHA), atol=1e-3)


@given(weight=st.floats(0.01, 0.99), first=st.floats(0.05, 4), second=st.floats(0.05, 4), epsilon=st.floats(0, 6))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_mixture_and_minimum_by_their_profiles(weight: float, first: float, second: float, epsilon: float) -> None:
    f, g = Gaussian(first), epsilon_delta(second, 0.001)
    mixed, least = mixture([f, g], [weight, 1 - weight]), minimum(f, g)
    assert mixed.delta(epsilon) == pytest.approx(weight * f.delta(epsilon) + (1 - weight) * g.delta(epsilon), rel=1e-12)
    assert least.delta(epsilon) == pytest.approx(max(f.delta(epsilon), g.delta(epsilon)), rel=1e-12)


@pytest.mark.parametrize("mu", [25.0, 37.0, 40.0, 100.0])
@pytest.mark.parametrize("q", [0.001, 0.9])
def test_what_larger_epsilons_would_say_is_in_the_enclosure(q: float, mu: float) -> None:
    """At these type I errors the best epsilon may be beyond those that are looked at."""
    f = OfPair(PoissonRemove(q, mu))
    for threshold in (30.0, 34.4, 34.6, 36.0, 37.2, 38.4):
        found = f.enclosure(float(mp.ncdf(-threshold)))
        assert found.lower <= (1 - q) * mp.ncdf(threshold) + q * mp.ncdf(threshold - mu) <= found.upper, threshold
    assert f.enclosure(0.0).upper == 1
    mixed = mixture([f, epsilon_delta(0.1, 0.2)], [0.5, 0.5]).enclosure(0.0)
    assert mixed.lower <= 0.9 <= mixed.upper < 0.9 + 2e-11
    assert f.enclosure(1e-200).width < 3e-11  # It has an epsilon among them.


def test_mixture_is_the_best_split_of_alpha() -> None:
    """A test may spend its type I error where it pays: f(alpha) is the least sum of w f(a) over sum w a = alpha."""
    f, g, w = Gaussian(0.5), Gaussian(2.0), 0.3
    mixed = mixture([f, g], [w, 1 - w])
    for alpha in (0.02, 0.2, 0.7):
        a = np.linspace(0, min(alpha / w, 1), 200_001)
        b = (alpha - w * a) / (1 - w)
        a, b = a[(b >= 0) & (b <= 1)], b[(b >= 0) & (b <= 1)]
        assert mixed(alpha) == pytest.approx(float((w * f(a) + (1 - w) * g(b)).min()), abs=1e-9)


def test_bad_arguments() -> None:
    for call, match in (
        (lambda: Gaussian(-1), "mu"),
        (lambda: Gaussian(math.nan), "mu"),
        (lambda: epsilon_delta(-1, 0.1), "epsilon"),
        (lambda: epsilon_delta(1, 1.1), "delta"),
        (lambda: mixture([], []), "mixture"),
        (lambda: mixture([Gaussian(1)], [0.5]), "sum to 0.5"),
        (lambda: mixture([Gaussian(1), Gaussian(2)], [1.0]), "one weight"),
        (minimum, "at least one"),
        (maximum, "at least one"),
        (lambda: minimum(Gaussian(1), "f"), "expected a TradeOff"),
        (lambda: functionals(1.0), "expected a TradeOff"),
        (lambda: of_table(np.array([1.0]), np.array([0.1, 0.2])), "as many deltas"),
        (lambda: of_table(np.array([-1.0]), np.array([0.1])), "finite epsilons"),
        (lambda: of_table(np.array([1.0]), np.array([math.nan])), "deltas in"),
        (lambda: Piecewise(np.array([0.0, 0.5]), np.array([0.5, 0.4])), "corners"),
        (lambda: Piecewise(np.array([0.0]), np.array([0.5, 0.0])), "length"),
    ):
        with pytest.raises(InputError, match=match):
            call()
