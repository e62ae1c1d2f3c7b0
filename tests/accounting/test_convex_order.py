"""Laws on floating-point lattices, against sums over all pairs of points."""

from __future__ import annotations

import math
from functools import partial
from itertools import pairwise

import mpmath
import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import quad
from scipy.special import ndtr

from dplateau.accounting import convex_order, log_normal_sums
from dplateau.accounting.convex_order import FINE, Block, Law, _together
from dplateau.accounting.log_normal_sums import sum_of_log_normals, sum_of_sinhs
from dplateau.accounting.privacy_loss import TooSlowError

THRESHOLDS = np.array([0.0, 1e-3, 0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 30.0, 1e3])


def call(mu: float, strike: float) -> float:
    """E (exp(mu g - mu^2/2) - strike)_+: Black and Scholes."""
    if strike <= 0:
        return 1 - strike
    d = -math.log(strike) / mu + mu / 2
    return float(ndtr(d) - strike * ndtr(d - mu))


def excess(law: Law, y: float) -> float:
    value, mass = law.table()
    return float(mass @ np.maximum(value - y, 0.0)) + law.infinite + law.zero * max(-y, 0.0)


def of_two(mu: float, nu: float, y: float) -> float:
    """E (X + Y - y)_+ for two of them, one integrated and the other in closed form."""

    def at(g: float) -> float:
        return math.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * call(nu, y - math.exp(mu * g - mu**2 / 2))

    kink = (math.log(y) + mu**2 / 2) / mu if y > 0 else 0.0
    points = sorted({min(max(p, -13.0), 13.0 + mu) for p in (kink, 0.0, mu)})
    edges = [-14.0, *points, 14.0 + mu]
    return math.fsum(quad(at, a, b, epsabs=0, epsrel=1e-12, limit=400)[0] for a, b in pairwise(edges) if a < b)


@pytest.mark.parametrize("mu", [1e-3, 0.025, 0.3, 1.0, 2.5, 4.5])
def test_one_log_normal(mu: float) -> None:
    laws = [sum_of_log_normals(((mu, 1),), 0, above=above) for above in (True, False)]
    for law in laws:
        assert law.mean == pytest.approx(1, rel=1e-12)
        assert law.table()[1].sum() + law.zero == pytest.approx(1, rel=1e-12)
    for y in np.concatenate([THRESHOLDS, np.exp(mu * np.linspace(-6, 6, 41))]):
        above, below = (excess(law, y) for law in laws)
        truth = call(mu, y)
        assert below <= truth * (1 + 1e-11) + 1e-15
        assert above >= truth * (1 - 1e-11) - 1e-15
        assert above - below <= 0.03 * min(truth, truth + y - 1) + 1e-5 * mu + 1e-60


@pytest.mark.parametrize(("mu", "nu"), [(0.05, 0.05), (1.0, 1.0), (2.0, 2.0), (0.2, 1.5), (3.5, 0.4)])
def test_two_log_normals(mu: float, nu: float) -> None:
    parts = ((mu, 2),) if mu == nu else ((mu, 1), (nu, 1))
    laws = [sum_of_log_normals(parts, 0, above=above) for above in (True, False)]
    for y in (0.01, 0.3, 1.5, 1.99, 2.0, 2.02, 2.5, 4.0, 20.0):
        truth = of_two(mu, nu, y)
        above, below = (excess(law, y) for law in laws)
        assert below <= truth * (1 + 1e-9)
        assert truth <= above * (1 + 1e-9)
        assert above - below <= 2e-3 * truth + 1e-50


def test_a_constant_is_a_point_of_every_lattice() -> None:
    """The lattice of a whole number must not be coarser than the law that it is added to."""
    for mu in (0.01, 1.0):
        laws = [sum_of_log_normals(((mu, 1),), 3, above=above) for above in (True, False)]
        for y in (3.9, 4.0, 4.01, 4.2):
            above, below = (excess(law, y) for law in laws)
            assert below * (1 - 1e-9) <= call(mu, y - 3) <= above * (1 + 1e-9) + 1e-60
            assert above - below <= 2e-3 * above + 1e-50


