"""Normal numbers from random words, by the method of Box and Muller: array operations that a compiler turns into one loop.

Three words of 64 bits give two numbers. U and W are one uniform number u = (U + (W + 1/2) 2^-64) 2^-64, and V is an angle. With
r = sqrt(-2 log u), the numbers r cos(2 pi V 2^-64) and -r sin(2 pi V 2^-64) are independent and standard normal, but for rounding:
each is off by at most r 2^-49 + 2^-63, except for words of probability 2^-79 (``docs/proofs/normals.md``). Logarithm and cosine are
written out as sums, products and quotients, so that the bound holds wherever double precision follows IEEE 754, whatever the
compiler fuses.

Why 128 bits of u: where U is below 2^28, neighbouring values of r for U alone lie further apart than the units of the noise, and an
observer sees which ones can occur. That would happen once in 2^36 pairs; with W it happens once in 2^100.

Source: G. E. P. Box, M. E. Muller, "A note on the generation of random normal deviates", 1958. The polynomials are fits of ours.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import jax
import jax.numpy as jnp

Array: TypeAlias = Any

WORDS: Final = 3
"""Words that a pair of normal numbers takes."""

_ROOT_HALF: Final = 0x3FE6A09E667F3BCD
_LOG_2: Final = (762123384785 * 2.0**-40, 7.371002565167799e-13)
"""log(2) in two parts; a whole number below 2^12 times the first is exact."""
_LOGARITHM: Final = (
    0.6666666666666698,
    0.399999999996144,
    0.28571428703160534,
    0.22222202224789103,
    0.18183389137439365,
    0.1531823921672291,
    0.1475642569079355,
)
_COSINE: Final = (
    0.0416666666666666,
    -0.0013888888888874257,
    2.4801587289555998e-05,
    -2.7557314371727337e-07,
    2.087572571248046e-09,
    -1.1359766161569028e-11,
)
_SINE: Final = (
    -0.16666666666666602,
    0.008333333333316541,
    -0.00019841269825969296,
    2.7557312554371212e-06,
    -2.5050601477802775e-08,
    1.5888647169712525e-10,
)


def normals(words: Iterable[Array]) -> tuple[Array, Array]:
    """Standard normal numbers from random words; to be traced with 64 bits.

    Parameters
    ----------
    words : array of uint64, shape (3, pairs), or three arrays
        The words U, W and V of every pair.

    Returns
    -------
    two arrays of float64, shape (pairs,)
        One number of each pair, and the other.
    """
    high, low, angle = words
    radius = _radius(high, low)
    return radius * _cosine(angle), radius * _cosine(angle + jnp.uint64(1 << 62))


def _radius(high: Array, low: Array) -> Array:
    """``sqrt(-2 log u)``; near u = 1 from 1 - u, which keeps all of its bits."""
    rest = (low.astype(jnp.float64) + 0.5) * 2.0**-64
    bits = jax.lax.bitcast_convert_type(high.astype(jnp.float64) + rest, jnp.int64)
    exponent = (bits - _ROOT_HALF) >> 52  # u = m 2^(exponent - 64) with m from sqrt(1/2) to sqrt(2)
    mantissa = jax.lax.bitcast_convert_type(bits - (exponent << 52), jnp.float64)
    below_one = (high.astype(jnp.int64).astype(jnp.float64) + rest) * 2.0**-64
    f, power = jnp.where(exponent == 64, below_one, mantissa - 1), (exponent - 64).astype(jnp.float64)
    s, half = f / (2 + f), f * f / 2
    tail = half - (s * (half + _polynomial(_LOGARITHM, s * s) * (s * s)) + power * _LOG_2[1])
    return jnp.sqrt(-2 * (power * _LOG_2[0] - (tail - f)))


def _cosine(angle: Array) -> Array:
    """The cosine of an angle in units of 2^-64 turns, from the nearest multiple of a quarter turn."""
    whole = angle.astype(jnp.int64)
    quarter = (whole + (1 << 61)) >> 62
    t = (whole - (quarter << 62)).astype(jnp.float64) * (2 * math.pi * 2.0**-64)
    square = t * t
    cosine = 1 - (square / 2 - square * square * _polynomial(_COSINE, square))
    sine = t + t * square * _polynomial(_SINE, square)
    values = jnp.where(quarter & 1 == 0, cosine, sine)
    return jnp.where((quarter + 1) & 2 == 0, values, -values)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    value = jnp.full_like(x, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * x + coefficient
    return value
