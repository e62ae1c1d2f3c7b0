"""The plan of Noisy-SGD is certified, pure, and scales as it should; carrying it out is heavy-ball gradient descent."""

import math

import numpy as np
import pytest

from dplateau._account import account
from dplateau.algorithms import NoisySGD, plan_noisy_sgd
from dplateau.calibration import calibrate
from dplateau.losses import Hinge, Huber, Logistic, SmoothedHinge, Softmax, Squared
from dplateau.spec import Cyclic, FixedSize, FullBatch, InputError, Poisson, RandomAllocation, Run, Shuffled
from dplateau.training import SecureGenerator

from .plans import planned

LOSSES = (Logistic(), Softmax(5), Squared(), Huber(), SmoothedHinge(1.0))


def plan(n=10_000, loss=None, strength=None, **changes):
    """A plan; ``strength`` is what epsilon is chosen for."""
    if strength is not None:
        changes["epsilon"] = account(Run(n=1, sampling=FullBatch(), steps=1, noise_multiplier=n / strength), 1e-5).epsilon
    return planned(plan_noisy_sgd, **{"n": n, "loss": loss or Logistic(), "epsilon": 1.0, "delta": 1e-5, "d": 2, **changes})


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_a_plan_is_certified_and_spends_what_it_may(loss, adjacency):
    run = plan(loss=loss, adjacency=adjacency).run
    assert 0.9999 < account(run, 1e-5).epsilon <= 1.0
    assert (run.adjacency, run.released, run.update) == (adjacency, "last", "post-processed")


def test_equal_arguments_give_equal_plans():
    assert plan() == plan()
    assert hash(plan()) == hash(plan())
    assert plan(l2=[0.0, 0.1]) == plan(l2=(0.0, 0.1))


def test_the_step_size_follows_the_noise_and_is_capped():
    n, steps, momentum, norm = 10_000, 200, 0.8, 3.0
    quiet, noisy = (plan(n, epsilon=e, steps=steps, momentum=momentum, feature_norm=norm) for e in (1e3, 0.2))
    smoothness = norm**2 / 4
    assert quiet.run.step_size == pytest.approx(2 / smoothness)
    mu, clip = math.sqrt(steps) / noisy.run.noise_multiplier, noisy.run.clip_norm / norm
    assert noisy.run.step_size == pytest.approx(0.7 * (1 - momentum) * mu * n / (clip * steps) / smoothness)
    assert noisy.run.step_size < quiet.run.step_size


@pytest.mark.parametrize(("loss", "moved"), [(Logistic(), 2.8), (Softmax(5), 2.0), (Squared(), 0.35)], ids=["2", "5", "number"])
def test_noise_alone_moves_a_score_by_what_the_rule_says(loss, moved):
    rows = np.zeros((10_000, 200))
    made = plan(10_000, loss=loss, epsilon=0.5, steps=2_000, average=0.0)
    weights = made.fit(rows, np.zeros(10_000), generator=SecureGenerator(insecure_seed=0)).weights
    assert np.std(weights) == pytest.approx(moved, rel=0.2)  # the deviation of the score of a row of norm 1


def test_where_next_to_nothing_can_be_learnt_a_regression_takes_shorter_steps():
    """Its scores are predictions: those of classes are only compared."""
    for loss, shorter in ((Squared(), 0.5), (Huber(), 0.5), (Logistic(), 1.0), (Softmax(3), 1.0)):
        size = [plan(loss=loss, strength=strength).run.step_size / strength for strength in (10.0, 20.0)]
        assert size[0] == pytest.approx(shorter * size[1])


@pytest.mark.parametrize(
    ("loss", "clip", "least"),
    list(zip(LOSSES, (0.5, math.sqrt(0.5), 0.5, 0.5, 0.5), (0.25, math.sqrt(0.125), 0.125, 0.125, 0.25), strict=True)),
)
def test_residuals_are_clipped_at_half_of_their_largest_norm_and_lower_where_noise_is_large(loss, clip, least):
    for strength, found in ((1e5, clip), (4000, clip), (2500, clip * math.sqrt(5 / 8)), (10, least)):
        assert plan(loss=loss, feature_norm=2.0, strength=strength).run.clip_norm == pytest.approx(2 * found, rel=1e-3)
    assert plan(loss=loss, residual_clip=0.1).run.clip_norm == pytest.approx(0.1)


