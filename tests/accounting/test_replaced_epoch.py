"""One epoch of random allocation, one record replaced: bounds between a few epsilons, against quadrature."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import dplateau as dp
from dplateau.accounting import ExactComposition, GaussianDP, compositions, gdp_delta, replaced_epoch
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.random_allocation import AllocationReplace
from dplateau.accounting.replaced_epoch import MOST, gaussian_part, replaced, replaced_below, told_apart

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


def looked_at(mus: tuple[float, ...], *epsilons: float, batches: int = 0) -> Any:
    profile = replaced_epoch._Profile(parts_of(mus), batches or len(mus))  # pyright: ignore[reportPrivateUsage]
    for epsilon in epsilons:
        profile.look(epsilon)
    return profile


@pytest.mark.parametrize(("factor", "refuted"), [(1.0, False), (0.5, True), (0.0, True)])
def test_another_factor_would_be_refuted(factor, refuted, monkeypatch) -> None:
    """With less of the Gaussian factor in the logarithm its chords are below the truth."""
    mus = (0.3, 0.9)
    true = replaced_epoch._Profile.falling  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(replaced_epoch._Profile, "falling", lambda self, e: factor * true(self, e))  # pyright: ignore[reportPrivateUsage]
    mu = gaussian_part(parts_of(mus))
    profile = looked_at(mus, 0.0, mu, 2.5 * mu, 5 * mu)
    below = []
    for start, end in pairwise(sorted(profile.log_delta)):
        epsilon = np.linspace(start, end, 12)[1:-1]
        truth = np.array([of_two(mus, float(e)) for e in epsilon])
        below += list(np.exp(profile.between(start, end, epsilon))[truth > 1e-6] < truth[truth > 1e-6] * 0.995)
    assert len(below) >= 20
    assert any(below) == refuted


CASES = [
    ((0.2,) * 2, 0.1, 0.3),
    ((1.0,) * 3, 0.5, 1.5),
    ((1.0,) * 3, 2.0, 4.0),
    ((2.0,) * 3, 0.0, 2.0),
    ((2.0,) * 3, 5.0, 6.0),
    ((0.3, 0.9), 0.2, 1.0),
    ((0.3, 0.9, 2.0), 1.0, 3.0),
]


@pytest.mark.parametrize(("mus", "start", "end"), CASES)
def test_sums_at_both_ends_bound_what_lies_between(mus, start, end) -> None:
    """Traded thresholds: above the truth, and nearer to it than the chord, by half where A is not a sum of few large numbers."""
    profile = looked_at(mus, start, end)
    epsilon = np.linspace(start, end, 14)[1:-1]
    told = np.exp(profile._traded(start, end, epsilon))
    truth = np.array([of_several(mus, float(e)) for e in epsilon])
    ends = (of_several(mus, start), of_several(mus, end))
    share = np.expm1(epsilon - start) / np.expm1(end - start)
    chord = ends[0] * (1 - share) + ends[1] * share
    assert (told >= truth * (1 - 1e-6)).all()
    assert (told - truth <= (0.95 if mus[0] == 2 else 0.5) * (chord - truth) + 2e-3 * truth).all()


@pytest.mark.parametrize(("mus", "start", "end"), CASES)
def test_it_costs_little_beside_a_law_of_its_own(mus, start, end) -> None:
    profile = looked_at(mus, start, end)
    for middle in np.linspace(start, end, 6)[1:-1].tolist():
        told = float(profile._traded(start, end, np.array([middle]))[0])
        profile.look(middle)
        assert told >= profile.log_delta[middle] - 2e-3  # Both are bounds, each with lattices of its own.


@pytest.mark.parametrize("wrong", ["weights", "threshold"])
def test_other_weights_or_another_threshold_would_be_refuted(wrong) -> None:
    """Weights that are a tenth too small, and a threshold of the second sum that is a tenth too high, are below the truth."""
    mus, start, end = (1.0,) * 3, 0.5, 1.5
    profile = looked_at(mus, start, end)
    first, second = profile.laws[start], profile.laws[end]
    low = False
    for epsilon in np.linspace(start, end, 9)[1:-1].tolist():
        near, far = (math.sinh((b - a) / 2) / math.sinh((end - start) / 2) for a, b in ((epsilon, end), (start, epsilon)))
        near, far = (near * 0.9, far * 0.9) if wrong == "weights" else (near, far)
        x = np.linspace(0.0, first.x[-1] / 50, 4000)
        y = -near / far * x * (0.9 if wrong == "threshold" else 1.0)
        told = float((near * first(x) + far * second(y)).min()) * math.exp(epsilon / 2) / 3
        low |= told < of_several(mus, epsilon) * 0.995
    assert low


def test_an_epoch_that_is_cut_short_between_two_epsilons() -> None:
    """Two of five batches: the other three add a constant. Against quadrature."""
    mus, batches = (0.8, 0.8), 5
    profile = looked_at(mus, 0.3, 1.0, batches=batches)
    for epsilon in np.linspace(0.3, 1.0, 9)[1:-1].tolist():
        one = 2 * math.exp(-(0.8**2) / 2) * np.sinh(0.8 * GRID - epsilon / 2)
        least = 3 * 2 * math.sinh(epsilon / 2)
        truth = math.exp(epsilon / 2) / batches * float(PHI @ above(0.8, epsilon / 2, least - one))
        told = float(np.exp(profile.between(0.3, 1.0, np.array([epsilon])))[0])
        assert truth * (1 - 1e-6) <= told <= truth * 1.03
    least = profile._least(1.0)
    assert 0 < 6 * math.sinh(0.5) - least < 1e-13


def test_many_batches_beside_a_simulation() -> None:
    """400 batches at little noise: the bounds between the laws, against drawn epochs, within 2 % and 4 standard errors."""
    batches, mu = 400, 1.4
    epsilon, log_delta = replaced(((mu, batches),), batches, MOST)
    source = np.random.default_rng(3)
    g = source.standard_normal((4000, batches))
    g[:, 0] += mu
    above, below = (np.exp(sign * mu * g).sum(axis=1) for sign in (1, -1))
    asked = np.linspace(0.05, 0.4, 8)
    lost = np.maximum(1 - np.exp(asked) * (below / above)[:, None], 0.0)
    mean, error = lost.mean(axis=0), lost.std(axis=0) / math.sqrt(len(lost))
    told = np.interp(np.exp(asked), np.exp(epsilon), np.exp(log_delta))
    assert (told >= mean - 4 * error).all()
    assert (told <= mean * 1.02 + 4 * error).all()
    assert (4 * error[:5] < 0.35 * mean[:5]).all()


@pytest.mark.parametrize(("mus", "batches"), [((1.4,) * 400, 400), ((0.02,) * 2, 5), ((0.3, 0.9, 2.0), 3), ((1e-6,) * 50, 50)])
def test_the_line_is_convex_and_falls(mus, batches) -> None:
    epsilon, log_delta = replaced(parts_of(mus), batches, MOST)
    slope = np.diff(np.exp(log_delta)) / np.diff(np.expm1(epsilon))
    assert epsilon[0] == 0
    assert log_delta[-1] < -60
    assert (slope <= 0).all()
    assert (np.diff(slope) >= 0).all()


@pytest.mark.parametrize("factor", [1.0, 1.03])
@pytest.mark.parametrize(
    ("mus", "batches", "near"),
    [
        ((0.2,) * 2, 2, 0.97),
        ((1.0,) * 3, 3, 0.92),
        ((2.0,) * 3, 3, 0.65),
        ((0.3, 0.9), 2, 0.97),
        ((0.3, 0.9, 2.0), 3, 0.97),
        ((0.8, 0.8), 5, 0.97),
    ],
)
def test_bounds_from_below(mus, batches, near, factor, monkeypatch) -> None:
    """They are below the truth, near it, convex, and end with 0. Three per cent more would be above it."""
    true = replaced_epoch._Profile.below  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(replaced_epoch._Profile, "below", lambda self, e: factor * true(self, e))  # pyright: ignore[reportPrivateUsage]
    replaced_below.cache_clear()
    epsilon, log_delta = replaced_below(parts_of(mus), batches, MOST)
    replaced_below.cache_clear()
    asked = np.interp(log_delta[0] - np.geomspace(0.01, 10, 30), log_delta[-2::-1], epsilon[-2::-1])
    told = np.interp(np.exp(asked), np.exp(epsilon), np.exp(log_delta))
    if batches == 5:
        one = [2 * math.exp(-(0.8**2) / 2) * np.sinh(0.8 * GRID - e / 2) for e in asked]
        over = [float(PHI @ above(0.8, e / 2, 6 * math.sinh(e / 2) - x)) for e, x in zip(asked, one, strict=True)]
        truth = np.exp(asked / 2) / 5 * over
    else:
        truth = np.array([of_several(mus, float(e)) for e in asked])
    seen = truth > 1e-9
    assert seen.sum() > 20
    assert (told[seen] > truth[seen] * (1 + 1e-5)).any() == (factor > 1)
    assert (told[truth > 1e-2] >= truth[truth > 1e-2] * near).all()
    slope = np.diff(np.exp(log_delta)) / np.diff(np.expm1(epsilon))
    assert (np.diff(slope) >= 0).all()
    # The pair is symmetric: left of 0 the slope is minus one, plus delta, minus the one to the right.
    assert slope[0] >= -(1 - math.exp(log_delta[0])) / 2
    assert log_delta[-1] == -math.inf


@pytest.mark.parametrize(("noise", "batches", "epochs", "delta", "sums"), [(1.0, 10, 5, 1e-6, 7.2861), (1.0, 10, 1, 1e-6, 2.9216)])
def test_lower_ends_with_little_noise(noise, batches, epochs, delta, sums) -> None:
    """Those of the sums, and of a presence, were up to an eighth too low."""
    run = dp.Run(
        n=10 * batches, sampling=dp.RandomAllocation(10), steps=batches * epochs, noise_multiplier=noise, adjacency="replace"
    )
    found = ExactComposition(compositions(run)[0], compositions(run, safe=False)[0]).epsilon(delta)
    assert sums < found.lower < found.upper
    assert found.width < 0.01 * found.upper


@pytest.mark.parametrize(
    ("noise", "batches", "epochs", "delta", "before", "most"),
    [(0.7176, 646, 36, 2.7e-12, 8.2964, 6.7195), (0.9548, 218, 2, 3.4e-10, 1.801, 1.792), (0.5, 100, 1, 1e-5, 5.7799, 5.7042)],
)
def test_little_noise_costs_less_than_the_chords_said(noise, batches, epochs, delta, before, most) -> None:
    """Chords of the profile alone: 24 per cent more in the first case."""
    run = dp.Run(
        n=10 * batches, sampling=dp.RandomAllocation(10), steps=batches * epochs, noise_multiplier=noise, adjacency="replace"
    )
    found = ExactComposition(compositions(run)[0]).upper(delta)
    assert 0.99 * most < found < most < before


def test_few_points_are_enough_where_there_is_noise(monkeypatch) -> None:
    asked: list[float] = []
    law = replaced_epoch.sum_of_sinhs
    monkeypatch.setattr(replaced_epoch, "sum_of_sinhs", lambda parts, shift: asked.append(shift) or law(parts, shift))
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
    [(2.0, 10, 50, 1e-6, 0.006), (2.0, 20, 2000, 1e-5, 0.002), (4.831, 618, 618 * 30, 1e-5, 1e-3), (50.0, 100, 30_000, 1e-9, 2e-4)],
)
def test_enclosures_that_were_wide_are_narrow(noise, batches, steps, delta, width) -> None:
    """The lower end was that of a presence, half of the upper one. That of the sums is closer, and laws from below are."""
    run = dp.Run(n=10 * batches, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=noise, adjacency="replace")
    found = ExactComposition(compositions(run)[0], compositions(run, safe=False)[0]).epsilon(delta)
    assert found.width <= width * found.upper
    assert found.lower >= GaussianDP(2 / noise * math.sqrt(steps) / batches).epsilon(delta).lower * (1 - 1e-9)


def test_an_epoch_that_is_cut_short_beside_many_whole_ones() -> None:
    """It costs no more than another whole one, and not less than none."""
    ends = []
    for steps in (300 * 7, 300 * 7 + 3, 301 * 7):
        run = dp.Run(n=70, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=20.0, adjacency="replace")
        ends.append(ExactComposition(compositions(run)[0]).upper(1e-6))
    assert ends[0] < ends[1] < ends[2]


@pytest.mark.parametrize(("mu", "batches"), [(1 / 30, 2), (0.6, 10**6)])
def test_chords_from_below_end_below_the_truth(mu: float, batches: int) -> None:
    # The last chord went from a point that was lowered to one that should have been lowered below 0 and was not.
    epsilon, log_delta = replaced_below(((mu, 1),), batches, MOST)
    asked = np.concatenate([np.linspace(start, end, 20, endpoint=False) for start, end in pairwise(epsilon[-20:])])
    exact = [float(above(mu, s, np.array(2 * (batches - 1) * math.sinh(s)))) for s in (asked / 2).tolist()]
    truth = np.exp(asked / 2) / batches * np.array(exact)
    told = np.interp(np.exp(asked), np.exp(epsilon), np.exp(log_delta))
    seen = truth > 1e-60
    assert seen.any()
    assert (told[seen] <= truth[seen] * (1 + 1e-6)).all()


@pytest.mark.parametrize("delta", [1e-40, 1e-300])
def test_a_profile_that_falls_no_further_ends_the_search(delta: float) -> None:
    # The chords of a replacement end at about 1e-30; the search for a single epoch's epsilon doubled its end for ever.
    run = dp.Run(
        n=2, sampling=dp.RandomAllocation(1), steps=6, noise_multiplier=(0.4, 3.0, 0.5, 1.0, 0.4, 2.0), adjacency="replace"
    )
    found = dp.account(run, delta=delta)
    assert found.epsilon > 20


def test_chords_keep_the_digits_of_their_smaller_end(monkeypatch: pytest.MonkeyPatch) -> None:
    # Just before the smaller end the share of the cell rounds to 1: 1e-3 less 1e-3 is 0, and no delta.
    table = np.array([0.08263817764264547, 2.288102025574225, 3.0]), np.log([1e-3, 1e-25, 1e-30])
    monkeypatch.setattr(AllocationReplace, "_table", table)
    law = AllocationReplace(0.5, 1.0, 0.0, ((1.0, 2),), 2)
    assert law.log_delta(np.nextafter(table[0][1], 0.0)) >= table[1][1]


@pytest.mark.parametrize("mus", [(2.0, 2.0), (2.0, 1.0), (1.5, 0.0)])
def test_no_epoch_costs_more_than_two_batches_told_apart(mus: tuple[float, float]) -> None:
    """By a quadrature of the two densities in the plane; a quarter of the distance would be too little. Equal mus attain it."""
    x = np.arange(-9.0, 9.0, 0.03)
    near = [np.exp(-((x - centre) ** 2) / 2) / math.sqrt(2 * math.pi) for centre in (0.0, *mus, *(-mu for mu in mus))]
    p = (np.outer(near[1], near[0]) + np.outer(near[0], near[2])) / 2
    q = (np.outer(near[3], near[0]) + np.outer(near[0], near[4])) / 2
    parts = tuple((mu, 1) for mu in mus if mu)
    mu = told_apart(parts, 2)
    assert mu == pytest.approx(math.hypot(*mus), rel=1e-14)
    deltas = [float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum()) * 0.03**2 for epsilon in (0.0, 1.0, 3.0, 6.0)]
    assert all(one <= gdp_delta(mu, epsilon) * (1 + 1e-3) for one, epsilon in zip(deltas, (0.0, 1.0, 3.0, 6.0), strict=True))
    assert any(one > gdp_delta(mu / 4, epsilon) for one, epsilon in zip(deltas, (0.0, 1.0, 3.0, 6.0), strict=True))
    assert told_apart(((2.0, 3), (1.0, 1)), 4) == pytest.approx(math.sqrt(8))
    assert told_apart(((2.0, 1),), 1) == 4


def test_little_noise_costs_no_more_than_two_batches_told_apart() -> None:
    run = dp.Run(n=3, sampling=dp.RandomAllocation(1), steps=3, noise_multiplier=[0.22, 0.69, 0.22], adjacency="replace")
    assert dp.account(run, 2e-12).epsilon < GaussianDP(math.sqrt(2) / 0.22).epsilon(2e-12).upper * 1.001
