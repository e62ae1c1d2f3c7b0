"""Row numbers that a table does not have, integers that do not fit, and losses that cannot be compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dplateau.networks import Validation, train_network
from dplateau.networks.recorded import record
from dplateau.spec import FullBatch, InputError

from .small import flat, run_of, seeded
from .uses import compiled, sites

TABLE = {"t": np.arange(12, dtype=np.float32).reshape(4, 3)}


def indexed(params, numbers):
    return jnp.sum(params["t"][numbers] ** 2)


def taken(params, numbers):
    return jnp.sum(jnp.take(params["t"], numbers, axis=0) ** 2)


def test_two_numbers_beyond_the_table_cannot_add_up_to_more_than_the_clip_norm():
    # Both become the last row. Taken for two rows, their common gradient would be judged sqrt(2) times too short.
    numbers = np.array([[7, 9], [1, 2]])
    assert sites(indexed, TABLE, numbers) == {"t"}
    summed = compiled(indexed, TABLE, numbers)
    for used in (np.array([True, False]), np.array([False, True])):
        assert np.linalg.norm(summed(numbers, 1.0, used)) == pytest.approx(1.0, rel=1e-4)


def test_a_number_that_take_fills_with_nan_leaves_its_example_out():
    numbers = np.array([[9, 0], [1, 2]])
    assert sites(taken, TABLE, numbers) == {"t"}
    summed = compiled(taken, TABLE, numbers)
    total = summed(numbers, 1.0)
    np.testing.assert_array_equal(total, summed(numbers, 1.0, np.array([False, True])))
    assert np.linalg.norm(total) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("columns", [np.array([1, 2**40]), np.array([1.0, 1e300])])
def test_values_that_the_working_precision_lacks_are_refused(columns):
    run = run_of(n=2, sampling=FullBatch())
    with pytest.raises(InputError, match=r"whole numbers beyond int32|not finite as float32"):
        train_network(run, lambda p, e: jnp.sum(p["t"]) * e, TABLE, columns)


@dataclass(frozen=True)
class Scaled:
    """A loss with an array inside has no hash."""

    scale: Any

    def __call__(self, params, example):
        return self.scale @ params["t"][:, 0] * example


def test_a_loss_that_cannot_be_compared_is_traced_each_time():
    examples = np.ones(2, np.float32)
    for k in range(2):
        scale = np.full(4, float(k + 1), np.float32)
        total = compiled(Scaled(scale), TABLE, examples)(examples, 100.0)
        np.testing.assert_allclose(total.reshape(4, 3)[:, 0], 2 * (k + 1), rtol=1e-6)


def test_equal_losses_at_equal_shapes_are_traced_once():
    assert record(indexed, TABLE, np.zeros(3, int)) is record(indexed, jax.tree.map(np.zeros_like, TABLE), np.ones(3, int))
    assert record(indexed, TABLE, np.zeros(3, int)) is not record(indexed, TABLE, np.zeros(4, int))


def test_numpy_parameters_are_looked_up_like_those_of_jax():
    table = {"t": np.ones((4, 3), np.float32), "v": np.ones(3, np.float32)}
    scored = lambda p, numbers: jnp.tanh(p["t"][numbers].mean(0) @ p["v"])  # noqa: E731
    score = jax.jit(lambda params, number: params["t"][number].sum())
    look = Validation(lambda params: float(score(params, 1) + params["t"][jnp.int32(2)].sum()), 1, "made up")
    numbers = np.random.default_rng(0).integers(0, 4, (40, 2))
    for trainable in (None, {"t": True, "v": False}):
        results = [
            train_network(run_of(steps=3), scored, params, numbers, trainable=trainable, validation=look, generator=seeded())
            for params in (table, jax.tree.map(jnp.asarray, table))
        ]
        np.testing.assert_array_equal(flat(results[0].params), flat(results[1].params))
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(results[0].params))


def test_a_product_of_double_rows_with_single_weights_is_clipped_at_any_clip_norm():
    """Its rows overflow the range in which squares of single precision stay."""
    with jax.enable_x64(True):

        def loss(params, example):
            x, big = example
            h = jax.lax.dot_general(x[None], params["w"], (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32)[0]
            return jnp.sum(jnp.where(x[0] > 1, 0.0, h)) + jnp.sum(params["b"] * big)

        params = {"w": np.zeros((2, 2), np.float32), "b": np.zeros(4, np.float32)}
        examples = np.full((6, 2), 1e170), np.full((6, 4), 3e38, np.float32)
        for clip_norm in (1e20, 1e25, 1e30):
            total = compiled(loss, params, examples)(examples, clip_norm, np.arange(6) == 0)
            assert np.linalg.norm(total) == pytest.approx(clip_norm, rel=0.01)
