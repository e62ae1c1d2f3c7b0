"""The compiled inner loop: noisy gradient steps of a generalised linear model.

A step sums whole numbers and adds noise in whole numbers (``dplateau.training.integers``). Where all iterates are accounted for,
what follows is arithmetic on what is released anyway. Where only the last one is, the iterate before the noise is rounded to the
grid of the noise (``dplateau.training.last_iterate``).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from numpy.typing import NDArray

from dplateau.losses import GeneralisedLinearLoss
from dplateau.spec import Run
from dplateau.training.cluster import ALONE, APART, AXIS, SAME, Slices
from dplateau.training.errors import TrainingDiverged
from dplateau.training.exact_products import accelerated
from dplateau.training.groups import group_of, in_groups
from dplateau.training.integers import Array, Bits, Rows, bits_of, block_of, cut, encoded, integer_sum, noise_bits_of, unpacked
from dplateau.training.last_iterate import LARGEST_MOVE, lattice_of
from dplateau.training.placed import Layout, Ranges, placed


class Constants(NamedTuple):
    """What all steps share.

    ``l2`` (one a row of the weights), ``momentum`` and ``radius`` of the ball; ``per_unit``, units of the summed gradient in 1;
    ``unit`` of the noise: on the summed gradient, which is ``shift`` bits finer, or, for last iterates, on the weights; ``share``
    of the clip norm that gradients may use; ``box``, the largest weight of a last iterate, in units.
    """

    l2: Array
    momentum: Array
    radius: Array
    per_unit: Array
    unit: Array
    shift: Array
    share: Array
    box: Array


class Arithmetic(NamedTuple):
    """How a run is computed: its ``bits`` and its ``constants``."""

    bits: Bits
    constants: Constants

    def started(self, weights: NDArray[np.float64]) -> NDArray[Any]:
        """The weights as steps keep them."""
        if not self.bits.trailing:
            return weights
        return np.clip(np.rint(weights / self.constants.unit), -float(self.constants.box), float(self.constants.box)).astype(
            np.int64
        )

    def released(self, weights: NDArray[Any]) -> NDArray[np.float64]:
        """The weights as numbers."""
        return weights * self.constants.unit if self.bits.trailing else weights

    def check(self, weights: NDArray[np.float64]) -> None:
        """Raise ``TrainingDiverged`` where released weights are not finite, or stand at the end of their room."""
        end = float(self.constants.box * self.constants.unit) if self.bits.trailing else math.inf
        if not (abs(weights) < end).all():
            room = "" if math.isinf(end) else f" or beyond {end:.3g}, which is all the room that last-iterate bounds leave them"
            raise TrainingDiverged(
                f"the weights are no longer finite{room}: lower step_size or momentum, or give the run a diameter. "
                "Nothing was released."
            )


def arithmetic_of(
    run: Run, loss: GeneralisedLinearLoss, l2: NDArray[np.float64], momentum: float, start: NDArray[np.float64]
) -> Arithmetic:
    """The arithmetic of a run from its first weights on, with the l2 coefficient of each feature.

    Raises
    ------
    InputError
        See ``bits_of``, ``noise_bits_of`` and ``lattice_of``.
    """
    shape, size = start.shape, start.size
    bits = bits_of(run, shape[0], trailing=run.is_last_iterate)
    shift, box = 0, 0
    if bits.trailing:
        lattice = lattice_of(run, loss, bits, shape, float(l2.max()), float(abs(start).max()))
        unit, share, box = lattice.unit, lattice.share, lattice.box
    else:
        noise_bits, share = noise_bits_of(run, bits, size)
        unit, shift = run.clip_norm * 2.0**-noise_bits, bits.gradient - noise_bits
    # A norm of so many numbers may be computed too small by this share.
    radius = math.inf if run.diameter is None else run.diameter / 2 * (1 - (size + 8) * 2.0**-53)
    constants = Constants(
        l2=l2.reshape(len(l2), *(1 for _ in shape[1:])),
        momentum=np.float64(momentum),
        radius=np.float64(radius),
        per_unit=np.float64(2.0**bits.gradient / run.clip_norm),
        unit=np.float64(unit),
        shift=np.int64(shift),
        share=np.float64(share),
        box=np.int64(box),
    )
    return Arithmetic(bits, constants)


class How(NamedTuple):
    """What a loop is compiled for, beside shapes: the loss, the bits, whether iterates are kept, how devices share a step."""

    loss: GeneralisedLinearLoss
    bits: Bits
    keep: bool
    slices: Slices = ALONE


class Chunk(NamedTuple):
    """What differs between steps, with unused entries after the last of ``steps``.

    ``records`` is the padded list of all batches (None: every step uses every record), of which step t takes ``counts[t]`` from
    ``starts[t]``; ``noise`` (chunk, *weights) is in whole units (see ``Constants``); the result is the mean of iterates in which a
    new one gets ``weight[t]`` and the old mean the rest (1: the last iterate itself).
    """

    steps: int | Array
    records: Array
    starts: Array
    counts: Array
    noise: Array
    divisor: Array
    step_size: Array
    weight: Array


SHARED: Final = ("records", "starts", "counts", "noise")
"""What of a chunk differs between devices."""
_PLACES: Final = Chunk(*(APART if name in SHARED else SAME for name in Chunk._fields))


class State(NamedTuple):
    """What a step hands to the next: arrays of the weights' shape."""

    weights: Array
    velocity: Array
    mean: Array


