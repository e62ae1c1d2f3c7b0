"""Moments of an epoch of random allocation, of complex order too: closed forms, balls, and what is claimed of their errors."""

# pyright: basic
from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import allocated_epochs, epoch_moments
from dplateau.accounting.allocated_epochs import Epochs, Grids
from dplateau.accounting.contour import contour_epsilon, line_at
from dplateau.accounting.epoch_moments import EpochMoments, small_moments, whole_moments
from dplateau.accounting.lattice import lattice_epsilon, tails_at
from dplateau.accounting.privacy_loss import TooSlowError
from dplateau.accounting.random_allocation import AllocationAdd, AllocationRemove, allocations

EPOCHS: list[Any] = [
    (((1.0, 1),), 1),
    (((1.2, 7),), 7),
    (((1.2, 5),), 9),
    (((0.4, 30), (1.5, 70)), 120),
    (((0.02, 40),), 40),
    (((2.2, 60),), 60),
    (((0.8, 3000),), 3000),
]


def grid(parts: Any, batches: int, *, present: bool, n: int = 24, least: float = 4.0, most: float = 6.0) -> EpochMoments:
    return EpochMoments(parts, batches, n, least, most, present=present)


@pytest.mark.parametrize("present", [True, False])
@pytest.mark.parametrize("mu", [0.05, 0.5, 1.5, 2.2])
def test_moments_of_one_batch_have_a_closed_form(mu: float, present: bool) -> None:
    """``E X^t = exp(mu^2 t (t - 1) / 2)`` for complex t, too, within the error that is claimed."""
    moments = grid(((mu, 1),), 1, present=present)
    omega = np.linspace(0.0, min(20.0, 6 / mu), 9)
    for c in (0.01, 0.3, 1.7, 2.9):
        power = 1 + c if present else -c
        k, slope, curvature = moments.cumulants(power)
        assert k == pytest.approx(mu**2 * c * (1 + c) / 2, abs=1e-10)
        assert slope == pytest.approx(mu**2 * (power - 0.5), abs=1e-9)
        assert curvature == pytest.approx(mu**2, abs=1e-8)
        found, t = moments.at(power, omega), power + 1j * omega
        off = np.abs(np.exp(mu**2 / 2 * t * (t - 1) - found.log) - 1)
        assert np.all(off <= found.error)
        assert found.error[0] < 1e-9


@pytest.mark.parametrize(("parts", "batches"), EPOCHS)
def test_whole_moments_are_those_of_sums(parts: Any, batches: int) -> None:
    """From those of single batches, with many digits; the grid's are the same."""
    with mp.workdps(40):
        rest = mp.mpf(batches - sum(count for _, count in parts)) / batches
        moments = [rest**k for k in range(5)]
        for mu, count in parts:
            one = [mp.exp(mp.mpf(mu) ** 2 * k * (k - 1) / 2) / mp.mpf(batches) ** k for k in range(5)]
            for _ in range(count):
                moments = [mp.fsum(mp.binomial(k, i) * moments[i] * one[k - i] for i in range(k + 1)) for k in range(5)]
        truth = [float(mp.log(moment)) for moment in moments]
    found, above = grid(parts, batches, present=True), whole_moments(parts, batches)
    for k in range(2, 5):
        at = found.at(float(k), np.zeros(1))
        assert abs(at.log[0].real - truth[k]) <= at.error[0] < 1e-9
        assert truth[k] - 1e-14 <= above[k] <= truth[k] + 1e-8
    # Of negative orders only a bound has a formula.
    fewer = grid(parts, batches, present=False).cumulants(-2.5)[0]
    assert 0 <= fewer <= small_moments(parts, batches, np.array([-2.5]))[0] + 1e-12


