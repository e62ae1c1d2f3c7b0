"""The plan of Phased-SGD: certified, the schedules of Theorems 4.4 and 5.3, and it learns."""

import math
from contextlib import nullcontext
from itertools import pairwise

import numpy as np
import pytest

from dplateau._account import account
from dplateau.algorithms import SOLVERS, Budget, Problem
from dplateau.algorithms.localisation import equal_phases, halving_phases
from dplateau.algorithms.phased_sgd import PhasedSGD, plan_phased_sgd
from dplateau.losses import Absolute, Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError
from dplateau.training import SecureGenerator
from dplateau.training.phased_sgd import phase_noise
from dplateau.training.phases import phases_of

from .plans import planned

LOSSES = (Logistic(), Softmax(3), Squared(), Huber(), SmoothedHinge(1.0))


def plan(n=10_000, loss=None, **changes):
    facts = {"n": n, "loss": loss or Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 4, "diameter": 20.0, "batch_size": 1}
    return planned(plan_phased_sgd, **{**facts, **changes})


def records(n, d=4, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-12)
    best = np.arange(1.0, d + 1)
    return rows, rng.random(n) < 1 / (1 + np.exp(-rows @ best))


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("l2", [0.0, 0.1])
def test_a_plan_is_certified_and_spends_what_it_may(loss, adjacency, l2):
    made = plan(loss=loss, adjacency=adjacency, l2=l2)
    report = account(made.run, 1e-5)
    assert 0.9999 < report.epsilon <= 1.0
    assert report.mu == pytest.approx((1 if adjacency == "add-remove" else 2) / made.run.noise_multiplier)
    assert (made.run.adjacency, made.run.released, made.run.update) == (adjacency, "last", "phased-sgd")
    assert made.run.strong_convexity == made.run.l2 == l2
    assert made.weighting == ("growing" if l2 else "uniform")
    rows, target = records(10_000)
    assert np.isfinite(made.fit(rows, target).weights).all()


def test_equal_arguments_give_equal_plans():
    assert plan() == plan()
    assert hash(plan()) == hash(plan())