def test_the_mean_is_kept_and_the_order_rises_with_every_sum() -> None:
    for mu in (0.2, 1.0, 2.0):
        for count in (1, 2, 3, 7, 64, 1000):
            above, below = (sum_of_log_normals(((mu, count),), 0, above=up) for up in (True, False))
            assert above.mean == pytest.approx(count, rel=1e-10)
            assert below.mean == pytest.approx(count, rel=1e-10)
            for y in count * np.array([0.5, 0.9, 1.0, 1.05, 1.5, 4.0]):
                assert excess(below, y) <= excess(above, y) * (1 + 1e-9) + 1e-30


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("signed", [False, True])
def test_sums_of_any_laws_are_rounded_the_right_way(seed: int, signed: bool) -> None:
    """Against the sums over all pairs of points, at every kink there may be."""
    random = np.random.default_rng(seed)

    def law(down: bool) -> Law:
        blocks = []
        for scale in (-9, -6, -4, 0):
            mass = random.random(12) * random.choice([1e-12, 1e-3, 1.0], 12)
            first = int(random.integers(-15 if signed else 1, 20))
            blocks.append(Block(scale, first, mass, mass * random.random(12) if down else None))
        total = sum(block.mass.sum() for block in blocks)
        parts = [Block(b.scale, b.first, b.mass / total, None if b.excess is None else b.excess / total) for b in blocks]
        return Law(tuple(parts), signed=signed)

    for down in (True, False)[signed:]:
        u, v = law(down), law(down)
        (x, p), (y, q) = u.table(), v.table()
        exact, mass = np.add.outer(x, y).ravel(), np.multiply.outer(p, q).ravel()
        rounded = u + v
        for k in random.choice(exact, 200):
            truth = float(mass @ np.maximum(exact - k, 0.0))
            found = excess(rounded, float(k))
            assert found <= truth * (1 + 1e-10) + 1e-13 if down else found >= truth * (1 - 1e-10) - 1e-13
        assert rounded.table()[1].sum() == pytest.approx(1, rel=1e-12)
        assert rounded.mean == pytest.approx(u.mean + v.mean, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("ends", [0.0, 0.02])
@pytest.mark.parametrize(("signed", "down"), [(False, False), (False, True), (True, False), (True, True)])
def test_what_has_no_lattice_counts_in_sums(
    monkeypatch: pytest.MonkeyPatch, seed: int, ends: float, signed: bool, down: bool
) -> None:
    """Mass at 0, mean at infinity, and ends that are cut off: for functions that rise, and where all is positive that fall."""
    for name in ("_RARE", "_RARE_COARSE", "_RARE_SIGNED"):
        monkeypatch.setattr(convex_order, name, ends or 1e-52)
    random = np.random.default_rng(seed)

    def law(zero: float) -> Law:
        infinite = 0.0 if down else random.random()
        mass = random.random((3, 24))
        mass *= (1 - zero) / mass.sum()
        more = random.random(mass.shape) * mass
        firsts = random.integers(-20 if signed else 1, 20, 3).tolist()
        blocks = (Block(i - 6, first, mass[i], more[i] if down else None) for i, first in enumerate(firsts))
        return Law(tuple(blocks), zero, infinite, signed=signed)

    def points(one: Law) -> tuple[np.ndarray, np.ndarray]:
        value, mass = one.table()
        return np.append(value, 0.0), np.append(mass, one.zero)

    # Two masses at 0 are too much together: what is cut off is seen without them.
    some = 0.0 if down or signed or ends else 0.3
    u, v = law(some), law(some * (seed % 2))
    (x, p), (y, q), whole = points(u), points(v), u + v
    exact, mass = np.add.outer(x, y).ravel(), np.multiply.outer(p, q).ravel()
    value, found_mass = points(whole)
    for k in [0.0, 1e3 * float(exact.max()), *random.choice(exact, 200).tolist()]:
        for side in (1, -1)[: 1 if signed else 2]:
            mean = (u.infinite + v.infinite, whole.infinite) if side == 1 else (0.0, 0.0)
            truth = float(mass @ np.maximum(side * (exact - k), 0.0)) + mean[0]
            found = float(found_mass @ np.maximum(side * (value - k), 0.0)) + mean[1]
            assert found <= truth * (1 + 1e-10) + 1e-13 if down else found >= truth * (1 - 1e-10) - 1e-13


def test_errors_of_masses_add_up_in_sums() -> None:
    """Where both laws are off by all that their errors say."""
    u, v = (Law((Block(-4, 3, mass, None),), error=error) for mass, error in ((np.full(9, 1 / 9), 3e-10), (np.full(5, 0.2), 2e-10)))
    assert (1 + 3e-10) * (1 + 2e-10) - 1 <= (u + v).error <= 6e-10


def test_what_lies_above_the_points_is_read_with_its_error() -> None:
    """A value is a quotient: what it has above its point may be too large by its own error and by that of its mass."""
    place, above, error = 5 / 16, 1 / 32, 1e-6
    law = Law((Block(-4, 5, np.ones(1), np.full(1, above * 16)),), error=error, signed=True)
    value, _ = law.table()
    assert place < value[0] <= place + above * (1 - error) / (1 + error)


def test_coarser_lattices_keep_mass_and_mean() -> None:
    random = np.random.default_rng(1)
    for down in (True, False):
        mass = random.random(100)
        block = Block(-7, 33, mass, mass * random.random(100) if down else None)
        for scale in (-7, -6, 0, 4, 60, 200):
            moved = block.coarser(scale)
            assert moved.mass.sum() == pytest.approx(mass.sum(), rel=1e-13)
            assert moved.mass @ moved.value == pytest.approx(mass @ block.value, rel=1e-12)


def test_blocks_that_lie_together_are_joined_and_others_are_not() -> None:
    random = np.random.default_rng(2)
    for down in (True, False):
        firsts = (40, 0, 35, 500, 7, 10**9)
        masses = [random.random(size) for size in (20, 30, 12, 9, 1, 3)]
        blocks = [Block(-3, first, m, m * random.random(m.size) if down else None) for first, m in zip(firsts, masses, strict=True)]
        joined = _together(blocks)
        assert [(one.first, one.mass.size) for one in joined] == [(0, 60), (500, 9), (10**9, 3)]
        table = np.zeros((2, 60))
        for block in blocks[:3] + blocks[4:5]:
            here = slice(block.first, block.first + block.mass.size)
            table[:, here] += [block.mass, block.excess if block.excess is not None else np.zeros(block.mass.size)]
        np.testing.assert_allclose(joined[0].mass, table[0], rtol=1e-15)
        assert joined[0].excess is None if not down else np.allclose(joined[0].excess, table[1], rtol=1e-15)
        np.testing.assert_array_equal(joined[1].mass, blocks[3].mass)


@pytest.mark.parametrize("mu", [0.02, 0.5, 2.0, 5.0])
@pytest.mark.parametrize("size", [0.0, 0.3, 2.0, 6.0])
def test_one_difference_is_a_gaussian_told_apart_from_its_mirror_image(mu: float, size: float) -> None:
    """E (X(mu) - e^epsilon X(-mu))_+ is delta of N(mu, 1) against N(-mu, 1)."""
    epsilon = size * mu
    truth = float(ndtr(mu - epsilon / (2 * mu)) - math.exp(epsilon) * ndtr(-mu - epsilon / (2 * mu)))
    found = math.exp(epsilon / 2) * float(sum_of_sinhs(((mu, 1),), epsilon / 2)(np.array(0.0)))
    assert truth * (1 - 1e-12) <= found <= truth * (1 + 2e-3)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 0.0), (0.3, 0.4), (1.0, 0.0), (1.0, 1.0), (1.0, 4.0), (2.0, 3.0), (2.0, 9.0)])
