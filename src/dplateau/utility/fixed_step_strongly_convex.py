"""Fixed steps on a strongly convex function: a mean of the iterates with growing weights.

Source: Feldman, Koren, Talwar 2020, Lemma 5.2, with m/2 where m is printed and without its ``eta m <= 1/2``
(``docs/explanation/utility.md``).
"""

from __future__ import annotations

import math

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real


def start_weight(steps: int, step_size: float, strong_convexity: float) -> float:
    """What the squared distance of the start is multiplied by in ``fixed_step_risk``."""
    steps, rate = integer("steps", steps), decay_rate(step_size, strong_convexity)
    if rate == 0:
        return 1 / (2 * float(step_size) * steps)
    return strong_convexity / 2 * math.exp(-rate * steps) / -math.expm1(-rate * steps)


def decay_rate(step_size: float, strong_convexity: float) -> float:
    """``-log(1 - eta m)``."""
    contraction = real("step_size", step_size) * real("strong_convexity", strong_convexity, inclusive=True)
    if contraction >= 1:
        raise InputError(f"step_size x strong_convexity is {contraction:g}: expected less than 1. Lower step_size.")
    # A product that is rounded up would leave less of the start than there is: a smaller m is allowed.
    return -math.log1p(-contraction * (1 - 2.0**-52))
