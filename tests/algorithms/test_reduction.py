"""The reduction of Theorem 5.1: disjoint parts, one run, shrinking distances."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from dplateau._account import account
from dplateau.algorithms.phased_erm import PhasedERM
from dplateau.algorithms.phased_sgd import PhasedSGD
from dplateau.algorithms.reduction import part_sizes, plan_reduction
from dplateau.losses import Hinge, Logistic
from dplateau.spec import InputError
from dplateau.training import SecureGenerator

from .plans import planned


def plan(n=8_000, loss=None, **changes):
    arguments = {"n": n, "loss": loss or Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 3, "l2": 0.1, "diameter": 10.0, **changes}
    return planned(plan_reduction, **arguments)


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-12)
    return rows, (rng.random(n) < 1 / (1 + np.exp(-5 * rows[:, 0]))) * 1.0


@pytest.mark.parametrize("n", [16, 100, 10_000, 10**7])
def test_parts_double_and_use_every_record(n):
    sizes = part_sizes(n)
    assert len(sizes) == math.ceil(math.log2(math.log2(n)))
    assert sum(sizes) == n
    assert sizes[:-1] == [math.floor(2 ** (i - 2) * n / math.log2(n)) for i in range(1, len(sizes))]
    assert sizes[-1] >= math.floor(2 ** (len(sizes) - 2) * n / math.log2(n))


@pytest.mark.parametrize("method", ["phased-sgd", "phased-erm"])
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_it_is_one_certified_run(method, adjacency):
    made = plan(method=method, adjacency=adjacency)
    assert isinstance(made, PhasedSGD if method == "phased-sgd" else PhasedERM)
    assert 0.9999 < account(made.run, 1e-5).epsilon <= 1.0
    assert sum(made.run.sampling.batch_size) == 8_000
    assert made.run.l2 == made.run.strong_convexity == 0.1
    assert made.run.steps > len(part_sizes(8_000))


def test_every_run_starts_with_larger_steps_than_the_one_before_it_ended_with():
    run = plan(1_000_000, l2=10.0, method="phased-erm", epsilon=8.0, delta=1e-7).run
    starts = [0] + [i for i in range(1, run.steps) if run.step_size[i] > run.step_size[i - 1]]
    assert len(starts) == len(part_sizes(1_000_000))
    sums = [sum(run.sampling.batch_size[a:b]) for a, b in zip(starts, [*starts[1:], run.steps], strict=True)]
    assert sums == part_sizes(1_000_000)
    z, noise = run.noise_multiplier, run.noise_multiplier * math.sqrt(3)
    steepest, distance = 1 + 10.0 * 5, 0.1  # the gradient on the ball of radius 5; the minimiser is at most 1/l2 away
    for start, n in zip(starts, sums, strict=True):
        assert 4 * run.step_size[start] == pytest.approx(distance / steepest * min(4 / math.sqrt(n), 1 / (z * math.sqrt(3))))
        risk = 10 * steepest * distance * (1 / math.sqrt(n) + noise / n)
        distance = min(distance, math.sqrt(2 * risk / 10.0))  # strong convexity
    far = plan(10**7, l2=10.0, method="phased-erm", epsilon=8.0, delta=1e-8, diameter=0.1).run
    first = [far.step_size[i] for i in range(far.steps) if i == 0 or far.step_size[i] > far.step_size[i - 1]]
    assert first[-1] < 0.9 * first[0] * math.sqrt(part_sizes(10**7)[0] / part_sizes(10**7)[-1])


@pytest.mark.parametrize("method", ["phased-sgd", "phased-erm"])
def test_it_finds_the_minimiser(method):
    rows, target = records(8_000)

    def objective(w):
        return np.mean(np.logaddexp(0, rows @ w) - target * (rows @ w)) + 0.05 * w @ w

    best = minimize(objective, np.zeros(3))
    found = plan(method=method, residual_clip=1.0).fit(rows, target, generator=SecureGenerator(insecure_seed=0)).weights
    assert np.linalg.norm(found - best.x) < 0.3 * np.linalg.norm(best.x)
    assert objective(found) - best.fun < 0.1 * (objective(np.zeros(3)) - best.fun)


def test_non_smooth_losses():
    rows, target = records(2_000)
    found = plan(2_000, Hinge(), method="phased-erm").fit(rows, target, generator=SecureGenerator(insecure_seed=0)).weights
    assert np.mean((rows @ found > 0) == target) > 0.75


def test_equal_arguments_give_equal_plans():
    assert plan() == plan()
    assert plan(batch_size=4) != plan()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n": 15}, "n is"),
        ({"l2": 0.0}, "l2"),
        ({"diameter": math.nan}, "diameter"),
        ({"method": "snowball"}, "method"),
        ({"loss": Hinge()}, "choose solver phased-erm"),
        ({"batch_size": 200}, "smallest phase"),
        ({"epsilon": 0.0}, "epsilon"),
        ({"accuracy": 0.0, "method": "phased-erm"}, "accuracy"),
        ({"adjacency": "neighbours"}, "adjacency"),
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        plan(**changes)
