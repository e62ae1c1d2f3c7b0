"""Two trainings that share their first steps, where only last iterates are released, cost more than the run and its last steps.

So a ledger must not let such a run go on at the price of the steps that are left.
"""

from __future__ import annotations

import numpy as np
import pytest

import dplateau as dp
from dplateau.filter import cost_of


def test_the_run_and_its_last_steps_do_not_pay_for_two_last_iterates() -> None:
    z = np.array([0.1, 1.0])
    run = dp.Run(
        n=10,
        sampling=dp.FullBatch(),
        steps=2,
        noise_multiplier=tuple(z),
        step_size=0.1,
        smoothness=1.0,
        strong_convexity=0.0,
        released="last",
    )
    paid = cost_of(run, None) + cost_of(run.part(1, 2), None)
    # A linear loss: the record moves every step by 1, the noise of the first step is shared.
    moves, covariance = np.array([2.0, 2.0]), z[0] ** 2 * np.ones((2, 2)) + z[1] ** 2 * np.eye(2)
    together = moves @ np.linalg.solve(covariance, moves)
    assert together == pytest.approx(8 / (2 * z[0] ** 2 + z[1] ** 2))
    assert paid == pytest.approx(4 / (z**2).sum() + 1 / z[1] ** 2, rel=1e-4)
    assert together > 1.5 * paid
    every = run.replace(released="all")  # Where all iterates are paid for, it does cover them.
    assert together < cost_of(every, None) + cost_of(every.part(1, 2), None)


@pytest.mark.parametrize("order", [None, 3.0])
@pytest.mark.parametrize(
    "sampling", [dp.FullBatch(), dp.Cyclic(100), dp.Poisson(100), dp.FixedSize(100), dp.Shuffled(100)], ids=str
)
def test_costs_of_runs_that_release_all_iterates_do_not_depend_on_the_start(sampling: dp.Sampling, order: float | None) -> None:
    """Neither the set of the iterates nor the curvature of the losses, by which a start could matter, is used."""
    plain = dp.Run(n=1000, sampling=sampling, steps=30, noise_multiplier=4.0)
    rich = plain.replace(step_size=0.1, smoothness=1.0, strong_convexity=0.5, diameter=0.1)
    assert cost_of(rich, order) == cost_of(plain, order)
    assert cost_of(plain.replace(diameter=1e9), order) == cost_of(plain, order)
