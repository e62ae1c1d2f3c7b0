# pyright: basic, reportArgumentType=false
from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from scipy.stats import binom, norm

from dplateau.accounting import gdp_delta, gdp_epsilon
from dplateau.audit import Gradient, Instance, final_laws
from dplateau.audit.laws import LOBATTO_WEIGHTS
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Shuffled

UP, DOWN = Gradient(0.0, -1.0), Gradient(0.0, 1.0)


def cdf(direction, x: float, low: float) -> float:
    """P(iterate <= x) for x at the edge of a cell."""
    cells = round((x - low) / (2 * direction.half))
    inner = (np.exp(direction.log_p[:cells]) @ LOBATTO_WEIGHTS).sum() * direction.half
    return float(inner + np.exp(direction.log_p_atoms[0]))


@pytest.mark.parametrize("start", [0.0, -1.0, 0.7])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.5])
def test_one_step_between_walls(make, start, epsilon):
    # Two censored Gaussians: their density by scipy, their atoms by its CDF.
    run = make(steps=1, noise_multiplier=1.0, sampling=Poisson(10.0), step_size=8.0)
    laws = final_laws(run, Instance(UP, DOWN, start=start))
    first, second = norm(start + 0.8, 0.8), norm(start - 0.8, 0.8)

    def excess(p: float, q: float) -> float:
        return max(p - math.exp(epsilon) * q, 0.0)

    root = start + 0.8 * epsilon / 2
    inner, _ = quad(
        lambda x: excess(first.pdf(x), second.pdf(x)), -1, 1, points=[min(max(root, -1), 1)], epsabs=1e-13, epsrel=1e-12
    )
    forward = inner + excess(first.cdf(-1), second.cdf(-1)) + excess(first.sf(1), second.sf(1))
    assert laws.forward.delta(epsilon) == pytest.approx(forward, rel=1e-9, abs=1e-14)
    assert laws.delta(laws.epsilon(1e-4)) == pytest.approx(1e-4, rel=1e-9)


@pytest.mark.parametrize(("m", "steps"), [(0.0, 1), (0.0, 40), (0.3, 7), (1.0, 300)])
def test_gaussian_walk_far_from_the_walls(make, m, steps):
    run = make(steps=steps, noise_multiplier=10.0, diameter=60.0, strong_convexity=m, clip_norm=1.0)
    contraction = 1 - 0.5 * m
    powers = contraction ** np.arange(steps)
    mu = 2 * powers.sum() / (10 * math.sqrt((powers**2).sum()))
    laws = final_laws(run, Instance(UP, DOWN, l2=m))
    for delta in (1e-2, 1e-5, 1e-9):
        assert laws.epsilon(delta) == pytest.approx(gdp_epsilon(mu, delta), rel=1e-9)
    for epsilon in (0.0, 0.5, 2.0):
        assert laws.delta(epsilon) == pytest.approx(gdp_delta(mu, epsilon), rel=1e-6, abs=1e-15)
    for order in (1.5, 4.0):
        assert laws.renyi(order) == pytest.approx(order * mu**2 / 2, rel=1e-8)
    for alpha in (0.0, 1e-6, 0.01, 0.5, 0.99, 1.0):
        assert laws.trade_off(alpha) == pytest.approx(norm.cdf(norm.ppf(1 - alpha) - mu), rel=1e-6, abs=1e-9)


def test_record_in_one_step_of_a_schedule(make):
    # One pass: the gap that the record's step opens is closed by what follows, the noise adds up.
    z, eta, size = (3.0, 4.0, 5.0, 2.0), (0.5, 0.4, 0.3, 0.2), (1, 3, 2, 2)
    run = make(n=8, sampling=OnePass(size), steps=4, noise_multiplier=z, step_size=eta, diameter=90.0, strong_convexity=0.0)
    slope = [1 - e * 0.01 for e in eta]
    variance = sum((e * s / b * math.prod(slope[t + 1 :])) ** 2 for t, (e, s, b) in enumerate(zip(eta, z, size, strict=True)))
    for position in range(4):
        gap = 2 * eta[position] / size[position] * math.prod(slope[position + 1 :])
        others = Gradient(0.01, 0.0)
        record = [Gradient(0.01, s * 0.5) for s in (-1, 1)]
        laws = final_laws(run, Instance(*record, (others,) * 4, position=position))
        assert laws.epsilon(1e-5) == pytest.approx(gdp_epsilon(gap / 2 / math.sqrt(variance), 1e-5), rel=1e-8)


