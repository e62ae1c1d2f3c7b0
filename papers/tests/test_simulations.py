# pyright: basic
"""The utility theorems on problems whose population risk is known: risks below their bounds, and the right powers of n, d and rho.

Seeds are fixed, so nothing here depends on luck.
"""

from __future__ import annotations

import numpy as np
import pytest

from dplateau_papers.p1 import schedules
from dplateau_papers.p1.measure import measure, measure_worst, sweep
from dplateau_papers.p1.problems import Linear, OneHot, linear_family
from dplateau_papers.p1.settings import Along

CONVEX = {
    "3.2": schedules.fixed_steps,
    "3.4": schedules.halving_steps,
    "3.5": schedules.snowball_fixed,
    "3.6": schedules.snowball_falling,
    "4.4": schedules.phased_sgd,
    "ours": schedules.falling_pnsgd,
}
STRONG = {"5.1": schedules.reduction, "5.3": schedules.phased_sgd_strong, "5.4": schedules.snowball_strong}


def signal_of(weights, signal: float) -> float:
    return Linear(len(weights), signal).excess(weights)


@pytest.mark.parametrize("name", CONVEX)
def test_risk_on_the_worst_linear_problem(name: str) -> None:
    d, n = 8, 1024
    schedule = CONVEX[name](Linear(d, 1.0), n, 2.0)
    # The bound says something: it lies below the risk of the start, and of the worst point.
    assert schedule.proved < 0.5 * signal_of(np.zeros(d), 1.0)
    found = measure_worst(schedule, linear_family(d), 6, signals=(0.25, 0.125, 0.0625, 0.03125), pilots=1)
    assert found.mean + 3 * found.error < schedule.proved
    # The problem is hard enough for the comparison to mean something.
    assert found.mean - 3 * found.error > 0.02 * schedule.proved


@pytest.mark.parametrize("name", CONVEX)
def test_risk_on_a_logistic_problem(name: str) -> None:
    problem = OneHot(8, smooth=True)
    schedule = CONVEX[name](problem, 1024, 2.0)
    found = measure(schedule, problem, 5)
    assert 0 < found.mean < found.mean + 3 * found.error < schedule.proved
    assert found.mean + 3 * found.error < problem.excess(np.zeros(8))


def test_risk_of_phased_erm_on_the_hinge() -> None:
    problem = OneHot(4, smooth=False)
    schedule = schedules.phased_erm(problem, 1024, 2.0)
    found = measure(schedule, problem, 5)
    assert 0 <= found.mean < found.mean + 3 * found.error < schedule.proved
    assert found.mean + 3 * found.error < problem.excess(np.zeros(4))


@pytest.mark.parametrize("name", STRONG)
def test_risk_on_a_strongly_convex_problem(name: str) -> None:
    problem = Linear(4, 0.5, 4.0)
    schedule = STRONG[name](problem, 4096, 4.0)
    found = measure(schedule, problem, 6)
    assert found.mean + 3 * found.error < schedule.proved
    assert found.mean + 3 * found.error < problem.excess(np.zeros(4))


def check(name: str, rule, along: Along) -> None:
    """The power is the claimed one, and one that is off by 1/2 in either direction is rejected."""
    found = sweep(name, rule, along)
    assert found.holds
    assert found.slope.agrees, found.slope
    for wrong in (found.slope.claimed - 0.5, found.slope.claimed + 0.5):
        assert abs(found.slope.value - wrong) > 2 * found.slope.error


@pytest.mark.parametrize("name", ["3.5", "3.6", "4.4", "ours"])
def test_power_of_n(name: str) -> None:
    along = Along(((name, CONVEX[name]),), "n", (256, 8192), -0.5, d=16, rho=8.0, seeds=8)
    check(name, CONVEX[name], along)


@pytest.mark.parametrize("name", ["3.5", "4.4", "ours"])
def test_power_of_d(name: str) -> None:
    along = Along(((name, CONVEX[name]),), "d", (16, 256), 0.5, n=4096, rho=0.1, seeds=5)
    check(name, CONVEX[name], along)


@pytest.mark.parametrize("name", ["3.5", "4.4", "ours"])
def test_power_of_rho(name: str) -> None:
    along = Along(((name, CONVEX[name]),), "rho", (0.025, 0.1), -1.0, n=8192, d=32, seeds=6)
    check(name, CONVEX[name], along)


@pytest.mark.parametrize("name", STRONG)
def test_power_of_n_for_strongly_convex_losses(name: str) -> None:
    along = Along(((name, STRONG[name]),), "n", (512, 16384), -1.0, d=4, rho=8.0, strength=4.0, seeds=12)
    check(name, STRONG[name], along)


def test_power_of_d_and_rho_for_strongly_convex_losses() -> None:
    rule = STRONG["5.3"]
    check("5.3", rule, Along((("5.3", rule),), "d", (8, 64), 1.0, n=32768, rho=0.08, strength=4.0, seeds=12))
    check("5.3", rule, Along((("5.3", rule),), "rho", (0.06, 0.24), -2.0, n=32768, d=16, strength=4.0, seeds=16))
