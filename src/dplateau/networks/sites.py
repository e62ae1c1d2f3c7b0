"""The ways in which a network uses a weight that need no per-example gradient: products, convolutions, look-ups."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.networks.patches import Patches, patches_of
from dplateau.networks.rounded import Factors, Formed, Gradient, Rows
from dplateau.training.exact_products import accelerated

Array: TypeAlias = Any


def site_of(equation: Any, position: int) -> Site | None:
    """How the equation uses the weight that is its operand number ``position``; None if in none of these ways."""
    shapes = [tuple(variable.aval.shape) for variable in equation.invars]
    match equation.primitive.name:
        case "dot_general":
            return _product(equation.params, shapes, position)
        case "conv_general_dilated" if position == 1 and (found := patches_of(equation.params, *shapes)) and found.groups == 1:
            return Product(shapes[1], len(shapes[1]) - 1, found.weight_axes, patches=found)
        case "gather" if position == 0:
            return _look_up(equation.params, *shapes)
        case "dynamic_slice" if position == 0 and len(shapes[0]) == 2 and equation.params["slice_sizes"] == (1, shapes[0][1]):
            return LookUp(shapes[0], (1,))
        case _:
            return None


@dataclass(frozen=True, eq=False)
class Product:
    """A matrix product of the rows X (P, K) of an example with a weight W (K, O); a convolution is one, with patches as rows.

    Attributes
    ----------
    shape : tuple of int
        Shape of the weight.
    summed : int
        Number of its axes that are summed over.
    weight_axes : tuple of int
        The weight's axes, first those summed over.
    rows_axes : tuple of int
        The other operand's axes, last those summed over.
    places : tuple of int
        Sizes of the other axes, of which P is the product.
    weight_first : bool
        Whether the weight is the first operand.
    """

    shape: tuple[int, ...]
    summed: int
    weight_axes: tuple[int, ...]
    rows_axes: tuple[int, ...] = ()
    places: tuple[int, ...] = ()
    weight_first: bool = False
    patches: Patches | None = None

    def forward(self, weight: Array, other: Array, dtype: Any) -> tuple[Array, Array]:
        """The result at one example, shape (P, O) and type ``dtype``, and what is kept of the other operand, with P in front."""
        k = math.prod(self.shape[axis] for axis in self.weight_axes[: self.summed])
        rows = self.patches(other) if self.patches else other.transpose(self.rows_axes).reshape(math.prod(self.places), k)
        return jnp.matmul(rows, weight.transpose(self.weight_axes).reshape(k, -1), preferred_element_type=dtype), rows

    def result(self, product: Array) -> Array:
        """The result of the equation, from shape (P, O)."""
        if self.patches:
            return self.patches.result(product)
        product = product.reshape(self.places + tuple(self.shape[axis] for axis in self.weight_axes[self.summed :]))
        first = len(self.places) if self.weight_first else 0
        return product.transpose([*range(first, product.ndim), *range(first)])

    def footprint(self, places: int, outputs: int) -> int:
        """Numbers that one example adds to memory, roughly, for a result of shape (P, O)."""
        size = math.prod(self.shape)
        return places * (size // outputs + 2 * outputs) + (size if places > 1 else 0)

    def gradients(self, kept: Array, derivatives: Array) -> Gradient:
        """The gradients at B examples; ``derivatives`` are those by the results, (B, P, O).

        X and G at one place; at several their product, because anything less suffers cancellation in its norm.
        """
        if kept.shape[1] == 1:
            return Factors(kept[:, 0], derivatives[:, 0])
        return Formed(jnp.matmul(derivatives.swapaxes(1, 2), kept))  # transposed: processors multiply faster in this order

    def arranged(self, total: Array) -> Array:
        """A sum of such gradients, as one row in the order of the weight's entries."""
        axes = [self.shape[axis] for axis in self.weight_axes]
        if math.prod(self.patches.places if self.patches else self.places) != 1:
            total = total.reshape(math.prod(axes[self.summed :]), -1).T
        return total.reshape(axes).transpose(np.argsort(self.weight_axes)).reshape(-1)