@pytest.mark.parametrize("sampling", [Poisson(3.0), FixedSize(3)])
@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
def test_coins_enumerated(make, sampling, adjacency):
    """Without walls the law is a mixture over which steps the record is in, here listed one by one."""
    steps, q = 6, 0.3
    run = make(sampling=sampling, steps=steps, noise_multiplier=0.8, diameter=40.0, strong_convexity=1.0, adjacency=adjacency)
    laws = final_laws(run, Instance(DOWN if adjacency == "replace" else None, UP, l2=1.0))
    deviation = 0.5 * 0.8 / 3 * math.sqrt(sum(0.25**t for t in range(steps)))
    x = np.linspace(-3, 3, 60001)
    density = {slope: np.zeros_like(x) for slope in (-1, 0, 1)}
    for coins in product((0, 1), repeat=steps):
        weight = math.prod(q if coin else 1 - q for coin in coins)
        shift = sum(coin * 0.5 / 3 * 0.5 ** (steps - 1 - t) for t, coin in enumerate(coins))
        for slope in density:
            density[slope] += weight * norm.pdf(x, slope * shift, deviation)
    first, second = density[-1 if adjacency == "replace" else 0], density[1]
    for epsilon in (0.0, 0.5, 1.5):
        forward, backward = (
            np.trapezoid(np.maximum(p - math.exp(epsilon) * q, 0), x) for p, q in ((first, second), (second, first))
        )
        assert laws.forward.delta(epsilon) == pytest.approx(forward, rel=1e-5, abs=1e-12)
        assert laws.backward.delta(epsilon) == pytest.approx(backward, rel=1e-5, abs=1e-12)


def dense(maps_of_step, deviation: float, steps: int, start: float, cells: int = 1600) -> np.ndarray:
    """Masses of equal cells of [-1, 1] and its ends, by differences of Gaussian CDFs: slow, first order, with no quadrature."""
    edges = np.linspace(-1, 1, cells + 1)
    centres = np.concatenate([[-1.0], (edges[1:] + edges[:-1]) / 2, [1.0]])

    def rows(source: np.ndarray, maps) -> np.ndarray:
        total = 0.0
        for weight, slope, shift in maps:
            below = ndtr((edges[:, None] - (slope * source + shift)) / deviation)
            total += weight * np.concatenate([below[:1], np.diff(below, axis=0), 1 - below[-1:]])
        return total

    masses = rows(np.array([start]), maps_of_step(0))[:, 0]
    matrices = {}
    for step in range(1, steps):
        maps = tuple(maps_of_step(step))
        if maps not in matrices:
            matrices[maps] = rows(centres, maps)
        masses = matrices[maps] @ masses
    return masses


def test_against_a_dense_grid_poisson(make):
    """Curved records, pushing others, walls that matter, and a binomial number of others."""
    run = make(n=6, sampling=Poisson(2.0), steps=12, noise_multiplier=0.6, step_size=0.8)
    first, second, other = Gradient(0.3, -0.7), Gradient(0.1, 0.9), Gradient(0.4, 0.2)
    laws = final_laws(run, Instance(first, second, (other,), start=0.3, l2=0.05))

    def maps(record: Gradient):
        result = []
        for count in range(6):
            for coin in (0, 1):
                curvature = (count * other.curvature + coin * record.curvature) / 2 + 0.05
                offset = (count * other.offset + coin * record.offset) / 2
                result.append((binom.pmf(count, 5, 1 / 3) * (1 / 3 if coin else 2 / 3), 1 - 0.8 * curvature, -0.8 * offset))
        return lambda step: result

    p, q = (dense(maps(record), 0.8 * 0.6 / 2, 12, 0.3) for record in (first, second))
    for epsilon in (0.0, 0.2, 0.6):
        assert laws.forward.delta(epsilon) == pytest.approx(np.maximum(p - math.exp(epsilon) * q, 0).sum(), rel=2e-3)
        assert laws.backward.delta(epsilon) == pytest.approx(np.maximum(q - math.exp(epsilon) * p, 0).sum(), rel=2e-3)
    assert laws.forward.renyi(3.0) == pytest.approx(math.log((p**3 / q**2).sum()) / 2, rel=2e-3)
    assert np.exp(laws.forward.log_p_atoms) == pytest.approx([p[0], p[-1]], rel=2e-3)


