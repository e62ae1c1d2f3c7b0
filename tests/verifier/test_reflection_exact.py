"""The accountant's chain of distances against its survival probability in balls: closed forms, integrals, and sums from below.

From distance r the next one, rho, is above x with probability ``Phi((a - x)/w) - Phi(-(a + x)/w)``, ``a = c r + e``, ``w^2 = 4 v``,
and the chain goes on from ``min(D, rho)`` (``docs/proofs/reflection-coupling.md``, section 2).
"""

import math
from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("flint")

from flint import acb, arb, arb_mat

from dplateau.accounting.reflection import Steps, still_apart
from dplateau.verifier.balls import above, density, exact, precision

KINDS = [(1.0, 0.0, 0.1), (1.0, 0.01, 0.05), (0.9, 0.0, 0.2), (1.05, 0.02, 0.1), (0.5, 0.0, 0.3)]
"""Contraction, extra distance and standard deviation of a step."""
SET = 0.5
PLACES = (1.0, 0.37, 0.03)
"""Shares of the diameter."""


def steps_of(*kinds):
    """Steps in order: one row where one kind is given with a count."""
    if isinstance(kinds[0], int):
        count, kinds = [kinds[0]], kinds[1:]
    else:
        count = [1] * len(kinds)
    c, e, deviation = np.array(kinds).T
    return Steps(c, e, deviation**2, np.array(count))


def lies(bound, exactly, loss):
    """Whether a bound lies above what is exact, and by no more than this part of it."""
    assert exactly.rad() <= exact(1e-8) * exactly.mid()
    return exactly.lower() <= exact(bound) <= (exactly * exact(1 + loss)).upper()


def free(kinds, r):
    """Survival without a set: normal walks add up."""
    reach, variance = exact(r), arb(0)
    for c, e, deviation in kinds:
        reach, variance = exact(c) * reach + exact(e), exact(c) ** 2 * variance + exact(deviation) ** 2
    return (reach / (8 * variance).sqrt()).erf()


def survival(kinds, r):
    """Survival of the chain on the set, by integrals one in the other; r may be complex, as integration wants it."""
    (c, e, deviation), *later = kinds
    a, wide, far = exact(c) * r + exact(e), 2 * exact(deviation), exact(SET)
    if not later:
        return (a / (wide * arb(2).sqrt())).erf()

    def move(x, _):
        bells = (-(((x - a) / wide) ** 2) / 2).exp() - (-(((x + a) / wide) ** 2) / 2).exp()
        return survival(later, x) * bells / (wide * (2 * arb.pi()).sqrt())

    def higher(x):
        return (x / (wide * arb(2).sqrt())).erfc() / 2

    inside = acb.integral(move, acb(0), acb(far), rel_tol=arb(2) ** -32, abs_tol=arb(2) ** -32)
    return inside + survival(later, acb(far)) * (higher(far - a) - higher(far + a))


def move_of(kind, cells):
    """The matrix from survival at 0+, h, ..., D after a step to less than that before: a concave function is above its chords."""
    c, e, deviation = map(exact, kind)
    wide, width = 2 * deviation, exact(SET) / cells
    grid = [width * k for k in range(cells + 1)]

    def ramp(x):
        return x * above(-x / wide) + wide * density(x / wide)

    rows = []
    for r in grid:
        a = c * r + e
        ramps = [ramp(a - x) - ramp(-(a + x)) for x in grid]
        # How much a slope of 1 in a cell adds: the integral over it of the probability to be beyond.
        gains = [0, *((before - after) / width for before, after in pairwise(ramps)), 0]
        row = [gain - more for gain, more in pairwise(gains)]
        row[0] += above(-a / wide) - above(a / wide)
        rows.append(row)
    return arb_mat(rows)


