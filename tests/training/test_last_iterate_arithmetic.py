"""Last iterates: the noise hides every shift, steps are as exact as the bounds allow, composition keeps its sensitivity."""

import math
from fractions import Fraction

import jax
import mpmath
import numpy as np
import pytest
from scipy import stats

import dplateau as dp
from dplateau._account import account
from dplateau.algorithms import SOLVERS, Budget, Problem
from dplateau.losses import Absolute, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.planning import passes_once
from dplateau.spec import ROUND_OFF, Cyclic, FullBatch, InputError, OnePass, Poisson, RandomAllocation, Run
from dplateau.training import SecureGenerator, TrainingDiverged, train
from dplateau.training.chunks import _deviations, noise_of
from dplateau.training.errors import TooCoarse
from dplateau.training.integers import bits_of
from dplateau.training.last_iterate import lattice_of, round_off
from dplateau.training.loop import _norm, arithmetic_of


class Noiseless(SecureGenerator):
    def normal(self, shape):
        return np.zeros(shape)


def run_of(**changes):
    fields = {"n": 40, "sampling": FullBatch(), "steps": 1, "noise_multiplier": 3.0, "step_size": 0.37, "clip_norm": 0.6}
    fields |= {"smoothness": 2.0, "strong_convexity": 0.0, "released": "last"}
    return Run(**{**fields, **changes})


def problem(seed=0, n=40, d=3):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, rng.integers(0, 2, n).astype(float)


def grid_of(run, loss, shape, l2=0.0):
    """Distance of two values of a weight before any projection, and how many of them a record may move the weights by."""
    unit = float(arithmetic_of(run, loss, np.full(shape[0], l2), 0.0, np.zeros(shape)).constants.unit)
    return unit, run.step_size * run.clip_norm / run.sampling.divisors(run.n) / unit


@pytest.mark.parametrize("sampling", [FullBatch(), Poisson(10.0), Cyclic(7), OnePass(1)], ids=lambda s: s.kind)
def test_what_is_released_is_a_point_of_the_grid_of_its_noise(sampling):
    """With finer bits than those of the noise, a release tells of the iterate before the noise what nothing hides."""
    run = run_of(sampling=sampling, steps=12, step_size=0.8765, strong_convexity=0.1, l2=0.1)
    rows, target = problem()
    weights = train(run, Logistic(), rows, target, l2=0.1, dtype="float64").weights
    spacing, _ = grid_of(run, Logistic(), (3,), 0.1)
    whole = np.rint(weights / spacing)
    np.testing.assert_array_equal(whole * spacing, weights)
    assert abs(whole).max() > 1e6


def test_the_noise_can_hide_every_shift():
    """Two steps, full batch: with sums on a grid and weights beside it, most first noises cannot have led to what was released."""
    n, l2, total = 10_000_000, 0.8765, 12_345.678
    spacing = 2.0**-30
    rng = np.random.default_rng(0)
    first = np.rint(rng.normal(size=400_000) / spacing)  # noises of the first step, in units of their grid

    def mean_gradient(weights):
        return (total + 3.3 * weights) / n  # any function of the iterate

    # As it was: the sum on the grid of the noise, the rest of the step in double precision.
    def old(noise, whole_sum):
        return -(((whole_sum + noise) * spacing) / n)

    def summed(weights):
        return np.rint(mean_gradient(weights) * n / spacing)

    def old_step(weights, noise):
        return weights - ((summed(weights) + noise) * spacing / n + l2 * weights)

    after = old(first, np.rint(total / spacing))
    released = old_step(after[0], 12345.0)
    noises = np.rint(((after - released) - l2 * after) * n / spacing - summed(after))  # the only ones that could
    hits = sum(int((old_step(after, noises + shift) == released).sum()) for shift in (-1, 0, 1))
    assert hits < 0.01 * len(first)

    # As it is: iterates in whole units of their noise.
    grid = 2.0**-54

    def before(units):
        return units - np.rint((mean_gradient(units * grid) + l2 * (units * grid)) / grid)

    after = before(np.zeros_like(first)) + first
    released = before(after[:1]) + 12345.0
    noises = released - before(after)
    assert (before(after) + noises == released).all()
    assert (abs(noises) < 2**50).all()


