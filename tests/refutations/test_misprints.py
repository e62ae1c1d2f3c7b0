"""Formulas that are printed wrongly, each recomputed: what is printed, and what is true."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.stats import norm

import dplateau as dp
from dplateau.accounting import GaussianDP
from dplateau.accounting.trade_offs import Gaussian
from dplateau.accounting.trade_offs.functionals import functionals
from dplateau.analyses import ExactCompositionBound
from dplateau.analyses.pnsgd import PNSGDBound


def gaussian_delta(shift: float, noise: float, epsilon: float) -> float:
    """The hockey-stick integral of N(shift, noise^2) and N(0, noise^2)."""
    start = shift / 2 + noise**2 * epsilon / shift
    value, _ = quad(
        lambda x: norm.pdf(x, shift, noise) - math.exp(epsilon) * norm.pdf(x, 0, noise),
        start,
        max(start, shift) + 30 * noise,
        epsabs=1e-15,
    )
    return value


def test_where_the_noise_goes_in_pnsgd() -> None:
    """Feldman, Koren, Talwar 2020, Algorithm 1, line 2.

    Printed: ``v = w - eta grad + xi``, xi ~ N(0, sigma^2). True (the proof of Theorem 3.1, and its bound): the noise is scaled by
    eta as well, ``v = w - eta (grad + xi)``. With steps above 1 the printed algorithm does not have the theorem's privacy.
    """
    eta, sigma, batch = 4.0, 0.5, 10
    run = dp.Run(
        n=batch,
        sampling=dp.OnePass(batch),
        steps=1,
        noise_multiplier=sigma * batch,
        step_size=eta,
        smoothness=0.5,
        strong_convexity=0.0,
        adjacency="replace",
        released="last",
    )
    epsilon = PNSGDBound().guarantee(run).epsilon(1e-5).upper
    moved = 2 * eta / batch
    assert gaussian_delta(moved, sigma, epsilon) > 1e-3
    assert gaussian_delta(moved, eta * sigma, epsilon) <= 1e-5


@pytest.mark.parametrize(("d", "steps", "rho"), [(100, 1000, 0.5), (10, 50, 0.1), (400, 20_000, 1.0)])
def test_records_used_by_the_second_snowball(d: int, steps: int, rho: float) -> None:
    """Feldman, Koren, Talwar 2020, Theorem 3.6.

    Printed: ``B_t = ceil(4 sqrt(3d/(T-t+1))/rho)`` and ``n <= T + 4 sqrt(dT)/rho`` (Theorem 3.5's, whose batches are smaller).
    True, by its own proof: ``n <= T + 8 sqrt(3dT)/rho``.
    """
    left = np.arange(steps, 0, -1.0)
    used = float(np.ceil(4 * np.sqrt(3 * d / left) / rho).sum())
    assert used > steps + 4 * math.sqrt(d * steps) / rho
    assert used <= steps + 8 * math.sqrt(3 * d * steps) / rho
    # Theorem 3.5 has that bound rightly.
    assert float(np.ceil(2 * np.sqrt(d / left) / rho).sum()) <= steps + 4 * math.sqrt(d * steps) / rho


@pytest.mark.parametrize(("c", "q_step", "far"), [(0.9, 1e-3, 2.0), (0.99, 1e-5, 1.0), (0.5, 1e-2, 3.0)])
def test_the_best_look_back(c: float, q_step: float, far: float) -> None:
    """Altschuler, Talwar 2022, (B.3): the best look-back.

    Printed: ``beta = (1 - c)^2 a D^2 log c/(Q eta^2 sigma_1^2)``. True: ``1 - c^2`` in place of ``(1 - c)^2``. Here
    ``far = a D^2/(eta^2 sigma_1^2)``.
    """

    def cost(look: float) -> float:
        return look * q_step + far * (1 - c**2) / (2 * math.expm1(min(-2 * look * math.log(c), 700.0)))

    def best(front: float) -> float:
        beta = front * far * math.log(c) / q_step
        return -math.log((2 - beta + math.sqrt((2 - beta) ** 2 - 4)) / 2) / (2 * math.log(c))

    least = minimize_scalar(cost, bounds=(1e-6, 1e4), method="bounded", options={"xatol": 1e-10})
    assert best(1 - c**2) == pytest.approx(least.x, rel=1e-4)
    assert cost(best(1 - c**2)) == pytest.approx(least.fun, rel=1e-9)
    assert cost(best((1 - c) ** 2)) > 1.01 * least.fun


def quadratic_step(x: float, slope: float, smoothness: float, m: float, eta: float, noise: float) -> float:
    """E|x'|^2 exactly: batches of one of the losses M x^2/2 - slope x and m x^2/2 + slope x, whose mean has its minimum at 0."""
    squares = [((1 - eta * smoothness) * x + eta * slope) ** 2, ((1 - eta * m) * x - eta * slope) ** 2]
    return sum(squares) / 2 + 2 * eta * noise**2


def test_the_gradient_noise_of_the_langevin_recursion() -> None:
    """Ryffel, Bach, Pointcheval 2022, Lemma 4.1, from (11) on.

    Printed: ``E|x'|^2 <= (1 - eta m) |x|^2 + eta^2 xi^2 + 2 eta d s^2``, and in the end ``M eta xi^2/(2 m)``. The line before has
    2 eta^2 xi^2: a factor 2 is lost. True: ``M eta xi^2/m`` is what the proof gives. The printed recursion fails on a quadratic.
    """
    smoothness, m, slope, noise = 1.0, 0.01, 1.0, 0.1
    eta = 1 / (2 * smoothness)
    xi2 = slope**2

    def printed(x: float) -> float:
        return (1 - eta * m) * x**2 + eta**2 * xi2 + 2 * eta * noise**2

    points = np.linspace(-3, 3, 601)
    excess = np.array([quadratic_step(x, slope, smoothness, m, eta, noise) - printed(x) for x in points])
    assert excess.max() > 0.01
    assert (excess <= eta**2 * xi2 + 1e-12).all()

    # What the two recursions add up to, times M/2.
    def total(factor: int) -> float:
        x2 = 0.0
        for _ in range(20_000):
            x2 = (1 - eta * m) * x2 + factor * eta**2 * xi2
        return smoothness / 2 * x2

    assert total(1) == pytest.approx(smoothness * eta * xi2 / (2 * m))
    assert total(2) == pytest.approx(smoothness * eta * xi2 / m)


def test_the_limit_theorem_has_no_further_factor() -> None:
    """Bu, Dong, Long, Su 2020, Theorem 5.

    Printed: p sqrt(T) -> nu, and the limit has ``mu = nu sqrt(T (exp(1/sigma^2) - 1))``, which grows without bound. True (their
    section 3.1): ``mu = nu sqrt(exp(1/sigma^2) - 1)``, which exact composition approaches.
    """
    nu, sigma, delta = 0.5, 1.0, 1e-3
    right = nu * math.sqrt(math.expm1(1 / sigma**2))
    wanted = GaussianDP(right).epsilon(delta).upper
    gaps = []
    for steps in (10**3, 10**5, 10**7):
        n = 10**8
        run = dp.Run(n=n, sampling=dp.Poisson(nu / math.sqrt(steps) * n), steps=steps, noise_multiplier=sigma)
        gaps.append(abs(ExactCompositionBound().guarantee(run).epsilon(delta).upper - wanted) / wanted)
        printed = GaussianDP(right * math.sqrt(steps)).epsilon(delta).upper
        assert printed > 100 * wanted
    assert gaps[0] > 5 * gaps[1] > 25 * gaps[2]
    assert gaps[-1] < 1e-3


def test_both_divergences_of_the_limit_theorem_make_one() -> None:
    """Bu, Dong, Long, Su 2020, proof of Theorem 6.

    Printed: ``T kl(f_p) -> nu^2 chi^2(f)``. True, by their own (B.1): that is the limit of ``T (kl + kl~)``, of which kl is half.
    """
    z, nu, steps = 1.3, 0.5, 10**6
    found = functionals(Gaussian(1 / z).subsampled(nu / math.sqrt(steps))) * steps
    limit = nu**2 * math.expm1(1 / z**2)
    assert found.kl + found.kl_tilde == pytest.approx(limit, rel=1e-3)
    assert found.kl == pytest.approx(limit / 2, rel=1e-2)


def test_the_last_step_of_the_lower_bound() -> None:
    """Altschuler, Talwar 2022, appendix A.4.

    Printed: ``P[N(0, 1) >= -0.1/sqrt(0.001)]`` is about 0.999993. True: 0.9992. What is needed of it still holds.
    """
    found = norm.cdf(0.1 / math.sqrt(0.001))
    assert found == pytest.approx(0.99922, abs=1e-5)
    assert found - 0.1 >= math.exp(0.1) / 2 + 0.01


def test_what_is_left_of_the_shifts_must_be_nothing() -> None:
    """Feldman, Koren, Talwar 2020, Theorem 2.13.

    Printed: ``z_t >= 0`` for all t suffices for ``D_a <= sum of R_a(a_t)``. True: ``z_T = 0`` as well, as in Altschuler, Talwar
    2022, Proposition 2.17. One step from a common start whose maps differ by 1, with a_1 = 0: z_1 = 1, the printed bound is 0.
    """
    order, noise = 4.0, 1.0
    shifted, still = norm(1, noise), norm(0, noise)
    value, _ = quad(lambda x: math.exp(order * shifted.logpdf(x) + (1 - order) * still.logpdf(x)), -20, 30, limit=200)
    assert math.log(value) / (order - 1) == pytest.approx(order / 2)


@pytest.mark.parametrize("delta", [0.9, 0.1, 1e-5, 1e-12])
def test_the_classical_gaussian_mechanism_needs_a_small_epsilon(delta: float) -> None:
    """Wu et al. 2021, Lemma 2.1.

    Printed: noise of ``sqrt(2 log(1.25/delta))/epsilon`` is enough for every epsilon above 0. True up to about 3.78.
    """

    def found(epsilon: float) -> float:
        return gaussian_delta(1.0, math.sqrt(2 * math.log(1.25 / delta)) / epsilon, epsilon)

    assert found(3.7) <= delta
    assert found(20.0) > delta
    if delta == 1e-5:
        assert found(8.4) < delta < found(8.43)
        assert found(20.0) == pytest.approx(1.5e-3, rel=0.02)
