"""What adapted and optimal noise gain over constant noise on the schedules of Wu et al. 2021, under exact accounting.

    python experiments/noise_allocation.py [--steps 11760 39200] [--schedules polynomial square-root]

Batches of 256 out of 50,000 records, drawn at random, and delta 1e-5, as in the paper. For every epsilon: by what factor the noise
moves the weights less, squared (``noise_energy``, the noise term of Theorem 4.2), than constant noise of the same exact epsilon.
Then what the noise of the paper's equation (6) really costs, and the bounds on the gradient of AdaGrad-norm from noisy gradients.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import dplateau as dp
from dplateau.algorithms import (
    adagrad_noise,
    adaptation_gain,
    adapted_noise,
    noise_energy,
    optimal_noise,
    polynomial_decay,
    printed_sigma,
    square_root_decay,
)
from dplateau_papers.utility import noisy_adagrad_stationarity

N, BATCH, DELTA = 50_000, 256, 1e-5
EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
PRINTED = (0.8, 1.2, 1.6, 3.2, 6.4)
"""What the paper calls epsilon / 16."""
SCHEDULES = {
    "polynomial": lambda steps: polynomial_decay(steps, a=20, c=1),
    "square-root": lambda steps: square_root_decay(steps, first=0.1, last=1e-10),
}


def ends(run: dp.Run) -> str:
    z = np.atleast_1d(np.asarray(run.noise_multiplier))
    return f"{z[0]:.3g}" if z.size == 1 else f"{z[0]:.3g} to {z[-1]:.3g}"


def allocations(name: str, steps: int) -> None:
    eta = SCHEDULES[name](steps)
    base = dp.Run(n=N, sampling=dp.Poisson(BATCH), steps=steps, noise_multiplier=1.0, step_size=eta)
    print(f"\n{name}, T = {steps:,}: by the sum of 1/alpha^2 the gain would be {adaptation_gain(1 / np.array(eta)):.3f}")
    print(f"{'epsilon':>8}{'adapted':>9}{'optimal':>9}   noise: constant, adapted, optimal")
    for epsilon in EPSILONS:
        shapes = (base, base.replace(noise_multiplier=adapted_noise(eta)))
        constant, adapted = (dp.calibrate(shape, epsilon=epsilon, delta=DELTA) for shape in shapes)
        best = optimal_noise(base, epsilon=epsilon, delta=DELTA)
        gains = (noise_energy(constant) / noise_energy(run) for run in (adapted, best))
        print(
            f"{epsilon:>8}{''.join(f'{gain:>9.3f}' for gain in gains)}   {'; '.join(map(ends, (constant, adapted, best)))}",
            flush=True,
        )


def printed(steps: int) -> None:
    print(f"\nequation (6), T = {steps:,}, constant noise: epsilon as claimed, noise multiplier, exact epsilon")
    for share in PRINTED:
        z = printed_sigma(N, 16 * share, DELTA, [1.0] * steps, batch_size=BATCH) * BATCH
        run = dp.Run(n=N, sampling=dp.Poisson(BATCH), steps=steps, noise_multiplier=z)
        print(f"{16 * share:>8.1f}{z:>9.3f}{dp.account(run, DELTA).epsilon:>9.4f}", flush=True)


def adagrad(steps: int) -> None:
    """With full batches, where equal sums of 1/alpha^2 cost the same."""
    print(f"\nAdaGrad-norm from noisy gradients, T = {steps:,}, d = 10^5, b_0^2 = 20, nu = 1e-5, the rest 1: C, and the bound")
    for growth in (0.0, 1e-3, 1e-2, 0.1, 1.0):
        noise = 0.01 * np.array(adagrad_noise(steps, math.sqrt(20), growth))
        bound = noisy_adagrad_stationarity(noise, b0=math.sqrt(20), floor=1e-5, d=10**5, gap=1.0, smoothness=1.0, gradient_norm=1.0)
        print(f"{growth:>8g}{bound:>9.4f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[11_760, 39_200])
    parser.add_argument("--schedules", nargs="+", choices=SCHEDULES, default=list(SCHEDULES))
    arguments = parser.parse_args()
    printed(11_760)
    adagrad(11_760)
    for name in arguments.schedules:
        for steps in arguments.steps:
            allocations(name, steps)


if __name__ == "__main__":
    main()
