"""Functionals, limits, the least mu, and what an attacker can do."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import gc
import math
import weakref
from collections.abc import Callable
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr, ndtri

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, GaussianDP, Guarantee, compositions, gdp_delta
from dplateau.accounting.attack import accuracy, accuracy_chain, advantage, detection_chain, posterior, true_positive_rate
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonRemove
from dplateau.accounting.trade_offs import (
    Gaussian,
    OfPair,
    TradeOff,
    epsilon_delta,
    functionals,
    least_mu,
    limit_mu,
    maximum,
    of_masses,
    subsampled_limit_mu,
    trade_off,
)
from dplateau.accounting.trade_offs.piecewise import corners
from dplateau.spec import InputError

ROWS = [(256 / 60_000, 1.3, 3516), (256 / 60_000, 0.7, 10_547), (256 / 60_000, 0.5, 23_438)]


def composed(q: float, z: float, steps: int) -> ExactComposition:
    return ExactComposition(compositions(dp.Run(n=60_000, sampling=dp.Poisson(q * 60_000), steps=steps, noise_multiplier=z))[0])


class TestFunctionals:
    @pytest.mark.parametrize("mu", [0.05, 1.0, 3.0])
    def test_gaussian(self, mu: float) -> None:
        """L is N(-mu^2/2, mu^2) under P (P2, Lemma B.1)."""
        f = functionals(Gaussian(mu))
        assert f.kl == pytest.approx(mu**2 / 2, rel=1e-9)
        assert f.kl_tilde == pytest.approx(mu**2 / 2, rel=1e-9)
        assert f.kappa2 == pytest.approx(mu**2 + mu**4 / 4, rel=1e-9)
        assert f.chi2 == pytest.approx(math.expm1(mu**2), rel=1e-9)
        with mp.workdps(20):
            third = mp.quad(lambda x: abs(-(mu**2) / 2 + mu * x) ** 3 * mp.npdf(x), [-12, mu / 2, 12])
        assert f.kappa3 == pytest.approx(float(third), rel=1e-8)
        assert f.kappa3_tilde == pytest.approx(float(third), rel=1e-8)

    @pytest.mark.parametrize(("q", "mu"), [(0.004, 1 / 0.7), (0.3, 0.5)])
    def test_a_sampled_step_by_quadrature(self, q: float, mu: float) -> None:
        """P2, Lemma B.2, with g = |f'| - 1."""
        x = np.linspace(-12, 12 + mu, 200_001)
        density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi) * (x[1] - x[0])
        ratio = 1 + q * np.expm1(mu * x - mu**2 / 2)
        loss = np.log(ratio)
        f = functionals(OfPair(PoissonRemove(q, mu)))
        expected = {
            "kl": -(density @ loss),
            "kl_tilde": density @ (ratio * loss),
            "kappa2": density @ loss**2,
            "kappa2_tilde": density @ (ratio * loss**2),
            "kappa3": density @ np.abs(loss) ** 3,
            "kappa3_tilde": density @ (ratio * np.abs(loss) ** 3),
            "chi2": density @ (ratio - 1) ** 2,
        }
        for name, value in expected.items():
            assert getattr(f, name) == pytest.approx(float(value), rel=1e-7), name

    def test_two_points(self) -> None:
        p, q = np.array([0.3, 0.7]), np.array([0.6, 0.4])
        f = functionals(of_masses(p, q))
        loss = np.log(q / p)
        assert f.kl == pytest.approx(-(p @ loss), rel=1e-9)
        assert f.kl_tilde == pytest.approx(q @ loss, rel=1e-9)
        assert f.kappa3 == pytest.approx(p @ np.abs(loss) ** 3, rel=1e-9)
        assert f.chi2 == pytest.approx(p @ (q / p - 1) ** 2, rel=1e-9)
        assert functionals(epsilon_delta(1.0, 0.1)).kl == math.inf

    def test_inverse_swaps(self) -> None:
        f = OfPair(PoissonRemove(0.1, 1.0))
        here, back = functionals(f), functionals(f.inverse)
        assert (here.kl, here.kappa2, here.kappa3) == pytest.approx((back.kl_tilde, back.kappa2_tilde, back.kappa3_tilde), rel=1e-8)

    def test_functions_that_were_asked_long_ago_are_not_kept(self) -> None:
        f = of_masses(np.array([0.3, 0.7]), np.array([0.6, 0.4]))
        functionals(f)
        kept = weakref.ref(f)
        del f
        for one in range(100):
            functionals(epsilon_delta(float(one), 0.1))
        gc.collect()
        assert kept() is None


