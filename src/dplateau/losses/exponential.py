"""The exponential function, computed so that a record's loss does not depend on where in a batch it stands.

Compilers treat the end of an array otherwise than its middle: they may call another exponential function there, or fuse a product
and a sum into one operation that rounds once. The results then differ in the last place, and one record more shifts all others.
Here every operation is exact, or is rounded once and feeds no sum: look-ups, products, one difference that is exact.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import jax.numpy as jnp
import numpy as np

Array: TypeAlias = Any

ERROR: Final = 2.0**-48
"""Most by which ``exp_of_minus`` misses the exponential, and a quotient of its values the exact quotient."""
_PLACES: Final = 49
_FURTHEST: Final = 60
"""The rest of the range: below 2^-52 all is zero."""
_TABLES: Final = tuple(np.array([math.exp(-i * 2.0 ** (6 - 11 * (k + 1))) for i in range(1 << 11)], np.float64) for k in range(3))
"""``exp(-t)`` for t = i / 32, i / 2^16 and i / 2^27."""


def exp_of_minus(values: Array, places: int = 52) -> Array:
    """``exp(-t)`` of numbers t >= 0 in double precision, on the grid ``2^-places``, at most ``2^-places + ERROR`` off.

    Raises
    ------
    TypeError
        In single precision the tables would be read in the wrong places.
    """
    if values.dtype != jnp.float64:
        raise TypeError("exp_of_minus takes double precision: call it under jax.enable_x64(True).")
    whole = jnp.rint(jnp.minimum(values, _FURTHEST) * 2.0**_PLACES).astype(jnp.int64)
    first, second, third = (
        jnp.asarray(table).at[(whole >> (44 - 11 * k)) & 2047].get(mode="promise_in_bounds") for k, table in enumerate(_TABLES)
    )
    rest = 1 - (whole & ((1 << 22) - 1)).astype(values.dtype) * 2.0**-_PLACES  # exact; exp(-r) = 1 - r + r^2/2, with r < 2^-27
    return jnp.rint(first * second * third * rest * 2.0**places) * 2.0**-places
