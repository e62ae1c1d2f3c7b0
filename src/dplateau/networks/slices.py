"""``LeafSlices``: how devices share the step of a network, of whose weights each has a slice of every leaf.

The sums of the devices' records are added and scattered; each device adds the noise of its own slices, makes the step of these,
and keeps what the optimizer remembers of them; the new weights are gathered. An optimizer that looks at whole leaves gets the
whole noisy gradient instead, on every device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from dplateau.networks.by_entry import ByEntry
from dplateau.networks.clipped_sums import with_noise
from dplateau.networks.loop import State, stepped
from dplateau.networks.noise import Halves
from dplateau.training.cluster import APART, AXIS, SAME, Slices

Array: TypeAlias = Any
Tree: TypeAlias = Any

_NARROW: Final = float(2**31 - 1)
_TOGETHER: Final = 1 << 20
"""Numbers that are sent at once, at least: fewer wait for one another, more take memory."""


class LeafSlices(NamedTuple):
    """Slices of leaves of these ``shapes``, and of one more number, which is the first device's.

    All slices of a leaf have one size, the last ones filled up with zeros. Devices know their place in an axis.
    """

    devices: int
    shapes: tuple[tuple[int, ...], ...]

    def width(self, size: int) -> int:
        """Numbers of a slice of so many."""
        return Slices(self.devices).size((size,))

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of the slices that a device has."""
        return tuple(self.width(math.prod(shape)) for shape in (*self.shapes, ()))

    @property
    def total(self) -> int:
        """Numbers of all slices that a device has."""
        return sum(self.widths)

    def own(self, leaf: Array) -> Array:
        """The own slice of a whole leaf."""
        return Slices(self.devices).own(leaf, leaf.shape)

    def scattered(self, leaves: Sequence[Array]) -> list[Array]:
        """The own slices of the sums of all devices' leaves, in rows of whole numbers; few leaves are sent at a time."""
        found: list[Array] = []
        for some in _together(leaves):
            parts = [Slices(self.devices).parted(leaf[None])[0] for leaf in some]
            own = self._sent(jnp.concatenate(parts, axis=1).reshape(-1))
            found += jnp.split(own, _places([part[0] for part in parts]))
        return found

    def _sent(self, row: Array) -> Array:
        """The own part of the sum of all devices' rows; where there are many numbers and they fit, in half the bytes."""

        def sent(kind: Any) -> Array:
            return Slices(self.devices).scattered(row.astype(kind)[None])[0].astype(row.dtype)

        if row.size < _TOGETHER:  # to ask the others would take as long
            return sent(row.dtype)
        fits = jax.lax.pmax(jnp.max(jnp.abs(row), initial=0.0), AXIS) * self.devices <= _NARROW
        return jax.lax.cond(fits, lambda: sent(jnp.int32), lambda: sent(row.dtype))

    def gathered(self, slices: Sequence[Array]) -> list[Array]:
        """The whole leaves, and after them the number, if its slice is given."""
        found: list[Array] = []
        for some in _together(slices, self.devices):
            row = jnp.concatenate(some)
            rows = Slices(self.devices).gathered(row, (self.devices * len(row),)).reshape(self.devices, -1)
            found += [part.reshape(-1) for part in jnp.split(rows, _places(some), axis=1)]
        return [one[: math.prod(shape)].reshape(shape) for one, shape in zip(found, (*self.shapes, ()), strict=False)]


class Way(NamedTuple):
    """How the step is made: by slices where ``optimizer`` goes by entries, or is None; otherwise on the whole weights.

    Where it is made by slices, devices keep the whole parameters too, or, if ``apart``, slices only.
    """

    slices: LeafSlices
    apart: bool
    optimizer: optax.GradientTransformation | ByEntry | None
    dtype: Any
    x64: bool

    @property
    def by_slices(self) -> bool:
        """Whether devices keep slices of the state, and not all of it."""
        return self.optimizer is None or isinstance(self.optimizer, ByEntry)

    def specs(self, state: State) -> State:
        """How the arrays of a state are divided among the devices: a row of all slices has a slice for each."""

        def spread(part: Tree, apart: Callable[[Any], bool]) -> Tree:
            return jax.tree.map(lambda leaf: APART if self.by_slices and apart(leaf) else SAME, part)

        inner = spread(state.optimizer, lambda leaf: leaf.ndim > 0)  # a count of steps has no slices
        return State(spread(state.params, lambda _: self.apart), inner, spread(state.mean, lambda _: True))

    def whole(self, params: Tree) -> Tree:
        """The parameters for a gradient, of what a device keeps."""
        if not (self.by_slices and self.apart):
            return params
        leaves, structure = jax.tree.flatten(params)
        return structure.unflatten(self.slices.gathered(leaves))


def shared_step(
    state: State, sums: Sequence[Array], noise: Halves, scale: Array, step_size: Array, weight: Array, *, way: Way
) -> tuple[State, Array]:
    """The state after a step of all devices, and the noisy count; to be traced with 64 bits, where devices are an axis.

    ``sums`` are the own slices of all records' sums, the last one of the count, ``noise`` is that of the own slices.
    """
    slices, dtype = way.slices, way.dtype
    mean, tally = with_noise(sums, noise, scale, dtype)
    tally = tally[None].astype(dtype)
    leaves, structure = jax.tree.flatten(state.params)
    with jax.enable_x64(way.x64):
        if not way.by_slices:
            *rows, count = slices.gathered([*mean, tally])
            return stepped(state, [row.reshape(-1) for row in rows], step_size, weight, optimizer=way.optimizer), count
        own = state if way.apart else state._replace(params=structure.unflatten(map(slices.own, leaves)))
        new = stepped(own, mean, step_size, weight, optimizer=way.optimizer)
        if way.apart:
            return new, jax.lax.all_gather(tally[0], AXIS)[0]
        *leaves, count = slices.gathered([*jax.tree.leaves(new.params), tally])
        return new._replace(params=structure.unflatten(leaves)), count


def _places(rows: Sequence[Array]) -> list[int]:
    """Where one row after another is divided."""
    return list(accumulate(map(len, rows)))[:-1]


def _together(leaves: Sequence[Array], devices: int = 1) -> Iterator[list[Array]]:
    """Leaves, or slices that so many devices have, which are sent together: one large one, or several small ones."""
    group: list[Array] = []
    for leaf in leaves:
        group.append(leaf)
        if devices * sum(one.size for one in group) >= _TOGETHER:
            yield group
            group = []
    if group:
        yield group
