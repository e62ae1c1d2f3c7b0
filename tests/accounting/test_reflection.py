"""The walk that reflection coupling leaves, against exact chains: never below them, and close above."""

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtr

from dplateau.accounting import reflection
from dplateau.accounting.reflection import Steps, still_apart


def alike(steps, variance, contraction=1.0, extra=0.0):
    return Steps(*(np.array([value]) for value in (contraction, extra, variance)), np.array([steps]))


def one_by_one(variance, contraction, extra=None):
    variance, contraction = np.asarray(variance, dtype=float), np.asarray(contraction, dtype=float)
    extra = np.zeros_like(variance) if extra is None else extra
    return Steps(contraction, extra, variance, np.ones(variance.size, dtype=int))


def walk(deviations, contractions, diameter, extra=0.0, cells=600):
    """Probability that the walk from ``diameter`` has not ended after each step; its distances in cells, by their middles."""
    edges = np.linspace(0, diameter, cells + 1)
    middles = np.append((edges[1:] + edges[:-1]) / 2, diameter)
    mass, alive = np.append(np.zeros(cells), 1.0), []
    for deviation, c in zip(deviations, contractions, strict=True):
        start, wide = (c * middles + extra)[:, None], 2 * deviation
        below = ndtr((edges - start) / wide) + ndtr((-edges - start) / wide)
        moved = np.column_stack([np.diff(below, axis=1), ndtr((start - diameter) / wide) - ndtr((-start - diameter) / wide)])
        mass = mass @ moved
        alive.append(mass.sum())
    return np.array(alive)


def told_apart(deviation, slope, diameter, steps, cells=800):
    """Total variation of the two projected walks on [0, diameter] that start at its ends, after each step."""
    edges = np.linspace(0, diameter, cells + 1)
    middles = np.concatenate([[0.0], (edges[1:] + edges[:-1]) / 2, [diameter]])
    centre = diameter / 2 + slope * (middles - diameter / 2)
    below = ndtr((edges - centre[:, None]) / deviation)
    kernel = np.column_stack([below[:, 0], np.diff(below, axis=1), 1 - below[:, -1]])
    laws = np.zeros((2, cells + 2))
    laws[0, 0] = laws[1, -1] = 1.0
    found = []
    for _ in range(steps):
        laws = laws @ kernel
        found.append(np.abs(laws[0] - laws[1]).sum() / 2)
    return np.array(found)


@pytest.mark.parametrize("deviation", [1e5, 1e7, 1e8])
def test_noise_that_is_much_wider_than_the_set(deviation):
    """A step lets two points be apart with probability ``phi(0) r / deviation``, and then at the full distance, mostly."""
    (back, _), (two, apart), *_ = still_apart(one_by_one(deviation**2 * np.array([1.0, 1.1, 1.2]), [1.0] * 3), 1.0)
    assert (back, two) == (1, 2)
    for distance in (0.1, 0.3, 1.0):
        exact = distance / (2 * math.pi * deviation**2 * math.sqrt(1.1 * 1.2))
        assert exact * (1 - 1e-5) <= apart(distance) <= exact * 1.05


@pytest.mark.parametrize("contraction", [1.0, 0.97, 1.03])
@pytest.mark.parametrize("extra", [0.0, 0.01])
def test_single_steps_are_those_of_the_exact_walk(contraction, extra):
    steps, diameter, deviation = 60, 0.5, 0.1
    exact = walk([deviation] * steps, [contraction] * steps, diameter, extra)
    found = {back: apart(diameter) for back, apart in still_apart(alike(steps, deviation**2, contraction, extra), diameter)}
    assert len(found) > 40
    for back, bound in found.items():
        assert exact[back - 1] * (1 - 2e-3) <= bound <= exact[back - 1] * 1.005


def test_blocks_cost_little():
    steps, variance = 3000, 1 / 20_000
    exact = walk([math.sqrt(variance)] * steps, [1.0] * steps, 1.0, cells=250)
    found = {back: apart(1.0) for back, apart in still_apart(alike(10 * steps, variance), 1.0)}
    block = min(found)
    assert block == math.ceil(1 / 4096 / variance)
    # Wherever a probability is reached exactly, the blocks reach it at most 4 % later.
    for back, bound in found.items():
        if 0.1 * steps <= back <= steps:
            assert exact[back - 1] * (1 - 1e-2) <= bound <= exact[int(back / 1.05) - 1] * 1.01