def test_batches_are_full_until_time_matters_more_than_noise():
    assert plan(500_000, delta=1e-7).run.sampling == FullBatch()
    assert plan(600_000, delta=1e-7).run.sampling == RandomAllocation(float(1 << 17))
    assert plan(1_000, batch_size=1_000).run.sampling == FullBatch()


def test_batches_are_drawn_in_the_way_that_needs_less_noise():
    """Random allocation hides a presence better than Poisson batches; a replacement hardly worse or better."""
    for adjacency, chosen in (("add-remove", RandomAllocation(100.0)), ("replace", Poisson(100.0))):
        run = plan(1_000, batch_size=100, adjacency=adjacency).run
        assert run.sampling == chosen
        other = Poisson(100.0) if run.sampling.allocated else RandomAllocation(100.0)
        assert calibrate(run.replace(sampling=other), epsilon=1.0, delta=1e-5).noise_multiplier > run.noise_multiplier
    plain = plan(1_000, batch_size=100, momentum=0.0, average=0.0, diameter=0.05, steps=4_000, l2=0.01).run
    assert plain.sampling == RandomAllocation(100.0)
    assert account(plain, 1e-5).best.name == "reflection-coupling"
    assert plan(1_000, sampling=Poisson(100.0)).run.sampling == Poisson(100.0)


@pytest.mark.parametrize(
    ("n", "steps", "batch"),
    [(10_000, 400, 250), (10_000, 37, 10_000 / 3.7), (10_000, 4, 10_000), (20, 400, 1), (10**8, 400, 2**17)],
)
def test_a_stream_has_about_ten_epochs_by_random_allocation(n, steps, batch):
    delta = min(1e-5, 1 / (10 * n))
    run = plan(n, steps=steps, delta=delta, stream=True).run
    assert (run.sampling.kind, run.sampling.batch_size) == ("random-allocation", pytest.approx(batch))
    assert 0.9999 < account(run, delta).epsilon <= 1.0
    assert plan(n, steps=2, delta=delta, stream=True, batch_size=10).run.sampling == RandomAllocation(10)


@pytest.mark.parametrize(
    ("epsilon", "epochs", "low", "high"),
    [(1, 10, 1.035, 1.065), (1, 3, 1.455, 1.615), (1, 30, 1.0, 1.01), (0.1, 10, 1.0, 1.001), (8, 10, 1.95, 2.15)],
)
@pytest.mark.parametrize("n", [32_561, 10**7])
def test_ten_epochs_of_a_stream_have_little_more_noise_than_full_batches(n, epsilon, epochs, low, high):
    """The numbers of the planner's docstring."""
    full = Run(n=n, sampling=FullBatch(), steps=400, noise_multiplier=1.0)
    drawn, delta = full.replace(sampling=RandomAllocation(n * epochs / 400)), min(1e-5, 1 / (10 * n))
    found = (calibrate(run, epsilon=epsilon, delta=delta) for run in (full, drawn))
    least, more = (run.noise_multiplier / run.sampling.divisors(n) for run in found)
    assert low < more / least < high


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_full_batches_have_the_least_noise_in_the_mean_gradient(epsilon):
    noise = [plan(batch_size=b, epsilon=epsilon).run.noise_multiplier / b for b in (100, 1_000, 5_000, 10_000)]
    assert noise == sorted(noise, reverse=True)


def test_scaling_the_rows_with_their_bound_changes_only_the_units():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = rng.integers(0, 2, 200)
    weights = [
        plan(200, epsilon=5.0, feature_norm=s)
        .fit(s * rows, target, generator=SecureGenerator(insecure_seed=1), dtype="float64")
        .weights
        for s in (1.0, 8.0)
    ]
    np.testing.assert_allclose(weights[0], 8 * weights[1], rtol=1e-6)


def test_carrying_out_a_plan_is_heavy_ball_descent_on_clipped_gradients():
    rng = np.random.default_rng(0)
    rows, target = rng.uniform(-0.4, 0.4, size=(300, 4)), rng.integers(0, 2, 300)
    made = plan(300, epsilon=1e9, steps=50, momentum=0.7, average=0.5, d=4, l2=(0.1, 0.2, 0.0, 0.3))
    weights, velocity, late = np.zeros(4), np.zeros(4), []
    for step in range(50):
        residual = 1 / (1 + np.exp(-rows @ weights)) - target
        factor = np.minimum(1, made.run.clip_norm / (abs(residual) * np.linalg.norm(rows, axis=1)))
        velocity = 0.7 * velocity + (rows.T @ (factor * residual)) / 300 + np.array(made.l2) * weights
        weights = weights - made.run.step_size * velocity
        if step >= 25:
            late.append(weights)
    result = made.fit(rows, target, generator=SecureGenerator(insecure_seed=0), dtype="float64")
    np.testing.assert_allclose(result.weights, np.mean(late, axis=0), rtol=1e-3)
    assert result.run == made.run