class TestLimits:
    """P2, Theorems 5 to 7, and how far they are from the truth."""

    def test_theorem_6_is_equation_3_1(self) -> None:
        for q, z, steps in ROWS:
            expected = q * math.sqrt(steps * math.expm1(1 / z**2))
            assert subsampled_limit_mu(Gaussian(1 / z), q, steps) == pytest.approx(expected, rel=1e-7)

    def test_theorem_7_approaches_theorem_6(self) -> None:
        z, scale = 1.0, 2.0
        gaps = []
        for steps in (10**2, 10**4, 10**6):
            p = scale / math.sqrt(steps) / 10
            mu = limit_mu([(OfPair(PoissonRemove(p, 1 / z)), steps)])
            gaps.append(abs(mu / subsampled_limit_mu(Gaussian(1 / z), p, steps) - 1))
        assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]

    def test_many_gaussians_add_up(self) -> None:
        small = Gaussian(0.01)
        assert limit_mu([(small, 10_000)]) == pytest.approx(1.0, rel=1e-4)
        with pytest.raises(InputError, match="at least one"):
            limit_mu([])

    def test_the_error_is_real(self) -> None:
        """Row 3 of P2: both limits lie below the truth by more than their distance from each other."""
        q, z, steps = ROWS[1]
        truth = composed(q, z, steps).epsilon(1e-5).lower
        for mu in (limit_mu([(OfPair(PoissonRemove(q, 1 / z)), steps)]), subsampled_limit_mu(Gaussian(1 / z), q, steps)):
            assert GaussianDP(mu).epsilon(1e-5).upper < 0.92 * truth