@pytest.mark.parametrize("slope", [1.0, -1.0, 0.9])
def test_no_two_walks_can_be_told_apart_better(slope):
    deviation, diameter, steps = 0.15, 1.0, 80
    apart = {back: probability(diameter) for back, probability in still_apart(alike(steps, deviation**2, abs(slope)), diameter)}
    worst = told_apart(deviation, slope, diameter, steps)
    ratios = np.array([worst[back - 1] / bound for back, bound in apart.items() if bound > 1e-12])
    assert ratios.max() <= 1 + 1e-3
    assert ratios.min() > 0.01


def test_the_bound_rises_with_the_distance_and_is_concave_in_it():
    for contraction in (1.0, 0.99):
        for _, apart in still_apart(alike(40, 0.01, contraction), 1.0):
            values = np.array([apart(r) for r in np.linspace(0, 1, 33)])
            assert values[0] <= 1e-2
            assert (np.diff(values) >= -1e-9).all()
            assert (np.diff(values, 2) <= 1e-4 * values.max()).all()


def test_without_a_set_one_normal_step_says_all():
    for back, apart in still_apart(alike(500, 0.04, 0.9), math.inf):
        reach = 0.9**back * 3.0 / 2 / math.sqrt(0.04 * (1 - 0.81**back) / (1 - 0.81))
        assert apart(3.0) == pytest.approx(2 * ndtr(reach) - 1, rel=1e-6)
    assert back == 500


@pytest.mark.parametrize(("variance", "contraction"), [(0.003, 0.999), (4e-4, 1.02), (1e-3, 1.2)])
def test_a_steady_shape_is_a_theorem_not_a_guess(monkeypatch, variance, contraction):
    steps = alike(2000, variance, contraction)
    quick = {back: (apart(0.7), apart(0.01)) for back, apart in still_apart(steps, 1.0)}
    monkeypatch.setattr(reflection, "_STEADY", 0.0)
    monkeypatch.setattr(reflection, "_ENOUGH", -1.0)
    monkeypatch.setattr(reflection, "_EQUAL", -1.0)
    slow = {back: (apart(0.7), apart(0.01)) for back, apart in still_apart(steps, 1.0)}
    assert len(slow) > 2 * len(quick)
    common = sorted(slow.keys() & quick.keys())
    assert common[-1] == 2000
    for back in common:
        for right, said in zip(slow[back], quick[back], strict=True):
            assert right * (1 - 1e-9) <= said <= right * 1.02


def test_every_step_more_counts_once_also_where_the_last_block_is_not_a_whole_one():
    """Once one factor serves for all blocks, steps that are left over are a block of their own."""
    variance, ends = 1e-4, []
    for steps in range(5000, 5004):  # one block and one step
        *_, (back, apart) = still_apart(alike(steps, variance), 1.0)
        assert back == steps
        ends.append(apart(1.0))
    # A walk in a set of diameter 1 loses a share of about pi^2 v / 2 in every step.
    lost = -np.diff(np.log(ends)) / (math.pi**2 / 2 * variance)
    assert (lost > 0.5).all()
    assert (lost < 2).all()


def test_any_number_of_steps_that_forget_nothing_takes_a_moment():
    found = [(back, apart(1.0)) for back, apart in still_apart(alike(10**16, 1e-4, 1.2), 1.0)]
    assert found[-1] == (10**16, 1.0)
    assert len(found) < 5000


def test_steps_of_many_kinds_lie_between_their_extremes():
    rng = np.random.default_rng(4)
    variance, contraction = rng.uniform(0.001, 0.002, 900), rng.uniform(0.997, 1.0, 900)
    found = dict(still_apart(one_by_one(variance, contraction), 1.0))
    slow = dict(still_apart(one_by_one(np.full(900, 0.001), np.ones(900)), 1.0))
    fast = dict(still_apart(one_by_one(np.full(900, 0.002), np.full(900, 0.997)), 1.0))
    assert max(found) == max(slow) == max(fast) == 900
    assert fast[900](1.0) < found[900](1.0) < slow[900](1.0)
    exact = walk(np.sqrt(variance), contraction, 1.0, cells=200)[-1]
    assert exact * (1 - 1e-2) <= found[900](1.0) <= exact * 1.5


