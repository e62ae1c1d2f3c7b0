# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.analyses.pnsgd import PNSGDBound

from .lemma import allowance, least_mu


def rho_of(run: dp.Run) -> float:
    """rho of the theorem, without the room for rounding."""
    return math.sqrt(2 * PNSGDBound().guarantee(run).rho) - allowance(run.steps)


def one_pass(**changes: object) -> dp.Run:
    values = {
        "n": 40,
        "sampling": dp.OnePass((10, 5, 5, 20)),
        "steps": 4,
        "noise_multiplier": (2.0, 1.0, 3.0, 4.0),
        "clip_norm": 3.0,
        "step_size": (0.5, 1.0, 0.2, 0.1),
        "smoothness": 2.0,
        "strong_convexity": 0.0,
        "adjacency": "replace",
        "released": "last",
    }
    return dp.Run(**(values | changes))


def test_by_hand() -> None:
    # The iterate's noise eta z L/b: 0.3, 0.6, 0.36, 0.06; a record's movement 2 eta L/b: 0.3, 1.2, 0.24, 0.03.
    left = np.sqrt(np.cumsum([0.06**2, 0.36**2, 0.6**2, 0.3**2])[::-1])
    rho = float((np.array([0.3, 1.2, 0.24, 0.03]) / left).max())
    assert rho == 1.2 / left[1]
    assert rho_of(one_pass()) == pytest.approx(rho, rel=1e-8)
    assert rho_of(one_pass(adjacency="add-remove")) == pytest.approx(rho / 2, rel=1e-8)


def test_equals_the_least_shifts_and_is_never_below() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        steps = int(rng.integers(1, 9))
        sizes = rng.integers(1, 30, steps)
        eta, z = rng.uniform(0.05, 1.0, steps), rng.uniform(0.5, 5, steps)
        run = one_pass(
            n=int(sizes.sum()),
            sampling=dp.OnePass(sizes.tolist()),
            steps=steps,
            step_size=eta.tolist(),
            noise_multiplier=z.tolist(),
        )
        noise, gap = eta * z * 3.0 / sizes, 2 * eta * 3.0 / sizes
        worst = max(least_mu(1.0, [gap[t] if s == t else 0.0 for s in range(steps)], noise) for t in range(steps))
        found = rho_of(run)
        assert worst * (1 - 1e-12) <= found <= worst * (1 + 1e-8)


def test_equal_steps_take_the_short_way() -> None:
    run = one_pass(sampling=dp.OnePass(10), noise_multiplier=2.0, step_size=0.5)
    slow = run.replace(noise_multiplier=(2.0,) * 4)
    assert PNSGDBound().guarantee(run).rho == pytest.approx(PNSGDBound().guarantee(slow).rho, rel=1e-8)
    assert rho_of(run) == pytest.approx(1.0)


def test_more_noise_is_more_private() -> None:
    run = one_pass()
    more = run.replace(noise_multiplier=tuple(2 * z for z in run.noise_multiplier))
    assert rho_of(more) == pytest.approx(rho_of(run) / 2)


def test_not_applicable() -> None:
    assert "OnePass" in (PNSGDBound().why_not(one_pass(sampling=dp.Cyclic(10))) or "")
    assert "released" in (PNSGDBound().why_not(one_pass(released="all")) or "")
    assert "1.5 exceeds" in (PNSGDBound().why_not(one_pass(step_size=1.5)) or "")
    assert PNSGDBound().why_not(one_pass()) is None