class Block(NamedTuple):
    """Records of consecutive batches: ``features`` (k, d), ``target`` (k,) and, of persons, ``sizes`` (k,): how many rows the
    person of each row has.

    Where there are ``ranges``, ``features`` are plain numbers, (p, k), of which the loop makes rows (``dplateau.training.placed``).
    """

    features: Array
    target: Array
    sizes: Array | None = None
    ranges: Ranges | None = None


def _stepped(state: State, sums: jax.Array, step: jax.Array, chunk: Chunk, constants: Constants, how: How) -> State:
    """The state after a step on the summed gradient ``sums``, in whole units: each device adds the noise of its own slice."""
    slices = how.slices
    sums = slices.scattered(sums)
    if how.bits.trailing:
        return _last_iterate_step(state, sums, step, chunk, constants, how)
    weights, velocity, mean = state
    rounded = (sums[0] + ((1 << constants.shift) >> 1)) >> constants.shift
    noisy = slices.gathered(rounded + chunk.noise[step].astype(sums.dtype), weights.shape).astype(weights.dtype) * constants.unit
    velocity = constants.momentum * velocity + (noisy / chunk.divisor[step] + constants.l2 * weights)
    weights = weights - chunk.step_size[step] * velocity
    weights = weights * jnp.minimum(1, constants.radius / jnp.linalg.norm(weights))
    mean = (1 - chunk.weight[step]) * mean + chunk.weight[step] * weights
    return State(weights, velocity, mean)


def _last_iterate_step(state: State, sums: jax.Array, step: jax.Array, chunk: Chunk, constants: Constants, how: How) -> State:
    """The same for weights in whole units of their noise: what moves them is rounded, not they.

    Each device computes its own slice of the next weights, so that all have the same, however their processors round.
    """
    shape, slices = state.weights.shape, how.slices
    noise, units = chunk.noise[step], slices.own(state.weights, shape)
    total = (sums[0].astype(noise.dtype) + sums[1].astype(noise.dtype) * 2.0**-how.bits.trailing) / constants.per_unit
    weights = units.astype(noise.dtype) * constants.unit
    move = chunk.step_size[step] * (total / chunk.divisor[step] + slices.own(constants.l2, shape) * weights)
    move = jnp.rint(jnp.clip(move / constants.unit, -LARGEST_MOVE, LARGEST_MOVE))
    units = jnp.clip(units - move.astype(units.dtype) + noise.astype(units.dtype), -constants.box, constants.box)
    norm = _norm(slices.gathered(units, shape).astype(noise.dtype)) * constants.unit
    inside = jnp.rint(units.astype(noise.dtype) * (constants.radius / norm)).astype(units.dtype)
    units = slices.gathered(jnp.where(norm > constants.radius, inside, units), shape)
    return State(units, state.velocity, units)