class TestLeastMu:
    def test_gaussian_is_itself(self) -> None:
        found = least_mu(GaussianDP(0.7))
        assert found.upper == 0.7
        assert found.width < 1e-8

    @pytest.mark.parametrize("mu", [1e-3, 0.3, 1.0, 5.0])
    @pytest.mark.parametrize("floor", [1e-10, 1e-4, 0.1, 0.5, 1.0])
    def test_of_a_gaussian_with_a_large_floor_it_is_less(self, mu: float, floor: float) -> None:
        found, epsilons = least_mu(GaussianDP(mu), floor), np.linspace(0.0, 10 * mu + mu**2, 400)

        def lost(mu: float) -> np.ndarray:
            return np.exp(log_gdp_delta(mu, epsilons))

        low, high = 0.0, mu
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if (lost(mu) <= lost(middle) + floor).all() else (middle, high)
        assert found.lower <= high
        assert found.upper >= low

    @pytest.mark.parametrize(("q", "z", "steps"), ROWS)
    @pytest.mark.parametrize("floor", [1e-5, 1e-10])
    def test_it_dominates_and_less_does_not(self, q: float, z: float, steps: int, floor: float) -> None:
        guarantee = composed(q, z, steps)
        found = least_mu(guarantee, floor)
        assert found.width <= 1e-5 * found.upper
        last = guarantee.epsilon(floor).upper
        epsilons = np.linspace(0, last, 60)
        deltas = [guarantee.delta(float(e)) for e in epsilons]
        assert all(d.lower <= gdp_delta(found.upper, float(e)) + floor for e, d in zip(epsilons, deltas, strict=True))
        less = found.lower * 0.999
        fine = np.linspace(0, last, 400)
        assert any(guarantee.delta(float(e)).lower > gdp_delta(less, float(e)) + floor for e in fine)
        # (G_mu - floor)-DP, as a trade-off function.
        f = trade_off(guarantee)
        for alpha in (1e-4, 0.05, 0.5):
            assert f.enclosure(alpha).upper >= Gaussian(found.upper)(alpha) - floor - 1e-12

    def test_without_a_floor_it_is_the_run_without_sampling(self) -> None:
        """The tails of a sampled run are those of an unsampled one: mu grows towards sqrt(T)/z as the floor falls."""
        guarantee, whole = composed(0.5, 0.5, 1), 1 / 0.5
        found = [least_mu(guarantee, floor).upper for floor in (1e-3, 1e-6, 1e-10, 1e-14)]
        assert found == sorted(found)
        assert found[0] < 0.85 * whole
        assert 0.95 * whole < found[-1] < whole

    def test_mixture(self) -> None:
        found = least_mu(MixtureOfGaussianDP((0.2, 1.0), (0.99, 0.01)), 1e-12)
        assert 0.5 < found.upper < 1.0

    @pytest.mark.parametrize(
        ("mus", "rare", "floor"),
        [((1e-9, 1.0), 2**-20, 1e-14), ((0.3, 6.0), 2**-20, 1e-17), ((2.0, 18.0), 2**-10, 1e-15), ((16.0, 16.0), 0.5, 1e-17)],
    )
    def test_tiny_floors(self, mus: tuple[float, float], rare: float, floor: float) -> None:
        """Where a profile is next to 0, or to 1, a chord's type II error is a difference that has lost its digits."""
        found = least_mu(MixtureOfGaussianDP(mus, (1 - rare, rare)), floor)

        def missed(mu: float, epsilon: float) -> mp.mpf:
            """1 - delta of mu-GDP."""
            far = epsilon / mp.mpf(mu)
            return mp.ncdf(far - mp.mpf(mu) / 2) + mp.exp(epsilon) * mp.ncdf(-far - mp.mpf(mu) / 2)

        with mp.workdps(60):
            for epsilon in np.linspace(0.0, mus[1] ** 2 / 2 + 8 * mus[1], 300).tolist():
                whole = (1 - rare) * missed(mus[0], epsilon) + rare * missed(mus[1], epsilon)
                assert found.upper == math.inf or missed(found.upper, epsilon) <= whole + floor

    @pytest.mark.parametrize("mu", [1e-6, 0.3, 4.0])
    @pytest.mark.parametrize("width", [1e-3, 1e-9])
    def test_a_profile_that_is_not_known_closely(self, mu: float, width: float) -> None:
        """Between neighbouring epsilons the chord of two upper ends may be steeper than any profile: the search ends, and holds."""

        class Rough(Guarantee):
            def epsilon(self, delta: float) -> Enclosure:
                return GaussianDP(mu).epsilon(delta)

            def delta(self, epsilon: float) -> Enclosure:
                true, above = gdp_delta(mu, epsilon), 1 + width * math.sin(1e9 * epsilon) ** 2
                return Enclosure(true / above, min(true * above, 1.0))

        found = least_mu(Rough(), 1e-10)
        assert found.lower <= mu + 1e-9
        assert mu <= found.upper + 1e-9
        assert found.width <= 20 * mu * width + 5e-4 * mu + 1e-9

    @pytest.mark.parametrize("helps", [True, False])
    def test_a_profile_that_knows_less_than_delta(self, helps: bool) -> None:
        """Where the profile's digits decide a chord, delta itself is asked: a few times, and no more where that tells nothing."""
        exact, asked = composed(*ROWS[1]), []

        class Blurred(Guarantee):
            def epsilon(self, delta: float) -> Enclosure:
                return exact.epsilon(delta)

            def blur(self, epsilon: float) -> Enclosure:
                true = exact.delta(epsilon)
                return Enclosure(true.lower, true.upper * (1 + 0.1 * math.sin(1e9 * epsilon) ** 2))

            def delta(self, epsilon: float) -> Enclosure:
                asked.append(epsilon)
                return exact.delta(epsilon) if helps else self.blur(epsilon)

            def profile(self, least: float) -> Callable[[float], Enclosure]:
                return self.blur

        found, truth = least_mu(Blurred(), 1e-10), least_mu(exact, 1e-10)
        assert truth.lower * (1 - 1e-8) <= found.upper
        assert found.lower <= truth.upper
        assert found.width <= (1e-5 if helps else 0.1) * truth.upper
        assert len(asked) <= (40 if helps else 3)

    def test_where_the_profile_is_a_lattice(self) -> None:
        found = least_mu(composed(256 / 29_305, 0.55, 2061))
        assert found.width <= 1e-5 * found.upper

    def test_where_neighbouring_epsilons_are_asked(self) -> None:
        """The chord between two of them divided by a difference of exponentials that is 0 in double precision."""
        run = dp.Run(n=405, sampling=dp.Poisson(1), steps=35, noise_multiplier=3.7417101539686453, adjacency="replace")
        found = least_mu(ExactComposition(compositions(run)[0]))
        assert 0 < found.lower <= found.upper < found.lower * 1.001

    def test_nothing_and_too_much(self) -> None:
        assert least_mu(composed(1e-4, 1000.0, 1), 1e-3).upper == 0
        assert (
            least_mu(
                ExactComposition(compositions(dp.Run(n=10, sampling=dp.Poisson(5), steps=10**6, noise_multiplier=1e-3))[0])
            ).upper
            > 100
        )
        for floor in (0.0, -1.0, 2.0, math.nan):
            with pytest.raises(InputError, match="floor"):
                least_mu(GaussianDP(1.0), floor)

    def test_a_floor_just_below_what_delta_is_known_to_at_0(self) -> None:
        """Epsilon is 0 there by other means, so there was no cell to search."""
        guarantee = composed(0.1, 2.0, 10)
        floor = float(np.nextafter(guarantee.delta(0.0).upper, 0.0))
        assert guarantee.epsilon(floor).upper == 0
        assert least_mu(guarantee, floor) == Enclosure(0.0, 0.0)


