# pyright: basic
"""DP-SGLD: exact moments on quadratics, a simulation with projection, what is printed, and the settings."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import dplateau as dp
from dplateau.utility import (
    langevin_noise,
    langevin_risk,
    langevin_step_sizes,
)


def test_the_printed_recursion_is_false_and_ours_is_not() -> None:
    """Two kinds of records, a part p of them with h = 1 and b = 1, the others with h = 0 (nearly) and b = -p/(1 - p)."""
    p, eta, u, m = 0.27, 0.5, 0.2, 1e-6
    b = -p / (1 - p)
    xi2 = p + (1 - p) * b**2
    after = p * ((1 - eta) * u - eta) ** 2 + (1 - p) * ((1 - eta * m) * u - eta * b) ** 2
    printed = (1 - eta * m) * u**2 + eta**2 * xi2
    assert after / printed == pytest.approx(1.143, abs=0.001)
    kw = {"d": 1, "distance": u, "smoothness": 1.0, "strong_convexity": m, "variance": xi2}
    assert after <= 2 * langevin_risk(1, eta, 0.0, **kw)


@pytest.mark.parametrize("missing", [1e-6, 1e-8, 1e-9, 1e-12])
def test_a_step_that_leaves_nearly_nothing_is_not_said_to_leave_less(missing) -> None:
    """The exact risk of one step on a parabola: the bound was 0 where 1 - step_size is 1e-9, and 0.013 % too small at 1e-6."""
    step = 1 - missing
    exact = float((1 - Fraction(step)) ** 2) * 1e16 / 2
    bound = langevin_risk(1, step, 0.0, d=1, distance=1e8, smoothness=1.0, strong_convexity=1.0)
    assert exact <= bound <= 1.01 * exact + 3.0


@pytest.mark.parametrize("decaying", [False, True])
def test_the_noise_is_private_with_full_batches(decaying) -> None:
    n, steps, m, smooth = 500, 40, 0.05, 0.3
    s = langevin_noise(n, 1.0, 1e-5, 1.0, m)
    eta = langevin_step_sizes(steps, smooth, m) if decaying else np.full(steps, 1 / (2 * smooth))
    run = dp.Run(
        n=n,
        sampling=dp.FullBatch(),
        steps=steps,
        step_size=tuple(eta.tolist()),
        noise_multiplier=tuple((s * np.sqrt(2 / eta) * n).tolist()),
        smoothness=smooth,
        strong_convexity=m,
        adjacency="replace",
        released="last",
    )
    assert 0 < dp.account(run, delta=1e-5).epsilon < 1
