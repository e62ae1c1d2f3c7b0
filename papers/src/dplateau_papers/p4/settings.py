"""The runs of ``p4-privacy``: what Ryffel, Bach and Pointcheval 2022 (P4) print, as runs of ours, with bad data sets for them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from dplateau.audit import Gradient, Instance, Laws, final_laws
from dplateau.spec import FixedSize, FullBatch, Run

DELTA: Final = 1e-5
MINIBATCHES: Final = ((1000, 10, 1.0), (1000, 10, 4.0), (10_000, 100, 1.0), (300, 1, 1.0), (1000, 1000, 1.0))
"""n, m and the epsilon that Theorem 4.2 claims."""
STEPS: Final = 30
HALVINGS: Final = 0.5
"""Step size of the minibatches' problem, whose losses have curvature 1."""


def printed_variance(n: int, epsilon: float, lipschitz: float, convexity: float = 1.0, delta: float = DELTA) -> float:
    """sigma^2 of Theorems 4.2 and 4.4; the iterate gets noise of variance ``2 step_size sigma^2``."""
    return 8 * lipschitz**2 * (epsilon + 2 * math.log(1 / delta)) / (epsilon**2 * convexity * n**2)


def printed_multiplier(variance: float, step_size: float, size: int, lipschitz: float) -> float:
    """Noise multiplier of the summed gradients."""
    return math.sqrt(2 * variance / step_size) * size / lipschitz


@dataclass(frozen=True)
class Quadratic:
    """Losses ``curvature x^2/2 + a x`` on an interval, a up to ``slope`` for the record and 0 for all others.

    Attributes
    ----------
    curvature, slope, diameter : float
        lambda, the largest absolute value of a, and the interval's length.
    smoothness : float
        beta that the run states; at least the curvature.
    """

    curvature: float
    slope: float
    diameter: float
    smoothness: float

    @property
    def lipschitz(self) -> float:
        """L: the steepest gradient at a wall."""
        return self.slope + self.curvature * self.diameter / 2

    def run(self, n: int, size: int, steps: int, noise: float | tuple[float, ...], step_size: float | tuple[float, ...]) -> Run:
        """Training on it, the last iterate released."""
        return Run(
            n=n,
            sampling=FullBatch() if size == n else FixedSize(size),
            steps=steps,
            noise_multiplier=noise,
            clip_norm=self.lipschitz,
            step_size=step_size,
            smoothness=self.smoothness,
            strong_convexity=self.curvature,
            diameter=self.diameter,
            adjacency="replace",
            released="last",
        )

    def laws(self, run: Run, start: float = 0.0, reach: float = 20.0) -> Laws:
        """The exact laws where the record's gradient turns round."""
        first, second, other = (Gradient(self.curvature, a) for a in (self.slope, -self.slope, 0.0))
        return final_laws(run, Instance(first, second, (other,), start=start), reach=reach)


HALVED: Final = Quadratic(curvature=1.0, slope=3.0, diameter=4.0, smoothness=1.0)
"""L = 5: a step halves the iterate."""
FLAT: Final = Quadratic(curvature=0.01, slope=0.99, diameter=2.0, smoothness=1.0)
"""L = 1, beta/lambda = 100."""


def halved_run(n: int, m: int, epsilon: float) -> Run:
    """Minibatches of m with the noise of Theorem 4.2."""
    variance = printed_variance(n, epsilon, HALVED.lipschitz)
    return HALVED.run(n, m, STEPS, printed_multiplier(variance, HALVINGS, m, HALVED.lipschitz), HALVINGS)


def halved_laws(n: int, m: int, epsilon: float, start: float = 0.0) -> Laws:
    """Their exact laws."""
    return HALVED.laws(halved_run(n, m, epsilon), start)


FLAT_ROWS: Final = 10_000
FLAT_EPSILON: Final = 1.0
"""n of the full-batch runs, and what Theorems 4.2 and 4.4 claim for them in the limit."""


def falling_steps(steps: int, problem: Quadratic = FLAT) -> tuple[float, ...]:
    """``eta_k = 1/(2 beta + lambda k/2)``, k = 0, ..., K - 1."""
    return tuple(1 / (2 * problem.smoothness + problem.curvature * k / 2) for k in range(steps))


def flat_run(steps: int, *, falling: bool, n: int = FLAT_ROWS) -> Run:
    """Full batches with the noise of Theorems 4.2 (constant steps 1/(2 beta)) and 4.4 (falling ones)."""
    variance = printed_variance(n, FLAT_EPSILON, FLAT.lipschitz, FLAT.curvature)
    if not falling:
        eta = 0.5 / FLAT.smoothness
        return FLAT.run(n, n, steps, printed_multiplier(variance, eta, n, FLAT.lipschitz), eta)
    sizes = falling_steps(steps)
    noise = tuple(printed_multiplier(variance, eta, n, FLAT.lipschitz) for eta in sizes)
    return FLAT.run(n, n, steps, noise, sizes)


def flat_mu(run: Run) -> float:
    """mu of the exact laws on ``FLAT`` where the record turns round: two Gaussians, as the walls are 7 deviations away."""
    steps = run.table.written()
    gap, variance = 0.0, 0.0
    for eta, spread in zip(steps.step_size.tolist(), steps.deviation.tolist(), strict=True):
        c = 1 - eta * FLAT.curvature
        gap = c * gap + eta * 2 * FLAT.slope / run.n
        variance = c**2 * variance + spread**2
    return gap / math.sqrt(variance)