@dataclass(frozen=True)
class LookUp:
    """Rows of a table, such as an embedding, by number; with the methods of ``Product``.

    Attributes
    ----------
    shape : tuple of int
        Shape of the table.
    places : tuple of int
        Shape of the numbers.
    fills : bool
        Whether a number that no row has gives NaN; otherwise the nearest row.
    """

    shape: tuple[int, int]
    places: tuple[int, ...]
    fills: bool = False

    def forward(self, weight: Array, other: Array, dtype: Any) -> tuple[Array, Array]:
        asked = other.reshape(-1)
        # A table may have more rows than the type of the numbers can name.
        numbers = jnp.clip(asked, 0, min(self.shape[0] - 1, jnp.iinfo(asked.dtype).max))
        rows = weight.at[numbers].get(mode="promise_in_bounds")
        rows = rows.astype(dtype)
        return jnp.where((numbers == asked)[:, None], rows, jnp.nan) if self.fills else rows, numbers

    def result(self, product: Array) -> Array:
        return product.reshape(*self.places, -1)

    def footprint(self, places: int, outputs: int) -> int:
        return places * (1 + 3 * outputs + accelerated() * places)

    def gradients(self, kept: Array, derivatives: Array) -> Gradient:
        """The numbers, perhaps sorted, and the sum of the derivatives of each at its first place; zeros at the others."""
        return Rows(*jax.vmap(_compared if accelerated() else _added_up)(kept, derivatives), self.shape[0])

    def arranged(self, total: Array) -> Array:
        return total


Site: TypeAlias = Product | LookUp
"""The one use of a leaf of the parameters."""


def _added_up(numbers: Array, derivatives: Array) -> tuple[Array, Array]:
    """The derivatives of equal numbers added up: what is rounded is the gradient by a row, not its parts."""
    order = jnp.argsort(numbers)
    numbers = numbers[order]
    first = jnp.append(True, numbers[1:] != numbers[:-1])
    part = jnp.cumsum(first) - 1
    sums = jax.ops.segment_sum(derivatives[order], part, len(numbers), indices_are_sorted=True)
    return numbers, jnp.where(first[:, None], sums[part], 0)


def _compared(numbers: Array, derivatives: Array) -> tuple[Array, Array]:
    """The same by comparing all numbers: on GPUs the order of a sum by number depends on other examples, or on chance."""
    equal = numbers[:, None] == numbers
    first = jnp.argmax(equal, axis=1) == jnp.arange(len(numbers))
    return numbers, jnp.matmul((equal & first[:, None]).astype(derivatives.dtype), derivatives, precision="highest")


def _product(params: Any, shapes: list[tuple[int, ...]], position: int) -> Product | None:
    contracted, batch = params["dimension_numbers"]
    if batch[0]:
        return None
    weight, other = shapes[position], shapes[1 - position]
    mine, theirs = tuple(contracted[position]), tuple(contracted[1 - position])
    kept = tuple(axis for axis in range(len(weight)) if axis not in mine)
    rest = tuple(axis for axis in range(len(other)) if axis not in theirs)
    return Product(weight, len(mine), mine + kept, rest + theirs, tuple(other[axis] for axis in rest), position == 0)


def _look_up(params: Any, weight: tuple[int, ...], numbers: tuple[int, ...]) -> LookUp | None:
    """A gather of whole rows of a matrix."""
    how, modes = params["dimension_numbers"], jax.lax.GatherScatterMode
    rows = tuple(params["slice_sizes"]) == (1, *weight[1:]) and tuple(how.collapsed_slice_dims) == (0,)
    last = tuple(how.offset_dims) == (len(numbers) - 1,) and tuple(how.start_index_map) == (0,)
    fills, value = params["mode"] is modes.FILL_OR_DROP, params["fill_value"]
    if len(weight) != 2 or not rows or not last or (fills and value is not None and not math.isnan(value)):
        return None
    return LookUp((weight[0], weight[1]), numbers[:-1], fills)