@pytest.mark.parametrize("loss", [Squared(), Logistic()], ids=repr)
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"diameter": 3.0},
        {"sampling": Cyclic(40), "noise_multiplier": 20.0},
        {"sampling": OnePass(40), "noise_multiplier": 3e-5},
    ],
)
def test_a_step_misses_the_exact_one_by_less_than_its_bound(loss, changes):
    """Against exact fractions and 40 digits, for rows as they are after the engine cut them."""
    run = run_of(**changes, strong_convexity=0.05, l2=0.05)
    rows, target = problem()
    bits = arithmetic_of(run, loss, np.full(3, 0.05), 0.0, np.zeros(3)).bits
    assert bits.row == (18 if run.noise_multiplier < 1 else 20)
    unit = 2.0 ** (np.frexp(abs(rows).max(axis=1, keepdims=True))[1] - bits.row)
    rows = np.trunc(rows / unit) * unit
    start = np.array([0.3, -0.2, 0.1])
    found = train(run, loss, rows, target, l2=0.05, start=start, generator=Noiseless(insecure_seed=0), dtype="float64").weights
    arithmetic = arithmetic_of(run, loss, np.full(3, 0.05), 0.0, start)
    share = Fraction(float(arithmetic.constants.share))
    gradient = [Fraction(0)] * 3
    for row, y, scale in zip(rows, target, unit.ravel(), strict=True):
        whole = mpmath.sqrt(sum(int(x / scale) ** 2 for x in row))
        limit = int(2**42 * mpmath.mpf(float(share)) / whole) * 0.6 / 2**42 / scale  # a constant of the record
        row = [Fraction(x) for x in row]
        score = sum(x * Fraction(w) for x, w in zip(row, start, strict=True))
        with mpmath.workdps(40):
            point = mpmath.mpf(score.numerator) / score.denominator
            slope = point - y if isinstance(loss, Squared) else 1 / (1 + mpmath.exp(-point)) - y
            slope = Fraction(str(max(-limit, min(limit, slope))))
        gradient = [g + slope * x for g, x in zip(gradient, row, strict=True)]
    eta, l2 = Fraction(0.37), Fraction(0.05)
    exact = [Fraction(w) - eta * (g / 40 + l2 * Fraction(w)) for w, g in zip(start, gradient, strict=True)]
    missed = np.sqrt(sum(float(Fraction(x) - y) ** 2 for x, y in zip(found, exact, strict=True)))
    deviation = 0.37 * run.noise_multiplier * 0.6 / 40
    lattice = lattice_of(run, loss, arithmetic.bits, (3,), 0.05, 0.3)
    bound = round_off(run, loss, arithmetic.bits, lattice, (3,), 0.05)
    assert 0 < missed / deviation <= bound <= ROUND_OFF


def test_one_record_moves_the_rounded_iterate_by_no_more_than_the_noise_counts_on():
    """Composition of last-iterate runs: in whole units of the noise, without any tolerance, and nearly reached."""
    largest = 0
    for seed in range(20):
        run = run_of(sampling=Poisson(39.0), noise_multiplier=2.0, smoothness=None, strong_convexity=None)
        run = run.replace(sampling=Cyclic(40), step_size=0.7 / (seed + 1))
        rows, target = problem(seed)
        rows[-1] *= 1e3
        start = np.random.default_rng(seed).normal(size=3)
        spacing, clip = grid_of(run, Logistic(), (3,), 0.3)
        found = []
        for some in (rows, np.vstack([rows[:-1], np.zeros(3)])):
            generator = Noiseless(insecure_seed=0)
            result = train(run, Logistic(), some, target, l2=0.3, start=start, generator=generator, dtype="float64")
            found.append([int(x) for x in np.rint(result.weights / spacing)])
        square = sum((a - b) ** 2 for a, b in zip(*found, strict=True))
        assert square <= clip**2
        largest = max(largest, square / clip**2)
    assert largest > 0.99


def test_noise_that_grows_has_no_holes():
    """A normal number of 2^49 units lacks the last digits: beyond two deviations, three numbers of eight were odd, and no shift by
    one unit was hidden."""
    run = run_of(
        n=16, steps=2, noise_multiplier=1.0, clip_norm=1.0, step_size=(2.0**-19, 1.0), smoothness=None, strong_convexity=None
    )
    arithmetic = arithmetic_of(run, Logistic(), np.zeros(1), 0.0, np.zeros(1))
    noise = noise_of(run, arithmetic, SecureGenerator(insecure_seed=0), 0, 2, (400_000,))
    assert stats.kstest(noise[0] * 2.0**-30, "norm").pvalue > 1e-9
    assert stats.kstest(noise[1] * 2.0**-49, "norm").pvalue > 1e-9
    assert (np.rint(noise) == noise).all()
    for few in (noise[1][abs(noise[1]) > 2.0**50], noise[1]):
        assert stats.binomtest(int((few % 2).sum()), len(few)).pvalue > 1e-9


