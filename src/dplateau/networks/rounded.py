"""Per-example gradients clipped and rounded to integers, and their exact sum.

The gradients come as arrays that were computed before, by another compiled function: norm and rounding read the same bits. Then,
example by example (``docs/proofs/arithmetic.md``):

- of a product at one place, x' g, the input x becomes whole numbers m of a few bits, times a power of two; its norm is |m| |g|;
- the squares of all gradients are added up in double precision, right to one part in 2^52 for each term in any order;
- the gradients are multiplied by one factor and rounded to the nearest integers. That moves each entry by at most 1/2, which the
  factor allows for: the *rounded* gradient is at most ``lattice.room`` long;
- an example whose norm is not finite contributes zeros, in the same pass.

Integers are added in double precision: exactly, whatever the order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from dplateau.networks.lattice import Lattice

Array: TypeAlias = Any

_SLACK: Final = 2.0**-30
"""Taken from the factor: covers a division and a root that are right to 2^-32 only, where 2^-52 is usual."""


class Formed(NamedTuple):
    """Gradients of B examples by a weight, shape (B, ...)."""

    values: Array


class Factors(NamedTuple):
    """Gradients of B examples as products of an input (B, K) and a derivative (B, O)."""

    inputs: Array
    values: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Rows:
    """Gradients by a table of ``height`` rows: row numbers (B, P), and what is added to these rows, shape (B, P, O).

    Equal numbers of one example have their sum at one of their places, and zeros at the others.
    """

    numbers: Array
    values: Array
    height: int = field(metadata={"static": True})


Gradient: TypeAlias = Formed | Factors | Rows


class _Scaled(NamedTuple):
    """A gradient as ``magnitude * multiples * values``, with whole multiples whose squares add up to ``weight``."""

    values: Array
    multiples: Array | None
    weight: Array
    magnitude: Array


def rounded_sum(gradients: Sequence[Gradient], used: Array, lattice: Lattice) -> tuple[list[Array], Array, Array]:
    """Sum of the clipped and rounded gradients of the ``used`` examples, in units; to be traced with 64 bits.

    Parameters
    ----------
    gradients : sequence of Gradient
        One for each leaf of the parameters.
    used : array of bool, shape (B,)
        Which examples count.
    lattice : Lattice
        The public lattice.

    Returns
    -------
    sums : list of arrays
        The sum for each leaf, float64 integers in one row.
    count : array
        Number of used examples whose gradient is finite.
    factors : array of shape (B,)
        What each example was multiplied by; 0 where it was left out.
    """
    scaled = [_scaled(gradient, lattice.input_bits) for gradient in gradients]
    largest = jnp.max(jnp.stack([one.magnitude for one in scaled]), axis=0)
    largest = jnp.where(largest == 0, 1.0, largest)
    shares = [one.magnitude / largest for one in scaled]
    squared = sum(one.weight * _squares(one.values) * share**2 for one, share in zip(scaled, shares, strict=True))
    entries = [math.prod(one.values.shape[1:]) for one in scaled]
    lost = jnp.sqrt(sum(one.weight * size for one, size in zip(scaled, entries, strict=True))) * (0.5 * (1 + _SLACK))
    slack = _SLACK + sum(entries) * 2.0**-51
    room = lattice.room - lost
    factors = jnp.minimum(largest * (2.0**lattice.bits / lattice.clip_norm), room / jnp.sqrt(squared) * (1 - slack))
    # The second line does not trust the root and the division: two products decide.
    valid = used & (room > 0) & jnp.isfinite(squared) & jnp.isfinite(largest)
    valid &= factors * factors * squared * (1 + slack) <= room * room
    factors = jax.lax.optimization_barrier(jnp.where(valid, factors, 0.0))
    sums = [
        _total(gradient, one, factors * share, valid).reshape(-1)
        for gradient, one, share in zip(gradients, scaled, shares, strict=True)
    ]
    return sums, jnp.sum(valid, dtype=jnp.int64), factors


def _scaled(gradient: Gradient, bits: int) -> _Scaled:
    """Gradients in double precision, normalised by powers of two where squares could leave its range."""
    values, ones = gradient.values, jnp.ones(len(gradient.values), jnp.float64)
    wide = values.dtype == jnp.float64
    values = values.astype(jnp.float64)
    powers = _powers(values) if wide else ones
    values = values / _across(jnp.where(powers == 0, 1.0, powers), values) if wide else values
    if not isinstance(gradient, Factors):
        return _Scaled(values, None, ones, powers)
    inputs = gradient.inputs.astype(jnp.float64)
    heights = _powers(inputs)
    multiples = jnp.rint(inputs / _across(jnp.where(heights == 0, 1.0, heights), inputs) * 2.0**bits)
    return _Scaled(values, multiples, _squares(multiples), heights * 2.0**-bits * powers)


def _powers(values: Array) -> Array:
    """The power of two at or above the largest entry of each example; 0 where that is below the normal range."""
    return _power(jnp.max(jnp.abs(values.reshape(len(values), -1)), axis=1, initial=0.0))


def _power(largest: Array) -> Array:
    return jnp.where(largest < 2.0**-1020, 0.0, jnp.ldexp(1.0, jnp.frexp(largest)[1]))


def _squares(values: Array) -> Array:
    flat = values.reshape(len(values), -1)
    return jnp.sum(flat * flat, axis=1)


def _across(each: Array, values: Array) -> Array:
    """One number for each example, in the shape that multiplies ``values``."""
    return each.reshape(-1, *(1 for _ in values.shape[1:]))


def _total(gradient: Gradient, scaled: _Scaled, factors: Array, valid: Array) -> Array:
    """The exact sum of the rounded gradients."""
    integers = jnp.where(_across(valid, scaled.values), jnp.rint(scaled.values * _across(factors, scaled.values)), 0.0)
    if isinstance(gradient, Factors):
        multiples = jnp.where(valid[:, None], scaled.multiples, 0.0)
        return jnp.matmul(multiples.T, integers, precision="highest")
    if isinstance(gradient, Rows):
        width = integers.shape[-1]
        table = jnp.zeros((gradient.height, width), jnp.float64)
        return table.at[gradient.numbers.reshape(-1)].add(integers.reshape(-1, width), mode="promise_in_bounds")
    return jnp.sum(integers, axis=0)
