"""The compiled inner loop: noisy gradient steps of a generalised linear model."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Run
from dplateau.training.grid import Grid

Array: TypeAlias = Any  # numpy on the way in, jax inside


class Data(NamedTuple):
    """The records: ``features`` (n, d), ``target`` (n,) and ``largest`` (n,), the residual norm that each is clipped to."""

    features: Array
    target: Array
    largest: Array


class Constants(NamedTuple):
    """What all steps share: ``l2`` (one a row of the weights), ``momentum``, ``radius`` of the ball and ``spacing`` of the grid."""

    l2: Array
    momentum: Array
    radius: Array
    spacing: Array


def constants_of(run: Run, grid: Grid, l2: NDArray[np.float64], momentum: float, shape: tuple[int, ...], dtype: str) -> Constants:
    """The constants of a run for weights of ``shape``, with the l2 coefficient of each feature."""
    return Constants(
        l2=l2.astype(dtype).reshape(len(l2), *(1 for _ in shape[1:])),
        momentum=np.asarray(momentum, dtype),
        radius=np.asarray(math.inf if run.diameter is None else run.diameter / 2, dtype),
        spacing=np.float64(grid.spacing),
    )


class Chunk(NamedTuple):
    """What differs between steps, with unused entries after the last of ``steps``.

    ``records`` is the padded list of all batches (None: every step uses every record), of which step t takes ``counts[t]`` from
    ``starts[t]``; ``noise`` (chunk, *weights) is already on the grid; the result is the mean of iterates in which a new one gets
    ``weight[t]`` and the old mean the rest (1: the last iterate itself).
    """

    steps: int
    records: Array
    starts: Array
    counts: Array
    noise: Array
    divisor: Array
    step_size: Array
    weight: Array


class State(NamedTuple):
    """What a step hands to the next: arrays of the weights' shape."""

    weights: Array
    velocity: Array
    mean: Array


class Block(NamedTuple):
    """Records of consecutive batches: ``features`` (k, d), ``target`` (k,), and ``clip_norm``, what gradients are clipped to."""

    features: Array
    target: Array
    clip_norm: Array


def clipped_sum(loss: GeneralisedLinearLoss, weights: jax.Array, data: Data, used: jax.Array | None = None) -> jax.Array:
    """Sum over the examples of their clipped gradients, in two matrix products; examples not ``used`` add exactly nothing."""
    dot = partial(jnp.dot, precision=jax.lax.Precision.HIGHEST)
    residual = loss.residual(dot(data.features, weights), data.target)
    factor = jnp.minimum(1, data.largest / loss.residual_norm(residual))
    if used is not None:
        factor = jnp.where(used, factor, 0)
    return dot((residual.T * factor), data.features).T


def _stepped(state: State, total: jax.Array, step: jax.Array, chunk: Chunk, constants: Constants) -> State:
    """The state after a step on the summed gradient ``total``."""
    weights, velocity, mean = state
    dtype = weights.dtype
    total = total.astype(constants.spacing.dtype)
    total = jnp.round(total / constants.spacing) * constants.spacing + chunk.noise[step]  # exact, see grid.py
    velocity = constants.momentum * velocity + ((total / chunk.divisor[step]).astype(dtype) + constants.l2 * weights)
    weights = weights - chunk.step_size[step] * velocity
    weights = weights * jnp.minimum(1, constants.radius / jnp.linalg.norm(weights))
    mean = (1 - chunk.weight[step]) * mean + chunk.weight[step] * weights
    return State(weights, velocity, mean)


@partial(jax.jit, static_argnames=("loss", "capacity", "keep"))
def run_chunk(
    state: State, data: Data, chunk: Chunk, constants: Constants, *, loss: GeneralisedLinearLoss, capacity: int, keep: bool
) -> tuple[State, Array]:
    """Take ``chunk.steps`` steps; with ``keep``, also return the iterates, shape ``(chunk, *weights)``.

    Batches have room for ``capacity`` records. The number of steps is no part of the compiled shape, nor is any batch size.
    """

    def gradient(weights: jax.Array, step: jax.Array) -> jax.Array:
        if chunk.records is None:
            return clipped_sum(loss, weights, data)
        batch = jax.lax.dynamic_slice(chunk.records, (chunk.starts[step],), (capacity,))
        rows = Data(*(column.at[batch].get(mode="promise_in_bounds") for column in data))
        return clipped_sum(loss, weights, rows, jnp.arange(capacity, dtype=chunk.counts.dtype) < chunk.counts[step])

    def body(step: jax.Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        state, iterates = carry
        state = _stepped(state, gradient(state.weights, step), step, chunk, constants)
        return state, None if iterates is None else iterates.at[step].set(state.weights)

    iterates = jnp.zeros(chunk.noise.shape, state.weights.dtype) if keep else None
    return jax.lax.fori_loop(0, chunk.steps, body, (state, iterates))


@partial(jax.jit, static_argnames=("loss", "capacity", "keep"))
def run_block(
    state: State,
    longest: Array,
    block: Block,
    chunk: Chunk,
    constants: Constants,
    *,
    loss: GeneralisedLinearLoss,
    capacity: int,
    keep: bool,
) -> tuple[State, Array, Array]:
    """As ``run_chunk``, on batches that follow one another in a block of records, each of which is read once.

    ``longest`` is the largest norm of a row so far; the returned one takes the new rows in, and is NaN or infinite if one of them
    is not finite.
    """

    def body(step: jax.Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, longest, iterates = carry
        used = jnp.arange(capacity, dtype=chunk.counts.dtype) < chunk.counts[step]
        rows = jax.lax.dynamic_slice_in_dim(block.features, chunk.starts[step], capacity)
        target = jax.lax.dynamic_slice_in_dim(block.target, chunk.starts[step], capacity)
        # What lies beyond the batch is another's, or not even finite.
        rows = jnp.where(used[:, None], rows, 0).astype(state.weights.dtype)
        wide = rows.astype(longest.dtype)  # norms are in double precision, whatever the working precision
        ones = jnp.ones(wide.shape[1], wide.dtype)
        norms = jnp.sqrt(jnp.dot(wide * wide, ones, precision=jax.lax.Precision.HIGHEST))  # faster than a sum over rows
        data = Data(rows, target.astype(rows.dtype), (block.clip_norm / norms).astype(rows.dtype))
        state = _stepped(state, clipped_sum(loss, state.weights, data, used), step, chunk, constants)
        longest = jnp.maximum(longest, jnp.max(jnp.where(used, norms, 0)))
        return state, longest, None if iterates is None else iterates.at[step].set(state.weights)

    iterates = jnp.zeros(chunk.noise.shape, state.weights.dtype) if keep else None
    return jax.lax.fori_loop(0, chunk.steps, body, (state, longest, iterates))
