"""One epoch of random allocation, one record replaced: bounds between a few epsilons, against quadrature."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from scipy.special import ndtr

import dplateau as dp
from dplateau.accounting import ExactComposition, GaussianDP, compositions, replaced_epoch
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.replaced_epoch import MOST, gaussian_part, replaced

GRID = np.linspace(-13.0, 13.0, 4001)
PHI = np.exp(-(GRID**2) / 2) / math.sqrt(2 * math.pi) * (GRID[1] - GRID[0])


def above(mu: float, shift: float, least: np.ndarray) -> np.ndarray:
    """``E (2 exp(-mu^2/2) sinh(mu g - shift) - least)_+`` in closed form."""
    start = (np.arcsinh(least * math.exp(mu**2 / 2) / 2) + shift) / mu
    return math.exp(-shift) * ndtr(mu - start) - math.exp(shift) * ndtr(-mu - start) - least * ndtr(-start)


def of_two(mus: tuple[float, float], epsilon: float) -> float:
    """delta of an epoch of two batches. The integrand is smooth, so equal weights converge fast."""
    first, second = mus
    one = 2 * math.exp(-(first**2) / 2) * np.sinh(first * GRID - epsilon / 2)
    return math.exp(epsilon / 2) / 2 * float(PHI @ above(second, epsilon / 2, -one))


def of_several(mus: tuple[float, ...], epsilon: float) -> float:
    """delta of an epoch of two or three batches."""
    if len(mus) == 2:
        return of_two((mus[0], mus[1]), epsilon)
    x, weight = GRID[::16], 16 * PHI[::16]
    rest = sum(
        2 * math.exp(-(mu**2) / 2) * np.sinh(mu * g - epsilon / 2) for mu, g in zip(mus, (x[:, None], x[None, :]), strict=False)
    )
    return math.exp(epsilon / 2) / 3 * float(weight @ above(mus[2], epsilon / 2, -rest) @ weight)


def parts_of(mus: tuple[float, ...]) -> tuple[tuple[float, int], ...]:
    return tuple(sorted(Counter(mus).items()))


@pytest.mark.parametrize("mus", [(0.01,) * 2, (0.2,) * 2, (1.0,) * 3, (2.0,) * 3, (0.3, 0.9), (0.05, 2.0), (0.3, 0.9, 2.0)])
def test_between_the_points_it_is_above_the_truth_and_near_it(mus) -> None:
    parts = parts_of(mus)
    mu, (epsilon, log_delta) = gaussian_part(parts), replaced(parts, len(mus), MOST)
    middle = (epsilon[1:] + epsilon[:-1]) / 2
    asked = np.append(epsilon, middle)[:: max(1, epsilon.size // 60)]
    truth = np.array([of_several(mus, float(e)) for e in asked])
    told = np.interp(np.exp(asked), np.exp(epsilon), np.exp(log_delta))  # the chords of delta
    seen = truth > 1e-9
    assert seen.sum() > 20
    assert (truth[seen] <= told[seen] * (1 + 1e-5)).all()
    likely = truth > 1e-2  # Where large losses are rare their laws on lattices are not near.
    assert (told[likely] <= truth[likely] * 1.1).all()
    assert max(mus) > 1 or (told[seen] <= truth[seen] * 1.2).all()
    assert (np.exp(log_gdp_delta(mu, asked[seen])) <= truth[seen] * (1 + 1e-9)).all()


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_two_equal_batches_are_a_gaussian_mechanism(mu) -> None:
    """sinh x + sinh y has the sign of x + y, so nothing is above J."""
    epsilon = np.linspace(0.0, 4 * mu, 30)
    truth = np.array([of_two((mu, mu), float(e)) for e in epsilon])
    assert truth == pytest.approx(np.exp(log_gdp_delta(gaussian_part(((mu, 2),)), epsilon)), rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("mus", [(0.5, 0.5, 0.5), (1.5, 1.5, 1.5), (0.3, 0.9), (0.3, 0.9, 2.0)])
def test_the_logarithm_of_the_excess_is_convex(mus) -> None:
    mu = gaussian_part(parts_of(mus))
    epsilon = np.linspace(0.0, 3 * mu, 25)
    excess = np.array([of_several(mus, float(e)) for e in epsilon]) - np.exp(log_gdp_delta(mu, epsilon))
    assert (excess > 0).all()
    log = np.log(excess) + epsilon**2 / (2 * mu**2) - epsilon / 2
    assert (np.diff(log, 2) > 0).all()


@pytest.mark.parametrize(("factor", "refuted"), [(1.0, False), (0.5, True), (0.0, True)])
def test_another_factor_would_be_refuted(factor, refuted, monkeypatch) -> None:
    """With less of the Gaussian factor in the logarithm its chords are below the truth."""
    mus = (0.3, 0.9)
    parts = parts_of(mus)
    true = replaced_epoch._Points.falling  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(replaced_epoch._Points, "falling", lambda self, e: factor * true(self, e))  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(replaced_epoch, "MOST", 5)
    replaced.cache_clear()
    epsilon, log_delta = replaced(parts, 2, 5)
    replaced.cache_clear()
    truth = np.array([of_two(mus, float(e)) for e in epsilon])
    seen = truth > 1e-6
    assert (np.exp(log_delta)[seen] < truth[seen] * 0.995).any() == refuted


def test_few_points_are_enough_where_there_is_noise(monkeypatch) -> None:
    asked: list[float] = []
    law = replaced_epoch.sinh_excess
    monkeypatch.setattr(replaced_epoch, "sinh_excess", lambda parts, shift, least: asked.append(shift) or law(parts, shift, least))
    replaced.cache_clear()
    epsilon, log_delta = replaced(((0.1, 300),), 300, MOST)
    assert len(asked) <= 8
    mu = gaussian_part(((0.1, 300),))
    assert mu == pytest.approx(0.2 / math.sqrt(300), rel=1e-14)
    near = epsilon < 3 * mu
    assert (log_delta[near] - log_gdp_delta(mu, epsilon[near]) < 2e-3).all()
    assert (log_delta >= log_gdp_delta(mu, epsilon)).all()


@pytest.mark.parametrize(
    ("noise", "batches", "steps", "delta", "width"),
    [(2.0, 10, 50, 1e-6, 0.006), (4.831, 618, 618 * 30, 1e-5, 1e-3), (50.0, 100, 30_000, 1e-9, 2e-4)],
)
def test_enclosures_that_were_wide_are_narrow(noise, batches, steps, delta, width) -> None:
    """The lower end was that of a presence, half of the upper one."""
    run = dp.Run(n=10 * batches, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=noise, adjacency="replace")
    found = ExactComposition(compositions(run)[0], compositions(run, safe=False)[0]).epsilon(delta)
    assert found.width <= width * found.upper
    assert found.lower == pytest.approx(GaussianDP(2 / noise * math.sqrt(steps) / batches).epsilon(delta).lower, rel=1e-9)


def test_an_epoch_that_is_cut_short_beside_many_whole_ones() -> None:
    """It costs no more than another whole one, and not less than none."""
    ends = []
    for steps in (300 * 7, 300 * 7 + 3, 301 * 7):
        run = dp.Run(n=70, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=20.0, adjacency="replace")
        ends.append(ExactComposition(compositions(run)[0]).upper(1e-6))
    assert ends[0] < ends[1] < ends[2]
