"""What only guides a search under random allocation, against closed forms, quadrature and the certified laws."""

# pyright: basic
from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting.fourier_sums import log_normal_sum
from dplateau.accounting.log_normal_sums import sum_of_log_normals
from dplateau.accounting.mechanism import compositions
from dplateau.accounting.privacy_loss import TooSlowError
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


def allocated(n: int, batch: int, steps: int, noise: Any) -> dp.Run:
    return dp.Run(n=n, sampling=dp.RandomAllocation(batch), steps=steps, noise_multiplier=noise)


MANY: list[Any] = [
    (allocated(4100, 10, 61_500, 0.468), 2e-8),
    (allocated(1278, 1, 12_780, 0.368), 2.1e-4),
    (allocated(1000, 10, 1500, 0.7), 1e-5),
    (allocated(80, 10, 62_400, 17.6), 1.3e-11),
    (allocated(100, 10, 1005, 1.1), 1e-6),
]


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
