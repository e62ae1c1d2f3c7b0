"""Claims are verified, refuted, or neither."""

import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("flint")

from scipy.special import ndtr

import dplateau as dp
from dplateau.analyses import ExactCompositionBound, FixedOrderBound, ShuffleAndPartitionBound
from dplateau.verifier.check import _points, check
from dplateau.verifier.outcome import Outcome, Part
from dplateau.verifier.selection import check_selection

MNIST = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=3516, noise_multiplier=1.3)
ROWS = [
    (256, 60_000, 1.3, 3516, 1e-5, 0.8645),
    (256, 60_000, 0.5, 23438, 1e-5, 28.0460),
    (256, 29_305, 0.55, 2061, 1e-5, 11.8073),
    (10_000, 800_000, 0.6, 1600, 1e-6, 12.7494),
]


@pytest.mark.parametrize(("size", "n", "noise", "steps", "delta", "printed"), ROWS)
def test_published_runs(size, n, noise, steps, delta, printed):
    """What is certified is verified, and refuted if it is lowered in the ninth digit of what the theorem gives."""
    run = dp.Run(n=n, sampling=dp.Poisson(size), steps=steps, noise_multiplier=noise)
    certified = ExactCompositionBound().guarantee(run).epsilon(delta).upper
    assert certified == pytest.approx(printed, abs=1e-4)
    found = check([Part(run, "exact-composition")], certified, delta)
    assert found.outcome is Outcome.VERIFIED
    assert found.digits >= 12
    assert found.lower <= found.upper <= certified
    lowered = float(f"{found.lower * (1 - 5e-9):.12g}")
    assert check([Part(run, "exact-composition")], lowered, delta).outcome is Outcome.REFUTED


@pytest.mark.parametrize("epsilon", [-1.0, -1e-300, math.nan])
@pytest.mark.parametrize("noise", [2.0, 1e6])
def test_no_claim_below_zero_is_verified(epsilon, noise):
    """delta rises above the total variation there: at epsilon -1 it is at least 0.63 for every run. A NaN is no claim."""
    run = dp.Run(n=1000, sampling=dp.Poisson(10), steps=3, noise_multiplier=noise)
    found = check([Part(run, "exact-composition")], epsilon, 0.05)
    assert found.outcome is Outcome.NOT_DECIDED
    assert "must be at least 0" in found.why


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("sampling", [dp.Poisson(10), dp.FixedSize(10)])
@pytest.mark.parametrize("noise", [1e-20, 1e-24, 1e-25, 1e-30, 1e-50])
def test_no_claim_about_next_to_no_noise_is_verified(noise, sampling, adjacency):
    """delta is 0.01, the share of records that a batch holds. Where a ball is too wide for the sign of a slope nothing is known."""
    for steps in (1, 2):
        run = dp.Run(n=1000, sampling=sampling, steps=steps, noise_multiplier=noise, adjacency=adjacency)
        for epsilon in (0.0, 1.0, 20.0):
            assert check([Part(run, "exact-composition")], epsilon, 1e-5).outcome is not Outcome.VERIFIED


def test_fixed_order_to_the_ninth_digit():
    run = dp.Run(
        n=4000, sampling=dp.Cyclic(100), steps=2000, noise_multiplier=3.0, step_size=1.0, smoothness=1.0, strong_convexity=1e-4,
        l2=1e-4, adjacency="replace", released="last",
    )  # fmt: skip
    certified = FixedOrderBound().guarantee(run).epsilon(1e-5).upper
    assert check([Part(run, "fixed-order")], certified, 1e-5).outcome is Outcome.VERIFIED
    assert check([Part(run, "fixed-order")], certified * (1 - 5e-9), 1e-5).outcome is Outcome.REFUTED


def test_the_two_in_doubt():
    """At deltas near 1e-15 an independent reference had put the accountant's upper ends in doubt. They hold."""
    run = dp.Run(n=10**6, sampling=dp.Poisson(124.80103957711992), steps=418_530, noise_multiplier=0.857764)
    found = check([Part(run, "exact-composition")], 1.494712535554063, 2.14611e-15)
    assert found.outcome is Outcome.VERIFIED
    assert found.digits >= 12
    assert found.upper < 1.494712


def test_a_choice_refutes_nothing():
    """A look-back that gives more than is claimed says nothing about others."""
    run = dp.Run(
        n=30_000, sampling=dp.Poisson(256), steps=100_000, noise_multiplier=5.0, step_size=1.0, smoothness=1.0,
        strong_convexity=0.0, diameter=2.0, released="last",
    )  # fmt: skip
    found = check([Part(run, "reflection-coupling", 40_000)], 0.5, 1e-5)
    assert found.outcome is Outcome.NOT_DECIDED
    assert "choice" in found.why


