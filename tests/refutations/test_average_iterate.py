"""Feldman, Koren, Talwar 2020, section 6: the average of the iterates does not enjoy the last iterate's bound.

Printed, and true: no amplification by averaging. Linear losses pull in step 1 (slope 1 or -1, the record), nothing happens
until step k, and then every step contracts to 0. All is linear, so the average and the last iterate are Gaussians with exact mu.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import NotApplicable
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDBound, NoisySGDScheduleBound, NoisySGDStronglyConvexBound
from dplateau.analyses.langevin import LangevinBound
from dplateau.analyses.noisy_cgd import NoisyCGDBound
from dplateau.analyses.noisy_gd import NoisyGDBound
from dplateau.analyses.pnsgd import PNSGDBound
from dplateau.analyses.refuted import LangevinMinibatches, PrintedNoisySGD
from dplateau.analyses.shifted_interpolation import (
    ShiftedCGDBound,
    ShiftedCGDBoundedSetBound,
    ShiftedGDBound,
    ShiftedGDBoundedSetBound,
)
from dplateau.analyses.ye_shokri import ShuffleAndPartitionBound

STEPS, ETA, SIGMA = 2000, 0.5, 4.0


def snowball(**changes: object) -> dp.Run:
    """Batches that grow so that every record has about the same last-iterate bound; noise SIGMA on every mean gradient."""
    sizes = np.ceil(math.sqrt(STEPS) / np.sqrt(np.arange(STEPS, 0, -1.0)))
    values = {
        "n": int(sizes.sum()),
        "sampling": dp.OnePass(sizes.tolist()),
        "steps": STEPS,
        "noise_multiplier": (SIGMA * sizes).tolist(),
        "step_size": ETA,
        "smoothness": 1 / ETA,
        "strong_convexity": 0.0,
        "adjacency": "replace",
        "released": "last",
    }
    return dp.Run(**(values | changes))


def exact_mu(still: int) -> tuple[float, float]:
    """mu of the last iterate and of the average, for a record in step 1, by running the linear recursion on unit vectors."""
    run = snowball()
    last, total = np.zeros(STEPS), np.zeros(STEPS)
    moved = moved_total = 0.0
    for step in range(STEPS):
        factor = 1.0 if step < still else 0.0  # A loss x^2/(2 eta) takes the iterate to 0.
        last, moved = factor * last, factor * moved
        last[step] += ETA * SIGMA
        moved += 2 * ETA / run.sampling.batch_size[0] if step == 0 else 0.0
        total, moved_total = total + last, moved_total + moved
    return moved / float(np.linalg.norm(last)), moved_total / float(np.linalg.norm(total))


def test_the_average_shows_what_the_last_iterate_hides() -> None:
    bound = math.sqrt(2 * PNSGDBound().guarantee(snowball()).rho)
    still = round(STEPS**0.5)
    last, average = exact_mu(still)
    assert last == 0.0
    assert average > 3 * bound
    # Without the contraction, the last iterate meets the bound and the average is of the same order.
    last, average = exact_mu(STEPS)
    assert last == pytest.approx(2 / (SIGMA * math.sqrt(STEPS)))
    assert last <= bound
    assert average < 2 * bound


LAST = [
    PNSGDBound(),
    NoisyGDBound(),
    NoisyCGDBound(),
    ShiftedGDBound(),
    ShiftedGDBoundedSetBound(),
    ShiftedCGDBound(),
    ShiftedCGDBoundedSetBound(),
    NoisySGDBound(),
    NoisySGDStronglyConvexBound(),
    NoisySGDScheduleBound(),
    LangevinBound(),
    LangevinMinibatches(),
    PrintedNoisySGD(),
    ShuffleAndPartitionBound(),
]


@pytest.mark.parametrize("analysis", LAST, ids=lambda analysis: analysis.name)
def test_averages_are_declined(analysis: object) -> None:
    """Every last-iterate analysis, on the sampling that it is for."""
    schemes = (dp.OnePass(1), dp.FullBatch(), dp.Cyclic(4), dp.FixedSize(4), dp.Poisson(4))
    found = []
    for scheme in schemes:
        steps = 8
        run = snowball(
            n=16,
            sampling=scheme,
            steps=steps,
            noise_multiplier=10.0,
            step_size=tuple(np.linspace(0.3, 0.2, steps)) if isinstance(analysis, NoisySGDScheduleBound) else 0.2,
            strong_convexity=0.5,
            diameter=0.3,
            update="post-processed",
        )
        bound = analysis.bound(run)
        assert isinstance(bound, NotApplicable)
        found.append("not a plain gradient step (momentum, Adam or averaging)" in bound.why_not)
    assert any(found)


def test_account_certifies_averages_by_composition_only() -> None:
    run = snowball(update="post-processed")
    average, last = dp.account(run, 1e-4), dp.account(snowball(), 1e-4)
    assert average.best is not None
    assert average.best.name == "exact-composition"
    # One use of the record in step 1: the gradient itself is released.
    assert average.epsilon >= last.epsilon
    assert average.mu == pytest.approx(2 / (SIGMA * run.sampling.batch_size[0]))
