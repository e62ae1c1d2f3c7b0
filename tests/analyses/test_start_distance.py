"""How far a record can have driven two runs apart: against exact binomial tails, all coins of short runs, and plain sums."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

import dplateau as dp
from dplateau.analyses import ExactCompositionBound, ReflectionCouplingBound, SampledLastIterateBound
from dplateau.analyses.start_distance import starts


def run_of(**changes):
    settings = {
        "n": 4000,
        "sampling": dp.FixedSize(100),
        "steps": 300,
        "noise_multiplier": 2.0,
        "step_size": 0.5,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "released": "last",
    }
    return dp.Run(**{**settings, **changes})


@pytest.mark.parametrize(("adjacency", "gap"), [("add-remove", 0.005), ("replace", 0.01)])
def test_without_contraction_uses_are_counted(adjacency, gap):
    start = starts(run_of(adjacency=adjacency, clip_norm=1.0), 0.0)
    rounding = 2e-7 * 0.5 * 2.0 / 100
    assert start.surely(200) == pytest.approx(200 * (gap + rounding), rel=1e-6)
    assert start.mean(200) == pytest.approx(200 * (gap / 40 + rounding), rel=1e-6)
    assert start.mean(0) == start.surely(0) == start.likely(0, 1e-6) == 0
    for tail in (1e-2, 1e-6, 1e-12):
        likely = start.likely(200, tail)
        uses = (likely - 200 * rounding) / gap
        assert binom.sf(math.floor(uses), 200, 1 / 40) <= tail
        # Chernoff's bound is not far from the quantile.
        assert uses <= binom.isf(tail, 200, 1 / 40) + 6
    assert start.likely(200, 0.0) == start.surely(200)


@pytest.mark.parametrize("varying", [False, True])
def test_all_coins_of_a_short_run(varying):
    steps, c = 12, 0.8
    eta = np.linspace(0.5, 0.3, steps) if varying else np.full(steps, 0.4)
    run = run_of(
        n=5,
        sampling=dp.FixedSize(2),
        steps=steps,
        strong_convexity=0.5,
        step_size=eta.tolist() if varying else 0.4,
        adjacency="replace",
    )
    start = starts(run, 0.0)
    c = 1 - 0.5 * eta
    distances, chances = [], []
    for coins in itertools.product((0, 1), repeat=steps):
        far = 0.0
        for used, factor, size in zip(coins, c, eta, strict=True):
            far = factor * far + used * 2 * size / 2
        distances.append(far)
        chances.append(0.4 ** sum(coins) * 0.6 ** (steps - sum(coins)))
    distances, chances = np.array(distances), np.array(chances)
    assert start.mean(steps) == pytest.approx(float(distances @ chances), rel=1e-5)
    assert start.surely(steps) == pytest.approx(float(distances.max()), rel=1e-5)
    for tail in (0.3, 0.05, 1e-3):
        likely = start.likely(steps, tail)
        assert chances[distances > likely].sum() <= tail
        assert likely < start.surely(steps) * (1 + 1e-9)
    assert start.likely(steps, 0.05) < 0.9 * start.surely(steps)


def test_uses_of_a_fixed_order():
    run = run_of(sampling=dp.Cyclic(1000), steps=12, strong_convexity=0.2, step_size=0.5)
    start = starts(run, 0.0)
    gap, c = 0.5 / 1000, 0.9
    # The last place of each epoch of four steps.
    assert start.mean(8) == pytest.approx(gap * (1 + c**4), rel=1e-4)
    assert start.surely(8) == start.mean(8)
    changing = starts(run.replace(step_size=[0.5, 0.4, 0.3, 0.2] * 3), 0.0)
    kept = 0.9 * 0.92 * 0.94 * 0.96
    assert changing.mean(8) == pytest.approx(gap * (1 + kept), rel=1e-4)
    full = starts(run.replace(sampling=dp.FullBatch()), 0.0)
    assert full.mean(3) == pytest.approx(0.5 / 4000 * (1 + c + c * c), rel=1e-4)


@pytest.mark.parametrize("varying", [False, True])
def test_the_first_place_of_a_fixed_order_moves_furthest_where_steps_expand(varying):
    step = 0.4, 0.2, 0.6, 0.1, 0.5, 0.3, 0.7, 0.2
    sizes = step if varying else (0.4,) * 8
    run = run_of(
        sampling=dp.Cyclic(1000),
        steps=8,
        strong_convexity=None,
        step_size=sizes if varying else 0.4,
        diameter=1.0,
        noise_multiplier=1e-9,
    )
    places = [0.0] * 4
    for t, eta in enumerate(sizes):
        places = [far * (1 + eta) + (t % 4 == place) * eta / 1000 for place, far in enumerate(places)]
    worst = starts(run, 0.0).mean(8)
    assert max(places) <= worst <= max(places) * 1.3
    if not varying:
        assert worst == pytest.approx(places[0])


@pytest.mark.parametrize("convexity", [0.0, 0.02, 2.0])
@pytest.mark.parametrize("noise", [2.0, 1e8])
def test_steps_written_one_by_one_move_as_far_as_steps_that_are_alike(convexity, noise):
    """With so much noise most of the distance is rounding, which every step adds and later ones contract."""
    run = run_of(strong_convexity=convexity, smoothness=2.0, noise_multiplier=noise)
    alike, written = starts(run, 0.0), starts(run.replace(noise_multiplier=(noise,) * 299 + (noise * (1 + 1e-12),)), 0.0)
    c, gap, e = 1 - 0.5 * convexity, 0.5 / 100, 2e-7 * 0.5 * noise / 100
    powers = c ** np.arange(300.0)
    for before in (1, 7, 200, 299):
        far, rounding = gap * powers[:before].sum(), e * powers[:before].sum()
        for start in (alike, written):
            assert start.surely(before) == pytest.approx(far + rounding, rel=1e-8)
            assert start.mean(before) == pytest.approx(far / 40 + rounding, rel=1e-8)
            for tail in (1e-2, 1e-9):
                assert far / 40 + rounding < start.likely(before, tail) <= start.surely(before) * (1 + 1e-6)
        for tail in (1e-2, 1e-9):
            assert alike.likely(before, tail) == pytest.approx(written.likely(before, tail), rel=2e-3)


def test_long_runs_are_summed_at_once():
    run = run_of(steps=10**9, strong_convexity=0.001)
    start = starts(run, 0.0)
    c = 1 - 0.5 * 0.001
    assert start.surely(10**9) == pytest.approx(0.005 / (1 - c), rel=1e-3)
    assert start.mean(10**9) == pytest.approx(0.005 / 40 / (1 - c), rel=1e-2)
    assert start.mean(10**9) < start.likely(10**9, 1e-6) < 0.3 * start.surely(10**9)
    # Groups of steps against every step by itself.
    theta = 200.0
    weights = 0.005 * c ** np.arange(80_000)
    bound = (np.log1p(np.expm1(theta * weights) / 40).sum() + math.log(1e6)) / theta
    assert start.likely(10**9, 1e-6) <= bound * 1.02 + start.mean(10**9) * 1e-2


def test_the_data_set_without_the_record_contracts_less():
    run = run_of(sampling=dp.FixedSize(4), strong_convexity=0.4, step_size=0.5)
    assert starts(run, 0.0).contraction[0] == pytest.approx(1 - 0.2)
    assert starts(run, 0.0, both=True).contraction[0] == pytest.approx(1 - 0.15)
    assert starts(run.replace(adjacency="replace"), 0.0, both=True).contraction[0] == pytest.approx(1 - 0.2)
    assert starts(run.replace(l2=0.4), 0.0, both=True).contraction[0] == pytest.approx(1 - 0.2)
    uneven = run.replace(n=4001, sampling=dp.Cyclic(1000), steps=10)
    assert starts(uneven, 0.0).contraction[0] == pytest.approx(1 - 0.2 / 1000)


def mixture_epsilon(weights, shifts, deviation, delta):
    """The exact epsilon of a mixture of normal laws against one of them, in both directions, from its definition."""
    x = np.linspace(-9 * deviation, shifts.max() + 9 * deviation, 3001)
    cell = x[1] - x[0]

    def density(centres, masses):
        return masses @ np.exp(-((x - centres[:, None]) ** 2) / 2 / deviation**2) / (deviation * math.sqrt(2 * math.pi))

    p, q = density(shifts, weights), density(np.zeros(1), np.ones(1))

    def largest(epsilon):
        return max(np.maximum(a - math.exp(epsilon) * b, 0).sum() * cell for a, b in ((p, q), (q, p)))

    low, high = 0.0, 30.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize("c", [0.5, 0.95])
@pytest.mark.parametrize("rate", [0.1, 0.5])
@pytest.mark.parametrize("noise", [0.8, 3.0])
def test_no_bound_without_a_set_is_below_exact_laws_on_the_line(c, rate, noise):
    """Quadratic losses of one curvature, and a record whose gradient is the clip norm everywhere: the last iterate is a mixture of
    normal laws over the record's coins.
    """
    steps, n = 13, 20
    size, eta = round(rate * n), 0.5
    curvature = (1 - c) / eta
    run = dp.Run(
        n=n,
        sampling=dp.FixedSize(size),
        steps=steps,
        noise_multiplier=noise,
        step_size=eta,
        smoothness=curvature,
        strong_convexity=curvature,
        l2=curvature,
        released="last",
    )
    weight = c ** np.arange(steps)[::-1]
    deviation = float(np.sqrt((weight**2).sum())) * eta * noise / size
    # Coins are told apart by the distance alone: all 2^13 of them.
    coins = (np.arange(2**steps)[:, None] >> np.arange(steps)) & 1
    shifts, chances = eta / size * coins @ weight, rate ** coins.sum(1) * (1 - rate) ** (steps - coins.sum(1))
    grid = np.linspace(0, shifts.max(), 150)
    mass = np.histogram(shifts, np.append(grid, np.inf), weights=chances)[0]
    ratios = []
    for delta in (1e-2, 1e-5):
        # Each distance is rounded down: what comes out is less than the exact epsilon, if anything.
        exact = mixture_epsilon(mass, grid, deviation, delta)
        for bound in (SampledLastIterateBound(), ReflectionCouplingBound(), ExactCompositionBound()):
            said = bound.guarantee(run).epsilon(delta).upper
            assert said >= exact * (1 - 1e-3)
            ratios.append(exact / said)
    assert max(ratios) > 0.2


@pytest.mark.parametrize("sampling", [dp.Cyclic(1), dp.Shuffled(1)])
def test_expanding_steps_of_a_long_epoch(sampling):
    """Losses that need not be convex: the power of a whole epoch leaves double precision where that of a few steps does not."""
    run = run_of(n=6747, sampling=sampling, steps=6747, step_size=0.9, strong_convexity=None, diameter=1.0)
    start = starts(run, 0.0)
    c, e, gap = 1.9, float(start.rounding[0]), float(start.gap[0])
    uses = c**4 if sampling == dp.Cyclic(1) else sum(c**k for k in range(5))
    assert start.surely(5) == pytest.approx(gap * uses + e * sum(c**k for k in range(5)), rel=1e-6)
    assert start.surely(6747) == math.inf
    assert 0 < dp.account(run, 1e-6).epsilon < math.inf
