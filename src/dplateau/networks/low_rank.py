"""``x @ (W + s A B)`` computed as ``x @ W + s (x @ A) @ B``, where the product A B is of weights and of low rank.

That is how low-rank adapters (LoRA) are written down. Taken literally, the gradient by A and B of every example goes through one by
the whole matrix ``W + s A B``. In the other order A and B are each used once, in a product with rows of the example
(``recorded.py``), and nothing of the size of W is formed for an example. Both are the same function but for its rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import jax
from jax import lax

from dplateau.networks.jaxprs import walked

Array: TypeAlias = Any


class Depends(IntEnum):
    """What a value depends on, at most."""

    NOTHING = 0
    WEIGHTS = 1
    EXAMPLE = 2


class Term(NamedTuple):
    """``scale * left @ right``; of each factor, which of its two axes is summed over."""

    factors: tuple[tuple[Array, int], tuple[Array, int]]
    scale: Array | None = None

    def scaled(self, by: Array, divided: bool) -> Term:
        """The term times a number, or divided by it."""
        one = 1.0 if self.scale is None else self.scale
        return self._replace(scale=one / by if divided else one * by)

    def formed(self) -> Array:
        """The matrix."""
        (left, a), (right, b) = self.factors
        return self._times(lax.dot_general(left, right, (((a,), (b,)), ((), ()))))

    def product(self, axis: int, other: Array, other_axis: int, first: bool, options: dict[str, Any]) -> Array:
        """The product of the matrix with ``other``, along these axes; ``first`` if the matrix is the first operand."""
        (near, summed), (far, last) = self.factors[axis], self.factors[1 - axis]
        if first:
            inner = lax.dot_general(near, other, (((1 - summed,), (other_axis,)), ((), ())), **options)
            return lax.dot_general(far, self._times(inner), (((last,), (0,)), ((), ())), **options)
        inner = lax.dot_general(other, near, (((other_axis,), (1 - summed,)), ((), ())), **options)
        return lax.dot_general(self._times(inner), far, (((inner.ndim - 1,), (last,)), ((), ())), **options)

    def _times(self, value: Array) -> Array:
        return value if self.scale is None else value * lax.convert_element_type(self.scale, value.dtype)


@dataclass(frozen=True, eq=False)
class Deferred:
    """A matrix of weights that nobody has formed yet: ``base`` plus terms of low rank."""

    terms: tuple[Term, ...]
    base: Array | None = None

    def formed(self) -> Array:
        """The matrix."""
        total = self.base
        for term in self.terms:
            total = term.formed() if total is None else total + term.formed()
        return total

    def plus(self, other: Deferred | Array) -> Deferred:
        """The sum with another matrix of weights."""
        terms, base = (other.terms, other.base) if isinstance(other, Deferred) else ((), other)
        both = [one for one in (self.base, base) if one is not None]
        return Deferred((*self.terms, *terms), both[0] + both[1] if len(both) == 2 else (both or [None])[0])

    def scaled(self, by: Array, divided: bool) -> Deferred:
        """The matrix times a number, or divided by it."""
        base = self.base if self.base is None else self.base / by if divided else self.base * by
        return Deferred(tuple(term.scaled(by, divided) for term in self.terms), base)

    def converted(self, dtype: Any) -> Deferred:
        """The matrix in another precision."""
        turn = lambda value: lax.convert_element_type(value, dtype)  # noqa: E731
        terms = tuple(term._replace(factors=tuple((turn(one), axis) for one, axis in term.factors)) for term in self.terms)
        return Deferred(terms, None if self.base is None else turn(self.base))

    def transposed(self) -> Deferred:
        """The matrix with its axes exchanged."""
        terms = tuple(term._replace(factors=term.factors[::-1]) for term in self.terms)
        return replace(self, terms=terms, base=None if self.base is None else self.base.T)

    def product(self, params: dict[str, Any], other: Array, first: bool) -> Array:
        """The ``dot_general`` of these parameters with ``other``; ``first`` if the matrix is the first operand."""
        contracted = params["dimension_numbers"][0]
        axis, other_axis = (contracted if first else contracted[::-1])[0][0], contracted[first][0]
        options = {name: params[name] for name in ("precision", "preferred_element_type")}
        parts = [term.product(axis, other, other_axis, first, options) for term in self.terms]
        if self.base is not None:
            operands = (self.base, other) if first else (other, self.base)
            parts.insert(0, lax.dot_general(*operands, params["dimension_numbers"], **options))
        total = parts[0]
        for part in parts[1:]:
            total = total + part
        return total


class Known(NamedTuple):
    """A value on the way, or a matrix that is not formed."""

    value: Any
    depends: Depends = Depends.NOTHING


def reassociated(jaxpr: Any, trained: int, weights: int) -> Any:
    """The same loss with such products in the other order; the jaxpr itself where there are none.

    Parameters
    ----------
    jaxpr : ClosedJaxpr
        A loss of trained leaves, frozen leaves and an example.
    trained, weights : int
        Number of trained leaves, and of all leaves.
    """
    used: list[bool] = []

    def rule(equation: Any, values: list[Known], evaluated: Callable[[list[Array]], list[Array]]) -> list[Known]:
        depends = max((one.depends for one in values), default=Depends.NOTHING)
        result = _deferred(equation, values, depends, used)
        found = evaluated([_formed(one) for one in values]) if result is None else [result]
        return [Known(one, depends) for one in found]

    def values(*given: Array) -> list[Array]:
        kinds = [Depends.WEIGHTS] * trained + [Depends.NOTHING] * (weights - trained)
        kinds += [Depends.EXAMPLE] * (len(given) - weights)
        known = [Known(value, kind) for value, kind in zip(given, kinds, strict=True)]
        return [_formed(one) for one in walked(jaxpr, known, Known, rule)]

    changed = jax.make_jaxpr(values)(*(jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in jaxpr.in_avals))
    return changed if used else jaxpr


def _deferred(equation: Any, values: list[Known], depends: Depends, used: list[bool]) -> Deferred | Array | None:
    """The result of an equation that makes such a matrix, goes on with it, or multiplies with it; None for all others."""
    matrices = [position for position, one in enumerate(values) if isinstance(one.value, Deferred)]
    name = equation.primitive.name
    if not matrices:
        return _low_rank(equation, values) if name == "dot_general" and depends is Depends.WEIGHTS else None
    at = matrices[0]
    matrix = values[at].value
    if len(values) == 1:
        if name == "transpose":
            return matrix.transposed()
        return matrix.converted(equation.params["new_dtype"]) if name == "convert_element_type" else None
    if len(values) != 2:
        return None
    other = values[1 - at]
    shape = getattr(other.value, "shape", ()) if len(matrices) == 1 else equation.outvars[0].aval.shape
    if name in ("add", "add_any") and depends is not Depends.EXAMPLE and shape == equation.outvars[0].aval.shape:
        return matrix.plus(other.value)
    if name in ("mul", "div") and depends is not Depends.EXAMPLE and shape == () and (name == "mul" or at == 0):
        return matrix.scaled(other.value, name == "div")
    if name == "dot_general" and len(matrices) == 1:
        contracted, batch = equation.params["dimension_numbers"]
        if not batch[0] and len(contracted[0]) == 1:
            used.append(True)
            return matrix.product(equation.params, other.value, at == 0)
    return None


def _low_rank(equation: Any, values: list[Known]) -> Deferred | None:
    """A product of two matrices of weights that has more entries than they have."""
    contracted, batch = equation.params["dimension_numbers"]
    shapes = [variable.aval.shape for variable in equation.invars]
    if batch[0] or len(contracted[0]) != 1 or any(len(shape) != 2 for shape in shapes):
        return None
    (a,), (b,) = contracted
    rows, columns = shapes[0][1 - a], shapes[1][1 - b]
    if shapes[0][a] * (rows + columns) >= rows * columns:
        return None
    return Deferred((Term(((values[0].value, a), (values[1].value, b))),))


def _formed(one: Known) -> Array:
    return one.value.formed() if isinstance(one.value, Deferred) else one.value
