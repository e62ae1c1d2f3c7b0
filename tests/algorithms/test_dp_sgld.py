"""DP-SGLD: what a plan says is what is run; its noise is certified; the published noise is shown for what it is."""

# pyright: basic, reportArgumentType=false
from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms import SOLVERS, Budget, Problem, plan_dp_sgld, printed_dp_sgld
from dplateau.losses import Absolute, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError
from dplateau.training import SecureGenerator

from .plans import planned

N, D = 2_000, 4


def plan(loss=None, **changes):
    options = {"epsilon": 1.0, "delta": 1e-5, "d": D, "l2": 0.05, "steps": 50} | changes
    return planned(plan_dp_sgld, **{"n": N, "loss": loss or Logistic(), **options})


def records(classes=2, d=D, n=N):
    random = np.random.default_rng(0)
    rows = random.normal(size=(n, d))
    rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1) * (1 + 1e-12)
    return rows, (rows @ random.normal(size=(d, classes))).argmax(axis=1)


def test_the_algorithm_is_the_published_one():
    made = plan()
    run, M, m = made.run, 0.25 * (1 + 1e-12) + 0.05, 0.05
    assert run.step_size == pytest.approx(1 / (2 * M), rel=1e-12)
    assert (run.released, run.update, run.sampling, run.l2) == ("last", "sgd", dp.FullBatch(), m)
    assert run.diameter / 2 == pytest.approx(min(math.sqrt(math.log(2) / m), 0.5 / m))
    # The iterate's noise is sqrt(2 eta) s.
    assert run.step_size * run.noise_multiplier * run.clip_norm / N == pytest.approx(math.sqrt(2 * run.step_size) * made.noise)
    falling = plan(step_size="decaying").run
    assert plan(batch_size=1_000, steps=2).run.sampling == dp.FixedSize(1_000)
    assert falling.step_size == pytest.approx([1 / (2 * M + m * k / 2) for k in range(50)])
    spread = np.array(falling.step_size) * np.array(falling.noise_multiplier) ** 2
    assert spread == pytest.approx(np.full(50, spread[0]))


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("sampling", "step_size"),
    [
        *product([dp.FullBatch(), dp.Cyclic(100), dp.Shuffled(100)], ["constant", "decaying", 2.0]),
        (dp.Poisson(1_000.0), "constant"),
        (dp.FixedSize(1_000), "constant"),
    ],
)
def test_every_plan_is_certified(adjacency, sampling, step_size):
    made = plan(sampling=sampling, step_size=step_size, adjacency=adjacency, steps=20)
    report = dp.account(made.run, delta=1e-5)
    assert 0.99 < report.epsilon <= 1


def test_without_a_number_of_steps_the_papers_is_taken():
    few = plan(steps=None, epsilon=0.3).run.steps
    A = 0.3**2 * N**2 / (4 * D * math.log(1e5))
    assert few == math.ceil(2 * 0.3 * (1 + 1e-12) / 0.05 * math.log(A) - 1e-6)
    M = 0.25 + 0.05
    assert plan(steps=None, epsilon=0.02, step_size="decaying").run.steps == pytest.approx(
        max(M / 0.05 * A / 225, 0.05 / M * (A / 225) ** 2), abs=1
    )


def test_more_steps_stop_costing_noise():
    """The plateau: with full batches the least noise in the iterate converges with the number of steps."""
    noise = [plan(steps=steps).noise for steps in (10, 100, 1_000, 10_000)]
    assert noise[0] < noise[1] < noise[2] * (1 + 1e-9)
    assert noise[3] == pytest.approx(noise[2], rel=1e-3)
    composed = dp.calibrate(plan(steps=10_000).run.replace(released="all"), epsilon=1.0, delta=1e-5)
    assert composed.noise_multiplier > 5 * plan(steps=10_000).run.noise_multiplier


def test_the_published_noise_holds_for_full_batches_and_not_for_small_ones():
    run = plan(n=60_000, adjacency="replace", l2=0.01, steps=2_000, residual_clip=1.0).run
    claimed = printed_dp_sgld(run, 1.0, 1e-5)
    assert dp.account(claimed, delta=1e-5).epsilon < 1
    assert claimed.noise_multiplier > run.noise_multiplier
    s = math.sqrt(8 * (1 + 2 * math.log(1e5)) / (0.01 * 60_000**2))
    assert claimed.step_size * claimed.noise_multiplier / 60_000 == pytest.approx(math.sqrt(2 * claimed.step_size) * s)
    small = printed_dp_sgld(run.replace(sampling=dp.FixedSize(256)), 1.0, 1e-5)
    assert small.noise_multiplier == pytest.approx(claimed.noise_multiplier * 256 / 60_000)
    assert dp.account(small, delta=1e-5).epsilon > 10
    with pytest.raises(InputError, match="strong_convexity"):
        printed_dp_sgld(claimed.replace(strong_convexity=0.0, l2=0.0), 1.0, 1e-5)


