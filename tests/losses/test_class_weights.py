"""Weights of classes: what one record can do is no more than without them, in the arithmetic that runs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.losses import (
    Absolute,
    ClassWeighted,
    Hinge,
    Huber,
    Logistic,
    OneVersusRestHinge,
    SmoothedHinge,
    Softmax,
    Squared,
    class_weighted,
)
from dplateau.spec import FullBatch, InputError, Run
from dplateau.training import SecureGenerator, train
from dplateau.training.integers import bits_of, cut, encode, integer_sum, unpacked

LOSSES = (Logistic(), SmoothedHinge(1.0), Hinge(), Softmax(3), OneVersusRestHinge(3, 0.7))
WEIGHTS = (0.03, 1.0, 0.4)
names = [type(loss).__name__ for loss in LOSSES]


def weighted(loss):
    return class_weighted(loss, WEIGHTS[: max(2, loss.outputs)])


def examples(loss, count=300, scale=3.0):
    rng = np.random.default_rng(3)
    scores = scale * rng.normal(size=(count,) if loss.outputs == 1 else (count, loss.outputs))
    return jnp.asarray(scores), jnp.asarray(rng.integers(0, max(2, loss.outputs), count).astype(float))


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_values_and_residuals_are_those_of_the_loss_times_the_weight(loss):
    made, (scores, target) = weighted(loss), examples(loss)
    factor = np.array(WEIGHTS)[np.asarray(target, int)]
    np.testing.assert_array_equal(made.value(scores, target), factor * loss.value(scores, target))
    residual = loss.residual(scores, target)
    np.testing.assert_array_equal(made.residual(scores, target), (factor if residual.ndim == 1 else factor[:, None]) * residual)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_the_public_constants_still_hold(loss):
    made, (scores, target) = weighted(loss), examples(loss, scale=30.0)
    norms = np.asarray(made.residual_norm(made.residual(scores, target)))
    assert norms.max() <= made.lipschitz(1.0) * (1 + 1e-12)
    assert made.lipschitz(2.0) == loss.lipschitz(2.0)
    assert made.smoothness(2.0) == loss.smoothness(2.0)
    assert made.convex_after_clipping == loss.convex_after_clipping
    near = jnp.asarray(scores + 1e-4 * np.random.default_rng(1).normal(size=scores.shape))
    steps = np.asarray(made.residual_norm(made.residual(near, target) - made.residual(scores, target)))
    if math.isfinite(loss.smoothness(1.0)):
        moved = np.asarray(made.residual_norm(near - scores))
        assert (steps <= made.smoothness(1.0) * moved * (1 + 1e-9) + 1e-14).all()


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not isinstance(loss, Hinge)], ids=lambda loss: type(loss).__name__)
@pytest.mark.parametrize("weights", [(1e-6, 1.0, 0.5), (1.0, 0.999999, 1e-3), (0.3, 0.1, 1.0)])
def test_what_one_record_adds_is_within_the_clip_norm_as_whole_numbers(loss, weights):
    """Whatever the row, its target and the weights of the model: |k m| <= 2^gradient, and no record's part depends on another's."""
    made = class_weighted(loss, weights[: max(2, loss.outputs)])
    rng, d, count = np.random.default_rng(5), 4, 12
    run = Run(n=count, sampling=FullBatch(), steps=1, noise_multiplier=1.0, clip_norm=0.5)
    bits = bits_of(run, d)
    rows = rng.normal(size=(count, d)) * 10.0 ** rng.integers(-150, 150, (count, 1))
    target = rng.integers(0, max(2, loss.outputs), count).astype(float)
    data, _ = encode(rows, target, bits, 1.0, count, together=False)
    for size in (1e-200, 1.0, 1e200):
        model = size * rng.normal(size=(d,) if loss.outputs == 1 else (d, loss.outputs))
        whole, unit = cut(jnp.asarray(model), bits)
        per_unit, packed = 2.0**bits.gradient / run.clip_norm, unpacked(tuple(jnp.asarray(part) for part in data))
        alone = [
            np.asarray(integer_sum(made, whole, unit, packed, per_unit, bits, jnp.arange(count) == i), dtype=object)
            for i in range(count)
        ]
        assert max(int((one**2).sum()) for one in alone) <= 4**bits.gradient
        assert (sum(alone) == np.asarray(integer_sum(made, whole, unit, packed, per_unit, bits))).all()


def test_a_heavier_record_than_one_would_break_a_bound_without_clipping():
    """Phased-ERM clips nothing: with a weight of 3 a record's slope is three times the constant that its noise is for."""
    with pytest.raises(InputError, match="weight"):
        ClassWeighted(Logistic(), (3.0, 1.0))
    scores, target = examples(Logistic())
    assert 3 * abs(np.asarray(Logistic().residual(scores, target))).max() > Logistic().lipschitz(1.0)
    assert class_weighted(Logistic(), (3.0, 1.0)).weights == (1.0, 1 / 3)


def test_wrong_weights_are_refused():
    assert class_weighted(Logistic(), (7, 14)).weights == (0.5, 1.0)
    for weights in ((0.0, 1.0), (-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1e-13, 1.0)):
        with pytest.raises(InputError, match="weight"):
            class_weighted(Logistic(), weights)
    with pytest.raises(InputError, match="3 weights for 2 classes"):
        class_weighted(Logistic(), (1.0, 2.0, 3.0))
    for loss in (Absolute(), Squared(), Huber()):  # a target of 3 would be read as a class
        with pytest.raises(InputError, match=f"{type(loss).__name__} is a loss of numbers"):
            class_weighted(loss, (1.0, 2.0))


def test_a_class_that_weighs_a_half_counts_as_half_of_its_rows():
    """One step of training: two rows of a class that weighs 1/2 move the weights as one row of full weight does."""
    run = Run(n=4, sampling=FullBatch(), steps=1, noise_multiplier=1e-6, clip_norm=1.0, step_size=1.0, update="post-processed")
    x = np.array([[0.5, 0.2]])
    twice, once = np.repeat(x, 2, axis=0), x
    other = np.zeros((2, 2))
    rows = (np.vstack([twice, other]), np.vstack([once, other, other[:1]]))
    made = [
        train(run, loss, X, np.array([1.0, t, 0.0, 0.0]), generator=SecureGenerator(insecure_seed=1), dtype="float64").weights
        for loss, X, t in ((class_weighted(Logistic(), (2, 1)), rows[0], 1.0), (Logistic(), rows[1], 0.0))
    ]
    np.testing.assert_allclose(*made, atol=1e-6)
