# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest

import dplateau as dp
from dplateau.analyses.fixed_order import FixedOrderBound
from dplateau.analyses.langevin import LangevinBound, dynamics
from dplateau.analyses.refuted import LangevinMinibatches

from .lemma import allowance, least_mu


def rho_of(run: dp.Run) -> float:
    """rho of the theorem, without the room for rounding."""
    return (math.sqrt(2 * LangevinBound().guarantee(run).rho) - allowance(run.steps)) ** 2 / 2


def langevin(
    eta: list[float] | float, s: float, *, m: float = 1.0, smoothness: float = 2.0, n: int = 50, steps: int = 30
) -> dp.Run:
    """Noise sqrt(2 eta) s in the iterate: noise_multiplier z with eta z L/n = sqrt(2 eta) s, L = 1."""
    z = [n * s * math.sqrt(2 / e) for e in eta] if isinstance(eta, list) else n * s * math.sqrt(2 / eta)
    return dp.Run(
        n=n,
        sampling=dp.FullBatch(),
        steps=steps,
        noise_multiplier=z,
        step_size=eta,
        smoothness=smoothness,
        strong_convexity=m,
        adjacency="replace",
        released="last",
    )


def test_constant_steps() -> None:
    # Corollary 3.2: 4 a L^2/(m n^2 s^2) (1 - exp(-m eta K/2)).
    run = langevin(0.25, 0.3, m=0.5)
    wanted = 4 / (0.5 * 2500 * 0.09) * (1 - math.exp(-0.5 * 0.25 * 30 / 2))
    assert 3 * rho_of(run) == pytest.approx(3 * wanted, rel=1e-7)
    assert rho_of(run.replace(adjacency="add-remove")) == pytest.approx(wanted / 4, rel=1e-7)


def test_numbers_at_the_ends_of_double_precision() -> None:
    run = langevin(0.25, 0.3, m=0.5, steps=1)
    # Hardly any convexity: sum over the steps of 2 L^2 eta/(n s)^2. The length of gradients is that of the steps' inverse.
    flat, long = run.replace(strong_convexity=5e-324), run.replace(clip_norm=1e270, step_size=0.25e-180, smoothness=2e180)
    assert rho_of(flat) == pytest.approx(2 * 0.25 / (50 * 0.3) ** 2, rel=1e-7)
    assert rho_of(long.replace(strong_convexity=0.5e180)) == pytest.approx(rho_of(run), rel=1e-7)


def test_decreasing_steps() -> None:
    # Corollary 3.3 replaces the sum of the steps by an integral, which the sum exceeds by less than the first step.
    m, smoothness, steps = 0.5, 2.0, 200
    eta = [1 / (2 * smoothness + m * k / 2) for k in range(steps)]
    found = rho_of(langevin(eta, 0.3, m=m, smoothness=smoothness, steps=steps))
    integral = m * steps / (4 * smoothness + m * steps)
    front = 4 / (m * 2500 * 0.09)
    assert found == pytest.approx(front * (1 - math.exp(-m / 2 * sum(eta))), rel=1e-7)
    assert front * integral < found < front * (integral + m / 2 * eta[0])


@pytest.mark.parametrize("steps", [1, 3, 30, 300])
@pytest.mark.parametrize("m", [0.01, 0.3, 0.999])
def test_the_factor_of_corollary_3_3_is_below_the_theorem_and_true(m: float, steps: int) -> None:
    eta = [1 / (2 + m * k / 2) for k in range(steps)]
    run = langevin(eta, 0.3, m=m, smoothness=1.0, steps=steps)
    printed = 4 / (m * 2500 * 0.09) * m * steps / (4 + m * steps)
    assert printed < rho_of(run) < 1.11 * printed
    least = FixedOrderBound().guarantee(run).mu
    assert least is not None
    assert least**2 / 2 < printed


@pytest.mark.parametrize("seed", range(25))
def test_twice_the_bound_is_above_the_least_shifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    smoothness, steps = 1.0, int(rng.integers(1, 25))
    m = float(rng.choice([0.01, 0.3, 0.999]))
    eta = (rng.uniform(0.05, 0.9999, steps) if seed % 2 else np.full(steps, rng.uniform(0.05, 0.9999))).tolist()
    run = langevin(eta, 0.4, m=m, smoothness=smoothness, steps=steps)
    # The shifts contract by 1 - m eta_t in step t: units in which every step contracts alike do not exist, so rescale them.
    weights = np.concatenate([np.cumprod((1 - m * np.array(eta))[::-1])[::-1][1:], [1.0]])
    gaps, noise = 2 * np.array(eta) / 50, np.sqrt(2 * np.array(eta)) * 0.4
    truth = least_mu(1.0, (weights * gaps).tolist(), (weights * noise).tolist())
    assert math.sqrt(2 * rho_of(run)) >= truth


def test_contracts() -> None:
    run = langevin(0.25, 0.3)
    here = LangevinBound().guarantee(run).epsilon(1e-5).upper
    assert LangevinBound().guarantee(run.replace(steps=300)).epsilon(1e-5).upper > here
    plateau = [rho_of(run.replace(steps=steps)) for steps in (10**4, 10**5)]
    assert plateau[1] == pytest.approx(plateau[0])
    assert LangevinBound().guarantee(langevin(0.25, 0.6)).epsilon(1e-5).upper < here
    for changes, words in (
        ({"released": "all"}, "released"),
        ({"strong_convexity": 0.0}, "not strongly convex"),
        ({"step_size": 0.5}, "not below 1/smoothness"),
        ({"step_size": tuple(np.linspace(0.1, 0.2, 30))}, "not proportional to step_size"),
        ({"sampling": dp.FixedSize(5)}, "FullBatch"),
    ):
        assert words in (LangevinBound().why_not(run.replace(**changes)) or "")
    assert LangevinMinibatches().why_not(run.replace(sampling=dp.FixedSize(5))) is None
    assert "FixedSize" in (LangevinMinibatches().why_not(run) or "")


@pytest.mark.parametrize("power", [-1.0, -0.75, -0.5, -0.25, 0.0])
def test_only_noise_of_a_variance_in_proportion_to_the_step_size_is_covered(power: float) -> None:
    """At -1 the variance of the iterate's noise is constant, at 0 it falls like the square of the step size."""
    eta = np.linspace(0.3, 0.1, 30)
    run = langevin(eta.tolist(), 0.3).replace(noise_multiplier=(20.0 * eta**power).tolist())
    why = LangevinBound().why_not(run)
    assert why is None if power == -0.5 else "not proportional to step_size" in (why or "")


def test_the_formula_for_minibatches_is_that_of_full_batches() -> None:
    """As printed: at the same noise of the iterate batches of any size cost the same."""
    run = langevin(0.25, 0.3, m=0.5)
    for size in (1, 5, 25):
        batches = run.replace(sampling=dp.FixedSize(size), noise_multiplier=run.noise_multiplier * size / 50)
        assert batches.table.deviation == pytest.approx(run.table.deviation)
        assert LangevinMinibatches().guarantee(batches).rho == pytest.approx(dynamics(run))


def test_equal_steps_are_not_written_one_by_one() -> None:
    # A trillion steps would fill 24 TB; the dynamics have settled long before.
    run = langevin(0.25, 0.3, m=0.5, steps=10**12)
    assert dynamics(run) == pytest.approx(dynamics(run.replace(steps=10**4)), rel=1e-12)
    assert dp.account(run, 1e-5).epsilon < dp.account(run.replace(steps=10**4), 1e-5).epsilon + 10 * allowance(run.steps)