@pytest.mark.parametrize(
    ("parts", "batches", "most"), [(((0.3, 9_000),), 9_500, 100), (((0.1, 40), (0.5, 60)), 100, 300), (((2.2, 6),), 7, 512)]
)
def test_high_whole_moments_are_bounded_closely(parts: Any, batches: int, most: int) -> None:
    """Those of one batch may be larger than any number, and those of few batches smaller."""
    found = whole_moments(parts, batches, most)
    size = len(found)
    assert size == most + 1 or size > 200
    orders = [k for k in (0, 1, 2, 9, 64, 99, size - 1) if k < size]

    def times(one: list[Any], other: list[Any]) -> list[Any]:
        return [mp.fdot(one[: k + 1], other[k::-1]) for k in range(size)]

    with mp.workdps(30):
        total = [mp.mpf(batches - sum(count for _, count in parts)) ** k / mp.factorial(k) for k in range(size)]
        for mu, count in parts:
            one = [mp.exp(mp.mpf(mu) ** 2 * k * (k - 1) / 2) / mp.factorial(k) for k in range(size)]
            for bit in range(count.bit_length()):
                total = times(total, one) if count >> bit & 1 else total
                one = times(one, one)
        truth = [float(mp.log(total[k] * mp.factorial(k) / mp.mpf(batches) ** k)) for k in orders]
    for k, true in zip(orders, truth, strict=True):
        assert true <= found[k] <= true + 1e-6 * max(1.0, k / 100)