def test_a_deviation_that_is_rounded_down_is_paid_for():
    """Little noise has a fine grid, and what a record adds leaves nothing that would pay for it besides."""
    rng = np.random.default_rng(0)
    fields = {"smoothness": None, "strong_convexity": None, "n": 3}
    fewer = 0
    for _ in range(60):
        step, noise, clip = (float(10 ** rng.uniform(low, high)) for low, high in ((-4, 1), (-6, -4), (-2, 2)))
        run = run_of(step_size=step, noise_multiplier=noise, clip_norm=clip, **fields)
        arithmetic = arithmetic_of(run, Logistic(), np.zeros(1), 0.0, np.zeros(1))
        unit, share = Fraction(float(arithmetic.constants.unit)), Fraction(float(arithmetic.constants.share))
        moved = Fraction(step) * Fraction(clip) / run.n
        has = Fraction(float(_deviations(run, arithmetic, 0, 1)[0])) * unit / (moved * Fraction(noise))
        fewer += has < 1
        assert share * moved + unit + Fraction(run.n, 2**49) * moved <= has * moved
    assert fewer


FORMULAS = [
    (Logistic(), (3,), {"strong_convexity": 0.05, "l2": 0.05}, 0.3),
    (Logistic(), (3,), {"strong_convexity": 0.05, "l2": 0.05, "diameter": 3.0}, 0.3),
    (Squared(), (4096,), {"diameter": 1e3, "noise_multiplier": 300.0}, 0.0),
    (SmoothedHinge(0.25), (5000,), {"diameter": 8.0, "noise_multiplier": 300.0, "smoothness": 4.0}, 0.0),
    (Softmax(3), (4, 3), {"diameter": 3.0, "sampling": Poisson(4.0)}, 0.0),
    (Logistic(), (3,), {"strong_convexity": 0.05, "l2": 0.05, "sampling": Poisson(4.0)}, 0.3),
    (Logistic(), (3,), {"diameter": 3.0, "unit": "person", "noise_multiplier": 40.0}, 0.0),
]


@pytest.mark.parametrize(("loss", "shape", "changes", "start"), FORMULAS)
def test_the_bound_and_the_share_are_those_of_the_proof(loss, shape, changes, start):
    """docs/proofs/arithmetic.md, section 6, for steps of one size, written down a second time."""
    run, l2 = run_of(**changes), changes.get("l2", 0.0)
    eta, z, C, b, n = run.step_size, run.noise_multiplier, run.clip_norm, run.sampling.divisors(run.n), run.n
    bits = bits_of(run, shape[0], trailing=True)
    lattice = lattice_of(run, loss, bits, shape, l2, start)
    D, d, u, deviation = math.prod(shape), shape[0], lattice.unit, eta * z * C / b
    assert 0.5 < u / deviation * 2.0 ** (31 if D > 4096 else 30) <= 1
    ball = run.diameter is not None
    longest = run.diameter / 2 if ball else math.sqrt(D) * lattice.box * u
    widest = min(longest, lattice.box * u)
    drawn = isinstance(run.sampling, Poisson)
    most = n if drawn else b
    counted = min(n, max(b, 2 * b / (eta * run.smoothness))) if drawn and run.strong_convexity is not None else most
    # The proof needs a little less: units count for 1 + 2^-8, and in one place a norm for an entry.
    rounding, taken_for = math.sqrt(D) * u * (1 + 2.0**-8), math.sqrt(D) * longest
    projection = (D.bit_length() / 2 + 6) * 2.0**-53 * longest + math.sqrt(D) * u / 2 if ball else 0.0
    move = 2.0**-50 * eta * (most * C / b + l2 * taken_for)
    row = math.sqrt(run.smoothness / loss.smoothness(1.0))
    score = row * (math.sqrt(d) * widest * 2.0 ** (-2 * bits.weight) + 2.0**-51 * longest)
    p = bits.row if run.unit == "row" else 20
    last = 2.0 ** (bits.row + p - 42 - bits.gradient) * math.sqrt(D) * C + 2.0**-48 * C
    gradient = counted * eta / b * (row * (loss.smoothness(1.0) * score + loss.residual_error) + last)
    bound = (rounding + projection + move + gradient) / deviation
    assert round_off(run, loss, bits, lattice, shape, l2) == pytest.approx(bound, rel=1e-12, abs=0)
    composed = 2.0**-50 * eta * (most * C / b + l2 * math.sqrt(D) * lattice.box * u)
    taken = (rounding + 2 * composed) / (eta * C / b) + 2.0**-50
    assert 1 - lattice.share == pytest.approx(taken, rel=0, abs=2.0**-52)


