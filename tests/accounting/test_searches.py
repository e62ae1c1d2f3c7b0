"""What only guides a search under random allocation, against closed forms, quadrature and the certified laws."""

# pyright: basic
from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import mellin
from dplateau.accounting.fourier_sums import log_normal_sum
from dplateau.accounting.log_normal_sums import sum_of_log_normals
from dplateau.accounting.mechanism import compositions
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.random_allocation import ALLOCATED, about_many_epochs
from dplateau.analyses.exact_composition import ExactCompositionBound

SUMS: list[Any] = [
    (((1.13, 948),), 0),
    (((1.3, 142),), 0),
    (((0.7, 2347),), 0),
    (((1.0, 9183),), 0),
    (((0.3, 100),), 0),
    (((0.3, 2),), 0),
    (((0.5, 60), (0.7, 40)), 100),
    (((1e-3, 50),), 7),
]


@pytest.mark.parametrize(("parts", "constant"), SUMS)
def test_a_sum_by_transforms_keeps_mass_mean_and_variance(parts: Any, constant: int) -> None:
    value, mass = log_normal_sum(parts, constant)
    mean = constant + sum(count for _, count in parts)
    variance = sum(count * math.expm1(mu**2) for mu, count in parts)
    assert np.all(np.diff(value) > 0)
    assert mass.sum() == pytest.approx(1, rel=1e-8)
    assert mass @ value == pytest.approx(mean, rel=1e-8)
    assert mass @ (value - mean) ** 2 == pytest.approx(variance, rel=1e-5)


@pytest.mark.parametrize(("parts", "constant"), SUMS)
def test_a_sum_by_transforms_has_the_tail_of_the_certified_laws(parts: Any, constant: int) -> None:
    laws = [sum_of_log_normals(parts, constant, above=above).table() for above in (False, True)]
    laws.append(log_normal_sum(parts, constant))
    size = constant + sum(count for _, count in parts)
    deviation = math.sqrt(sum(count * math.expm1(mu**2) for mu, count in parts))
    seen = 0
    for y in size + deviation * np.arange(0.0, 40.0, 0.5):
        below, above, found = (mass @ np.maximum(value - y, 0.0) for value, mass in laws)
        if above < 1e-11 * size:
            break
        room = 5e-4 if y < size + 3 * deviation else 1e-2
        assert below * (1 - room) <= found <= above * (1 + room), y
        seen += 1
    assert seen > 8


def test_a_sum_whose_largest_values_are_far_away_is_refused() -> None:
    for mu in (2.5, 8.0, 30.0):
        with pytest.raises(TooSlowError):
            log_normal_sum(((mu, 100),), 0)


@pytest.mark.parametrize("mu", [0.05, 0.5, 1.5, 2.7, 3.5])
def test_moments_of_one_batch_at_any_order(mu: float) -> None:
    """``E X^t = exp(mu^2 t (t - 1) / 2)`` for complex t, too."""
    moments = mellin._Mean(((mu, 1),), 1)
    for c in (-1.0, -0.5, 0.0, 0.3, 1.7, 3.0, 4.0):
        k, slope, curvature = moments.cumulants(c)
        assert k == pytest.approx(mu**2 * c * (1 + c) / 2, abs=1e-9), c
        assert slope == pytest.approx(mu**2 * (c + 0.5), abs=1e-8), c
        assert curvature == pytest.approx(mu**2, abs=1e-7), c
    omega = np.linspace(0.0, min(12.0, 5 / mu), 9)
    for c in (0.2, 2.5):
        t = 1 + c + 1j * omega
        found = np.exp(moments.log_moments(c, omega) - moments.cumulants(c)[0])
        assert np.abs(found - np.exp(mu**2 / 2 * (t * (t - 1) - c * (1 + c)))).max() < 1e-7


