"""The start is forgotten: figures, contracts, and what it needs."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

import dplateau as dp
from dplateau.accounting import GaussianDP, NotApplicable
from dplateau.accounting.trade_offs import trade_off
from dplateau.analyses import ExactCompositionBound, FixedOrderBound, ReflectionCouplingBound, SampledLastIterateBound
from dplateau.analyses.reflection_coupling import _look_backs
from dplateau.analyses.start_distance import starts
from dplateau.audit import Gradient, final_laws, worst_instance

BOUND = ReflectionCouplingBound()


def run_of(**changes):
    settings = {
        "n": 30_000,
        "sampling": dp.Poisson(256),
        "steps": 1_000_000,
        "noise_multiplier": 5.0,
        "step_size": 1.0,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "diameter": 2.0,
        "released": "last",
    }
    return dp.Run(**{**settings, **changes})


def epsilon(run, delta=1e-5):
    return BOUND.guarantee(run).epsilon(delta).upper


@pytest.mark.parametrize(
    ("noise", "before", "now"), [(2, 10.8, 9.652), (3, 6.523, 3.579), (5, 3.576, 1.128), (40, 0.3577, 0.01263)]
)
def test_plateaus_of_poisson_batches(noise, before, now):
    run = run_of(noise_multiplier=noise, steps=10**7)
    assert SampledLastIterateBound().guarantee(run).epsilon(1e-5).upper == pytest.approx(before, rel=1e-3)
    assert epsilon(run) == pytest.approx(now, rel=1e-3)
    assert epsilon(run.replace(steps=10**9)) == pytest.approx(now, rel=1e-3)
    report = dp.account(run, 1e-5)
    assert report.best.name == "reflection-coupling"
    assert "looks back" in report.choice
    assert report.choice in str(report)


def test_the_plateau_of_full_batches():
    run = run_of(n=1000, sampling=dp.FullBatch(), noise_multiplier=100.0, diameter=0.5, steps=10**6)
    assert epsilon(run) == pytest.approx(0.350, abs=1e-3)
    assert FixedOrderBound().guarantee(run).epsilon(1e-5).upper == pytest.approx(1.760, abs=1e-3)
    # No more than a hundred steps are composed: D^2/v is 25.
    member = BOUND.guarantee(run).chosen(1e-5)
    steps = round((member.inner.mu * 100) ** 2)
    assert 90 <= steps <= 105
    assert epsilon(run) == pytest.approx(GaussianDP(math.sqrt(steps) / 100).epsilon(1e-5 - member.slack).upper, rel=2e-3)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    "sampling", [dp.Poisson(256), dp.FixedSize(256), dp.Cyclic(256), dp.Shuffled(256), dp.Cyclic((120,) * 250), dp.FullBatch()]
)
def test_every_sampling_has_a_plateau(sampling, adjacency):
    noise = 400.0 if sampling.full else 40.0
    run = run_of(sampling=sampling, adjacency=adjacency, noise_multiplier=noise, diameter=0.5, steps=59_000)
    long = epsilon(run)
    assert long == pytest.approx(epsilon(run.replace(steps=29_500)), rel=1e-2)
    assert long < ExactCompositionBound().guarantee(run).epsilon(1e-5).upper / 3


def test_contracts():
    base = epsilon(run_of())
    assert epsilon(run_of(noise_multiplier=4.5)) > base
    assert epsilon(run_of(diameter=2.5)) > base
    assert epsilon(run_of(sampling=dp.Poisson(300))) > base * 0.9
    assert epsilon(run_of(adjacency="replace")) > base
    assert epsilon(run_of(), 1e-7) > base > epsilon(run_of(), 1e-4)
    assert epsilon(run_of(strong_convexity=0.01, l2=0.01)) < base
    guarantee = BOUND.guarantee(run_of())
    assert guarantee.delta(base * 1.05).upper <= 1e-5
    assert guarantee.delta(base / 2).upper > 1e-5
    curve = trade_off(guarantee)
    assert 0 < float(curve(0.05)) < 0.95
    # One (epsilon, delta) of the function itself.
    assert 1 - math.exp(1.2 * base) * 0.01 - 1e-4 <= float(curve(0.01))


def test_short_runs_have_not_forgotten_anything():
    run = run_of(steps=50)
    assert epsilon(run) == math.inf
    row = next(row for row in dp.account(run, 1e-5).bounds if row.name == "reflection-coupling")
    assert row.epsilon is None
    assert "not forgotten" in row.why_not
    assert dp.account(run, 1e-5).epsilon == ExactCompositionBound().guarantee(run).epsilon(1e-5).upper
    one = run_of(steps=1)
    assert epsilon(one) == math.inf


def test_strong_convexity_in_place_of_a_set():
    run = run_of(sampling=dp.FixedSize(256), diameter=None, strong_convexity=0.01, l2=0.01, noise_multiplier=5.0, step_size=0.5)
    here = epsilon(run)
    assert here == pytest.approx(epsilon(run.replace(steps=10**8)), rel=1e-2)
    assert epsilon(run.replace(diameter=50.0)) <= here * 1.01
    assert "not forgotten" in BOUND.why_not(run_of(diameter=None))
    assert isinstance(BOUND.bound(run_of(diameter=None)), NotApplicable)
    for missing in ({"released": "all"}, {"update": "post-processed"}, {"smoothness": None}, {"step_size": 2.5}):
        assert BOUND.why_not(run_of(**missing)) is not None
    assert "OnePass" in BOUND.why_not(run_of(sampling=dp.OnePass(1), steps=100))


def test_large_batches_are_paid_for():
    run = run_of(n=4000, sampling=dp.Poisson(100), noise_multiplier=20.0, diameter=0.5)
    member = BOUND.guarantee(run).chosen(1e-5)
    steps = sum(term.count for term in member.inner.directions[0].terms)
    assert member.slack >= steps * float(binom.sf(200, 4000, 1 / 40))
    assert "too large" in BOUND.why_not(run.replace(step_size=1.6))


@pytest.mark.parametrize(
    "changes", [{"strong_convexity": 0.0}, {"strong_convexity": 0.05}, {"strong_convexity": None, "diameter": 0.2}]
)
@pytest.mark.parametrize("step_size", [1.0, tuple(np.linspace(1.0, 0.9, 3000).tolist())], ids=["alike", "varying"])
def test_every_look_back_pays_for_the_batches_that_it_does_not_count_on(changes, step_size):
    """Either those of its own steps, from anywhere in the set, or those of the whole run; without a set only these."""
    run = run_of(n=400, sampling=dp.Poisson(20), steps=3000, noise_multiplier=5.0, diameter=2.0, step_size=step_size)
    run = run.replace(**changes)
    budget = 1e-3
    start = starts(run, budget, both=True)
    assert start.unusual > 0
    back, apart = _look_backs(run, budget if run.strong_convexity != 0 else 0.0)
    chance = start.chance if start.chance.size > 1 else np.full(run.steps, start.chance[0])
    own = np.array([chance[-steps:].sum() for steps in back])
    assert start.unusual == pytest.approx(chance.sum())
    assert back.size > 3
    assert (apart >= own * (1 - 1e-9)).all()
    assert apart.min() < 2 * own[-1]  # In the end hardly anything else is left.
    if run.strong_convexity == 0:
        also, known = _look_backs(run.replace(sampling=dp.FixedSize(20)), 0.0)
        assert also[: back.size].tolist() == back.tolist()
        assert apart == pytest.approx(known[: back.size] + own, rel=1e-9)  # The walk is the same.
    if run.strong_convexity:
        back, apart = _look_backs(run.replace(diameter=None), budget)
        assert back.size
        assert (apart >= start.unusual * (1 - 1e-9)).all()


def test_schedules_lie_between_their_extremes():
    run = run_of(n=2000, sampling=dp.FixedSize(50), steps=6_000, noise_multiplier=10.0, diameter=0.3)
    slow, fast = epsilon(run.replace(step_size=0.5)), epsilon(run)
    between = epsilon(run.replace(step_size=np.linspace(1.0, 0.5, 6_000).tolist()))
    assert fast * 0.98 <= between <= slow * 1.02
    noisy = epsilon(run.replace(noise_multiplier=np.linspace(10.0, 12.0, 6_000).tolist()))
    assert epsilon(run.replace(noise_multiplier=12.0)) * 0.98 <= noisy <= epsilon(run) * 1.02


def test_several_runs_compose():
    run = run_of()
    both = dp.account(dp.compose(run, run), 1e-5)
    once = dp.account(run, 1e-5).epsilon
    assert once < both.epsilon < 2.2 * dp.account(run, 5e-6).epsilon


def curved(**changes):
    """Losses that need not be convex, in a set that noise crosses in some tens of steps: ``eta M D^2`` is 3.7 variances."""
    return run_of(**{"noise_multiplier": 40.0, "diameter": 0.3, "strong_convexity": None, "steps": 30_000, **changes})


@pytest.mark.parametrize(
    ("sampling", "convex", "any_loss"),
    [
        (dp.Poisson(256), 0.0023, 0.0117),
        (dp.FixedSize(256), 0.0023, 0.0065),
        (dp.RandomAllocation(256), 0.0023, 0.0117),
        (dp.Cyclic(256), 0.0753, 0.1368),
    ],
    ids=lambda s: getattr(s, "kind", s),
)
def test_losses_need_not_be_convex(sampling, convex, any_loss):
    run = curved(sampling=sampling)
    assert epsilon(run.replace(strong_convexity=0.0)) == pytest.approx(convex, rel=0.03)
    assert epsilon(run) == pytest.approx(any_loss, rel=0.03)
    if not sampling.ordered:  # whose last epoch may be cut elsewhere
        plateau = epsilon(run.replace(steps=3_000_000))
        assert plateau == pytest.approx(epsilon(run), rel=1e-3 if sampling.drawn else 0.05)
    assert epsilon(run) < ExactCompositionBound().guarantee(run).epsilon(1e-5).upper / 8
    # Convex and curved the other way: nothing may be less than what it contains.
    assert epsilon(run.replace(smoothness=0.5)) <= epsilon(run) <= epsilon(run.replace(smoothness=2.0))


def test_where_losses_push_too_hard_the_reason_says_by_how_much():
    run = curved(diameter=2.0)
    assert epsilon(run) == math.inf
    reason = BOUND.guarantee(run).why_not(1e-5)
    assert "is 164 variances of a step's noise: the bound wants about ten at most" in reason
    assert "projected" in BOUND.why_not(curved(diameter=None))
    report = dp.account(run, 1e-5)
    assert report.best.name == "exact-composition"
    assert any("164 variances" in (row["why_not"] or "") for row in report.to_dict()["bounds"])


def test_steps_of_any_size_expand_no_more_than_is_counted():
    """With c = 3 the walk is pushed to the wall from anywhere; the bound stays one, and finite."""
    run = curved(step_size=2.0, diameter=0.5)
    assert BOUND.why_not(run) is None
    schedule = curved(step_size=tuple(np.linspace(0.5, 2.0, 300).tolist()), steps=300, diameter=0.2)
    constant = curved(step_size=2.0, steps=300, diameter=0.2)
    assert 0 < epsilon(schedule, 1e-6) < math.inf
    assert 0 < epsilon(constant, 1e-6) < math.inf


@pytest.mark.parametrize("seed", range(8))
def test_exact_laws_of_losses_that_bend_down(seed):
    """Instances with slopes above 1, in settings where the bound says something."""
    random = np.random.default_rng([seed, 5])
    n, size = 12, 4
    sampling = (dp.FullBatch(), dp.FixedSize(size), dp.Poisson(size), dp.Cyclic(size), dp.RandomAllocation(size))[seed % 5]
    noise, step = random.uniform(1.5, 4), random.uniform(0.3, 1.0)
    batch = n if sampling.full else size
    variance = (step * noise / batch) ** 2
    diameter = math.sqrt(random.uniform(0.3, 5) * variance / step)
    adjacency = ("replace", "add-remove")[seed % 2]
    run = dp.Run(
        n=n, sampling=sampling, steps=60, noise_multiplier=noise, step_size=step, smoothness=1.0, diameter=diameter,
        adjacency=adjacency, released="last",
    )  # fmt: skip
    for delta in (1e-2, 1e-4):
        instance = worst_instance(run, delta, tries=8)
        exact = final_laws(run, instance).epsilon(delta)
        assert exact <= epsilon(run, delta) * (1 + 1e-6)
    expanding = replace(instance, others=(Gradient(0.0 if sampling.allocated else -min(1.0, 2 / diameter), 0.0),))
    assert final_laws(run, expanding).epsilon(1e-2) <= epsilon(run, 1e-2) * (1 + 1e-6)


def test_before_the_walk_the_distance_grows():
    """Six steps with little noise and four with much are one epoch: what the walk of the four starts from has grown in the six."""
    noise, last = (100.0,) * 16 + (1e5,) * 4, 0.5 * 1e5 / 100
    run = dp.Run(
        n=1000,
        sampling=dp.Shuffled(100),
        steps=20,
        noise_multiplier=noise,
        step_size=(0.5,) * 20,
        smoothness=1.0,
        diameter=60 * last,
        released="last",
    )
    back, apart = _look_backs(run, 0.0)
    start = 0.1 * 0.5 / 100 * sum(1.5**i for i in range(10))
    walk = math.erf(1.5**10 * start / math.sqrt(8 * last**2 * sum(1.5 ** (2 * i) for i in range(4))))
    assert back.tolist() == [10]
    assert walk * (1 - 1e-9) <= apart[0] <= walk * 1.02


def test_the_first_batch_of_an_expanding_epoch():
    """Near 0 all losses but one bend down, and the laws are normal: what the first of five steps moves, the next four double."""
    size, epoch = 2000, 5
    step, noise = [1.0] * epoch + [0.01] * epoch, [0.01] * epoch + [800.0] * epoch
    run = dp.Run(
        n=size * epoch, sampling=dp.Cyclic(size), steps=2 * epoch, noise_multiplier=noise, step_size=step, smoothness=1.0,
        diameter=512 / size, released="last",
    )  # fmt: skip
    mean, variance = 0.0, 0.0
    for t, (eta, z) in enumerate(zip(step, noise, strict=True)):
        grown = 1 + eta * (1 - 1 / size)
        mean, variance = grown * mean + eta / size * (t % epoch == 0), grown**2 * variance + (eta * z / size) ** 2
    exact = GaussianDP(mean / math.sqrt(variance))
    for delta in (0.05, 0.1, 0.3):
        assert exact.epsilon(delta).lower <= epsilon(run, delta)


def test_steps_that_differ_by_little_cost_little_more_without_a_set():
    """Without a diameter all steps were one block, and its bound infinite, as soon as one step differed."""
    equal = run_of(n=1000, sampling=dp.FullBatch(), steps=400, noise_multiplier=100.0, strong_convexity=0.1, l2=0.1, diameter=None)
    differs = equal.replace(noise_multiplier=[100.0] * 399 + [100.001])
    assert epsilon(equal) * 0.99999 <= epsilon(differs) <= epsilon(equal) * 1.001


def test_a_neighbour_with_one_record_more_must_contract_too():
    """Either data set may be the one whose start is forgotten."""
    settings = {
        "steps": 10,
        "noise_multiplier": 1.0,
        "smoothness": 1.0,
        "strong_convexity": 0.0,
        "diameter": 1.0,
        "released": "last",
    }
    for n, b, eta in ((20, 10, 1.0), (60, 6, 0.45), (1000, 100, 1.4)):
        run = dp.Run(n=n, sampling=dp.Poisson(b), step_size=eta, **settings)
        truth = binom.sf(int(2 * b / eta * (1 - 1e-12)), n + 1, b / n)
        assert truth <= starts(run, 0.0, both=True).chance[0] <= truth * (1 + 1e-5)
        assert starts(run.replace(adjacency="replace"), 0.0, both=True).chance[0] < truth
    for n, eta in ((5, 2.0), (1000, 1.999)):
        run = dp.Run(n=n, sampling=dp.FullBatch(), step_size=eta, **settings)
        assert starts(run, 0.0, both=True).contraction[0] == pytest.approx(eta * (n + 1) / n - 1)
        assert starts(run, 0.0).contraction[0] == pytest.approx(1.0)


def test_in_a_fixed_order_the_first_place_is_the_worst_where_distances_grow():
    """The other records' gradient is -theta, the record's is 1 or -1 and comes in the steps 0 and 5. No gradient is clipped."""
    noise, b = (1e-3,) * 5 + (32.0,), 32
    run = dp.Run(
        n=5 * b,
        sampling=dp.Cyclic(b),
        steps=6,
        noise_multiplier=noise,
        step_size=1.0,
        smoothness=1.0,
        diameter=20.0,
        adjacency="replace",
        released="last",
    )
    far = before = variance = 0.0
    for t, z in enumerate(noise):
        used = t in (0, 5)
        grown = 1 + (b - used) / b
        far, before = grown * far + used * 2 / b, grown * before + (t == 0) * 2 / b
        variance = grown**2 * variance + (z / b) ** 2
    deviation = math.sqrt(variance)
    _, apart = _look_backs(run, 0.0)
    truth = GaussianDP(before / deviation).delta(0.0).lower  # of what the first use moves
    assert 0.6 < truth <= apart[0]
    for delta in (0.1, 0.3, 0.6):
        assert GaussianDP(far / deviation).epsilon(delta).lower <= epsilon(run, delta)
    # Losses that are known to be convex bring the two together.
    assert _look_backs(run.replace(strong_convexity=0.0), 0.0)[1][0] < 0.1 < apart[0]
