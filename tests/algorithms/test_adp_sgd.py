"""The plan of ADP-SGD is certified and pure, its steps fall and its noise is adapted to them; carrying it out is what it says."""

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau._account import account
from dplateau.algorithms import (
    SOLVERS,
    Budget,
    NoisySGD,
    Problem,
    adapted_noise,
    noise_energy,
    plan_adp_sgd,
    plan_noisy_sgd,
    square_root_decay,
)
from dplateau.losses import Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import FullBatch, InputError, Poisson
from dplateau.training import SecureGenerator

from .plans import planned

LOSSES = (Logistic(), Softmax(5), Squared(), Huber(), SmoothedHinge(1.0))


def plan(n=10_000, loss=None, **changes):
    return planned(plan_adp_sgd, **{"n": n, "loss": loss or Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 2, **changes})


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_plan_is_certified_for_all_iterates(loss, adjacency):
    run = plan(loss=loss, adjacency=adjacency).run
    assert 0.9999 < account(run, 1e-5).epsilon <= 1.0
    assert (run.adjacency, run.released, run.sampling) == (adjacency, "all", FullBatch())


def test_equal_arguments_give_equal_plans():
    assert plan() == plan()
    assert plan(l2=[0.0, 0.1]) == plan(l2=(0.0, 0.1))


def test_noise_falls_more_slowly_than_the_steps():
    run = plan(steps=100).run
    eta, z = np.array(run.step_size), np.array(run.noise_multiplier)
    assert eta[0] / eta[-1] == pytest.approx(math.sqrt(125 / 26))
    np.testing.assert_allclose(z**2 * eta, z[0] ** 2 * eta[0])
    assert (np.diff(eta * z) < 0).all()
    # Constant noise that costs the same moves the weights more.
    constant = dp.calibrate(run.replace(noise_multiplier=1.0), epsilon=1.0, delta=1e-5)
    assert noise_energy(constant) > 1.02 * noise_energy(run)


def test_noise_alone_moves_a_score_by_what_the_rule_says():
    made = plan(epsilon=0.05, momentum=0.0, steps=300)
    assert made.run.update == "sgd"
    assert made.run.clip_norm * math.sqrt(noise_energy(made.run)) == pytest.approx(2.0)  # R^2/(2 M)
    weights = made.fit(np.zeros((10_000, 400)), np.zeros(10_000), generator=SecureGenerator(insecure_seed=0)).weights
    assert np.std(weights) == pytest.approx(2.0, rel=0.2)
    # Where noise is faint, stability bounds the first step: M = 1/4.
    assert plan(epsilon=1e3, momentum=0.0).run.step_size[0] == pytest.approx(7.6)
    assert plan(epsilon=1e3).run.step_size[0] == pytest.approx(7.6 * 1.9)


def test_steps_and_noise_can_be_chosen():
    falling = square_root_decay(40, 0.1, 0.001)
    made = plan(steps=40, decay=falling, step_size=0.05, batch_size=100, epsilon=4.0)
    np.testing.assert_allclose(made.run.step_size, np.array(falling) / falling[0] * 0.05)
    assert made.run.sampling == Poisson(100.0)
    z = np.array(made.run.noise_multiplier)
    np.testing.assert_allclose(z / z[0], np.array(adapted_noise(falling)) / adapted_noise(falling)[0])


def test_the_optimal_noise_is_better_with_small_batches():
    decay = np.repeat([4.0, 3.0, 2.0, 1.0], 250).tolist()
    options = {"n": 50_000, "steps": 1_000, "decay": decay, "step_size": 1.0, "batch_size": 250, "epsilon": 4.0}
    adapted, best = (plan(noise=noise, **options).run for noise in ("adapted", "optimal"))
    assert account(best, 1e-5).epsilon <= 4.0
    assert noise_energy(best) < 0.95 * noise_energy(adapted)


def test_carrying_out_a_plan_is_heavy_ball_descent_with_falling_steps():
    rng = np.random.default_rng(0)
    rows, target = rng.uniform(-0.4, 0.4, size=(300, 4)), rng.integers(0, 2, 300)
    made = plan(300, epsilon=1e9, steps=50, momentum=0.7, d=4, l2=(0.1, 0.2, 0.0, 0.3))
    weights, velocity = np.zeros(4), np.zeros(4)
    for step in range(50):
        residual = 1 / (1 + np.exp(-rows @ weights)) - target
        factor = np.minimum(1, made.run.clip_norm / (abs(residual) * np.linalg.norm(rows, axis=1)))
        velocity = 0.7 * velocity + (rows.T @ (factor * residual)) / 300 + np.array(made.l2) * weights
        weights = weights - made.run.step_size[step] * velocity
    result = made.fit(rows, target, generator=SecureGenerator(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(result.weights, weights, rtol=1e-3)
    assert result.run == made.run
    assert isinstance(made, NoisySGD)


def test_it_learns_as_well_as_noisy_sgd():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(4_000, 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True) * (1 + 1e-9)
    target = (rows[:, 0] + 0.5 * rows[:, 1] > 0).astype(int)
    found = []
    for make in (plan_adp_sgd, plan_noisy_sgd):
        made = make(Problem(4_000, 6, Logistic()), Budget(1.0, 1e-5))
        weights = [made.fit(rows, target, generator=SecureGenerator(insecure_seed=seed)).weights for seed in range(3)]
        found.append(np.mean([((rows @ w > 0) == target).mean() for w in weights]))
    assert found[0] > found[1] - 0.01
    assert found[0] > 0.95


def test_the_solver_keeps_l2_of_each_feature_and_the_number_of_steps():
    made = SOLVERS["adp-sgd"].plan(Problem(1_000, 3, Logistic(), l2=(0.1, 0.1, 0.0)), Budget(1.0, 1e-5), steps=70)
    assert (made.l2, made.run.steps) == ((0.1, 0.1, 0.0), 70)


@pytest.mark.parametrize(
    "changes",
    [
        *({name: 0.0} for name in ("epsilon", "delta", "feature_norm", "residual_clip", "step_size", "batch_size")),
        *({name: -1.0} for name in ("momentum", "average", "l2")),
        {"momentum": 1.0},
        {"average": 1.5},
        {"steps": 0},
        {"batch_size": 10_001},
        {"noise": "constant"},
        {"decay": [1.0, 0.5]},
        {"adjacency": "neighbours"},
        {"n": 0},
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        plan(**changes)
