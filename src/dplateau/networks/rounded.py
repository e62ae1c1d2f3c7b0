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
from dplateau.training.exact_products import accelerated, product
from dplateau.training.integers import power_of_two

Array: TypeAlias = Any

_LARGE: Final = 1 << 10
"""Numbers of a gradient from which on processors add up the integers of one example after the other."""
_SLACK: Final = 2.0**-30
"""Taken from the factor: covers a division and a root that are right to 2^-32 only, where 2^-52 is usual."""


class Formed(NamedTuple):
    """Gradients of B examples by a weight, shape (B, ...)."""

    values: Array


class Factors(NamedTuple):
    """Gradients of B examples as products of an input and a derivative: (B, K) and (B, O)."""

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


class Multipliers(NamedTuple):
    """What the gradient of each example by one leaf is multiplied by, of shape (B,), and the whole numbers of its inputs, (B, K).

    ``power`` is a power of two. It and ``inputs`` are None where there is nothing to normalise. Where ``values`` is 0 the example
    is left out.
    """

    inputs: Array | None
    power: Array | None
    values: Array


def multipliers(gradients: Sequence[Gradient], used: Array, lattice: Lattice) -> tuple[list[Multipliers], Array]:
    """What turns the gradients into integers of a norm of at most ``lattice.room``; to be traced with 64 bits.

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
    multipliers : list of Multipliers
        One for each leaf.
    valid : array of bool, shape (B,)
        Which of the used examples have a finite gradient.
    """
    found = [_normalised(gradient, lattice.input_bits) for gradient in gradients]
    largest = jnp.max(jnp.stack([magnitude for _, magnitude in found]), axis=0)
    largest = jnp.where(largest == 0, 1.0, largest)
    shares = [magnitude / largest for _, magnitude in found]
    squared, lost = jnp.zeros(len(used), jnp.float64), jnp.zeros(len(used), jnp.float64)
    for gradient, (how, _), share in zip(gradients, found, shares, strict=True):
        weight = 1.0 if how.inputs is None else jnp.sum(how.inputs**2, axis=1)
        squared += weight * _squares(_values(gradient, how)) * share**2
        lost += weight * math.prod(gradient.values.shape[1:])
    room = lattice.room - jnp.sqrt(lost) * (0.5 * (1 + _SLACK))
    slack = _SLACK + sum(math.prod(gradient.values.shape[1:]) for gradient in gradients) * 2.0**-51
    factors = jnp.minimum(largest * (2.0**lattice.bits / lattice.clip_norm), room / jnp.sqrt(squared) * (1 - slack))
    # Not trusting the root and the division: two products decide.
    valid = used & (room > 0) & jnp.isfinite(squared) & jnp.isfinite(largest)
    valid &= factors * factors * squared * (1 + slack) <= room * room
    factors = jnp.where(valid, factors, 0.0)
    return [how._replace(values=factors * share) for (how, _), share in zip(found, shares, strict=True)], valid


def added_up(
    before: Sequence[Array], gradients: Sequence[Gradient], found: Sequence[Multipliers], valid: Array, lattice: Lattice
) -> list[Array]:
    """What was added up ``before``, a row for each leaf and one for the count, and the rounded gradients of a microbatch."""
    *sums, count = before
    tally = jnp.sum(valid, dtype=jnp.float64)[None] * lattice.tally
    return [*map(rounded_sum, gradients, found, sums), count + tally]


def rounded_sum(gradient: Gradient, how: Multipliers, before: Array) -> Array:
    """The exact sum of the rounded gradients by one leaf, in units and in one row, and of what was added up ``before``.

    To be traced with 64 bits.
    """
    match gradient:
        case Factors():
            assert how.inputs is not None
            turned = how.inputs.T
            if not accelerated():  # XLA's kernel for doubles takes nearly twice as long unless it finds them written like that.
                turned = jax.lax.optimization_barrier(turned)
            return before + product(turned, _integers(gradient, how)).reshape(-1)
        case Rows(numbers=numbers, values=values, height=height):
            # Accelerators add integers in any order as they come; of other numbers they would have to find an order first.
            whole, width = jnp.int64 if accelerated() else jnp.float64, values.shape[-1]
            table = before.reshape(height, width).astype(whole)
            integers = _integers(gradient, how).reshape(-1, width).astype(whole)
            return table.at[numbers.reshape(-1)].add(integers, mode="promise_in_bounds").astype(jnp.float64).reshape(-1)
        case Formed(values=values):
            if accelerated() or math.prod(values.shape[1:]) < _LARGE:
                return before + product(jnp.ones(len(values)), _flat(_integers(gradient, how)))
            return _one_by_one(gradient, how, before)


def _one_by_one(gradients: Formed, how: Multipliers, before: Array) -> Array:
    """The sum on a processor, of one example after the other: the integers of all would take twice the memory of the gradients."""

    def added(k: Array, total: Array) -> Array:
        one = jax.tree.map(lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, k, 1), (gradients, how))
        return total + _integers(*one).reshape(-1)

    return jax.lax.fori_loop(0, len(gradients.values), added, before, unroll=2)


def _integers(gradient: Gradient, how: Multipliers) -> Array:
    values, valid = _values(gradient, how), how.values > 0
    return jnp.where(across(valid, values), jnp.rint(values * across(how.values, values)), 0.0)


def _normalised(gradient: Gradient, bits: int) -> tuple[Multipliers, Array]:
    """How inputs and derivatives are normalised, and the magnitude that is left: ``magnitude * multiples * values``."""
    ones = jnp.ones(len(gradient.values), jnp.float64)
    power, inputs, magnitude = None, None, ones
    double = [gradient.values.dtype, *([gradient.inputs.dtype] if isinstance(gradient, Factors) else [])]
    if jnp.float64 in double:  # Squares of single precision stay within the range of double precision.
        power, magnitude = _inverse(_flat(gradient.values))
    if isinstance(gradient, Factors):
        inverse, height = _inverse(gradient.inputs)
        inputs = jnp.rint(gradient.inputs.astype(jnp.float64) * (inverse * 2.0**bits)[:, None])
        # An example that has others is left out, as its height is infinite, but 0 times NaN is NaN.
        inputs = jnp.where(jnp.isfinite(inputs), inputs, 0.0)
        magnitude = height * 2.0**-bits * magnitude
    return Multipliers(inputs, power, ones), magnitude


def _inverse(values: Array) -> tuple[Array, Array]:
    """For each example, a row of ``values``, the inverse of the power of two at or above its largest entry, and that power.

    What is below 2^-1000 is taken for 0, what is above 2^1000 or no number for infinite, which leaves the example out.
    """
    largest = jnp.max(jnp.abs(values), axis=1, initial=0.0).astype(jnp.float64)
    exponent = jnp.clip(jnp.frexp(largest)[1].astype(jnp.int64), -1000, 1000)
    power = jnp.where(largest < 2.0**-1000, 0.0, jnp.where(largest <= 2.0**1000, power_of_two(exponent), jnp.inf))
    return power_of_two(-exponent), power


def _values(gradient: Gradient, how: Multipliers) -> Array:
    values = gradient.values.astype(jnp.float64)
    return values if how.power is None else values * across(how.power, values)


def _squares(values: Array) -> Array:
    return jnp.sum(_flat(values) ** 2, axis=1)


def _flat(values: Array) -> Array:
    return values.reshape(len(values), -1)


def across(each: Array, values: Array) -> Array:
    """One number for each example, in the shape that multiplies ``values``."""
    return each.reshape(-1, *(1 for _ in values.shape[1:]))