class TestAttacks:
    def test_gaussian(self) -> None:
        f = Gaussian(1.0)
        assert true_positive_rate(f, 0.01) == pytest.approx(1 - f(0.01), abs=1e-10)
        assert advantage(f) == pytest.approx(math.erf(0.5 / math.sqrt(2)), rel=1e-12)
        assert accuracy(f) == pytest.approx((1 + advantage(f)) / 2)
        tpr = true_positive_rate(f, 0.01)
        assert posterior(f, 0.01, 0.2) == pytest.approx(0.2 * tpr / (0.2 * tpr + 0.8 * 0.01))
        assert posterior(Gaussian(0.0), 0.3, 0.2) == pytest.approx(0.2, abs=1e-9)

    @given(mu=st.floats(0.01, 5), fpr=st.floats(1e-6, 0.999), prior=st.floats(0.01, 0.99))
    @settings(max_examples=60, derandomize=True, deadline=None)
    def test_order(self, mu: float, fpr: float, prior: float) -> None:
        f, louder = Gaussian(mu), Gaussian(mu * 1.1)
        assert fpr - 1e-9 <= true_positive_rate(f, fpr) <= true_positive_rate(louder, fpr) + 1e-10
        assert prior - 1e-9 <= posterior(f, fpr, prior) <= posterior(louder, fpr, prior) + 1e-9 <= 1 + 1e-9

    def test_epsilon_bounds_the_odds(self) -> None:
        """Under pure epsilon-DP posterior odds are at most e^epsilon times the prior odds, and some attack has them."""
        f = epsilon_delta(1.0, 0.0)
        found = posterior(f, 0.1, 0.3)
        assert found / (1 - found) / (0.3 / 0.7) == pytest.approx(math.e, rel=1e-6)

    def test_simulated_attack_stays_below(self) -> None:
        """The likelihood ratio attack on the Gaussian mechanism is on the curve; neither a smaller nor a larger mu fits it."""
        rng = np.random.default_rng(0)
        draws, mu = 400_000, 1.0
        absent, present = rng.normal(size=draws), rng.normal(size=draws) + mu
        for fpr in (0.01, 0.1, 0.5):
            cut = float(-np.sqrt(2) * float(mp.erfinv(2 * fpr - 1)))
            caught, wrong = (present > cut).mean(), (absent > cut).mean()
            error = 4 * math.sqrt(caught * (1 - caught) / draws)
            assert wrong == pytest.approx(fpr, abs=4 * math.sqrt(fpr / draws))
            assert abs(caught - true_positive_rate(Gaussian(mu), fpr)) < error + 0.001 * (fpr < 0.05)
            assert caught > true_positive_rate(Gaussian(0.9 * mu), fpr) + error
            assert caught < true_positive_rate(Gaussian(1.1 * mu), fpr) - error

    @pytest.mark.parametrize("mu", [0.01, 0.3, 1.0])
    def test_rows_of_one_person(self, mu: float) -> None:
        """k rows of mu-GDP are k mu-GDP. What a chain of rates adds is at most 1e-4 of each."""
        for rows in range(1, 11):
            detected = ndtr(ndtri(0.01) + rows * mu)
            *_, found = detection_chain(Gaussian(mu), Fraction("0.01"), rows)
            assert detected <= found <= min(detected * (1 + 1.01e-4 * rows), 1)
            right = ndtr(rows * mu / 2)
            *_, found = accuracy_chain(Gaussian(mu), rows)
            assert right <= found <= min(right * (1 + 1.01e-4 * rows), 1)

    @given(
        points=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0)), min_size=1, max_size=5),
        rows=st.integers(1, 7),
    )
    @settings(max_examples=60, derandomize=True, deadline=None)
    def test_right_answers_of_groups(self, points: list[tuple[float, float]], rows: int) -> None:
        """Of any symmetric polygon: no test of data sets that differ in several rows is right more often, and one is as often."""
        below = sorted((min(a, 1 - b), min(b, 1 - a)) for a, b in points)
        half = corners(np.array([0.0, *(a for a, _ in below), 1.0]), np.array([1.0, *(b for _, b in below), 0.0]))
        f = half.symmetrized
        most = accuracy(f.group(rows))
        *_, found = accuracy_chain(f, rows)
        assert most - 1e-12 <= found <= most * (1 + 1e-4 * rows)
        alphas = np.linspace(0, 1, 1001)
        assert ((1 - f.group(rows)(alphas) + 1 - alphas) / 2).max() <= found + 1e-12

    def test_refused(self) -> None:
        for call in (
            lambda: true_positive_rate(Gaussian(1), 1.5),
            lambda: true_positive_rate(Gaussian(1), math.nan),
            lambda: posterior(Gaussian(1), 0.1, 0.0),
            lambda: posterior(Gaussian(1), -0.1, 0.5),
        ):
            with pytest.raises(InputError, match=r"expected a (finite )?number"):
                call()
        assert posterior(Gaussian(1.0), 0.0, 0.4) in (0.4, 1.0)