def test_phases_halve_the_records_and_quarter_the_steps():
    run = plan(residual_clip=1.0).run
    sizes, steps = run.sampling.batch_size, run.step_size
    assert len(sizes) == math.ceil(math.log2(10_000) / 2) == 7
    assert sum(sizes) == 10_000
    assert sizes[1:] == tuple(10_000 // 2**i for i in range(2, 8))
    assert all(b == pytest.approx(a / 4) for a, b in pairwise(steps))
    z = run.noise_multiplier
    assert 4 * steps[0] == pytest.approx(20 * min(4 / 100, 1 / (z * 2)))
    both = plan(residual_clip=1.0, d=40_000, adjacency="replace").run
    assert 4 * both.step_size[0] == pytest.approx(20 / (both.noise_multiplier * 200))
    many = plan(residual_clip=1.0, d=40_000).run
    assert 4 * many.step_size[0] == pytest.approx(20 / (z * 200))
    assert math.sqrt(40_000) * z * many.clip_norm * many.step_size[0] <= 20 / 4 * (1 + 1e-6)  # what the proof needs


def test_steps_grow_with_the_batch_up_to_the_smoothness():
    one, four, most = (plan(batch_size=b).run for b in (1, 4, 64))
    assert four.step_size[0] == pytest.approx(4 * one.step_size[0])
    assert 4 * most.step_size[0] * most.smoothness == pytest.approx(2)
    assert 4 * plan(step_size=0.5).run.step_size[0] == 0.5


def test_strongly_convex_phases_are_equal_and_their_steps_fall_doubly_exponentially():
    run = plan(l2=0.5).run
    k = math.ceil(math.log(math.log(10_000)))
    assert len(run.step_size) == k == 3
    eta = 8 * k * math.log(10_000) / (0.5 * 10_000)
    assert run.step_size == pytest.approx([eta / 4, eta / 16, eta / 256])
    assert run.sampling.batch_size == (3334, 3333, 3333)
    assert 4 * plan(l2=0.01, batch_size=100).run.step_size[0] * (0.25 + 0.01) == pytest.approx(2)


@pytest.mark.parametrize("solver", ["phased-sgd", "phased-sgd-strong", "reduction"])
@pytest.mark.parametrize("n", [9_000, 10**6, 10**8])
def test_the_default_batch_fits_into_the_smallest_phase(solver, n):
    chosen = SOLVERS[solver]
    made = chosen.plan(Problem(n, 4, Logistic(), l2=0.1 if chosen.needs_l2 else 0.0), Budget(1.0, 1e-9))
    assert 1 <= made.batch_size <= min(made.run.sampling.batch_size)
    assert made.batch_size <= n // 4096


def test_losses_that_clipping_may_spoil_are_not_clipped():
    assert plan(loss=Softmax(3)).run.clip_norm == pytest.approx(1.01 * math.sqrt(2))
    assert plan(loss=Logistic(), feature_norm=2.0).run.clip_norm == pytest.approx(1.0)


def test_it_learns_and_more_so_from_more_records():
    risks = []
    rows, target = records(100_000, seed=1)
    for n in (1_000, 16_000):
        made = plan(n, residual_clip=1.0)
        found = [made.fit(*records(n, seed=s), generator=SecureGenerator(insecure_seed=s)).weights for s in range(5)]
        risks.append(np.mean([np.mean(np.logaddexp(0, rows @ w) - target * (rows @ w)) for w in found]))
    best = np.mean(np.logaddexp(0, rows @ np.arange(1.0, 5)) - target * (rows @ np.arange(1.0, 5)))
    excess = np.array(risks) - best
    assert 0 < excess[1] < 0.5 * excess[0]
    assert excess[1] < 0.02
    assert excess[1] < 10 * 20 * (1 / math.sqrt(16_000) + 2 * made.run.noise_multiplier / 16_000)  # Theorem 4.4


def test_a_plan_can_be_written_by_hand():
    run = plan(100, phases=2).run
    rows, target = records(100)
    assert PhasedSGD(run, Logistic(), batch_size=5).fit(rows, target).weights.shape == (4,)


def test_schedules():
    assert halving_phases(8, 1.0, 3) == ((5, 2, 1), (1 / 4, 1 / 16, 1 / 64))
    assert equal_phases(7, 1.0, 2) == ((4, 3), (1 / 4, 1 / 16))
    assert (halving_phases(4, 1.0, 1) + equal_phases(2, 1.0, 1)).sizes == (4, 2)
    for make in (lambda: halving_phases(8, 1.0, 4), lambda: equal_phases(5, 1.0, 6), lambda: equal_phases(1000, 1.0, 9)):
        with pytest.raises(InputError, match="phases"):
            make()


def test_the_papers_number_of_phases_falls_below_double_precision():
    for count, raises in ((None, False), (20, True)):
        made = plan(1 << 20, d=100, phases=count, delta=1e-7)
        last = phases_of(made.run, "phased-sgd")[-1]
        with pytest.raises(InputError, match="fewer phases") if raises else nullcontext():
            phase_noise(made.run, made.loss, last, 1, (100,))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({name: value}, name)
            for name in ("epsilon", "delta", "feature_norm", "diameter", "step_size")
            for value in (-1.0, math.nan)
        ),
        ({"residual_clip": 0.0}, "residual_clip"),
        ({"l2": -1.0}, "l2"),
        ({"d": 0}, "d is"),
        ({"n": 0}, "n is"),
        ({"adjacency": "neighbours"}, "adjacency"),
        ({"batch_size": 100}, "smallest phase"),
        ({"batch_size": 0}, "batch_size"),
        ({"phases": 14}, "phases"),
        ({"phases": 0}, "phases"),
        ({"phases": "3"}, "phases is '3'"),
        ({"phases": "3", "l2": 0.1}, "phases is '3'"),
        ({"phases": 9, "l2": 0.1, "batch_size": 2_000}, "9 phases"),
        ({"step_size": 40.0}, "smoothness"),
        ({"loss": Hinge()}, "choose solver phased-erm"),
        ({"loss": Absolute()}, "choose solver phased-erm"),
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        plan(**changes)
