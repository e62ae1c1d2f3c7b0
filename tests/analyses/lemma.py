"""Independent computations that the analyses are compared with."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.stats import norm

import dplateau as dp


def allowance(steps: int) -> float:
    """What the bounds add to mu for arithmetic in the training loop: 2e-7 of the noise in each of the steps."""
    return 2e-7 * math.sqrt(steps)


def random_passes() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Batch sizes, step sizes and noise multipliers of a pass of 30 steps."""
    rng = np.random.default_rng(1)
    return rng.integers(1, 9, 30), rng.uniform(0.1, 1.9, 30), rng.uniform(1, 4, 30)


def one_pass(sizes: np.ndarray, eta: np.ndarray, z: np.ndarray) -> dict[str, Any]:
    """The run that makes it, with convex losses and without a diameter."""
    return {
        "n": int(sizes.sum()),
        "sampling": dp.OnePass(sizes.tolist()),
        "steps": len(sizes),
        "step_size": eta.tolist(),
        "noise_multiplier": z.tolist(),
        "strong_convexity": 0.0,
        "diameter": None,
    }


def least_mu(factor: float, gaps: Sequence[float], noise: float | Sequence[float], diameter: float = math.inf) -> float:
    """The least mu that shifts can reach: the lower convex hull of (variance, arrived shift), over every look-back."""
    steps = len(gaps)
    noises = np.broadcast_to(np.asarray(noise, dtype=float), (steps,))
    weight = factor ** np.arange(steps - 1, -1, -1.0)
    best = math.inf
    for start in range(steps):
        far = 0.0 if start == 0 else diameter * factor ** float(steps - start)
        if math.isinf(far):
            continue
        xs = np.concatenate([[0.0], np.cumsum((weight * noises)[start:] ** 2)])
        ys = np.concatenate([[0.0], far + np.cumsum((weight * np.asarray(gaps, dtype=float))[start:])])
        hull: list[tuple[float, float]] = []
        for x, y in zip(xs, ys, strict=True):
            while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (x - hull[-2][0]) >= (y - hull[-2][1]) * (
                hull[-1][0] - hull[-2][0]
            ):
                hull.pop()
            hull.append((x, y))
        cost = sum((b[1] - a[1]) ** 2 / (b[0] - a[0]) for a, b in pairwise(hull) if b[0] > a[0])
        best = min(best, cost)
    return math.sqrt(best)


def uses(place: int, length: int, steps: int, gap: float) -> list[float]:
    """The gaps of a record in batch ``place`` of ``length``."""
    return [gap if step % length == place else 0.0 for step in range(steps)]


def final_law(moves: Sequence[tuple[float, float]], noise: float, steps: int, half: float, factor: float = 1.0) -> np.ndarray:
    """The law of ``x <- clip(factor x + move + noise)`` from x = 0 on [-half, half]; moves are (probability, size).

    Masses of cells of at most an eighth of the noise; what leaves the interval is put into the end cells.
    """
    cells = 2 * math.ceil(8 * half / noise) + 1
    edges = np.linspace(-half, half, cells + 1)
    middle = (edges[1:] + edges[:-1]) / 2
    inner = np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    step = sum(p * np.diff(norm.cdf((inner[None, :] - factor * middle[:, None] - move) / noise), axis=1) for p, move in moves)
    mass = np.zeros(cells)
    mass[cells // 2] = 1.0
    for _ in range(steps):
        mass = mass @ step
    return mass


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    """delta(epsilon) of two laws, in one direction."""
    return float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())


def renyi(p: np.ndarray, q: np.ndarray, order: float) -> float:
    """The Renyi divergence of two laws on the cells where q is not 0 to rounding."""
    seen = q > 1e-250
    return math.log(float((p[seen] ** order * q[seen] ** (1 - order)).sum())) / (order - 1)