def random_epoch(random: np.random.Generator) -> tuple[Any, int]:
    used = int(2 ** random.uniform(0, 9))
    first = int(random.integers(1, used + 1))
    mus = 2.0 ** random.uniform(-3, 1.3, 2)
    parts = ((float(mus[0]), first), (float(mus[1]), used - first))
    return tuple(part for part in parts if part[1]), used + int(random.choice([0, 0, 3]))


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("tolerance", [-45.0, -18.0])
def test_errors_are_within_their_bounds(seed: int, tolerance: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside ball arithmetic; with coarse grids, whose errors are seen, as well."""
    pytest.importorskip("flint")
    from flint import arb

    from dplateau.verifier.balls import precision
    from dplateau.verifier.epoch import Grid

    random = np.random.default_rng(seed)
    parts, batches = random_epoch(random)
    monkeypatch.setattr(epoch_moments, "_LOG_TOLERANCE", tolerance)
    if tolerance > -45:
        monkeypatch.setattr(epoch_moments, "_SIDE", 5.5)
    exact = tuple(sorted((Fraction(mu), count) for mu, count in parts))
    step, largest = 1.5, 0.0
    for present in (True, False):
        found = grid(parts, batches, present=present)
        low, high = (1, 4) if present else (-3, 0)
        with precision():
            truth = Grid(exact, batches, low, high, 15.0, 50.0)
            for power in (1.0, 2.25, 4.0) if present else (-3.0, -0.75, 0.0):
                at = found.at(power, step * np.arange(8))
                known = np.array([complex(one) for one in truth.moments(arb(power), arb(step), 8)])
                off = np.abs(known / np.exp(at.log) - 1)
                assert np.all(off <= at.error + 1e-15)
                largest = max(largest, float((off / at.error).max()))
    assert largest > 1e-4, "the bounds are far from what is missed"


def coarser(moments: EpochMoments, part: str, k: float) -> EpochMoments:
    """One of its errors is made larger."""
    match part:
        case "low":
            moments.points = moments.points[int(k) :]
        case "high":
            moments.points = moments.points[: -int(k)]
        case "rare":
            moments.rare *= 10**k
        case "log s":  # Only every so many of the normal numbers' places.
            moments.stride += int(k)
            moments.step = moments.stride * moments.fine
        case "normal numbers":
            moments.step *= 1 + k
            moments.fine *= 1 + k
        case side:
            setattr(moments, side, getattr(moments, side) - k)
    if part in ("log s", "normal numbers"):
        count = int((moments.points[-1] - moments.low) / moments.step)
        moments.points = moments.low + moments.step * np.arange(count + 1)
    return moments


@pytest.mark.parametrize(
    ("part", "sizes"),
    [
        ("low", (40, 55, 70, 90, 120, 150)),
        ("high", (25, 32, 40, 48, 56, 64)),
        ("rare", (28, 32, 36, 42, 48)),
        ("log s", (1, 2, 3)),
        ("normal numbers", (1.4, 1.6, 1.8)),
        ("left", (3, 4, 5, 6)),
        ("right", (4, 5, 6, 8, 10)),
    ],
)
def test_each_error_alone_is_bounded(part: str, sizes: tuple[float, ...]) -> None:
    """What is cut off, left out or integrated too coarsely is seen beside all other errors, and is no more than was said."""
    omega, seen = np.linspace(0.0, 6.0, 5), 0
    for (parts, batches), present in ((epoch, present) for epoch in EPOCHS[:3] for present in (True, False)):
        fine = grid(parts, batches, present=present)
        for k in sizes:
            coarse = coarser(grid(parts, batches, present=present), part, k)
            for power in (1.0, 2.25, 4.0) if present else (-3.0, -0.75, 0.0):
                try:
                    truth, found = fine.at(power, omega), coarse.at(power, omega)
                except TooSlowError:  # Nothing is left.
                    continue
                off = np.abs(np.exp(truth.log - found.log) - 1)
                assert np.all(off <= found.error + truth.error * (1 + off)), (parts, present, k, power)
                seen += bool(found.error[0] < 0.01 and off[0] > 30 * truth.error[0])
    assert seen >= 2


@pytest.mark.parametrize(("parts", "batches"), [one for one in EPOCHS if sum(count for _, count in one[0]) == one[1]])
@pytest.mark.parametrize("present", [True, False])
def test_the_transform_falls_as_the_tail_says(parts: Any, batches: int, present: bool) -> None:
    law = (AllocationRemove if present else AllocationAdd)(1 / batches, 1.0, 0.0, parts, batches, True)
    term = Epochs(law, 3, parts, batches, present, 0.5)
    for c in (0.4, 1.9):
        at = np.linspace(0.0, 14.0, 8)
        value, error = term.log_transform(c, at, -20.0)
        known = error < 1e-3
        assert known[:2].all()
        tail = np.array([term.log_tail(c, omega) for omega in at])
        assert np.all((value.real - value[0].real)[known] <= tail[known] + 1e-9)
        assert np.all(tail[1:] < 0)
        # One batch is Gaussian: nothing is lost.
        if batches == 1:
            assert (value.real - value[0].real)[known] == pytest.approx(tail[known], abs=1e-6)


@pytest.mark.parametrize(("parts", "batches"), EPOCHS)
def test_variations_and_greatest_losses(parts: Any, batches: int) -> None:
    for kind in (AllocationRemove, AllocationAdd):
        law = kind(1 / batches, max(mu for mu, _ in parts), 0.0, parts, batches, False)
        term = Epochs(law, 4, parts, batches, kind is AllocationRemove, 0.5)
        truth = 4 * math.exp(float(law.log_delta(np.array(0.0))))
        assert truth <= term.variation() <= 3 * truth
        rest = 1 - sum(count for _, count in parts) / batches
        finite = kind is AllocationAdd and rest
        assert term.greatest == (pytest.approx(-4 * math.log(rest)) if finite else math.inf)


@pytest.mark.parametrize("loud", [1e3, 1e5])
def test_noise_levels_far_apart_are_left_to_the_lattice(loud: float) -> None:
    """One table serves all levels: the steps of the loudest one would make that of the other one too long."""
    for present in (True, False):
        with pytest.raises(TooSlowError):
            grid(((1 / loud, 1), (1.0, 1)), 2, present=present)


@pytest.mark.parametrize("batches", [3, 10**6, 10**7, 10**9])
@pytest.mark.parametrize("left", [1, 2, -1])
def test_the_greatest_loss_of_an_epoch_that_is_cut_short_is_rounded_up(batches: int, left: int) -> None:
    """Also where next to no batch is used, or all but one or two: the share of the others has few digits there."""
    parts = ((1.0, batches - left if left > 0 else -left),)
    law = AllocationAdd(1 / batches, 1.0, 0.0, parts, batches, True)
    with mp.workdps(40):
        truth = mp.log(mp.mpf(batches) / (batches - parts[0][1]))
        assert truth <= Epochs(law, 1, parts, batches, False, 0.5).greatest <= truth * (1 + 2e-12)


def run(batches: int, steps: int, noise: Any) -> dp.Run:
    return dp.Run(n=10 * batches, sampling=dp.RandomAllocation(10), steps=steps, noise_multiplier=noise)


RUNS: list[Any] = [
    (run(100, 1000, 0.4687), 2e-8),
    (run(10, 50, 1.0), 1e-5),
    (run(3, 6, 0.3), 1e-5),
    (run(141, 354, 0.784), 3.3e-6),
    (run(947, 947 * 21, 0.8863), 3.2e-7),
    (run(42, 42 * 2300, 8.5148), 3e-8),
    (run(1278, 12_780, 0.368), 2.1e-4),
    (run(100, 1530, np.where(np.arange(1530) % 100 < 30, 0.6, 0.8)), 1e-6),
]


@pytest.mark.parametrize(("one", "delta"), RUNS)
def test_the_contour_lies_between_the_ends_of_the_lattices(one: dp.Run, delta: float) -> None:
    """Two ways that share nothing: moments of complex order, and sums that are rounded up and down in the convex order."""
    above, below = allocations(one, safe=True), allocations(one, safe=False)
    for up, down in zip(above, below, strict=True):
        found = contour_epsilon(up, delta)
        assert found.width <= 1e-5 * max(found.upper, 1.0)
        assert lattice_epsilon(down, delta, 2e-5).lower <= found.lower
        assert found.upper <= lattice_epsilon(up, delta, 2e-5).upper
        at = found.upper / 2
        there = line_at(up, at).delta(at)
        assert there.width <= 1e-4 * there.upper
        assert tails_at(down, at, 2e-5)(at).lower <= there.upper
        assert there.lower <= tails_at(up, at, 2e-5)(at).upper
        assert there.upper <= tails_at(up, at, 2e-5)(at).upper * (1 + 1e-9)


def test_what_was_asked_before_changes_nothing() -> None:
    one, deltas = run(100, 1000, 0.7), (1e-9, 1e-3, 1e-6)

    def asked(order: tuple[float, ...]) -> dict[float, Any]:
        allocated_epochs.grids.cache_clear()
        return {delta: [contour_epsilon(direction, delta) for direction in allocations(one, safe=True)] for delta in order}

    assert asked(deltas) == asked(deltas[::-1])


def test_where_moments_would_not_do_they_are_refused() -> None:
    # Hardly a loss; none that a double can tell; tables without end; a large loss.
    for one in (run(100, 200, 300.0), run(100, 200, 1e200), run(2, 10**15, 1e7), run(100, 100_000, 0.05)):
        for direction in allocations(one, safe=True):
            with pytest.raises(TooSlowError):
                contour_epsilon(direction, 1e-5)
    grids = Grids(((1.0, 50),), 50, 0.5, present=True)
    with pytest.raises(TooSlowError):
        grids.reaching(1e6)
    assert grids.reaching(1.0) is grids.chosen[0]


def test_renyi_divergences_of_high_orders_come_from_the_lattices_law() -> None:
    """Where no grid reaches; and never below what the moments say where both know."""
    ((term,), _) = (direction.terms for direction in allocations(run(50, 500, 1.0), safe=True))
    for c in (1.0, 4.0, 9.0):
        assert term.bound(c, -20.0) * (1 - 1e-8) <= term.far_bound(c, -20.0) <= term.bound(c, -20.0) * (1 + 1e-2)
    with pytest.raises(TooSlowError):
        term.bound(400.0, -20.0)
    assert 0 < term.far_bound(400.0, -20.0) <= 10 * 401 * 400 / 2 * (1 + 1e-9)