def test_a_plan_can_be_written_by_hand():
    run = Run(n=50, sampling=Poisson(10.0), steps=5, noise_multiplier=1.0, step_size=0.1)
    result = NoisySGD(run, Squared()).fit(np.zeros((50, 2)), np.zeros(50))
    assert result.weights.shape == (2,)


@pytest.mark.parametrize(
    "changes",
    [
        *(
            {name: value}
            for name in ("epsilon", "delta", "feature_norm", "residual_clip", "step_size")
            for value in (0.0, -1.0, math.nan)
        ),
        *({name: value} for name in ("momentum", "l2") for value in (-1.0, math.nan, math.inf)),
        {"momentum": 1.0},
        {"average": 1.5},
        {"average": "0.5"},
        {"steps": 0},
        {"delta": 1.0},
        {"batch_size": 10_001},
        {"batch_size": 0},
        {"adjacency": "neighbours"},
        {"n": 0},
    ],
    ids=str,
)
def test_an_impossible_plan_is_refused(changes):
    with pytest.raises(InputError, match=next(iter(changes))):
        plan(**changes)


@pytest.mark.parametrize("sampling", [Cyclic(20), Shuffled(20), FixedSize(20), Poisson(20)])
def test_plain_steps_are_certified_by_the_last_iterate_where_that_is_less(sampling):
    planned = plan(sampling=sampling, momentum=0.0, average=0.0, l2=0.05, diameter=5.0, step_size=1.0, steps=3000, n=200)
    run = planned.run
    assert (run.update, run.released, run.strong_convexity) == ("sgd", "last", 0.05)
    report = account(run, 1e-5)
    assert 0.999 < report.epsilon <= 1
    assert report.best.name in ("fixed-order", "shuffled", "sampled-last-iterate", "reflection-coupling")
    composed = calibrate(run.replace(update="post-processed"), epsilon=1.0, delta=1e-5)
    assert run.noise_multiplier < composed.noise_multiplier / 1.5
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    result = planned.fit(rows, rows[:, 0] > 0, dtype="float64")
    assert np.linalg.norm(result.weights) <= 2.5 * (1 + 1e-9)  # the projection is rounded to the grid of the noise
    with pytest.raises(InputError, match="double precision"):
        planned.fit(rows, rows[:, 0] > 0)


def test_plain_steps_contract_no_more_than_the_feature_with_the_least_l2():
    facts = {"n": 200, "momentum": 0.0, "average": 0.0, "step_size": 0.5, "steps": 40, "sampling": Cyclic(20), "epsilon": 8.0}
    run = plan(l2=(0.3, 0.05), **facts).run
    assert (run.strong_convexity, run.l2) == (0.05, 0.05)
    assert run.smoothness >= 0.25 + 0.3
    assert run.noise_multiplier == plan(l2=0.05, **facts).run.noise_multiplier


@pytest.mark.parametrize(("momentum", "average"), [(0.9, 0.0), (0.0, 0.5)])
def test_steps_that_are_not_plain_keep_to_composition(momentum, average):
    run = plan(n=200, momentum=momentum, average=average, step_size=0.5, l2=0.1, sampling=Cyclic(20)).run
    assert (run.update, run.strong_convexity) == ("post-processed", None)


def test_losses_that_clipping_may_spoil_keep_to_composition():
    run = plan(loss=Softmax(3), momentum=0.0, average=0.0, diameter=5.0).run
    assert run.update == "post-processed"


def test_plain_steps_on_a_loss_with_a_corner_keep_to_composition():
    made = plan(n=50, loss=Hinge(), momentum=0.0, average=0.0, step_size=0.1, steps=3)
    assert (made.run.update, made.run.smoothness) == ("post-processed", None)
    rng = np.random.default_rng(0)
    assert made.fit(rng.uniform(-0.1, 0.1, (50, 5)), rng.integers(2, size=50)).run == made.run


def test_sampling_and_batch_size_exclude_each_other():
    with pytest.raises(InputError, match="both given"):
        plan(sampling=Cyclic(10), batch_size=10)
