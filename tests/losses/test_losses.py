"""Every loss against its definition, and its public constants against measured ones."""

import math
from dataclasses import FrozenInstanceError

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.losses import Huber, Logistic, OneVersusRestHinge, SmoothedHinge, Softmax, Squared
from dplateau.spec import InputError

LOSSES = (Logistic(), Squared(), Huber(0.7), SmoothedHinge(0.5), Softmax(4))
names = [repr(loss) for loss in LOSSES]


def examples(loss, count=400, scale=4.0):
    rng = np.random.default_rng(7)
    shape = (count,) if loss.outputs == 1 else (count, loss.outputs)
    target = rng.integers(0, max(loss.outputs, 2), count).astype(float)
    return scale * rng.normal(size=shape), target


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_residual_is_the_derivative_of_the_value(loss):
    scores, target = examples(loss)
    slope = jax.jit(jax.grad(lambda s: loss.value(s, jnp.asarray(target)).sum()))(jnp.asarray(scores))
    np.testing.assert_allclose(jax.jit(loss.residual)(jnp.asarray(scores), jnp.asarray(target)), slope, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_values_match_the_textbook(loss):
    scores, y = examples(loss)
    if isinstance(loss, Logistic):
        wanted = -np.log(np.where(y == 1, 1 / (1 + np.exp(-scores)), 1 / (1 + np.exp(scores))))
    elif isinstance(loss, Squared):
        wanted = (scores - y) ** 2 / 2
    elif isinstance(loss, Huber):
        error = abs(scores - y)
        wanted = np.where(error <= 0.7, error**2 / 2, 0.7 * (error - 0.35))
    elif isinstance(loss, SmoothedHinge):
        u = 1 - np.where(y == 1, scores, -scores)
        wanted = np.where(u <= 0, 0, np.where(u <= 0.5, u**2, u - 0.25))
    else:
        wanted = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(y)), y.astype(int)]
    np.testing.assert_allclose(jax.jit(loss.value)(jnp.asarray(scores), jnp.asarray(y)), wanted, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_lipschitz_constant_is_reached_but_not_exceeded(loss):
    scores, target = examples(loss, scale=50.0)
    residual = jax.jit(loss.residual)(jnp.asarray(scores), jnp.asarray(target))
    norms, flat = np.asarray(jax.jit(loss.residual_norm)(residual)), np.asarray(residual).reshape(len(target), -1)
    np.testing.assert_allclose(norms, np.linalg.norm(flat, axis=1), rtol=1e-12)
    if isinstance(loss, Squared):
        assert loss.lipschitz(3.0) == math.inf
        assert loss.lipschitz(0.0) == 0
    else:
        assert 0.999 * loss.lipschitz(3.0) < 3 * norms.max() <= loss.lipschitz(3.0) * (1 + 1e-12)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_smoothness_constant_is_reached_but_not_exceeded(loss):
    """The largest eigenvalue of the Hessian in the scores, over a fine set of scores, times R^2."""
    if loss.outputs == 1:
        scores = np.linspace(-3, 3, 4001)
        target = jnp.zeros(len(scores))
        curvature = jax.vmap(jax.grad(jax.grad(lambda s, y: loss.value(s[None], y[None])[0])))
        slopes = jax.jit(curvature)(jnp.asarray(scores), target)
        largest = float(slopes.max())
    else:  # two equally likely classes that exclude the others are the extreme case
        scores = np.vstack([examples(loss)[0], [0, 0, -60, -60]])
        hessians = jax.jit(jax.vmap(jax.hessian(lambda s: loss.value(s[None], jnp.zeros(1))[0])))(jnp.asarray(scores))
        largest = float(np.linalg.eigvalsh(hessians).max())
    assert 4 * largest == pytest.approx(loss.smoothness(2.0), rel=1e-6)


@pytest.mark.parametrize("loss", [*LOSSES, OneVersusRestHinge(3)], ids=repr)
def test_rows_whose_square_leaves_double_precision_have_no_smoothness(loss):
    assert loss.smoothness(1e200) == math.inf


def test_convexity_after_clipping_is_claimed_for_single_scores_only():
    assert [loss.convex_after_clipping for loss in LOSSES] == [True, True, True, True, False]


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_wrong_targets_are_refused_without_quoting_them(loss):
    for bad in (np.array([0.0, math.nan]), np.array(["0", "1"])):
        with pytest.raises(InputError, match="target"):
            loss.check_target(bad)
    if not isinstance(loss, Squared | Huber):
        with pytest.raises(InputError) as error:
            loss.check_target(np.array([0, 1, 73]))
        assert "73" not in str(error.value)
    loss.check_target(np.array([0, 1, 1]))
    loss.check_target(np.array([True, False]))


def test_parameters_are_checked_and_losses_are_hashable_and_frozen():
    for wrong in (lambda: Softmax(1), lambda: Softmax(2.5), lambda: Huber(0), lambda: SmoothedHinge(-1)):
        with pytest.raises(InputError):
            wrong()
    assert len({*LOSSES, Logistic(), Softmax(4)}) == len(LOSSES)
    with pytest.raises(FrozenInstanceError):
        LOSSES[2].delta = 3