def test_against_a_dense_grid_cyclic(make):
    """Others that differ from batch to batch, a ragged last batch, add-remove."""
    run = make(n=8, sampling=Cyclic(3), steps=11, noise_multiplier=0.5, step_size=1.0, adjacency="add-remove")
    others = (Gradient(0.0, 0.4), Gradient(1.0, 0.0), Gradient(0.2, -0.8))
    laws = final_laws(run, Instance(None, UP, others, start=-1.0, position=2))

    def maps(present: bool):
        def of(step: int):
            batch = step % 3
            count = (3, 3, 1)[batch]
            other = others[batch]
            push = 1 / 3 if present and batch == 2 else 0.0
            return [(1.0, 1 - count * other.curvature / 3, -count * other.offset / 3 + push)]

        return of

    p, q = (dense(maps(present), 0.5 / 3, 11, -1.0) for present in (False, True))
    for epsilon in (0.0, 0.5, 1.5):
        assert laws.delta(epsilon) == pytest.approx(
            max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum()), rel=5e-3
        )


def simulate(random, run, instance, record: Gradient | None, runs: int) -> np.ndarray:
    """The algorithm itself, with batches drawn record by record; record 0 is the one that differs."""
    n, half = run.n, run.diameter / 2
    present = np.ones(n, bool)
    present[0] = record is not None
    theta = np.full(runs, instance.start)
    size = run.sampling.batch_size if not isinstance(run.sampling, FullBatch) else n
    order = None
    for step in range(run.steps):
        match run.sampling:
            case Poisson():
                used = random.random((runs, n)) < size / n
            case FixedSize():
                used = random.random((runs, n)).argsort(axis=1).argsort(axis=1) < size
            case FullBatch():
                used = np.ones((runs, n), bool)
            case RandomAllocation():
                period = run.sampling.epoch_length(n)
                if step % period == 0:
                    order = random.integers(0, period, (runs, n))
                used, size = order == step % period, run.sampling.divisors(n)
            case Shuffled():
                period = math.ceil(n / size)
                if step % period == 0:
                    order = random.random((runs, n)).argsort(axis=1).argsort(axis=1)
                used = order // int(size) == step % period
            case Cyclic() | OnePass():
                period = math.ceil(n / size)
                place = np.delete(np.arange(n), int(instance.position * size))
                place = np.concatenate([[instance.position * size], place])
                used = np.broadcast_to(place // size == step % period, (runs, n))
        used = used & present
        other, own = instance.others[0], record or Gradient(0.0, 0.0)
        count = used[:, 1:].sum(axis=1)
        total = count * (other.curvature * theta + other.offset) + used[:, 0] * (own.curvature * theta + own.offset)
        noise = run.noise_multiplier * run.clip_norm * random.standard_normal(runs)
        theta = theta - run.step_size * ((total + noise) / size + instance.l2 * theta)
        theta = np.clip(theta, -half, half)
    return theta


@pytest.mark.parametrize("adjacency", ["replace", "add-remove"])
@pytest.mark.parametrize(
    "sampling", [Poisson(2.5), FixedSize(3), RandomAllocation(2.5), Cyclic(3), Shuffled(3), OnePass(3), FullBatch()]
)
def test_against_simulation(make, sampling, adjacency):
    steps, runs = (2 if isinstance(sampling, OnePass) else 8), 40_000
    noise = 3.0 if isinstance(sampling, FullBatch) else 0.7
    run = make(n=7, sampling=sampling, steps=steps, noise_multiplier=noise, step_size=0.9, smoothness=1.1, adjacency=adjacency)
    position = 1 if isinstance(sampling, (Cyclic, OnePass)) else 0
    first = Gradient(0.6, -0.4) if adjacency == "replace" else None
    others = Gradient(0.0, 0.0) if sampling.allocated else Gradient(0.3, -0.5)
    instance = Instance(first, Gradient(0.0, 1.0), (others,), 0.4, position, 0.1)
    laws = final_laws(run, instance)
    assert laws.forward.open_ends == (False, False)  # the cells cover the interval
    random = np.random.default_rng(7)
    for direction, record in ((laws.forward, instance.first), (laws.backward, instance.second)):
        sample = simulate(random, run, instance, record, runs)
        edges = np.linspace(-1, 1, len(direction.log_p) + 1)
        for edge in edges[: -1 : max(len(edges) // 6, 1)]:
            exact = cdf(direction, edge, -1.0)
            room = 4.5 * math.sqrt(max(exact * (1 - exact), 1 / runs) / runs)
            assert abs((sample <= edge).mean() - exact) < room
        assert abs((sample == 1.0).mean() - math.exp(direction.log_p_atoms[1])) < 4.5 * 0.5 / math.sqrt(runs)


def test_shuffled_is_no_poisson(make):
    """The simulation above would see a wrong scheme: the laws differ by more than its error bars."""
    instance = Instance(None, Gradient(0.0, 1.0))
    shuffled, poisson = (
        final_laws(make(sampling=sampling, steps=8, noise_multiplier=0.7, adjacency="add-remove"), instance)
        for sampling in (Shuffled(3), Poisson(3.0))
    )
    assert abs(shuffled.epsilon(1e-3) / poisson.epsilon(1e-3) - 1) > 0.05


def test_random_allocation_needs_others_without_gradients(make):
    """How many of them a batch has depends on the batches before it: their joint law is not computed."""
    run = make(n=7, sampling=RandomAllocation(3), steps=4, adjacency="add-remove")
    with pytest.raises(InputError, match="under random allocation the law is computed for others without"):
        final_laws(run, Instance(None, Gradient(0.0, 1.0), (Gradient(0.0, 0.5),)))


def test_random_allocation_is_shuffling_of_equal_batches_where_others_do_not_matter(make):
    """Then the two differ in what the bounds must assume of the others, not in the law of one record."""
    allocated, shuffled = (
        final_laws(make(n=6, sampling=scheme, steps=9, adjacency="add-remove"), Instance(None, Gradient(0.0, 1.0)))
        for scheme in (RandomAllocation(2), Shuffled(2))
    )
    assert allocated.epsilon(1e-3) == pytest.approx(shuffled.epsilon(1e-3), rel=1e-9)


@pytest.mark.parametrize("sampling", [Poisson(2.0), RandomAllocation(3), Cyclic(3), Shuffled(3), FullBatch()])
def test_powers_agree_with_steps(make, sampling):
    """A long run is taken by powers of its epoch's matrix; one odd step in the middle prevents that."""
    run = make(n=8, sampling=sampling, steps=1501, noise_multiplier=2.0, diameter=0.5)
    noise = [2.0] * 1501
    noise[700] *= 1 + 1e-12
    instance = Instance(UP, DOWN, start=0.1)
    quick, slow = final_laws(run, instance), final_laws(run.replace(noise_multiplier=tuple(noise)), instance)
    assert quick.epsilon(1e-5) == pytest.approx(slow.epsilon(1e-5), rel=1e-9)
    assert quick.delta(0.01) == pytest.approx(slow.delta(0.01), rel=1e-9)


def test_equal_data_sets_cannot_be_told_apart(make):
    laws = final_laws(make(), Instance(UP, UP))
    assert (laws.epsilon(1e-9), laws.delta(0.0), laws.renyi(8.0)) == (0.0, 0.0, pytest.approx(0.0, abs=1e-12))
    assert laws.trade_off(0.3) == pytest.approx(0.7)


def test_trade_off_and_delta_are_dual(make):
    laws = final_laws(make(noise_multiplier=0.8, step_size=4.0, smoothness=0.1), Instance(UP, DOWN, start=-0.5))
    assert min(np.exp(laws.forward.log_p_atoms)) > 1e-4  # the walls matter
    for direction in (laws.forward, laws.backward):
        for epsilon in (0.1, 1.0):
            p, scaled = direction.event(epsilon)
            other = direction.reversed
            assert other.trade_off(scaled * math.exp(-epsilon)) == pytest.approx(1 - p, abs=1e-9)
            for alpha in np.linspace(0, 1, 21):
                assert other.trade_off(alpha) >= 1 - direction.delta(epsilon) - math.exp(epsilon) * alpha - 1e-12


def test_peak_of_the_ratio_between_nodes(make):
    """A likelihood ratio that peaks inside the interval: delta is still accurate next to its largest value."""
    run = make(n=5, sampling=FixedSize(1), steps=1, noise_multiplier=0.581, step_size=2.957, smoothness=0.118, diameter=1.9933)
    run = run.replace(adjacency="add-remove")
    laws = final_laws(run, Instance(None, UP, (DOWN,), start=-0.9966))
    for delta in (1e-5, 1e-7, 1e-8):
        epsilon = laws.forward.epsilon(delta)
        assert laws.forward.delta(epsilon) == pytest.approx(delta, rel=1e-4)
    assert laws.forward.epsilon(1e-8) < 0.5353


def test_orders_beyond_reach_are_refused(make):
    run = make(steps=1, noise_multiplier=2.0, diameter=100.0)
    instance = Instance(UP, DOWN)
    with pytest.raises(ArithmeticError, match="raise reach"):
        final_laws(run, instance).renyi(30.0)
    assert final_laws(run, instance, reach=35.0).renyi(20.0) == pytest.approx(10.0, rel=1e-8)


def test_noise_too_small_for_the_grid_is_refused(make):
    with pytest.raises(ArithmeticError, match="nodes are needed"):
        final_laws(make(noise_multiplier=1e-4, steps=40), Instance(UP, DOWN))


@pytest.mark.parametrize(
    ("changes", "instance", "message"),
    [
        ({"diameter": None}, Instance(UP, DOWN), "lacks diameter"),
        ({"step_size": None}, Instance(UP, DOWN), "lacks step_size"),
        ({"update": "post-processed", "released": "all"}, Instance(UP, DOWN), "only plain gradient steps"),
        ({}, Instance(UP, None), "in both"),
        ({"adjacency": "add-remove"}, Instance(UP, DOWN), "in exactly one"),
        ({}, Instance(UP, DOWN, start=1.1), "start is 1.1"),
        ({}, Instance(UP, DOWN, start=math.nan), "start is nan"),
        ({}, Instance(UP, DOWN, position=1), "expected 0 to 0"),
        ({}, Instance(UP, DOWN, (UP, DOWN)), "others has 2 entries"),
        ({}, Instance(UP, DOWN, ()), "others has 0 entries"),
        ({}, Instance(UP, Gradient(0.0, 1.1)), "a gradient reaches 1.1"),
        ({}, Instance(UP, Gradient(0.5, 0.6)), "a gradient reaches 1.1"),
        ({}, Instance(UP, Gradient(1.2, 0.0)), "curvature is 1.2"),
        ({}, Instance(UP, Gradient(-0.1, 0.0)), "curvature is -0.1"),
        ({}, Instance(UP, Gradient(0.0, math.nan)), "a gradient reaches nan"),
        ({"strong_convexity": 0.2}, Instance(UP, DOWN), "curvature is 0"),
        ({}, Instance(UP, DOWN, l2=1.5), "with l2 1.5"),
        ({}, Instance(UP, DOWN, l2=-0.1), "l2 is -0.1"),
    ],
)
def test_bad_instances(make, changes, instance, message):
    with pytest.raises(InputError, match=message):
        final_laws(make(**changes), instance)


def test_bad_readings(make):
    laws = final_laws(make(), Instance(UP, DOWN))
    for call in (lambda: laws.epsilon(0.0), lambda: laws.epsilon(1.0), lambda: laws.renyi(1.0), lambda: laws.trade_off(1.1)):
        with pytest.raises(InputError):
            call()