def test_two_differences(mu: float, epsilon: float) -> None:
    """One of them integrated, the other in closed form: y + a X - b / X > 0 where exp(mu g) exceeds the root of a quadratic."""
    factor, shift = 2 * math.exp(-(mu**2) / 2), epsilon / 2

    def inner(y: float) -> float:
        root = (math.asinh(-y / factor) + shift) / mu
        up = math.exp(-shift) * ndtr(mu - root) - math.exp(shift) * ndtr(-mu - root)
        return float(y * ndtr(-root) + up)

    def at(g: float) -> float:
        return math.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * inner(factor * math.sinh(mu * g - shift))

    truth = math.fsum(quad(at, a, a + 1, epsabs=0, epsrel=1e-11)[0] for a in range(-14, 16))
    found = float(sum_of_sinhs(((mu, 2),), shift)(np.array(0.0)))
    assert truth * (1 - 1e-9) <= found <= truth * 1.1


def test_panels_are_fine_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one panel a cell the guard stops the quadrature where cells are wide."""
    monkeypatch.setattr(log_normal_sums, "_PANEL", math.inf)
    with pytest.raises(TooSlowError):
        sum_of_sinhs(((2.0, 1),), 12.0)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.0])
def test_what_lies_beyond_the_ends_counts(monkeypatch: pytest.MonkeyPatch, mu: float) -> None:
    """On lattices so short that it is seen: from above its mass and its mean, from below neither."""
    for name in ("_REACH", "_REACH_COARSE", "_REACH_SIGNED"):
        monkeypatch.setattr(log_normal_sums, name, 2.5)
    monkeypatch.setattr(log_normal_sums, "_SELDOM", 2.0)
    above, below = (log_normal_sums._log_normal(mu, FINE, above=up) for up in (True, False))
    for law in (above, below):
        assert law.mean == pytest.approx(1, rel=1e-12)
        assert law.table()[1].sum() + law.zero == pytest.approx(1, rel=1e-12)
    for y in np.exp(mu * np.linspace(-6, 6, 41)):
        assert excess(below, y) <= call(mu, y) * (1 + 1e-11) + 1e-15
        assert excess(above, y) >= call(mu, y) * (1 - 1e-11) - 1e-15
    assert above.infinite > 1e-3
    for shift in (0.0, mu, 2 * mu):
        truth = math.exp(-shift) * ndtr(mu - shift / mu) - math.exp(shift) * ndtr(-mu - shift / mu)
        assert excess(log_normal_sums._sinh(mu, shift, above=False), 0.0) <= truth * (1 + 1e-11)
        law = log_normal_sums._sinh(mu, shift, above=True)
        assert excess(law, 0.0) >= truth * (1 - 1e-11)
        assert law.table()[1].sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize(
    ("mu", "shift"),
    [
        *((mu, None) for mu in (1e-6, 0.3, 1.0, 3.0, 6.0)),
        *((mu, shift) for mu in (1e-6, 0.3, 1.0, 3.0) for shift in (0.0, 0.5, 5.0)),
    ],
)
def test_no_cell_has_a_larger_error_than_is_counted(mu: float, shift: float | None) -> None:
    """Of a log-normal, and of a difference: its mass, and its mean above its lower end. Cells are so narrow that a difference of
    their ends has few digits.
    """
    known = log_normal_sums._log_normal(mu, FINE, above=False) if shift is None else log_normal_sums._sinh(mu, shift, above=False)
    blocks = known.blocks[:-2] if shift is None else known.blocks  # the last two are what lies beyond the ends
    with mp.workdps(40):
        size, by, factor = mp.mpf(mu), mp.mpf(shift or 0), 2 * mp.exp(-(mp.mpf(mu) ** 2) / 2)

        def between(g: mpmath.mpf, h: mpmath.mpf) -> mpmath.mpf:
            return mp.ncdf(-g) - mp.ncdf(-h) if g > 0 else mp.ncdf(h) - mp.ncdf(g)

        def inverse(x: mpmath.mpf) -> mpmath.mpf:
            return (mp.log(x) + size**2 / 2 if shift is None else mp.asinh(x / factor) + by) / size

        worst = 0.0
        for block in blocks:
            assert block.excess is not None
            for k in {*range(0, block.mass.size, 1 + block.mass.size // 8), block.mass.size - 1}:
                start, end = (mp.ldexp(block.first + at, block.scale) for at in (k, k + 1))
                g, h = inverse(start), inverse(end)
                mass, mean = between(g, h), mp.exp(-by) * between(g - size, h - size)
                if shift is not None:
                    mean -= mp.exp(by) * between(g + size, h + size)
                excess = (mean - start * mass) / (end - start)
                worst = max(worst, *(float(abs(at[k] / truth - 1)) for at, truth in ((block.mass, mass), (block.excess, excess))))
    assert worst <= known.error
    assert known.error <= (1e-12 if shift is None or shift <= 5 * mu else 1e-7)


@pytest.mark.parametrize("mu", [8.0, 29.0, 31.0, 1e3])
def test_what_spans_too_much_is_declined(mu: float) -> None:
    with pytest.raises(TooSlowError):
        sum_of_log_normals(((mu, 2),), 0, above=True)


def test_coarser_points_only_widen_the_enclosure() -> None:
    fine, coarse = (
        [sum_of_log_normals(((1.0, 100),), 0, above=above, fine=share) for above in (True, False)] for share in (FINE, 1 / 32)
    )
    for y in (90.0, 100.0, 105.0, 150.0):
        ends = [partial(excess, law)(y) for law in (coarse[1], fine[1], fine[0], coarse[0])]
        assert ends == sorted(ends)
        assert ends[3] - ends[0] > 15 * (ends[2] - ends[1])
