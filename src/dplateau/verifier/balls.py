"""Ball arithmetic: numbers with a bound on their error, through every operation (Arb, by python-flint).

A ball is ``middle +- radius``. What is computed from balls is a ball that holds the true value, whatever was rounded on the way.
``a < b`` is true only if every number of a lies below every number of b; so a comparison that fails decides nothing, and every
branch on one must be safe where it is false.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Final

from flint import arb, ctx, fmpq

BITS: Final = 160
"""Working precision. Tails near 1e-30 keep thirty digits."""


@contextmanager
def precision(bits: int = BITS) -> Iterator[None]:
    """Work with so many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def exact(value: float | Fraction | arb) -> arb:
    """The ball of a double, a whole number or a fraction: of radius 0 but for a fraction. A ball stays what it is."""
    return arb(fmpq(value.numerator, value.denominator)) if isinstance(value, Fraction) else arb(value)


def above(x: arb) -> arb:
    """The mass of N(0, 1) above x."""
    return (x / arb(2).sqrt()).erfc() / 2


def density(x: arb) -> arb:
    """The density of N(0, 1) at x."""
    return (-x * x / 2).exp() / (2 * arb.pi()).sqrt()


def largest(*values: arb) -> arb:
    """The ball of the largest of the values."""
    found = values[0]
    for value in values[1:]:
        found = found.max(value)
    return found


def gaussian_delta(mu: arb, epsilon: arb) -> arb:
    """delta of mu-GDP at epsilon (Balle, Wang 2018, Theorem 8)."""
    if mu.is_zero():
        return arb(0)
    return above(epsilon / mu - mu / 2) - epsilon.exp() * above(epsilon / mu + mu / 2)


def room_for_delta(epsilon: float, share: Fraction, most: Fraction) -> float:
    """``most - e^epsilon share``, rounded down: with a delta up to it, an event whose probability is ``share`` on one data set has
    at most the probability ``most`` on a neighbouring one (Wasserman, Zhou 2010). 0 where nothing is left.
    """
    with precision():
        left = exact(most) - exact(epsilon).exp() * exact(share)
        return max(math.nextafter(float(left.lower()), -math.inf), 0.0) if left.is_finite() else 0.0