def test_the_start_is_gaussian_and_inside_the_ball():
    made = plan()
    wide = made.start((200_000,), SecureGenerator(insecure_seed=1))
    assert np.linalg.norm(wide) == pytest.approx(made.run.diameter / 2, rel=1e-8)
    assert np.linalg.norm(wide) < made.run.diameter / 2
    small = np.concatenate([made.start((D,), SecureGenerator(insecure_seed=seed)) for seed in range(1_000)])
    deviation = math.sqrt(2 / made.l2) * made.noise
    assert deviation * 10 < made.run.diameter / 2
    assert np.std(small) == pytest.approx(deviation, rel=5 / math.sqrt(2 * small.size))
    assert abs(small.mean()) < 5 * deviation / math.sqrt(small.size)


@pytest.mark.parametrize("step_size", ["constant", "decaying"])
@pytest.mark.parametrize("classes", [2, 3])
def test_it_learns(step_size, classes):
    rows, target = records(classes)
    loss = Logistic() if classes == 2 else Softmax(classes)
    result = plan(loss, epsilon=4.0, l2=0.01, steps=400, step_size=step_size).fit(rows, target)
    scores = rows @ result.weights
    found = scores > 0 if classes == 2 else scores.argmax(axis=1)
    assert (found == target).mean() > 0.8
    assert result.run.released == "last"


def test_a_seed_repeats_the_start_and_the_noise():
    rows, target = records()
    once, twice, other = (plan().fit(rows, target, generator=SecureGenerator(insecure_seed=seed)).weights for seed in (1, 1, 2))
    assert (once == twice).all()
    assert (once != other).all()


@pytest.mark.parametrize("loss", [Huber(0.5), Squared(), SmoothedHinge(2.0)], ids=repr)
def test_other_losses(loss):
    radius = plan(loss).run.diameter / 2
    clip = 0.5 if isinstance(loss, (Squared, SmoothedHinge)) else loss.lipschitz(1.0) / 2
    assert radius == pytest.approx(min(clip / 0.05, math.sqrt(loss.at_zero / 0.05)))


def test_losses_at_zero_scores():
    for loss, targets in ((Logistic(), (0, 1)), (Softmax(4), (0, 3)), (SmoothedHinge(0.5), (0, 1)), (SmoothedHinge(3.0), (0, 1))):
        scores = np.zeros((2, 4)) if loss.outputs > 1 else np.zeros(2)
        values = np.asarray(loss.value(scores, np.array(targets)))
        assert values == pytest.approx(loss.at_zero, rel=1e-6)
    assert math.inf == Squared().at_zero == Huber().at_zero == Absolute().at_zero


def test_the_solver():
    made = SOLVERS["dp-sgld"].plan(Problem(N, D, Logistic(), l2=(0.05, 0.05, 0.05, 0.0)), Budget(1.0, 1e-5), steps=70)
    assert (made.l2, made.run.steps) == (0.05, 70)
    with pytest.raises(InputError, match="give l2 > 0"):
        SOLVERS["dp-sgld"].plan(Problem(N, D, Logistic()), Budget(1.0, 1e-5))


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 0.0} for name in ("epsilon", "delta", "feature_norm", "residual_clip", "l2", "radius", "step_size")),
        *({name: math.nan} for name in ("epsilon", "l2", "radius")),
        {"steps": 0},
        {"d": 0},
        {"batch_size": N + 1},
        {"batch_size": 1.5},
        {"step_size": "falling"},
        {"step_size": 8.0},
        {"step_size": [1.0, 0.5]},
        {"adjacency": "neighbours"},
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        plan(**changes)


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="both given"):
        plan(batch_size=10, sampling=dp.Poisson(10))
    with pytest.raises(InputError, match="batches of one size"):
        plan(sampling=dp.Poisson([10.0] * 50))
    with pytest.raises(InputError, match="not smooth"):
        plan(Absolute())
    rows, target = records()
    with pytest.raises(InputError, match="generator is str"):
        plan().fit(rows, target, generator="insecure")
    with pytest.raises(InputError, match="too long"):
        plan(step_size=0.5).fit(3 * rows, target)
    for one, other, said in (
        (np.ma.masked_equal(rows, rows[3, 2]), target, "features have masked entries"),
        (rows, np.ma.masked_equal(target, 1), "targets have masked entries"),
        (rows[:, :0], target, "features have shape"),
        ([*rows.tolist()[1:], [0.1]], target, "features cannot be made an array"),
        (rows, [*target.tolist()[1:], [0]], "target cannot be made an array"),
    ):
        with pytest.raises(InputError, match=said):
            plan().fit(one, other)
    rows[3, 2] = math.nan
    with pytest.raises(InputError, match="not finite"):
        plan().fit(rows, target)
