"""The plan of Phased-ERM: certified, the schedule of Theorem 4.8, and it learns without smoothness."""

import math
from itertools import pairwise

import numpy as np
import pytest

from dplateau._account import account
from dplateau.algorithms.phased_erm import PhasedERM, plan_phased_erm
from dplateau.losses import Absolute, Hinge, Logistic, SmoothedHinge, Squared
from dplateau.spec import InputError
from dplateau.training import SecureGenerator

from .plans import planned


def plan(n=4_000, loss=None, **changes):
    facts = {"n": n, "loss": loss or Hinge(), "epsilon": 1.0, "delta": 1e-5, "d": 4, "distance": 10.0}
    return planned(plan_phased_erm, **{**facts, **changes})


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-12)
    best = np.arange(1.0, 5)
    return rows, rows @ best, (rng.random(n) < 1 / (1 + np.exp(-3 * rows @ best))) * 1.0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("loss", [Hinge(), Absolute(), Logistic()], ids=lambda loss: type(loss).__name__)
def test_a_plan_is_certified_and_spends_what_it_may(loss, adjacency):
    run = plan(loss=loss, adjacency=adjacency).run
    report = account(run, 1e-5)
    assert 0.9999 < report.epsilon <= 1.0
    assert report.mu == pytest.approx((1 if adjacency == "add-remove" else 2) / run.noise_multiplier)
    assert (run.adjacency, run.released, run.update, run.clip_norm) == (adjacency, "last", "phased-erm", pytest.approx(1.0))


def test_phases_halve_the_records_and_quarter_the_steps():
    run = plan().run
    sizes, steps = run.sampling.batch_size, run.step_size
    assert sum(sizes) == 4_000
    assert len(sizes) == math.ceil(math.log2(4_000) / 2)
    assert 4 * steps[0] == pytest.approx(10 * min(4 / math.sqrt(4_000), 1 / (2 * run.noise_multiplier)))
    assert all(b == pytest.approx(a / 4) for a, b in pairwise(steps))
    assert plan(feature_norm=2.0).run.step_size[0] == pytest.approx(steps[0] / 2)
    assert plan() == plan()


def test_hinge_loss_learns():
    rows, _, target = records(4_000)
    made = plan()
    found = made.fit(rows, target, generator=SecureGenerator(insecure_seed=0)).weights
    assert np.mean((rows @ found > 0) == target) > np.mean((rows @ np.arange(1.0, 5) > 0) == target) - 0.03
    risk = np.maximum(0, 1 - (2 * target - 1) * (rows @ found)).mean()
    assert risk < np.maximum(0, 1 - (2 * target - 1) * (rows @ np.arange(1.0, 5))).mean() + 0.05


def test_absolute_loss_finds_the_median():
    rows, scores, _ = records(4_000)
    noise = np.random.default_rng(3).standard_cauchy(4_000)
    found = plan(loss=Absolute()).fit(rows, scores + 0.3 * noise, generator=SecureGenerator(insecure_seed=0)).weights
    assert np.linalg.norm(found - np.arange(1.0, 5)) < 0.5


def test_smooth_losses_and_a_ball():
    rows, _, target = records(4_000)
    for loss in (Logistic(), SmoothedHinge()):
        result = plan(loss=loss, diameter=1.0, l2=0.1).fit(rows, target)
        assert np.linalg.norm(result.weights) <= 0.5 * (1 + 1e-12)
        assert result.run.l2 == 0.1


def test_less_accuracy_costs_noise():
    rows, target = np.zeros((100, 4_000)), np.zeros(100)
    run = plan(100, phases=1).run
    stds = [
        np.std(PhasedERM(run, Hinge(), accuracy).fit(rows, target, generator=SecureGenerator(insecure_seed=0)).weights)
        for accuracy in (1e-3, 0.5)
    ]
    assert stds[1] / stds[0] == pytest.approx(1.5 / 1.001, rel=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *(
            ({name: value}, name)
            for name in ("epsilon", "delta", "feature_norm", "distance", "step_size")
            for value in (-1.0, math.nan)
        ),
        ({"l2": -1.0}, "l2"),
        ({"accuracy": 2.0}, "accuracy"),
        ({"diameter": -1.0}, "diameter"),
        ({"d": 0}, "d is"),
        ({"n": 0}, "n is"),
        ({"phases": 13}, "phases"),
        ({"adjacency": "neighbours"}, "adjacency"),
        ({"loss": Squared()}, "unbounded"),
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        plan(**changes)