def test_noise_of_which_rounding_takes_a_tenth_of_the_clip_norm_is_refused():
    loss, fine = Squared(), run_of(strong_convexity=0.0, diameter=1e9, noise_multiplier=5e7)
    assert 0.9 <= lattice_of(fine, loss, bits_of(fine, 3, trailing=True), (3,), 0.0).share < 0.95
    coarse = fine.replace(noise_multiplier=1e8)
    with pytest.raises(TooCoarse, match="more than a tenth of clip_norm"):
        lattice_of(coarse, loss, bits_of(coarse, 3, trailing=True), (3,), 0.0)


def test_runs_whose_rounding_the_bounds_do_not_allow_are_refused():
    for changes, shape in (({"diameter": 1e12}, (4,)), ({}, (10_000_000,)), ({"noise_multiplier": 1e-6}, (4,))):
        with pytest.raises(InputError, match=r"rounding would (move|take)"):
            arithmetic_of(run_of(**changes), Logistic(), np.zeros(shape[0]), 0.0, np.zeros(shape))
    arithmetic_of(run_of(diameter=1e4), Logistic(), np.zeros(100), 0.0, np.zeros(100))
    tiny, huge = {"step_size": 1e-250, "clip_norm": 1e-80}, {"step_size": 1e280, "clip_norm": 1e80, "smoothness": None}
    for changes in (tiny, tiny | {"diameter": None}, huge | {"diameter": None}, {"diameter": 1e308}):
        with pytest.raises(InputError, match="beyond double precision"):
            arithmetic_of(run_of(**changes), Logistic(), np.zeros(4), 0.0, np.zeros(4))


def test_steps_that_fall_by_a_factor_of_a_hundred_thousand_are_trained():
    """Weights in whole units are not rounded, however small the last steps are."""
    steps = 100_000
    falling = tuple(0.5 * (1 - t / steps) for t in range(steps))
    run = run_of(n=steps, sampling=OnePass(1), steps=steps, step_size=falling)
    arithmetic_of(run, Logistic(), np.zeros(20), 0.0, np.zeros(20))


@pytest.mark.parametrize(("sampling", "noise"), [(FullBatch(), 1e-6), (OnePass(1), 1e-10)])
def test_weights_that_left_their_room_are_not_released(sampling, noise):
    """They would stand at its end, as if they had converged."""
    steps = 2000
    changes = {"noise_multiplier": noise, "clip_norm": 1.0, "smoothness": None, "strong_convexity": None}
    run = run_of(n=steps, sampling=sampling, steps=steps, **changes)
    room = arithmetic_of(run, Squared(), np.zeros(1), 0.0, np.zeros(3)).constants
    assert room.box * room.unit < steps * run.step_size / 10
    with pytest.raises(TrainingDiverged, match=r"beyond .* diameter"):
        train(run, Squared(), np.full((steps, 3), 0.1), np.full(steps, 1e6), dtype="float64")


def test_weights_have_room_for_all_that_their_gradients_can_move_them_by():
    """A hundred steps of one clip norm each are no divergence: 2^16 deviations of the noise are 6 of those steps here."""
    run = run_of(n=10_000, steps=100, noise_multiplier=1.0, step_size=1.0, clip_norm=1.0)
    room = arithmetic_of(run, Logistic(), np.zeros(1), 0.0, np.zeros(20)).constants
    assert room.box * room.unit >= 200


@pytest.mark.parametrize("sampling", [FullBatch(), Poisson(200.0), RandomAllocation(200.0)], ids=lambda s: s.kind)
def test_losses_that_clipping_bends_keep_to_the_arithmetic_of_their_bound(sampling):
    """Clipped softmax is not known to be convex: its last iterate has a bound on a bounded set, which allows for this much."""
    rows, _ = problem(n=2_000)
    target = np.random.default_rng(1).integers(0, 3, 2_000)
    loss, noise = Softmax(3), 300.0 if sampling.full else 30.0
    run = run_of(
        n=2_000, sampling=sampling, steps=1_500, noise_multiplier=noise, step_size=1.0, clip_norm=0.3,
        smoothness=loss.smoothness(1.0), strong_convexity=None, diameter=0.09 if sampling.full else 0.1,
    )  # fmt: skip
    report = account(run, 1e-5)
    assert report.best.name == "reflection-coupling"
    trained = train(run, loss, rows, target, dtype="float64")
    assert np.linalg.norm(trained.weights) <= run.diameter / 2 * (1 + 1e-9)
    arithmetic = arithmetic_of(run, loss, np.zeros(3), 0.0, np.zeros((3, 3)))
    lattice = lattice_of(run, loss, arithmetic.bits, (3, 3), 0.0)
    missed = round_off(run, loss, arithmetic.bits, lattice, (3, 3), 0.0)
    convex = round_off(run.replace(strong_convexity=0.0), loss, arithmetic.bits, lattice, (3, 3), 0.0)
    assert 0 < convex <= missed <= ROUND_OFF
    assert round_off(run.replace(diameter=None), loss, arithmetic.bits, lattice, (3, 3), 0.0) == 0  # no bound asks
    with pytest.raises(InputError, match="not known to stay convex under clipping"):
        train(run.replace(strong_convexity=0.0), loss, rows, target, dtype="float64")
    with pytest.raises(InputError, match="float64"):
        train(run, loss, rows, target)


