"""The central limit accountant (Bu, Dong, Long, Su 2020, section 3.1) is not an upper bound."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import numpy as np
import pytest

import dplateau as dp

# Rate, z, steps, delta, the limit's epsilon, the true one (to the digits given).
CASES = [
    (256 / 60_000, 0.7, 10_547, 1e-5, 5.07, 5.64),
    (1 / 80, 0.6, 1_600, 1e-6, 10.61, 12.75),
    (0.001, 0.5, 1_000, 1e-5, 0.85, 3.24),
    (256 / 60_000, 0.5, 23_438, 1e-5, 31.12, 28.05),
]


def direct_delta(q: float, z: float, steps: int, epsilon: float) -> float:
    """delta with the record removed, by one long trapezoid sum of the inversion integral: no code of the package."""
    mu = 1 / z
    g = np.linspace(-12, 14 + 12 * mu, 6_001)
    loss = np.log1p(q * np.expm1(mu * g - mu**2 / 2))
    log_p = np.log(g[1] - g[0]) - math.log(2 * math.pi) / 2 - g**2 / 2 + loss
    p = np.exp(log_p)

    def log_m(s: complex) -> complex:
        return steps * np.log1p((p * np.expm1(s * loss)).sum())

    grid = np.geomspace(0.05, 12, 150)
    c = float(grid[np.argmin([log_m(v).real - v * epsilon - math.log(v * (v + 1)) for v in grid])])
    h, total = 2 * math.pi / (60 / c), 0.0
    for k in range(4_000):
        s = c + 1j * h * k
        term = (np.exp(log_m(s) - s * epsilon) / (s * (s + 1))).real * (0.5 if k == 0 else 1.0)
        total += term
        if k > 50 and abs(np.exp((log_m(s) - s * epsilon).real) / abs(s) ** 2) < 1e-9 * abs(total):
            break
    return total * h / math.pi


@pytest.mark.parametrize(("q", "z", "steps", "delta", "limit", "truth"), CASES)
def test_the_limit_and_the_truth(q: float, z: float, steps: int, delta: float, limit: float, truth: float) -> None:
    n = 60_000
    report = dp.account(dp.Run(n=n, sampling=dp.Poisson(q * n), steps=steps, noise_multiplier=z), delta)
    rows = {row.name: row for row in report.bounds}
    clt, exact = rows["gdp-clt"], rows["exact-composition"]
    assert clt.epsilon is not None
    assert exact.epsilon is not None
    assert clt.status == "Asymptotic"
    assert clt.epsilon.upper == pytest.approx(limit, abs=0.00501)
    assert exact.epsilon.upper == pytest.approx(truth, abs=0.00501)
    assert direct_delta(q, z, steps, exact.epsilon.upper) == pytest.approx(delta, rel=3e-3)
    if limit < truth:
        assert exact.epsilon.lower > clt.epsilon.upper
        assert direct_delta(q, z, steps, clt.epsilon.upper) > 1.2 * delta
    assert report.best is exact
