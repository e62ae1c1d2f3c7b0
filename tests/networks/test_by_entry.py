"""Optimizers on slices of the weights: as on whole leaves, or not at all."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dplateau.networks import adagrad_norm, noisy_adam, noisy_sgd
from dplateau.networks.by_entry import by_entry
from dplateau.networks.loop import State, stepped

from .small import start

MATRICES = lambda params: jax.tree.map(lambda leaf: leaf.ndim > 1, params)  # noqa: E731
BY_ENTRY = {
    "sgd": optax.sgd(0.1, momentum=0.9, nesterov=True),
    "noisy_sgd": noisy_sgd(optax.cosine_decay_schedule(0.1, 100), momentum=0.5),
    "noisy_adam": noisy_adam(0.05, m0=0.1, u0=0.2),
    "adam": optax.adam(optax.warmup_cosine_decay_schedule(0.0, 0.1, 3, 100)),
    "no decay of vectors": optax.adamw(0.05, weight_decay=0.3, mask=MATRICES),
    "rules by leaf": optax.multi_transform({"a": optax.adam(0.1), "b": optax.rmsprop(0.1)}, {"w": "a", "b": "b", "v": "b"}),
    "pieces": optax.chain(optax.clip(0.5), optax.sgd(optax.piecewise_constant_schedule(0.1, {3: 0.5}))),
    "yogi": optax.yogi(0.1),
    "lion": optax.lion(0.01),
    "schedule-free": optax.contrib.schedule_free_adamw(0.1),
}
WHOLE = {
    "norm of all": optax.chain(optax.clip_by_global_norm(1.0), optax.sgd(0.1)),
    "norm of a leaf": optax.lamb(0.1),
    "factors of matrices": optax.adafactor(0.1, min_dim_size_to_factor=2),
    "one step size": adagrad_norm(),
    "all finite": optax.apply_if_finite(optax.sgd(0.1), 3),
    "an array of its own": optax.stateless(lambda g, p: jax.tree.map(lambda one: one * np.arange(1.0, 5.0, dtype=np.float32), g)),
    "random numbers": optax.chain(optax.add_noise(0.1, 0.5, key=0), optax.sgd(0.1)),
    "centred": optax.chain(optax.centralize(), optax.sgd(0.1)),
    "sorted": optax.stateless(lambda g, p: jax.tree.map(lambda one: jnp.sort(one, axis=0), g)),
    "turned": optax.stateless(lambda g, p: jax.tree.map(lambda one: one[::-1], g)),
}


def in_slices(tree, devices):
    """The slices that each device has of arrays."""

    def cut(leaf, device):
        if not leaf.ndim:
            return leaf
        width = -(-leaf.size // devices)
        return jnp.pad(leaf.reshape(-1), (0, width * devices - leaf.size))[device * width : (device + 1) * width]

    return [jax.tree.map(lambda leaf, device=device: cut(leaf, device), tree) for device in range(devices)]


@pytest.mark.parametrize("devices", [1, 2, 5])
@pytest.mark.parametrize("name", BY_ENTRY)
def test_slices_take_the_steps_of_whole_leaves(name, devices):
    optimizer, params = BY_ENTRY[name], jax.tree.map(jnp.asarray, start())
    first = optimizer.init(params)
    sliced = by_entry(optimizer, params, first, lambda size: -(-size // devices))
    assert sliced is not None
    rng, whole, parts = np.random.default_rng(0), State(params, first, params), in_slices(State(params, first, params), devices)
    for k in range(8):
        gradient = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), jnp.float32), params)
        weight, rows = np.float32(1 / (k + 1)), lambda tree: [leaf.reshape(-1) for leaf in jax.tree.leaves(tree)]
        whole = stepped(whole, rows(gradient), np.float32(0), weight, optimizer=optimizer)
        parts = [
            stepped(part, rows(own), np.float32(0), weight, optimizer=sliced)
            for part, own in zip(parts, in_slices(gradient, devices), strict=True)
        ]
    for part, expected in zip(parts, in_slices(whole, devices), strict=True):
        assert jax.tree.structure(part) == jax.tree.structure(expected)
        for one, other, padded in zip(*map(jax.tree.leaves, (part, expected, in_slices(whole, devices)[0])), strict=True):
            assert one.shape == other.shape == padded.shape
            filled = np.asarray(other) != 0  # what fills a slice up may be anything
            np.testing.assert_allclose(np.asarray(one)[filled], np.asarray(other)[filled], rtol=2e-5, atol=1e-6)
    moved = max(float(jnp.max(jnp.abs(a - b))) for a, b in zip(*map(jax.tree.leaves, (whole.params, params)), strict=True))
    assert moved > 1e-3


@pytest.mark.parametrize("name", WHOLE)
def test_optimizers_that_look_at_other_entries_are_told_apart(name):
    params = {"w": jnp.ones((3, 4))}
    optimizer = WHOLE[name]
    assert by_entry(optimizer, params, optimizer.init(params), lambda size: -(-size // 2)) is None


def test_weights_that_are_single_numbers_have_no_slices():
    params = {"w": jnp.ones((3, 4)), "temperature": jnp.ones(())}
    assert by_entry(optax.adam(0.1), params, optax.adam(0.1).init(params), lambda size: -(-size // 2)) is None


def test_a_state_that_changes_its_shape_has_no_slices():
    """Single numbers at first, an array for each weight later."""
    growing = optax.GradientTransformation(lambda _: jnp.zeros(()), lambda g, state, _: (g, state + g["w"]))
    params = {"w": jnp.ones((3, 4))}
    assert by_entry(growing, params, growing.init(params), lambda size: -(-size // 2)) is None
