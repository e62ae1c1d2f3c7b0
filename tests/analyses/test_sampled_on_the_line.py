"""Noisy SGD with random batches against the exact law on the line: every record has a curved loss of its own."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
from scipy.stats import norm

import dplateau as dp
from dplateau.analyses.altschuler_talwar_sgd import NoisySGDBound, NoisySGDStronglyConvexBound

from .lemma import hockey_stick, renyi

Loss = tuple[float, float]
"""Curvature a and place p: the gradient at x is a (x - p), clipped to [-1, 1]."""


def batches(n: int, size: int, *, poisson: bool) -> Iterator[tuple[float, tuple[int, ...]]]:
    if not poisson:
        every = list(itertools.combinations(range(n), size))
        yield from ((1 / len(every), batch) for batch in every)
        return
    for count in range(n + 1):
        for batch in itertools.combinations(range(n), count):
            yield (size / n) ** count * (1 - size / n) ** (n - count), batch


def exact_law(losses: list[Loss | None], size: int, eta: float, z: float, steps: int, half: float, *, poisson: bool) -> np.ndarray:
    """Masses of the cells of [-half, half] after the steps, from 0; a record that is None is absent."""
    noise, n = eta * z / size, len(losses)
    cells = 2 * math.ceil(6 * half / noise) + 1
    edges = np.linspace(-half, half, cells + 1)
    middle, inner = (edges[1:] + edges[:-1]) / 2, np.concatenate([[-np.inf], edges[1:-1], [np.inf]])
    gradients = [np.zeros(cells) if loss is None else np.clip(loss[0] * (middle - loss[1]), -1, 1) for loss in losses]
    step = np.zeros((cells, cells))
    for chance, batch in batches(n, size, poisson=poisson):
        centre = middle - eta / size * sum((gradients[i] for i in batch), np.zeros(cells))
        step += chance * np.diff(norm.cdf((inner[None, :] - centre[:, None]) / noise), axis=1)
    mass = np.zeros(cells)
    mass[cells // 2] = 1.0
    for _ in range(steps):
        mass = mass @ step
    return mass


@pytest.mark.parametrize("seed", range(16))
def test_never_below_the_truth(seed: int) -> None:
    rng = np.random.default_rng(seed)
    poisson, adjacency = bool(seed % 2), ("replace", "add-remove")[seed // 2 % 2]
    n, size = int(rng.integers(2, 5)), 1
    smoothness = 1.0
    eta = 2 * size / (n + 1) * rng.uniform(0.5, 0.99) if poisson else rng.uniform(0.5, 2.0)
    z, steps = float(rng.uniform(1.0, 4.0)), int(rng.integers(2, 40))
    half = float(rng.uniform(0.3, 4.0)) * eta
    others: list[Loss | None] = [(float(rng.uniform(0, smoothness)), float(rng.uniform(-2, 2)) * half) for _ in range(n - 1)]
    record, instead = (smoothness, 3 * half + 2), (smoothness, -3 * half - 2)
    run = dp.Run(
        n=n,
        sampling=dp.Poisson(size) if poisson else dp.FixedSize(size),
        steps=steps,
        noise_multiplier=z,
        step_size=eta,
        smoothness=smoothness,
        strong_convexity=0.0,
        diameter=2 * half,
        adjacency=adjacency,
        released="last",
    )
    assert NoisySGDBound().why_not(run) is None
    p = exact_law([*others, record], size, eta, z, steps, half, poisson=poisson)
    q = exact_law([*others, instead if adjacency == "replace" else None], size, eta, z, steps, half, poisson=poisson)
    guarantee = NoisySGDBound().guarantee(run)
    for order in (1.3, 2.0, 5.0):
        assert guarantee.divergence(order) >= 0.97 * max(renyi(p, q, order), renyi(q, p, order))
    for epsilon in (0.1, 1.0):
        assert guarantee.delta(epsilon).upper >= 0.97 * max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))


@pytest.mark.parametrize("seed", range(6))
def test_strongly_convex_never_below_the_truth(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    n, m = int(rng.integers(2, 5)), 0.3
    eta, z, steps, half = float(rng.uniform(0.3, 1.0)), float(rng.uniform(0.5, 2.0)), int(rng.integers(3, 40)), 0.4
    # Slopes that stay below 1 on the set: nothing is clipped, every loss has curvature at least m.
    others: list[Loss | None] = [(float(rng.uniform(m, 1)), float(rng.uniform(-0.5, 0.5))) for _ in range(n - 1)]
    run = dp.Run(
        n=n,
        sampling=dp.FixedSize(1),
        steps=steps,
        noise_multiplier=z,
        step_size=eta,
        smoothness=1.0,
        strong_convexity=m,
        diameter=2 * half,
        adjacency="replace",
        released="last",
    )
    p, q = (exact_law([*others, (m, sign * (1 / m - half))], 1, eta, z, steps, half, poisson=False) for sign in (1, -1))
    guarantee = NoisySGDStronglyConvexBound().guarantee(run)
    for order in (1.3, 2.0, 5.0):
        assert guarantee.divergence(order) >= 0.97 * max(renyi(p, q, order), renyi(q, p, order))
    assert guarantee.divergence(2.0) <= NoisySGDBound().guarantee(run).divergence(2.0) * 1.01
