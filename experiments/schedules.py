"""How much a freely optimised one-pass schedule gains over linearly falling steps on equal batches.

    python experiments/schedules.py

For some (n, d, mu), in units of ``D L (1 / sqrt(n) + sqrt(d) / (mu n))``: the proved bound on the excess risk of the last iterate
for the published schedules, for linear steps on single records with the least noise, for the best power of falling steps and
growth of batches, and for a schedule of 24 free numbers (step sizes and batch sizes at twelve places, the noise always the least).
Records may be replaced; the bound is ``dplateau.utility.last_iterate_risk``, so every schedule keeps its value in the table.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from dplateau.algorithms.pnsgd import best_time, tail_noise
from dplateau.utility import last_iterate_risk
from dplateau_papers.utility import phased_sgd_risk, snowball_decaying_risk_of_records, snowball_fixed_risk_of_records

Array = NDArray[np.float64]
CASES = ((4_000, 4, 1.0), (4_000, 40, 0.25), (4_000, 400, 0.25), (4_000, 4_000, 0.25))
KNOTS = 12


def bound(step_sizes: Array, sizes: Array, d: int, mu: float) -> float:
    """The excess risk at L = D = 1."""
    noise = 2 / mu * tail_noise(step_sizes, sizes) / sizes
    return last_iterate_risk(step_sizes, 1 + d * noise**2, 1.0, lipschitz=1.0)


def shaped(n: int, steps: int, first: float, power: float, growth: float) -> tuple[Array, Array]:
    left = np.arange(steps, 0, -1) / steps
    sizes = left**-growth
    return first * left**power, sizes * n / sizes.sum()


def best_shape(n: int, d: int, mu: float) -> tuple[float, str]:
    found: list[tuple[float, str]] = []
    for power in (0.5, 1.0, 1.5, 2.0):
        for growth in (0.0, 0.5):
            for steps in (n, n // 10):
                made = minimize(
                    lambda x, p=power, g=growth, t=steps: bound(*shaped(n, t, math.exp(x[0]), p, g), d, mu),
                    [-0.5 * math.log(n)],
                    method="Nelder-Mead",
                    options={"maxiter": 40},
                )
                found.append((made.fun, f"power {power:g}, growth {growth:g}, {steps:,} steps"))
    return min(found)


def best_free(n: int, d: int, mu: float) -> float:
    logs = np.log(np.arange(n, 0, -1) / n)
    places = np.linspace(-math.log(n), 0, KNOTS)

    def value(x: Array) -> float:
        sizes = np.exp(np.interp(logs, places, x[KNOTS:]))
        return bound(np.exp(np.interp(logs, places, x[:KNOTS])), sizes * n / sizes.sum(), d, mu)

    start = np.concatenate([places - 0.5 * math.log(n), np.zeros(KNOTS)])
    return minimize(value, start, method="Powell", options={"maxiter": 6, "maxfev": 1_500}).fun


def main() -> None:
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    print("| n | d | mu | Snowball 3.5 | Snowball 3.6 | Phased-SGD | linear steps | best shape | 24 numbers | shape |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for n, d, mu in CASES:
        unit = 1 / math.sqrt(n) + math.sqrt(d) / (mu * n)
        first = best_time(n, mu, distance=1.0, lipschitz=1.0, weights=d, adjacency="replace") / n
        shape, words = best_shape(n, d, mu)
        values = (
            snowball_fixed_risk_of_records(n, d, mu, 1.0, 1.0),
            snowball_decaying_risk_of_records(n, d, mu, 1.0, 1.0),
            phased_sgd_risk(n, d, mu, 1.0, 1.0),
            bound(*shaped(n, n, first, 1.0, 0.0), d, mu),
            shape,
            best_free(n, d, mu),
        )
        print(f"| {n:,} | {d:,} | {mu:g} | " + " | ".join(f"{value / unit:.2f}" for value in values) + f" | {words} |", flush=True)


if __name__ == "__main__":
    main()
