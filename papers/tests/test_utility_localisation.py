# pyright: basic
"""Localisation in phases and the reduction: sums written out, closed forms of the proofs, sensitivities, simulated runs."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.algorithms.localisation import convex_step, equal_count, halving_phases
from dplateau.spec import InputError
from dplateau_papers.utility import (
    Phases,
    localised_risk,
    phased_erm_phases,
    phased_erm_risk,
    phased_erm_sensitivity,
    phased_sgd_phases,
    phased_sgd_risk,
    phased_sgd_strongly_convex_phases,
    phased_sgd_strongly_convex_risk,
    printed_phased_erm_rate,
    printed_phased_sgd_risk,
    printed_phased_sgd_strongly_convex_rate,
    printed_reduction_risk,
    reduction_closed_form,
    reduction_counts,
    reduction_risk,
)

FOURS = st.integers(1, 15).map(lambda j: 4**j)
DIMENSION = st.integers(1, 10**6)
RHO = st.floats(0.001, 50)


def test_sum_by_hand() -> None:
    phases = Phases((4, 2), (0.5, 0.1), (0.3, 0.2))
    d, L, D = 5, 2.0, 3.0
    ends = L * math.sqrt(5) * 0.2
    steps = 0.6 * L**2
    assert localised_risk(phases, d, L, D) == pytest.approx(9 / (2 * 0.5 * 4) + 5 * 0.09 / (2 * 0.1 * 2) + steps / 2 + ends)
    erm = localised_risk(phases, d, L, D, start_factor=1.0, step_factor=2.0)
    assert erm == pytest.approx(9 / (0.5 * 4) + 5 * 0.09 / (0.1 * 2) + 2 * steps + ends)
    m = 0.7
    first, second = (m / 2 / ((1 - eta * m) ** -n - 1) for eta, n in ((0.5, 4), (0.1, 2)))
    strong = localised_risk(phases, d, L, D, strong_convexity=m)
    assert strong == pytest.approx(first * 9 + second * 5 * 0.09 + steps / 2 + ends)
    with pytest.raises(InputError, match="start_factor is 1"):
        localised_risk(phases, d, L, D, start_factor=1.0, strong_convexity=m)
    with pytest.raises(InputError, match="one of each a phase"):
        Phases((1, 2), (0.1,), (0.1,))


@settings(deadline=None)
@given(FOURS, DIMENSION, RHO, st.floats(0.1, 10), st.floats(0.1, 10))
def test_closed_forms_bound_the_sums(n: int, d: int, rho: float, L: float, D: float) -> None:
    rate, private = 1 / math.sqrt(n), math.sqrt(d) / (rho * n)
    slack = 1 + 1e-12
    assert phased_sgd_risk(n, d, rho, L, D) <= L * D * (5 / 3 * rate + 20 * private + 2 / n) * slack
    printed_noise = phased_sgd_risk(n, d, rho, L, D, noise_factor=4.0)
    assert printed_noise <= L * D * (5 / 3 * rate + 68 * private + 4 / n) * slack
    assert phased_erm_risk(n, d, rho, L, D) <= L * D * (14 / 3 * rate + 80 * private + 3 / n) * slack


def test_the_constants_cannot_be_much_lower() -> None:
    """With much privacy noise the sums come close to their closed forms, so 10 is not what the printed proof gives."""
    n, d, rho = 4**12, 10**6, 0.005
    private = math.sqrt(d) / (rho * n)
    assert phased_sgd_risk(n, d, rho, 1.0, 1.0) > 19 * private
    assert phased_sgd_risk(n, d, rho, 1.0, 1.0, noise_factor=4.0) > 65 * private
    assert printed_phased_sgd_risk(n, d, rho, 1.0, 1.0) < 11 * private
    # Where privacy costs as much as sampling, the calibrated noise does have the printed constant, the printed noise does not.
    d, rho = 10**4, 4 * 100 / math.sqrt(n)
    printed = printed_phased_sgd_risk(n, d, rho, 1.0, 1.0)
    assert phased_sgd_risk(n, d, rho, 1.0, 1.0) < printed < phased_sgd_risk(n, d, rho, 1.0, 1.0, noise_factor=4.0)


@settings(deadline=None)
@given(st.integers(2, 10**7), DIMENSION, RHO)
def test_phases(n: int, d: int, rho: float) -> None:
    plan = phased_sgd_phases(n, d, rho, 2.0, 3.0)
    assert min(plan.counts) >= 1
    assert sum(plan.counts) <= n
    assert 4 ** len(plan.counts) >= n > 4 ** (len(plan.counts) - 1)
    ratios = np.array(plan.noise) / np.array(plan.step_sizes)
    np.testing.assert_allclose(ratios, 2 * 2.0 / rho)  # sensitivity 2 L eta over rho
    np.testing.assert_allclose(plan.step_sizes[0], 3.0 / 2.0 / 4 * min(4 / math.sqrt(n), rho / math.sqrt(d)))
    erm = phased_erm_phases(n, d, rho, 2.0, 3.0, accuracy=0.25)
    np.testing.assert_allclose(np.array(erm.noise) * rho, [phased_erm_sensitivity(eta, 2.0, 0.25) for eta in erm.step_sizes])


@settings(deadline=None)
@given(st.integers(256, 10**7), DIMENSION, RHO)
def test_monotone(n: int, d: int, rho: float) -> None:
    for risk in (phased_sgd_risk, phased_erm_risk):
        base = risk(n, d, rho, 1.0, 1.0)
        assert risk(4 * n, d, rho, 1.0, 1.0) < base <= risk(n, d + 1, rho, 1.0, 1.0) * (1 + 1e-12)
        assert risk(n, d, 1.1 * rho, 1.0, 1.0) <= base * (1 + 1e-12)
        assert risk(n, d, rho, 3.0, 5.0) == pytest.approx(15 * base)
    assert phased_erm_risk(n, d, rho, 1.0, 1.0, accuracy=0.0) < phased_erm_risk(n, d, rho, 1.0, 1.0)
    assert printed_phased_erm_rate(n, d, 1.0, 1e-5, 1.0, 1.0) > printed_phased_erm_rate(4 * n, d, 1.0, 1e-5, 1.0, 1.0)


def test_more_phases_change_little() -> None:
    for n in (4**5, 4**8, 10**6):
        default, most = phased_sgd_risk(n, 10, 1.0, 1.0, 1.0), phased_sgd_risk(n, 10, 1.0, 1.0, 1.0, phases=n.bit_length() - 1)
        assert default <= most + 2 / n


def test_bad_input() -> None:
    with pytest.raises(InputError, match="ask for at most 4"):
        phased_sgd_phases(31, 10, 1.0, 1.0, 1.0, phases=5)
    with pytest.raises(InputError, match="exceeds 2/smoothness"):
        phased_sgd_risk(100, 1, 1e3, 1.0, 1.0, smoothness=21.0)
    assert phased_sgd_risk(100, 1, 1e3, 1.0, 1.0, smoothness=19.0) > 0
    with pytest.raises(InputError, match="records are too few"):
        phased_sgd_strongly_convex_phases(5, 1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="exceeds 2/smoothness"):
        phased_sgd_strongly_convex_phases(10**4, 1.0, 1.0, 1.0, smoothness=10**4)
    with pytest.raises(InputError, match="rho is 0"):
        phased_sgd_risk(100, 1, 0.0, 1.0, 1.0)
    with pytest.raises(InputError, match="delta is 2"):
        printed_phased_erm_rate(100, 1, 1.0, 2.0, 1.0, 1.0)


def test_sensitivity_of_a_regularised_minimiser_is_attained() -> None:
    """``f(w, x) = L x w``, x = +-1: the minimiser is ``-eta n L mean(x)/2``; ``a^2 L^2 eta/n`` above is ``a L eta`` away."""
    n, eta, L, a = 10, 0.3, 2.0, 0.5
    x = np.ones(n)
    minimiser = [-eta * n * L * float(np.mean(data)) / 2 for data in (x, np.where(np.arange(n) == 3, -1.0, x))]
    assert abs(minimiser[0] - minimiser[1]) == pytest.approx(phased_erm_sensitivity(eta, L))
    excess = (a * L * eta) ** 2 / (eta * n)
    assert excess == pytest.approx(a**2 * L**2 * eta / n)
    assert phased_erm_sensitivity(eta, L, a) == pytest.approx(phased_erm_sensitivity(eta, L) + 2 * a * L * eta)


def simulated(plan: Phases, d: int, rng: np.random.Generator, repeats: int, minimise: bool) -> float:
    """Mean excess of losses ``-<x, w>`` on the unit ball, x a random pattern of ``+-1/sqrt(d)`` of mean ``0.3/sqrt(d)``."""
    chance, ends = 0.5 + 0.15, np.zeros((repeats, d))

    def project(w: np.ndarray) -> np.ndarray:
        return w / np.maximum(1, np.linalg.norm(w, axis=1, keepdims=True))

    for n, eta, sigma in zip(plan.counts, plan.step_sizes, plan.noise, strict=True):
        signs = np.where(rng.random((repeats, n, d)) < chance, 1, -1) / math.sqrt(d)
        if minimise:
            ends = project(ends + eta * n / 2 * signs.mean(axis=1))
        else:
            w, total = ends, np.zeros_like(ends)
            for t in range(n):
                total += w
                w = project(w + eta * signs[:, t])
            ends = total / n
        ends = project(ends + sigma * rng.normal(size=ends.shape))
    mean = np.full(d, 0.3 / math.sqrt(d))
    return float(np.linalg.norm(mean) - (ends @ mean).mean())


@pytest.mark.parametrize("rho", [0.5, 5.0])
def test_simulated_runs_are_below(rho: float) -> None:
    n, d, rng = 256, 4, np.random.default_rng(5)
    sgd = phased_sgd_phases(n, d, rho, 1.0, 1.0)
    assert 0 < simulated(sgd, d, rng, 500, minimise=False) < phased_sgd_risk(n, d, rho, 1.0, 1.0)
    erm = phased_erm_phases(n, d, rho, 1.0, 1.0, accuracy=0.0)
    assert 0 < simulated(erm, d, rng, 500, minimise=True) < phased_erm_risk(n, d, rho, 1.0, 1.0, accuracy=0.0)


@settings(deadline=None)
@given(st.integers(300, 10**9), DIMENSION, RHO, st.floats(0.1, 10), st.floats(0.01, 10))
def test_strongly_convex_phases(n: int, d: int, rho: float, L: float, m: float) -> None:
    c = 2.0
    plan = phased_sgd_strongly_convex_phases(n, rho, L, m)
    k = len(plan.counts)
    assert 2.0 ** (2**k) >= n > 2.0 ** (2 ** (k - 1))
    np.testing.assert_allclose(
        np.array(plan.step_sizes[:-1]) ** 2 / np.array(plan.step_sizes[1:]), 4 * c * k * math.log(n) / (m * n)
    )
    # The proof's four terms: start, starts of later phases, steps, last noise; floor(n/k) costs the factor of the second line.
    log, scale = math.log(n), L**2 / m
    lost = n / k / (n // k)
    closed = scale * (0.5 / (n ** (c / lost) - 1) + 8 * c * k**2 * (k - 1) * d * log * lost / (rho * n) ** 2)
    closed += scale * (0.64 * c * k * log / n + 8 * c * k * log * math.sqrt(d) / (rho * n**2))
    assert phased_sgd_strongly_convex_risk(n, d, rho, L, m) <= closed * (1 + 1e-9)
    base = phased_sgd_strongly_convex_risk(n, d, rho, L, m)
    assert base <= phased_sgd_strongly_convex_risk(n, d, rho, L, m, noise_factor=4.0)
    assert phased_sgd_strongly_convex_risk(n, d, rho, L, m, distance=L / m / 2) <= base
    assert phased_sgd_strongly_convex_risk(n, d + 1, rho, L, m) > base > phased_sgd_strongly_convex_risk(n, d, 1.1 * rho, L, m)


def test_fewer_phases_than_the_rate_needs_may_be_better() -> None:
    def bound(n: int, rho: float, phases: int | None) -> float:
        return phased_sgd_strongly_convex_risk(n, 100, rho, 1.0, 0.1, phases=phases)

    assert equal_count(32_561) == equal_count(10**6) == 3
    assert len(phased_sgd_strongly_convex_phases(32_561, 1.0, 1.0, 0.1).counts) == 4
    assert 0.07 < 1 - bound(32_561, 1.0, 3) / bound(32_561, 1.0, None) < 0.08
    assert bound(10**6, 0.3, 3) / bound(10**6, 0.3, None) == pytest.approx(1.343, abs=1e-3)


@pytest.mark.parametrize(("n", "d", "z"), [(4**6, 20, 0.3), (4**9, 100, 5.0), (4**9, 1, 0.01)])
def test_the_risk_that_the_reduction_takes_for_granted(n: int, d: int, z: float) -> None:
    """Theorem 4.4's constant 10, with z for 1/rho, at the steps of the plan: true of single records, not of large batches."""

    def proved(batch: int) -> float:
        plan = halving_phases(n, batch * convex_step(n, z, d, 1.0, 1.0))
        counts = tuple(-(-size // batch) for size in plan.sizes)
        return localised_risk(Phases(counts, plan.step_sizes, tuple(z * eta / batch for eta in plan.step_sizes)), d, 1.0, 1.0)

    taken = 10 * (1 / math.sqrt(n) + z * math.sqrt(d) / n)
    assert proved(1) < taken
    assert z > 1 or proved(64) > taken


def test_the_rate_of_theorem_5_3_lacks_a_factor() -> None:
    """Where privacy dominates, the sum over the printed rate grows like the number of phases, which only ``k`` explains."""
    over = []
    for n in (10**4, 10**9, 10**19):  # 4, 5 and 6 phases
        rate = printed_phased_sgd_strongly_convex_rate(n, 10**9, 1e-9, 1.0, 1.0)
        over.append(phased_sgd_strongly_convex_risk(n, 10**9, 1e-9, 1.0, 1.0) / rate)
    assert over[2] > over[0] * 1.3


@given(st.integers(2, 10**12))
def test_records_of_the_reduction(n: int) -> None:
    counts = reduction_counts(n)
    assert sum(counts) <= n
    assert min(counts) >= 1
    assert 4 * counts[-1] >= n
    assert all(later <= 2 * earlier for earlier, later in pairwise(counts))


@given(st.integers(4, 10**12), DIMENSION, RHO, st.floats(1, 50), st.floats(0.1, 10), st.floats(0.01, 10))
def test_reduction(n: int, d: int, rho: float, c: float, L: float, m: float) -> None:
    def risk(n: int, distance: float) -> float:
        return c * L * distance * (1 / math.sqrt(n) + math.sqrt(d) / (rho * n))

    bound = reduction_risk(risk, n, L, m)
    assert bound <= reduction_closed_form(n, d, rho, L, m, c)
    # One run more or less, by hand.
    counts, delta = reduction_counts(n), L**2 / (2 * m)
    for count in counts:
        delta = risk(count, math.sqrt(2 * delta / m))
    assert bound == pytest.approx(delta)
    assert reduction_risk(risk, n, L, m, distance=L / m / 10) <= bound <= reduction_risk(risk, n, 2 * L, m)


def test_the_printed_constant_of_the_reduction_is_not_reached() -> None:
    def risk(n: int, distance: float) -> float:
        return distance * (1 / math.sqrt(n) + 1 / n)

    bound = reduction_risk(risk, 2**16, 1.0, 1.0)
    assert printed_reduction_risk(2**16, 1, 1.0, 1.0, 1.0) < bound < reduction_closed_form(2**16, 1, 1.0, 1.0, 1.0)


def test_reduction_refuses_a_risk_that_is_no_number() -> None:
    with pytest.raises(InputError, match="risk"):
        reduction_risk(lambda n, distance: math.nan, 100, 1.0, 1.0)