def test_a_norm_of_many_weights_errs_by_a_few_roundings():
    # Added up one after the other, a large square and many small ones lose half of each small one.
    ones, size = np.ones(100_000), 100_001
    for weights in (np.append(2.0**26.5, ones), np.append(ones, 2.0**26.5), np.random.default_rng(0).normal(size=size)):
        with jax.enable_x64(True):
            found = float(_norm(np.asarray(weights)))
        square = sum(Fraction(float(each)) ** 2 for each in weights)
        with mpmath.workprec(200):
            wrong = abs(found / mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator) - 1)
        assert wrong <= (size.bit_length() / 2 + 2) * 2.0**-53


@pytest.mark.parametrize(
    ("n", "d", "epsilon"),
    [(10**7, 101, 1.0), (10**7, 100, 8.0), (10**8, 100, 1.0), (10**8, 1_000, 0.1), (10**9, 1_000, 0.1), (10**7, 10_000, 1.0)],
)
def test_planned_passes_over_many_records_keep_to_the_arithmetic_of_their_bound(n, d, epsilon):
    """With bits for a sum of all records, and not of a batch, passes over ten million were refused."""
    plan = SOLVERS["pnsgd"].plan(Problem(n, d, Logistic()), Budget(epsilon, 1 / (10 * n)))
    constants = arithmetic_of(plan.run, plan.loss, np.zeros(1), 0.0, np.zeros(d)).constants
    assert constants.box * constants.unit >= 64  # what a single feature that tells a million records apart came near to
    assert plan.run.table.size.max() <= 2**15
    assert passes_once(Problem(n, d, Logistic()), Budget(epsilon, 1 / (10 * n)))


def test_a_loss_without_a_smoothness_has_a_grid_too():
    run = run_of(n=100)
    assert arithmetic_of(run, Absolute(), np.zeros(1), 0.0, np.zeros(3)).constants.box > 0


def test_falling_steps_have_the_grid_of_their_least_noise():
    """Room for weights makes it no coarser, but for what a score needs."""
    steps = tuple(0.5 * 2.0 ** (-t / 100) for t in range(1_600))
    run = run_of(n=1_600, sampling=OnePass(1), steps=1_600, step_size=steps)
    unit = arithmetic_of(run, Logistic(), np.zeros(1), 0.0, np.zeros(20)).constants.unit
    assert unit <= 0.5 * 2.0**-15.9 * 3.0 * 0.6 * 2.0**-30


def test_what_one_pass_cannot_be_certified_for_is_composed():
    problem, budget = Problem(10**8, 1_000, Logistic()), Budget(8.0, 1e-9)
    with pytest.raises(TooCoarse, match="rounding would move"):
        arithmetic_of(SOLVERS["pnsgd"].plan(problem, budget).run, Logistic(), np.zeros(1), 0.0, np.zeros(1_000))
    assert not passes_once(problem, budget)
    plan = dp.plan(10**8, 1_000, 8.0, 1e-9)
    assert plan.solver == "noisy-sgd"
    assert "too many to certify the last iterate alone" in plan.reasons[0]
    arithmetic_of(plan.run, Logistic(), np.zeros(1), 0.0, np.zeros(1_000))
    assert not passes_once(Problem(10**6, 20_000, Logistic()), budget)


@pytest.mark.parametrize("epsilon", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("solver", ["pnsgd", "snowball-sgd"])
def test_planned_passes_over_ten_classes_keep_to_the_arithmetic_of_their_bound(solver, epsilon):
    loss = Softmax(10)
    plan = SOLVERS[solver].plan(Problem(60_000, 129, loss), Budget(epsilon, 1e-5))
    lattice = lattice_of(plan.run, loss, bits_of(plan.run, 129, trailing=True), (129, 10), 0.0)
    assert round_off(plan.run, loss, bits_of(plan.run, 129, trailing=True), lattice, (129, 10), 0.0) <= ROUND_OFF
