"""What a guarantee is worth, by two rules that are the same everywhere: the usual delta, and from which epsilon on it is weak."""

from __future__ import annotations

import warnings
from typing import Final

from dplateau.spec.errors import WeakPrivacyWarning

LARGEST_DELTA: Final = 1e-5
WEAK: Final = 10.0
"""The largest epsilon that guidance calls reasonable: Ponomareva et al. 2023, "How to DP-fy ML"."""


def usual_delta(n: int) -> float:
    """The delta where none is given: ``min(1e-5, 1 / (10 n))`` for n records.

    At 1/n it would allow to publish one record in full.
    """
    return min(LARGEST_DELTA, 1 / (10 * n))


def weakness(epsilon: float) -> str | None:
    """Why an epsilon promises little; None up to 10."""
    if epsilon <= WEAK:
        return None
    return f"an epsilon above {WEAK:g} promises little: taken alone, it allows an attacker to be nearly certain about a row."


def warn_if_weak(epsilon: float) -> None:
    """Give a ``WeakPrivacyWarning`` at the caller's caller where an epsilon that is to be spent promises little."""
    if (said := weakness(epsilon)) is not None:
        warnings.warn(f"epsilon is {epsilon:g}: {said}", WeakPrivacyWarning, stacklevel=4)