def from_below(matrices, cells):
    """Survival from 0+, h, ..., D, at least."""
    column = arb_mat(cells + 1, 1, [1] * (cells + 1))
    for matrix in reversed(matrices):
        column = matrix * column
    return [column[k, 0] for k in range(cells + 1)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("diameter", [SET, math.inf])
def test_one_step(kind, diameter):
    bounds = dict(still_apart(steps_of(3, kind), diameter))
    with precision():
        for share in PLACES:
            assert lies(bounds[1](share * SET), free([kind], share * SET), 1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_any_number_of_steps_without_a_set(kind):
    for back, apart in still_apart(steps_of(400, kind), math.inf):
        for r in (3.0, 1e-6):
            with precision():
                assert lies(apart(r), free([kind] * back, r), 1e-8)


def test_steps_of_many_kinds_without_a_set():
    rng = np.random.default_rng(3)
    kinds = list(zip(rng.uniform(0.7, 1.1, 60), rng.uniform(0.0, 0.1, 60), rng.uniform(0.01, 1.0, 60), strict=True))
    for back, apart in still_apart(steps_of(*kinds), math.inf):
        with precision():
            assert lies(apart(2.0), free(kinds[60 - back :], 2.0), 1e-7)
    assert back == 60


@pytest.mark.parametrize("kind", KINDS)
def test_two_steps_by_an_integral(kind):
    bounds = dict(still_apart(steps_of(3, kind), SET))
    with precision(100):
        for share in PLACES:
            assert lies(bounds[2](share * SET), survival([kind] * 2, acb(exact(share * SET))).real, 1e-3)


@pytest.mark.parametrize("kinds", [KINDS[:3], [KINDS[2]] * 3])
def test_three_steps_by_an_integral_in_an_integral(kinds):
    bounds = [dict(still_apart(steps_of(*kinds), SET))]
    if kinds[0] == kinds[1]:
        bounds.append(dict(still_apart(steps_of(3, kinds[0]), SET)))
    with precision(64):
        exactly = survival(kinds, acb(exact(0.4))).real
        # Steps of several kinds are rounded to values two percent apart.
        for bound, loss in zip(bounds, (0.05, 1e-3), strict=False):
            assert lies(bound[3](0.4), exactly, loss)


@pytest.mark.parametrize("kind", KINDS)
def test_survival_rises_and_is_concave(kind):
    """The lemma of section 3, which bounds and sums rely on."""
    with precision(100):
        values = [survival([kind] * 2, acb(exact(SET) * k / 12)).real for k in range(13)]
        slopes = [after - before for before, after in pairwise(values)]
        assert all(slope > 0 for slope in slopes)
        assert all(after < before for before, after in pairwise(slopes))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_are_below_the_integral_and_near_it(kind):
    with precision(100):
        sums = from_below([move_of(kind, 40)] * 2, 40)
        for k in (1, 13, 40):
            exactly = survival([kind] * 2, acb(exact(SET) * k / 40)).real
            assert exactly * exact(0.99) <= sums[k] <= exactly


@pytest.mark.parametrize("kind", KINDS)
def test_up_to_forty_steps(kind):
    cells, bounds = 96, dict(still_apart(steps_of(40, kind), SET))
    with precision(64):
        matrix, column = move_of(kind, cells), arb_mat(cells + 1, 1, [1] * (cells + 1))
        for back in range(1, 41):
            column = matrix * column
            if back not in bounds:
                continue
            for k in (1, 32, cells):
                # The bound and the sums both round, to opposite sides.
                assert lies(bounds[back](k / cells * SET), column[k, 0], 0.004 + 0.0001 * back)


def test_steps_of_many_kinds():
    rng = np.random.default_rng(6)
    cells = 64
    kinds = list(zip(rng.uniform(0.8, 1.1, 9), rng.uniform(0.0, 0.02, 9), rng.uniform(0.05, 0.2, 9), strict=True))
    bounds = dict(still_apart(steps_of(*kinds), SET))
    assert sorted(bounds) == list(range(1, 10))
    with precision(64):
        matrices = [move_of(kind, cells) for kind in kinds]
        for back, apart in bounds.items():
            sums = from_below(matrices[9 - back :], cells)
            for k in (1, 20, cells):
                assert lies(apart(k / cells * SET), sums[k], 0.02 + 0.01 * back)


@pytest.mark.parametrize("contraction", [1.0, 0.9995])
def test_a_thousand_small_steps_in_blocks(contraction):
    """Blocks of three steps leave out the projection in between. That costs some percent of the steps."""
    cells, deviation = 128, SET / 64 / math.sqrt(3)
    bounds = dict(still_apart(steps_of(2048, (contraction, 0.0, deviation)), SET))
    assert min(bounds) == 3
    with precision(64):
        power, below = move_of((contraction, 0.0, deviation), cells), {}
        for doubled in range(11):
            ones = arb_mat(cells + 1, 1, [1] * (cells + 1))
            below[2**doubled] = (power * ones)[cells, 0]
            power = power * power
        for back, least in below.items():
            if back >= 4:
                # Look-backs are multiples of three, and survival falls with them.
                fewer = max(r for r in bounds if r <= back)
                assert lies(bounds[fewer](SET), least, 0.03)