class TestDeciding:
    """``f(alpha) = 1 - delta - e^epsilon alpha`` at the epsilon that decides."""

    @pytest.mark.parametrize(
        "f",
        [
            Gaussian(1.0),
            Gaussian(1.0).subsampled(0.1),
            Gaussian(1.0).amplified(0.1),
            Gaussian(2.0).polygon(),
            maximum(Gaussian(1.0), epsilon_delta(0.5, 0.2)),
            trade_off(
                dp.account(dp.Run(n=1000, sampling=dp.Poisson(10), steps=100, noise_multiplier=1.0), 1e-6).best.bound.guarantee
            ),
        ],
        ids=["gaussian", "sampled", "amplified", "polygon", "maximum", "enclosed"],
    )
    @pytest.mark.parametrize("alpha", [1e-6, 0.01, 0.3, 0.7, 0.99])
    def test_it_gives_the_function(self, f: TradeOff, alpha: float) -> None:
        epsilon = f.deciding(alpha)
        assert 1 - f.delta(epsilon) - math.exp(epsilon) * alpha == pytest.approx(f(alpha), abs=1e-12)

    def test_a_test_that_never_errs(self) -> None:
        assert Gaussian(1.0).deciding(0.0) == pytest.approx(600)
        assert Gaussian(1.0).deciding(1.0) == pytest.approx(-600)