@pytest.mark.parametrize(
    ("part", "why"),
    [
        (Part(MNIST, "fixed-order"), "covers last iterates"),
        (Part(MNIST, "shuffle-partition"), "covers last iterates"),
        (Part(MNIST, "pnsgd"), "no second computation"),
        (Part(MNIST, "reflection-coupling", 100), "."),
    ],
)
def test_what_cannot_be_asked_is_not_decided(part, why):
    found = check([part], 1.0, 1e-5)
    assert found.outcome is Outcome.NOT_DECIDED
    assert why in found.why
    assert (found.lower, found.upper, found.digits) == (0.0, math.inf, None)


@pytest.mark.parametrize("seed", range(16))
def test_shuffle_and_partition_by_what_it_is_never_better_than(seed):
    """Its claims are verified, and lower ones never refuted."""
    rng = np.random.default_rng(seed)
    batches, smoothness = int(rng.integers(2, 100)), 10 ** rng.uniform(-1, 1)
    convexity = smoothness * 10 ** rng.uniform(-4, -0.3)
    run = dp.Run(
        n=5 * batches, sampling=(dp.Shuffled if seed % 2 else dp.Cyclic)(5), steps=batches * (1 if seed % 2 else 1 + seed),
        noise_multiplier=10 ** rng.uniform(0, 1.5), step_size=rng.uniform(0.05, 0.99) * 2 / (smoothness + convexity),
        smoothness=smoothness, strong_convexity=convexity, l2=convexity / 2, released="last",
        adjacency=("replace", "add-remove")[seed // 2 % 2],
    )  # fmt: skip
    assert ShuffleAndPartitionBound().why_not(run) is None
    delta = 10 ** rng.uniform(-9, -4)
    certified = ShuffleAndPartitionBound().guarantee(run).upper(delta)
    part = Part(run, "shuffle-partition")
    assert check([part], certified, delta).outcome is Outcome.VERIFIED
    assert check([part], certified / 3, delta).outcome is Outcome.NOT_DECIDED


def test_several_runs():
    runs = [MNIST, MNIST.replace(steps=100, noise_multiplier=2.0)]
    report = dp.account(dp.compose(*runs), 1e-5)
    parts = [Part(run, "exact-composition") for run in runs]
    assert check(parts, report.epsilon, 1e-5).outcome is Outcome.VERIFIED
    alone = check(parts[:1], 1.0, 1e-5)
    assert check(parts, alone.upper, 1e-5).outcome is Outcome.REFUTED


def test_nothing_to_tell_apart():
    """delta above the sum of total variations: epsilon 0."""
    run = dp.Run(n=10**8, sampling=dp.Poisson(1), steps=2, noise_multiplier=2.0)
    assert check([Part(run, "exact-composition")], 0.0, 1e-6).outcome is Outcome.VERIFIED
    assert check([Part(run, "exact-composition")], 0.0, 1e-12).outcome is Outcome.REFUTED


def test_adding_a_record_has_a_largest_loss():
    """Above it delta is 0, of any number of steps."""
    run = dp.Run(n=1000, sampling=dp.Poisson(10), steps=3, noise_multiplier=0.5)
    assert check([Part(run, "exact-composition")], 40.0, 1e-5).outcome is Outcome.VERIFIED


def test_one_epoch_of_random_allocation():
    """Both know its moments; the sums in the convex order said 1e-4 of it more."""
    run = dp.Run(n=100, sampling=dp.RandomAllocation(5), steps=20, noise_multiplier=2.0)
    certified = dp.account(run, 1e-5).epsilon
    found = check([Part(run, "exact-composition")], certified, 1e-5)
    assert (found.outcome, found.digits) == (Outcome.VERIFIED, 13)
    assert found.upper <= certified <= found.upper * (1 + 1e-6)
    assert check([Part(run, "exact-composition")], found.lower * (1 - 1e-9), 1e-5).outcome is Outcome.REFUTED


def test_much_noise_under_random_allocation_is_known_from_above():
    """A claim between the truth and the bound is not refuted, and no lower end is told."""
    run = dp.Run(n=4000, sampling=dp.RandomAllocation(2), steps=2000, noise_multiplier=2.0)
    certified = dp.account(run, 1e-5).epsilon
    found = check([Part(run, "exact-composition")], certified, 1e-5)
    assert (found.outcome, found.lower, found.digits) == (Outcome.VERIFIED, 0.0, None)
    assert check([Part(run, "exact-composition")], certified * 0.999, 1e-5).outcome is Outcome.NOT_DECIDED


def test_a_claim_far_above_the_truth_needs_no_moments_near_its_saddle():
    """The accountant stops early at such a delta; moments of an order in the thousands are out of reach."""
    run = dp.Run(n=5, sampling=dp.RandomAllocation(3), steps=2, noise_multiplier=6.728)
    assert check([Part(run, "exact-composition")], 625.7, 4.8e-134).outcome is Outcome.VERIFIED


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError("by zero")], ids=["silent", "told"])
def test_why_a_computation_failed_is_told(monkeypatch, error):
    def fail(*_):
        raise error

    for function in (check, check_selection):
        monkeypatch.setitem(function.__globals__, "together", fail)
    part = Part(MNIST, "exact-composition")
    wanted = f"the computation failed: {str(error) or 'MemoryError'}"
    for found in (check([part], 1.0, 1e-5), check_selection([[part]], 0.5, 2.0, 1.0, 1e-5)):
        assert (found.outcome, found.why) == (Outcome.NOT_DECIDED, wanted)


