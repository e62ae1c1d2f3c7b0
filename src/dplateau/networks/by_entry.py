"""Optimizers that treat every weight by itself, applied to slices of the weights.

Most optimizers do: SGD, momentum, Adam with weight decay. What they compute for an entry needs nothing of any other entry, so each
device can make the step of its own slices and keep the moving means of these alone. Others look at whole leaves (norms, factors of
matrices, checks of all numbers). Which kind it is can be read off the operations that an optimizer is made of, traced with the
shapes of the whole leaves, so that what it decides by shapes (no weight decay for vectors) stays as decided.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import optax

from dplateau.networks.jaxprs import walked

Array: TypeAlias = Any
Tree: TypeAlias = Any
Width: TypeAlias = Callable[[int], int]

# fmt: off
_BY_ENTRY: Final = frozenset({
    "abs", "add", "and", "cbrt", "ceil", "clamp", "convert_element_type", "copy", "cos", "div", "eq", "erf", "exp", "exp2", "expm1",
    "floor", "ge", "gt", "integer_pow", "is_finite", "le", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg",
    "not", "or", "pow", "rem", "round", "rsqrt", "select_n", "sign", "sin", "sqrt", "square", "stop_gradient", "sub", "tan",
    "tanh", "xor",
})
# fmt: on
"""Operations whose result has the shape of its operands, each entry made of those at its place."""


class _MixesError(Exception):
    """An entry would need others."""


class _Value(NamedTuple):
    """A value, and whether it stands for an array: a slice of one, or a number that all its entries are."""

    value: Array
    stands: bool = False


@dataclass(frozen=True, eq=False)
class ByEntry:
    """The update of an optimizer for slices; hashed by identity, since compiled functions depend on it."""

    traced: Any
    results: Any
    width: Width

    def update(self, gradient: Tree, state: Tree, params: Tree) -> tuple[Tree, Tree]:
        """What ``optimizer.update`` gives, all of slices."""
        inputs = [_Value(leaf, jnp.ndim(leaf) > 0) for leaf in jax.tree.leaves((gradient, state, params))]
        found = walked(self.traced, inputs, _Value, _with_slices)
        made = [self._made(one, aval) for one, aval in zip(found, self.traced.out_avals, strict=True)]
        return self.results.unflatten(made)

    def _made(self, one: _Value, aval: Any) -> Array:
        if not one.stands:
            if aval.ndim:
                raise _MixesError
            return one.value
        return jnp.broadcast_to(one.value, (self.width(math.prod(aval.shape)),))


def by_entry(optimizer: optax.GradientTransformation, params: Tree, state: Tree, width: Width) -> ByEntry | None:
    """The optimizer for slices, of which those of ``size`` numbers have ``width(size)``; None if it does not go by entries.

    ``params`` are the whole ones, ``state`` is its first state. Weights that are single numbers look like the state's own numbers
    (a count of steps), so with these it is None, too.
    """
    leaves = jax.tree.leaves((params, state, params))
    if any(jnp.ndim(leaf) == 0 for leaf in jax.tree.leaves(params)):
        return None
    traced, shapes = jax.make_jaxpr(optimizer.update, return_shape=True)(params, state, params)
    found = ByEntry(traced, jax.tree.structure(shapes), width)
    slices = [jax.ShapeDtypeStruct((width(leaf.size),) if jnp.ndim(leaf) else (), jnp.result_type(leaf)) for leaf in leaves]
    given = jax.tree.structure((params, state, params)).unflatten(slices)
    try:
        made = jax.eval_shape(found.update, *given)
    except _MixesError:
        return None
    kept = lambda tree: [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]  # noqa: E731
    return found if kept(made[1]) == kept(given[1]) else None


def _with_slices(equation: Any, values: list[_Value], evaluated: Callable[[list[Array]], list[Array]]) -> list[_Value]:
    """An equation of whole arrays with slices in their places."""
    if any(one.stands for one in values):
        return [_Value(_of_slices(equation, values), True)]
    if equation.primitive.name == "broadcast_in_dim" and jnp.ndim(values[0].value) == 0:
        return [_Value(values[0].value, True)]
    return [_Value(value) for value in evaluated([one.value for one in values])]


def _of_slices(equation: Any, values: Sequence[_Value]) -> Array:
    """The result of one equation some of whose operands are, or stand for, arrays."""
    if equation.primitive.name not in _BY_ENTRY or any(jnp.ndim(one.value) and not one.stands for one in values):
        raise _MixesError
    shape = jnp.broadcast_shapes(*(jnp.shape(one.value) for one in values))
    return equation.primitive.bind(*(jnp.broadcast_to(one.value, shape) for one in values), **equation.params)
