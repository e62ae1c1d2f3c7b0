"""Hinge and absolute loss against their definitions, conjugates against a search, constants against measured ones."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.losses import Absolute, Hinge
from dplateau.spec import InputError

LOSSES = (Hinge(), Absolute())
names = [type(loss).__name__ for loss in LOSSES]


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def examples(loss):
    rng = np.random.default_rng(3)
    target = rng.integers(0, 2, 300).astype(float) if isinstance(loss, Hinge) else rng.normal(size=300)
    return 3 * rng.normal(size=300), target


def value(loss, scores, target):
    return np.asarray(jax.jit(loss.value)(jnp.asarray(scores), jnp.asarray(target)))


def test_values_match_the_textbook():
    scores, target = examples(Hinge())
    np.testing.assert_allclose(value(Hinge(), scores, target), np.maximum(0, 1 - np.where(target == 1, 1, -1) * scores), atol=1e-15)
    scores, target = examples(Absolute())
    np.testing.assert_allclose(value(Absolute(), scores, target), abs(scores - target), atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_the_residual_is_a_subgradient_everywhere_and_the_slope_off_the_corner(loss):
    scores, target = examples(loss)
    scores[:50] = loss.corners(target[:50]).corner
    slope = np.asarray(jax.jit(loss.residual)(jnp.asarray(scores), jnp.asarray(target)))
    assert slope.dtype == np.float64
    for shift in (-2.0, -1e-6, 1e-6, 0.7):
        above = value(loss, scores + shift, target) - value(loss, scores, target) - slope * shift
        assert above.min() >= -1e-14
    smooth = jax.jit(jax.grad(lambda s: loss.value(s, jnp.asarray(target)).sum()))(jnp.asarray(scores))
    np.testing.assert_allclose(slope[50:], smooth[50:], atol=1e-15)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_corners_describe_the_loss(loss):
    scores, target = examples(loss)
    lower, upper, corner = loss.corners(target)
    wanted = np.maximum(lower * (scores - corner), upper * (scores - corner))
    np.testing.assert_allclose(value(loss, scores, target), wanted, atol=1e-14)


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_the_conjugate_is_the_largest_of_slope_times_score_less_the_value(loss):
    rng = np.random.default_rng(0)
    _, target = examples(loss)
    lower, upper, corner = loss.corners(target)
    slope = lower + rng.random(len(target)) * (upper - lower)
    grid = corner[:, None] + np.linspace(-20, 20, 4001)
    searched = (slope[:, None] * grid - value(loss, grid, target[:, None])).max(axis=1)
    np.testing.assert_allclose(loss.conjugate(slope, target), searched, atol=1e-12)
    assert np.isinf(loss.conjugate(upper + 0.01, target)).all()
    assert np.isinf(loss.conjugate(lower - 0.01, target)).all()


@pytest.mark.parametrize("loss", LOSSES, ids=names)
def test_constants(loss):
    scores, target = examples(loss)
    slopes = abs(np.asarray(jax.jit(loss.residual)(jnp.asarray(scores), jnp.asarray(target))))
    assert 3 * slopes.max() == loss.lipschitz(3.0)
    assert loss.smoothness(1.0) == math.inf
    assert loss.smoothness(0.0) == 0
    assert loss.convex_after_clipping
    assert loss.outputs == 1
    assert hash(loss) == hash(type(loss)())


def test_wrong_targets_are_refused_without_quoting_them():
    with pytest.raises(InputError) as error:
        Hinge().check_target(np.array([0, 1, 73]))
    assert "73" not in str(error.value)
    with pytest.raises(InputError, match="finite"):
        Absolute().check_target(np.array([0.0, math.nan]))
    Hinge().check_target(np.array([True, False]))
    Absolute().check_target(np.array([-2.5, 7.0]))