def tried_points(limit, error, most, power=2.0):
    """Lattices whose delta is ``limit + error / points^power``, until it is at most 1: how many points each had."""
    tried = {}
    while points := _points(tried, 1.0, most):
        tried[points] = limit + error / points**power
        if tried[points] <= 1:
            break
    return tried


@pytest.mark.parametrize("power", [1.1, 1.9, 2.0, 2.1])
def test_lattices_have_as_many_points_as_they_need(power):
    """Two small ones tell how many that is, about; where no number is enough, little is tried."""
    error = 1e-3 * 2 ** (13 * power)
    for room in (1e-3, 1e-5, 1e-6, 1e-7):
        needed = (error / room) ** (1 / power)
        tried = tried_points(1 - room, error, 2**50, power)
        *before, last = tried
        assert tried[last] <= 1
        assert last < max(5 * needed, 2**13 + 1)
        assert len(before) < 10
    assert max(tried_points(1 + 1e-3, 1e4, 2**40)) <= 2**15
    assert max(tried_points(1 - 1e-9, 1e4, 2**17)) == 2**17


def test_points_are_doubled_until_a_claim_is_proved() -> None:
    """Laws of fixed-size batches have a kink: among points that are not halved it may lie less well, and delta may rise."""
    noise, delta = [2.9566124707182078, 3.555080556548617], 4.016754316910319e-07
    run = dp.Run(n=11_190, sampling=dp.FixedSize(360), steps=2, noise_multiplier=noise, adjacency="replace")
    said = dp.account(run, delta).epsilon
    assert check([Part(run, "exact-composition")], said, delta).outcome is Outcome.VERIFIED
    assert check([Part(run, "exact-composition")], 0.999 * said, delta).outcome is not Outcome.VERIFIED


@pytest.mark.parametrize(("q", "z"), [(Fraction(1, 10), 1.0), (Fraction(1, 2), 3.0), (Fraction(1, 1000), 0.5)])
def test_the_total_variation_of_one_step(q, z):
    """``q (2 Phi(1/(2 z)) - 1)``, and not more than that of two steps."""
    run = dp.Run(n=1000, sampling=dp.Poisson(int(1000 * q)), steps=1, noise_multiplier=z)
    exact = float(q) * (2 * ndtr(1 / (2 * z)) - 1)
    part = Part(run, "exact-composition")
    assert check([part], 0.0, exact * (1 + 1e-12)).outcome is Outcome.VERIFIED
    assert check([part], 0.0, exact * (1 - 1e-12)).outcome is Outcome.REFUTED


def test_the_total_variation_of_many_steps_is_not_their_sum():
    run = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=500, noise_multiplier=1.0)
    found = dp.account(run, 1e-5).best.bound.guarantee.delta(0.0)
    part = Part(run, "exact-composition")
    assert found.upper < 500 * 0.01 * (2 * ndtr(0.5) - 1) / 10
    assert check([part], 0.0, found.upper).outcome is Outcome.VERIFIED
    assert check([part], 0.0, found.lower * (1 - 1e-9)).outcome is Outcome.REFUTED


LAST = {"step_size": 0.1, "smoothness": 1.0, "strong_convexity": 0.1, "released": "last", "noise_multiplier": 1.0}