def test_only_blocks_beyond_the_first_kinds_are_rounded_and_only_upwards(monkeypatch):
    rng = np.random.default_rng(4)
    steps = one_by_one(rng.uniform(0.001, 0.002, 900), rng.uniform(0.997, 1.0, 900), rng.uniform(0.0, 0.002, 900))

    def found(operators):
        monkeypatch.setattr(reflection, "_OPERATORS", operators)
        return dict(still_apart(steps, 1.0))[900](1.0)

    assert found(10**6) < found(64) < found(0) < 1.1 * found(10**6)


def test_a_rounded_block_contracts_less_and_has_less_noise():
    rng = np.random.default_rng(5)
    for near in (0.0, 1e-16, 1e-13, 1e-3, 0.5):
        for contraction in 1 + near * rng.uniform(-1, 1, 20):
            extra, variance = 10 ** rng.uniform(-12, 0, 2)
            for given in ((contraction, extra, variance), (contraction, 0.0, variance)):
                c, e, v = reflection._rounded(*given)
                assert contraction <= c <= contraction + 0.03 * abs(1 - contraction) + 2e-12
                assert given[1] <= e <= 1.03 * given[1]
                assert variance / 1.03 <= v <= variance


@pytest.mark.parametrize("extra", [0.0, 0.003])
@pytest.mark.parametrize("variance", [0.002, 1e-4])
def test_one_row_and_many_rows_say_the_same(extra, variance):
    """Also where steps are taken together."""
    one = dict(still_apart(alike(400, variance, 0.995, extra), 1.0))
    many = dict(still_apart(one_by_one(np.full(400, variance), np.full(400, 0.995), np.full(400, extra)), 1.0))
    for distance in (0.2, 1.0):
        assert many[400](distance) == pytest.approx(one[400](distance), rel=1e-3 if variance > 1 / 4096 else 1e-2)
    one = dict(still_apart(alike(50, variance, 0.9, extra), math.inf))
    many = dict(still_apart(one_by_one(np.full(50, variance), np.full(50, 0.9), np.full(50, extra)), math.inf))
    for back in (1, 7, 50):
        assert many[back](0.1) == pytest.approx(one[back](0.1), rel=1e-6)


def test_contractions_are_rounded_once_for_every_step():
    """33 million steps of two kinds, whose factors are both rounded down by half of a last place."""
    count, moved = 1 << 25, np.array([1.5 * 2.0**-23, 2.5 * 2.0**-25]) + 1.02 * 2.0**-54
    one = np.broadcast_to(1.0, count)
    ((steps, contraction, _, _),) = reflection._blocks(Steps(np.resize(1 - moved, count), one, one, one), math.inf)
    assert steps == count
    with mpmath.workdps(40):
        true = mpmath.fprod((1 - mpmath.mpf(x)) ** (count // 2) for x in moved.tolist())
        assert true <= contraction <= true * (1 + mpmath.mpf(10) ** -6)


def test_an_extra_distance_counts_also_where_the_set_does():
    exact = walk([0.1] * 12, [0.97] * 12, 0.5, extra=0.05, cells=200)
    found = {back: apart(0.5) for back, apart in still_apart(alike(12, 0.01, 0.97, 0.05), 0.5)}
    for back, bound in found.items():
        assert exact[back - 1] * (1 - 5e-3) <= bound <= exact[back - 1] * 1.01


@pytest.mark.parametrize("diameter", [100.0, 1e6])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_expansions_beyond_double_precision_are_apart(diameter):
    """Distances that grow by more than 1e308 are no reason to have met: the probability was 0, and then no number."""
    c = 1.9 + 0.001 * (np.arange(1400) % 3)
    steps = Steps(c, np.zeros(1400), np.full(1400, 3.2), np.ones(1400, int))
    # However many steps expand, the noise that they add is worth a bounded variance at the start: two starts stay apart so often.
    meets = math.erf(1e-3 * math.sqrt((1.9**2 - 1) / (8 * 3.2)) / 2)
    for _, probability in still_apart(steps, diameter):
        assert 1.0 >= probability(diameter) >= 0.99
        assert 1.0 >= probability(1e-3) >= meets
