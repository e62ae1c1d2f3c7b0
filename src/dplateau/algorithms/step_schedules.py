"""Step sizes that fall, in the form ``eta_t = eta / b_t`` for t = 1, ..., T.

Source: Wu, Wang, Cristali, Gu, Willett, "Adaptive differentially private empirical risk minimization" (2021), sections 5.1 and 6.1.
The paper counts iterates from 0 and gives the step from the t-th of them the index t + 1: its b_{t+1} is what the step with the
number t + 1 divides by.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from dplateau.spec import InputError
from dplateau.spec.arguments import integer, real

LONGEST: Final = 10_000_000
"""Steps whose sizes are given one by one, at most: that takes a gigabyte."""


def polynomial_decay(steps: int, a: float, c: float, *, step_size: float = 1.0) -> tuple[float, ...]:
    """``eta_t = eta / sqrt(a + c t)`` for t = 1, ..., T: b_t = sqrt(a + c t).

    Parameters
    ----------
    steps : int
        T.
    a, c : float
        How b_t begins and grows; c = 0 gives equal steps. The paper trains with a = 20, c = 1.
    step_size : float, default 1.0
        eta.

    Returns
    -------
    tuple of float
        Step sizes, one a step.

    Raises
    ------
    InputError
        ``a`` or ``step_size`` is not positive, or ``c`` is negative.

    Source: Wu et al. 2021, section 5.1.

    Examples
    --------
    >>> [round(eta, 4) for eta in polynomial_decay(3, a=20, c=1)]
    [0.2182, 0.2132, 0.2085]
    """
    steps, a, c = integer("steps", steps, high=LONGEST), real("a", a), real("c", c, inclusive=True)
    return tuple((real("step_size", step_size) / np.sqrt(a + c * np.arange(1.0, steps + 1))).tolist())


def square_root_decay(steps: int, first: float, last: float) -> tuple[float, ...]:
    """``eta_t = first - r sqrt(t)`` for t = 1, ..., T, with the r at which eta_T is ``last``.

    Parameters
    ----------
    steps : int
        T.
    first : float
        What the steps fall from. The paper trains with 0.1.
    last : float
        eta_T, above 0 and at most ``first``. The paper trains with 1e-10.

    Returns
    -------
    tuple of float
        Step sizes, one a step.

    Raises
    ------
    InputError
        ``last`` is not positive, or exceeds ``first``.

    Source: Wu et al. 2021, section 6.1.

    Examples
    --------
    >>> [round(eta, 4) for eta in square_root_decay(4, first=0.1, last=0.02)]
    [0.06, 0.0434, 0.0307, 0.02]
    """
    steps, first, last = integer("steps", steps, high=LONGEST), real("first", first), real("last", last)
    if last > first:
        raise InputError(f"last {last:g} exceeds first {first:g}: the steps are meant to fall. Lower last, or exchange the two.")
    fallen = np.sqrt(np.arange(1.0, steps + 1) / steps)
    return tuple((first * (1 - fallen) + last * fallen).tolist())