def _norm(weights: jax.Array) -> jax.Array:
    """The Euclidean norm, summed in pairs: it errs by half a rounding for every doubling of the size, not for every weight."""
    squares = jnp.ravel(weights) ** 2
    squares = jnp.pad(squares, (0, (1 << (squares.size - 1).bit_length()) - squares.size))
    while squares.size > 1:
        squares = squares[: squares.size // 2] + squares[squares.size // 2 :]
    return jnp.sqrt(squares[0])


def _numbers(weights: Array, constants: Constants) -> Array:
    """The weights of a state as numbers; those of last iterates are whole units."""
    return weights.astype(jnp.float64) * constants.unit if weights.dtype == jnp.int64 else weights


def _in_blocks(
    weights: Array, count: Array, summed: Callable[[Array, Array, Array], tuple[Array, Array]], bits: Bits, block: int
) -> tuple[Array, Array]:
    """The sum over ``count`` records, ``block`` at a time, and the longest row.

    ``summed(first, whole, unit)`` has both for the records from number ``first`` on.
    """
    whole, unit = cut(weights, bits)

    def body(k: Array, found: tuple[Array, Array]) -> tuple[Array, Array]:
        total, longest = summed(k * block, whole, unit)
        return found[0] + total, jnp.maximum(found[1], longest)

    if isinstance(count, int) and count <= block:
        found = summed(0, whole, unit)
    else:
        nothing = jnp.zeros((len(whole), *whole.shape[:0:-1]), jnp.int64), jnp.zeros(())
        found = jax.lax.fori_loop(0, -(-count // block), body, nothing)
    return found[0].swapaxes(1, -1), found[1]


@partial(jax.jit, static_argnames=("how", "capacity"))
def run_chunk(
    state: State, data: tuple[Array, ...], chunk: Chunk, constants: Constants, *, how: How, capacity: int
) -> tuple[State, Array]:
    """Take ``chunk.steps`` steps; with ``how.keep``, also return the iterates, shape ``(chunk, *weights)``.

    Batches have room for ``capacity`` records; where every step uses all records, their number is a multiple of the block's, or
    below it. The number of steps is not part of the compiled shape, nor is any batch size.
    """
    loss, bits = how.loss, how.bits
    block = min(block_of(data[0].shape[1], loss.outputs), capacity or len(data[0]))
    everything = unpacked(data) if chunk.records is None else None
    if everything is not None and accelerated() and loss.outputs > 1 and len(data[0]) <= block:
        # Matrix products read doubles: they are written once, and not by every step.
        everything = everything._replace(features=everything.features.astype(jnp.float64))

    def gradient(weights: jax.Array, step: jax.Array) -> jax.Array:
        def summed(first: Array, whole: Array, unit: Array) -> tuple[Array, Array]:
            if everything is not None:
                rows, used = Rows(*(jax.lax.dynamic_slice_in_dim(column, first, block) for column in everything)), None
            else:
                batch = jax.lax.dynamic_slice(chunk.records, (chunk.starts[step] + first,), (block,))
                rows = unpacked(tuple(part.at[batch].get(mode="promise_in_bounds") for part in data))
                used = jnp.arange(block) < chunk.counts[step] - first
            return integer_sum(loss, whole, unit, rows, constants.per_unit, bits, used), jnp.zeros(())

        count = len(data[0]) if chunk.records is None else capacity if capacity <= block else chunk.counts[step]
        return _in_blocks(_numbers(weights, constants), count, summed, bits, block)[0]

    def body(step: jax.Array, carry: tuple[State, Array]) -> tuple[State, Array]:
        before, iterates = carry
        state = _stepped(before, gradient(before.weights, step), step, chunk, constants, how)
        if group_of(len(chunk.noise)) > 1:
            state = State(*(jnp.where(step < chunk.steps, new, old) for new, old in zip(state, before, strict=True)))
        return state, None if iterates is None else iterates.at[step].set(state.weights)

    iterates = jnp.zeros((len(chunk.noise), *state.weights.shape)) if how.keep else None
    return in_groups(chunk.steps, body, (state, iterates), len(chunk.noise))


@partial(jax.jit, static_argnames=("mesh", "how", "capacity"))
def run_shared_chunk(
    state: State, data: tuple[Array, ...], chunk: Chunk, constants: Constants, *, mesh: Mesh, how: How, capacity: int
) -> tuple[State, Array]:
    """As ``run_chunk``, on the records of all devices of a mesh.

    ``data`` and the chunk's ``records``, ``starts``, ``counts`` and ``noise`` have one part for each device along the first axis;
    the noise is that of the device's slice, of shape (chunk, slice). All else is the same everywhere.
    """

    def own(state: State, data: tuple[Array, ...], chunk: Chunk, constants: Constants) -> tuple[State, Array]:
        mine = how._replace(slices=Slices(mesh.size))
        return run_chunk(state, _first(data), _own(chunk), constants, how=mine, capacity=capacity)

    shared = jax.shard_map(own, mesh=mesh, in_specs=(SAME, APART, _PLACES, SAME), out_specs=SAME, check_vma=False)
    return shared(state, data, chunk, constants)


def _own(chunk: Chunk) -> Chunk:
    """A chunk of all devices, on one of them."""
    return chunk._replace(**{name: _first(getattr(chunk, name)) for name in SHARED})


def _first(parts: Any) -> Any:
    """What a device finds of arrays that have one part for each."""
    return jax.tree.map(lambda one: one[0], parts)


@partial(jax.jit, static_argnames=("how", "capacity", "layout"))
def run_block(
    state: State,
    longest: Array,
    block: Block,
    chunk: Chunk,
    constants: Constants,
    *,
    how: How,
    capacity: int,
    layout: Layout | None,
) -> tuple[State, Array, Array]:
    """As ``run_chunk``, on batches that follow one another in a block of records, each of which is read once.

    ``longest`` is the largest norm of a row so far; the returned one takes the new rows in, and is NaN or infinite if one of them
    is not finite. ``layout`` belongs to the block's ``ranges``.
    """
    loss, bits = how.loss, how.bits
    if layout is None:
        size = min(block_of(block.features.shape[1], loss.outputs), capacity)
    else:
        size = min(block_of(layout.d, loss.outputs, columns=True), capacity)

    def body(step: jax.Array, carry: tuple[State, Array, Array]) -> tuple[State, Array, Array]:
        state, longest, iterates = carry

        def summed(first: Array, whole: Array, unit: Array) -> tuple[Array, Array]:
            used = jnp.arange(size) < chunk.counts[step] - first
            if layout is not None:
                return _of_columns(whole, unit, block, chunk.starts[step] + first, used, constants, how, layout)
            rows = jax.lax.dynamic_slice_in_dim(block.features, chunk.starts[step] + first, size)
            target = jax.lax.dynamic_slice_in_dim(block.target, chunk.starts[step] + first, size)
            sizes = None if block.sizes is None else jax.lax.dynamic_slice_in_dim(block.sizes, chunk.starts[step] + first, size)
            # What lies beyond the batch is another's, or not even finite.
            data, norms = encoded(jnp.where(used[:, None], rows, 0), target, bits, constants.share, sizes)
            return integer_sum(loss, whole, unit, data, constants.per_unit, bits, used), jnp.max(norms)

        total, largest = _in_blocks(
            _numbers(state.weights, constants), capacity if capacity <= size else chunk.counts[step], summed, bits, size
        )
        state = _stepped(state, total, step, chunk, constants, how)
        return state, jnp.maximum(longest, largest), None if iterates is None else iterates.at[step].set(state.weights)

    iterates = jnp.zeros((len(chunk.noise), *state.weights.shape)) if how.keep else None
    return jax.lax.fori_loop(0, chunk.steps, body, (state, longest, iterates))


def _of_columns(
    whole: Array, unit: Array, block: Block, first: Array, used: Array, constants: Constants, how: How, layout: Layout
) -> tuple[Array, Array]:
    """The sum over the records from number ``first`` on that are ``used``, and the longest row, from plain numbers."""
    assert block.ranges is not None
    numbers = jax.lax.dynamic_slice_in_dim(block.features, first, len(used), axis=1)
    target = jax.lax.dynamic_slice_in_dim(block.target, first, len(used))
    rows = placed(jnp.where(used, numbers, 0), block.ranges, layout)
    data, norms = encoded(rows, target, how.bits, constants.share, columns=True)
    places = None if layout.places == tuple(range(layout.d)) else np.array(layout.places)
    some = whole if places is None else whole[:, places]
    total = integer_sum(how.loss, some, unit, data, constants.per_unit, how.bits, used, columns=True)
    if places is not None:
        total = jnp.zeros((*total.shape[:-1], layout.d), total.dtype).at[..., places].set(total)
    return total, jnp.max(jnp.where(used, norms, 0))


@partial(jax.jit, static_argnames=("mesh", "how", "capacity"))
def run_shared_block(
    state: State, longest: Array, block: Block, chunk: Chunk, constants: Constants, *, mesh: Mesh, how: How, capacity: int
) -> tuple[State, Array, Array]:
    """As ``run_block``, on a block of each device of a mesh; ``longest`` is the largest norm of all, infinite if one is not finite.

    The block, and the chunk's ``starts``, ``counts`` and ``noise``, have one part for each device along the first axis; all else is
    the same everywhere.
    """

    def own(state: State, longest: Array, block: Block, chunk: Chunk, constants: Constants) -> tuple[State, Array, Array]:
        mine = how._replace(slices=Slices(mesh.size))
        state, largest, iterates = run_block(
            state, longest, _first(block), _own(chunk), constants, how=mine, capacity=capacity, layout=None
        )
        return state, jax.lax.pmax(jnp.where(jnp.isfinite(largest), largest, jnp.inf), AXIS), iterates

    inside = (SAME, SAME, APART, _PLACES, SAME)
    return jax.shard_map(own, mesh=mesh, in_specs=inside, out_specs=SAME, check_vma=False)(state, longest, block, chunk, constants)
