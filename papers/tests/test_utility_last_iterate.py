# pyright: basic
"""The bound on the last iterate: against its inequalities written out, exact walks, and the theorems that it replaces."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.utility import jnn_step_sizes, last_iterate_risk
from dplateau_papers.utility import jnn_risk, linear_decay_risk, linear_decay_step_sizes, shamir_zhang_risk, shamir_zhang_step_size

SLACK = 1 + 1e-9


def last_points(
    gradient: Callable, offsets: np.ndarray, chances: np.ndarray, eta: np.ndarray, start: float, low: float, high: float
):
    """All last iterates of a walk on a line whose gradient noise takes finitely many values, with their probabilities."""
    x, p = np.array([start]), np.array([1.0])
    for size in eta:
        g = gradient(x)[:, None] + offsets
        x = np.clip(x[:, None] - size * g, low, high).ravel()
        p = (p[:, None] * chances).ravel()
    return x, p


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 10**6))
def test_never_below_an_exact_walk_on_a_lipschitz_function(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinks, weights = rng.uniform(-1, 1, 3), rng.uniform(0, 1, 3) * rng.integers(0, 2, 3)
    m = float(rng.choice([0.0, 0.5]))
    low, high = -float(rng.uniform(0.1, 2)), float(rng.uniform(0.1, 2))
    side = float(rng.uniform(-1, 1))  # which subgradient at a kink

    def f(x: np.ndarray) -> np.ndarray:
        return np.abs(x[:, None] - kinks) @ weights + m / 2 * x**2

    def gradient(x: np.ndarray) -> np.ndarray:
        apart = x[:, None] - kinks
        return np.where(apart == 0, side, np.sign(apart)) @ weights + m * x

    places = np.concatenate([np.linspace(low, high, 4001), np.clip(kinks, low, high)])
    best = places[np.argmin(f(places))]
    chance, size = float(rng.uniform(0.05, 0.95)), float(rng.uniform(0, 2))
    offsets, chances = np.array([size * (1 - chance), -size * chance]), np.array([chance, 1 - chance])
    lipschitz = weights.sum() + m * max(-low, high)
    noise = lipschitz**2 + size**2 * chance * (1 - chance)
    T = int(rng.integers(1, 10))
    eta = rng.choice([np.full(T, 1.0), jnn_step_sizes(T, 1.0), linear_decay_step_sizes(T, 1.0), rng.uniform(0.01, 1, T)])
    eta = eta * 10 ** rng.uniform(-1.5, 0.5)
    start = float(rng.choice([low, high]))
    x, p = last_points(gradient, offsets, chances, eta, start, low, high)
    truth = float(p @ f(x)) - float(f(np.array([best]))[0])
    distance = abs(start - best) + 1e-3 * (m > 0)
    for slope in (lipschitz, None):
        assert truth <= SLACK * last_iterate_risk(eta, noise, distance, lipschitz=slope, strong_convexity=m) + 1e-12
    assert truth <= SLACK * last_iterate_risk(eta, noise, distance) + 1e-12


@pytest.mark.parametrize("seed", range(8))
def test_never_below_subgradient_steps_on_polyhedral_functions(seed: int) -> None:
    """Without noise, in several dimensions, where the piece that is followed is the worst of those that are active."""
    rng = np.random.default_rng(seed)
    pieces = rng.normal(size=(6, 4))
    pieces = np.concatenate([pieces, -pieces.sum(axis=0, keepdims=True)])  # so that 0 is a minimiser
    lipschitz = float(np.linalg.norm(pieces, axis=1).max())
    start = rng.normal(size=4)
    distance = float(np.linalg.norm(start))
    for T in (3, 20, 100):
        for eta in (np.full(T, 1 / math.sqrt(T)), jnn_step_sizes(T, 1.0), linear_decay_step_sizes(T, 1.0)):
            x = start.copy()
            for size in eta * distance / lipschitz:
                values = pieces @ x
                active = pieces[values > values.max() - 1e-9]
                x = x - size * active[np.argmax(np.linalg.norm(active, axis=1))]
            risk = last_iterate_risk(eta * distance / lipschitz, lipschitz**2, distance)
            assert 0 <= float((pieces @ x).max()) <= risk


@pytest.mark.parametrize("T", [1, 2, 3, 5, 10, 31, 100, 1_000, 10_000])
def test_against_the_theorems_it_replaces(T: int) -> None:
    distance, norm = 3.0, 0.7
    scale = distance * norm / math.sqrt(T)
    fixed = last_iterate_risk(np.full(T, shamir_zhang_step_size(T, distance, norm)), norm**2, distance)
    assert fixed <= scale * (1.25 + math.log(2 * T) / 4) <= shamir_zhang_risk(T, distance, norm)
    assert fixed < 0.57 * shamir_zhang_risk(T, distance, norm)
    halving = last_iterate_risk(jnn_step_sizes(T, distance / norm), norm**2, distance)
    assert halving < 1.13 * scale < 0.08 * jnn_risk(T, distance, norm)
    linear = last_iterate_risk(linear_decay_step_sizes(T, distance / norm), norm**2, distance)
    assert linear == pytest.approx(linear_decay_risk(T, distance, norm), rel=1e-6)


def test_a_million_steps() -> None:
    T = 10**6
    assert last_iterate_risk(linear_decay_step_sizes(T, 1.0), 1.0, 1.0) == pytest.approx(1e-3, rel=1e-4)
    assert last_iterate_risk(np.full(T, 1e-3), 1.0, 1.0) <= 1e-3 * (1.25 + math.log(2 * T) / 4)
