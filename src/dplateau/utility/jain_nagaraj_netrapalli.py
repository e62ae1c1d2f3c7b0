"""Steps that are halved whenever half of what is left is done (Jain, Nagaraj, Netrapalli)."""

from __future__ import annotations

import math

import numpy as np

from dplateau.spec.arguments import integer, real
from dplateau.spec.steps import Array


def jnn_step_sizes(steps: int, c: float) -> Array:
    """``c 2^-i / sqrt(T)`` for ``T_i < t <= T_{i+1}``, where ``T_i = T - ceil(T 2^-i)``, and T after ``T_i`` for ``2^i >= T``.

    Parameters
    ----------
    steps : int
        T.
    c : float
        Distance over gradient norm in the theorem.

    Returns
    -------
    array of shape (T,)
        Step sizes; they never rise.

    Source: Feldman, Koren, Talwar 2020, Definition 3.3.
    """
    steps, c = integer("steps", steps), real("c", c)
    halvings = (steps - 1).bit_length()  # ceil(log2 T), in whole numbers
    ends = [steps - -(-steps >> i) for i in range(halvings + 1)] + [steps]
    sizes = [c / math.sqrt(steps) * 0.5**i for i in range(halvings + 1)]
    return np.repeat(np.array(sizes), np.diff(ends))
