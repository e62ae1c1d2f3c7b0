"""Wu et al. 2021, Theorem 4.1, equation (6): for few steps on many records the noise is too small, also with fixed step sizes.

Printed in the main text: sigma^2 = (16 G)^2 B/(n epsilon)^2 times the sum of 1/alpha_t^2, for any number of steps T. True: T must
be of the order of (n epsilon)^2, which only Theorem C.1 in the appendix says. The n in the denominator is amplification by
sampling; a record is drawn with probability 1/n > delta, and then little noise shows it. Exact: one step of the sampled Gaussian.
"""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import pytest
from scipy.integrate import quad
from scipy.stats import norm

import dplateau as dp


def printed_sigma(n: int, steps: int, epsilon: float, delta: float) -> float:
    return 16 * math.sqrt(math.log(16 * steps / (n * delta)) * math.log(1.25 / delta) * steps) / (n * epsilon)


def one_step_delta(n: int, sigma: float, epsilon: float) -> float:
    """The record's gradient is 1 (G = 1), all others 0: N(0, sigma^2) with 1/n of N(1, sigma^2), against N(0, sigma^2)."""

    def excess(x: float) -> float:
        still = float(norm.pdf(x, 0, sigma))
        return max((1 - 1 / n) * still + float(norm.pdf(x, 1, sigma)) / n - math.exp(epsilon) * still, 0.0)

    value, _ = quad(excess, -1 - 12 * sigma, 1 + 12 * sigma, limit=500, points=[0.0, 0.5, 1.0])
    return value


@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (2000, 1.0), (10_000, 0.1)])
def test_one_step(n: int, epsilon: float) -> None:
    delta = 1e-5
    sigma = printed_sigma(n, 1, epsilon, delta)
    assert one_step_delta(n, sigma, epsilon) > 3 * delta
    # Exact calibration needs more noise, and then the same integral is at delta.
    run = dp.Run(n=n, sampling=dp.Poisson(1), steps=1, noise_multiplier=1.0)
    enough = dp.calibrate(run, epsilon=epsilon, delta=delta).noise_multiplier
    assert enough > sigma
    assert one_step_delta(n, enough, epsilon) <= delta * 1.001


def test_many_steps_hold() -> None:
    """With n^2 epsilon^2 steps and more the printed noise is more than enough."""
    n, epsilon, delta = 100, 1.0, 1e-5
    run = dp.Run(n=n, sampling=dp.Poisson(1), steps=10_000, noise_multiplier=printed_sigma(n, 10_000, epsilon, delta))
    assert dp.account(run, delta).epsilon < epsilon