@pytest.mark.parametrize(("parts", "batches"), [(((1.2, 7),), 7), (((1.2, 5),), 9), (((0.4, 30), (2.0, 70)), 120)])
def test_moments_of_an_epoch_are_those_of_sums(parts: Any, batches: int) -> None:
    """Whole powers from the cumulants of single batches, with many digits."""
    with mp.workdps(40):
        moments = [mp.mpf(1), *[mp.mpf(0)] * 4]
        rest = mp.mpf(batches - sum(count for _, count in parts)) / batches
        moments = [rest**k for k in range(5)]
        for mu, count in parts:
            one = [mp.exp(mp.mpf(mu) ** 2 * k * (k - 1) / 2) / mp.mpf(batches) ** k for k in range(5)]
            for _ in range(count):
                moments = [mp.fsum(mp.binomial(k, i) * moments[i] * one[k - i] for i in range(k + 1)) for k in range(5)]
        found = mellin._Mean(parts, batches)
        for k in range(2, 5):
            assert found.cumulants(k - 1.0)[0] == pytest.approx(float(mp.log(moments[k])), abs=1e-10)


def allocated(n: int, batch: int, steps: int, noise: Any) -> dp.Run:
    return dp.Run(n=n, sampling=dp.RandomAllocation(batch), steps=steps, noise_multiplier=noise)


MANY: list[Any] = [
    (allocated(4100, 10, 61_500, 0.468), 2e-8),
    (allocated(1278, 1, 12_780, 0.368), 2.1e-4),
    (allocated(1000, 10, 1500, 0.7), 1e-5),
    (allocated(80, 10, 62_400, 17.6), 1.3e-11),
    (allocated(100, 10, 1005, 1.1), 1e-6),
]


@pytest.mark.parametrize(("run", "delta"), MANY)
def test_many_epochs_by_a_contour_lie_between_the_certified_ends(run: dp.Run, delta: float) -> None:
    """Two ways that share nothing: sums in the convex order on lattices, and moments of complex order."""
    certified = ExactCompositionBound().guarantee(run).epsilon(delta)
    found = about_many_epochs(run, delta)
    assert certified.lower * (1 - 1e-7) <= found <= certified.upper * (1 + 1e-7)
    assert certified.upper / found - 1 < 4 * ALLOCATED


def test_two_noise_levels_and_an_epoch_cut_short() -> None:
    noise = np.where(np.arange(1530) % 100 < 30, 0.6, 0.8)
    run = allocated(1000, 10, 1530, noise)
    certified = ExactCompositionBound().guarantee(run).epsilon(1e-6)
    assert certified.lower <= about_many_epochs(run, 1e-6) <= certified.upper


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        (allocated(1000, 10, 200, 1.0), 1e-5),  # few epochs
        (allocated(1000, 10, 10_000, 300.0), 1e-5),  # hardly a loss
        (allocated(1000, 10, 100_000, 0.05), 1e-5),  # a large one
        (allocated(100_000, 10, 300_000, 0.8), 1e-12),  # a few large values of S decide
    ],
)
def test_where_a_contour_would_not_do_it_is_refused(run: dp.Run, delta: float) -> None:
    with pytest.raises(TooSlowError):
        about_many_epochs(run, delta)


@pytest.mark.parametrize(
    ("run", "delta"),
    [
        *MANY,
        (allocated(7935, 55, 355, 0.784), 3.3e-6),
        (allocated(51_000, 1000, 56, 4.07), 1e-11),
        (allocated(9183, 1, 30_000, 0.98), 3e-8),
        (allocated(1000, 100, 40, 1.2), 1e-20),
        (allocated(200, 10, 20, 0.3), 1e-6),
    ],
)
def test_a_search_looks_close_to_what_is_certified(run: dp.Run, delta: float) -> None:
    bound = ExactCompositionBound()
    assert bound.about(run, delta) == pytest.approx(bound.guarantee(run).upper(delta), rel=7e-5)


def test_searches_certify_nothing() -> None:
    """What is certified is composed from laws that dominate: each of them was rounded upwards."""
    run = allocated(1000, 10, 1500, 0.7)
    ExactCompositionBound().about(run, 1e-5)
    for direction in compositions(run)[0]:
        assert all(term.law.safe and term.law.fine == 1 / 256 for term in direction.terms)
