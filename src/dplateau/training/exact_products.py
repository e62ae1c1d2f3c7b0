"""Matrix products of whole numbers in double precision, which must be exact where they are computed."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np

from dplateau.spec import InputError

Array: TypeAlias = Any
Shape: TypeAlias = tuple[int, ...]


def accelerated() -> bool:
    """Whether an accelerator computes, and not the processors of the host."""
    return jax.default_backend() != "cpu"


def product(left: Array, right: Array) -> Array:
    """The matrix product of whole numbers, exact where no sum has more than 53 bits; a vector stands for one row or column.

    Accelerators add up products with a vector where the other numbers are made, so that no array of doubles is written for them.
    """
    if accelerated() and right.ndim == 1:
        return jnp.sum(left * right, axis=-1)
    if accelerated() and left.ndim == 1:
        return jnp.sum(left[:, None] * right, axis=0)
    return jnp.matmul(left, right, precision="highest")


def check_products(shapes: Iterable[tuple[Shape, Shape]]) -> None:
    """Raise ``InputError`` unless an accelerator's products of matrices of these shapes are those of 64-bit integers.

    They come from libraries that can be told to make them of less than double precision. On processors nothing is done.
    """
    if accelerated() and not all(_exact(*pair) for pair in shapes):
        raise InputError(
            "this accelerator does not add up whole numbers exactly in double precision, and the guarantee rests on that: its "
            "libraries may be set to emulate it (CUBLAS_EMULATE_DOUBLE_PRECISION). Switch that off, or train on processors."
        )


@cache
def _exact(left: Shape, right: Shape) -> bool:
    """Whether a product of matrices of large whole numbers is; asked once for each pair of shapes."""
    rng, bits = np.random.default_rng(0), 52 - math.ceil(math.log2(right[-2]))  # of a product: double precision can add up all
    sizes = (bits // 2, left), (bits - bits // 2, right)
    with jax.enable_x64(True):
        first, second = (rng.integers(-(1 << size), 1 << size, shape) for size, shape in sizes)
        return bool(_equal(first, first.swapaxes(-1, -2).copy(), second))


@jax.jit
def _equal(left: Array, turned: Array, right: Array) -> Array:
    """Whether the product is exact, also where ``left`` lies ``turned`` in memory, as in sums over records."""
    whole, doubles = jnp.matmul(left, right), right.astype(float)
    found = [product(one.astype(float), doubles) == whole for one in (left, turned.swapaxes(-1, -2))]
    return jnp.all(found[0] & found[1])
