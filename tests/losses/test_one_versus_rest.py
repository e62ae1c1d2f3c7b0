"""The one-versus-rest loss is the sum of its binary losses, and its constants bound it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.losses import OneVersusRestHinge, SmoothedHinge
from dplateau.spec import InputError

LOSS = OneVersusRestHinge(4, width=0.7)
SCORES = np.random.default_rng(0).normal(size=(200, 4)).astype("f4") * 2
TARGET = np.random.default_rng(1).integers(0, 4, 200)


def test_it_is_the_sum_of_the_binary_losses():
    binary = SmoothedHinge(0.7)
    total = sum(binary.value(SCORES[:, k], (k == TARGET).astype("f4")) for k in range(4))
    np.testing.assert_allclose(LOSS.value(SCORES, TARGET), total, rtol=1e-5)


def test_the_residual_is_the_gradient_of_the_value():
    gradient = jax.jit(jax.grad(lambda s: LOSS.value(s, TARGET).sum()))(jnp.asarray(SCORES))
    residual = LOSS.residual(SCORES, TARGET)
    np.testing.assert_allclose(residual, gradient, atol=1e-5)
    np.testing.assert_allclose(LOSS.residual_norm(residual), np.linalg.norm(gradient, axis=1), rtol=1e-5)


def test_the_constants_are_attained():
    assert LOSS.residual_norm(LOSS.residual(100 * (1 - 2 * np.eye(4, dtype="f4")), np.arange(4))).max() == pytest.approx(2.0)
    assert LOSS.lipschitz(3.0) == pytest.approx(6.0)
    assert LOSS.smoothness(3.0) == pytest.approx(9 / 0.7)


def test_bad_arguments_and_targets_are_refused():
    for arguments in ((1,), (3, 0.0), (2.5,)):
        with pytest.raises(InputError):
            OneVersusRestHinge(*arguments)
    with pytest.raises(InputError, match="target"):
        LOSS.check_target(np.array([0, 4]))