@pytest.mark.parametrize(
    ("bound", "run", "count"),
    [
        ("shuffled", dp.Run(n=10**9, sampling=dp.Shuffled(1), steps=5, **LAST), "1,000,000,000 batches"),
        ("fixed-order", dp.Run(n=10**15, sampling=dp.Cyclic(1), steps=5, **LAST), "batches"),
        ("fixed-order", dp.Run(n=7, sampling=dp.Cyclic(2), steps=10**15, **LAST), "steps"),
        ("exact-composition", dp.Run(n=7, sampling=dp.Cyclic((3, 4)), steps=10**15, noise_multiplier=1.0), "steps"),
    ],
)
def test_what_is_too_long_is_told_at_once(bound, run, count):
    checked = check([Part(run, bound)], 1.0, 1e-5)
    assert checked.outcome is Outcome.NOT_DECIDED
    assert f"{count} " in checked.why
    assert "at most 1,000,000 can be checked" in checked.why
    assert checked.seconds < 1


def test_no_run_has_so_many_steps():
    checked = check(
        [Part(dp.Run(n=10**9, sampling=dp.Poisson(1), steps=10**300, noise_multiplier=1.0), "exact-composition")], 1.0, 1e-5
    )
    assert checked.why == "the run has 1e+300 steps on 1e+09 records: at most 1e+15 of either can be checked"


def test_equal_steps_are_counted():
    run = dp.Run(n=10**15, sampling=dp.Shuffled(3), steps=10**14, noise_multiplier=10.0)
    assert check([Part(run, "exact-composition")], 1.0, 1e-5).outcome is Outcome.VERIFIED


def test_mixtures_that_multiply_are_refused():
    run = dp.Run(n=10**4, sampling=dp.Shuffled(1), steps=5 * 10**3, **LAST)
    checked = check([Part(run, "shuffled")] * 3, 1.0, 1e-5)
    assert "combinations of places to look at: at most 600,000" in checked.why


def test_what_was_computed_for_one_claim_serves_others():
    """A line is a bound at every epsilon: another claim needs a new one only where that does not verify it."""
    run, known = dp.Run(n=10_000, sampling=dp.Poisson(100), steps=500, noise_multiplier=1.0), []
    part, bound = Part(run, "exact-composition"), dp.account(run, 1e-5).best.bound.guarantee
    for delta in (1e-3, 1e-5, 1e-7):
        found = check([part], bound.upper(delta), delta, known=known)
        assert found.outcome is Outcome.VERIFIED
        assert len(known) == 1
    assert (found.lower, found.upper, found.digits) == (0.0, bound.upper(1e-7), None)
    assert check([part], bound.upper(1e-5) * (1 - 1e-7), 1e-5, known=known).outcome is Outcome.REFUTED
    assert len(known) == 2


def test_sums_that_may_still_rise_keep_their_place():
    """A sum below zero counts where the steps that follow can lift it: those of an added record gain little each."""
    run = dp.Run(n=103, sampling=dp.Poisson(2), steps=6, noise_multiplier=0.6107814477844606)
    delta = dp.account(run, 1e-5).best.bound.guarantee.delta(0.0).upper
    assert check([Part(run, "exact-composition")], 0.0, delta * (1 + 2e-5)).outcome is Outcome.VERIFIED


@pytest.mark.parametrize("sampling", [dp.Poisson(100), dp.FixedSize(100)], ids=["poisson", "fixed size"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_what_is_known_elsewhere_changes_no_answer(sampling, adjacency):
    """A profile may not be known beyond the largest loss: that is no error, and the claim is looked at by itself."""
    run = dp.Run(n=1000, sampling=sampling, steps=1, noise_multiplier=1.0, adjacency=adjacency)
    part, known = Part(run, "exact-composition"), []
    for epsilon, delta in ((0.05, 0.03), (0.0, 0.04), (0.2, 1e-2), (3.0, 1e-3), (30.0, 1e-5), (500.0, 1e-9), (0.01, 0.05)):
        alone = check([part], epsilon, delta)
        assert check([part], epsilon, delta, known=known).outcome is alone.outcome is not Outcome.NOT_DECIDED


def test_what_is_not_known_beside_a_claim_leaves_it_verified() -> None:
    run = dp.Run(
        n=10, sampling=dp.FixedSize(5), steps=2, noise_multiplier=881758709.4335239, step_size=0.1, smoothness=1.0,
        strong_convexity=0.0, diameter=1e-30, released="last",
    )  # fmt: skip
    found = check([Part(run, "sampled-last-iterate", 1)], 1e5, 0.9999999999999999)
    assert (found.outcome, found.lower, found.upper) == (Outcome.VERIFIED, 0.0, 1e5)
