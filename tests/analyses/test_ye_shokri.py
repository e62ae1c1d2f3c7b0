# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.analyses.ye_shokri import PartitionCurve, ShuffleAndPartitionBound

from .lemma import allowance, least_mu, uses


def partition(sampling: object, epochs: int, *, length: int = 10, z: float = 3.0, m: float = 0.2) -> dp.Run:
    return dp.Run(
        n=5 * length,
        sampling=sampling,
        steps=epochs * length,
        noise_multiplier=z,
        step_size=0.5,
        smoothness=1.0,
        strong_convexity=m,
        adjacency="replace",
        released="last",
    )


def printed(order: float, c: float, z: float, length: int, epochs: int, *, averaged: bool) -> float:
    """The published formula in 40 digits, replace."""
    with mp.workdps(40):
        c, z, order = mp.mpf(c), mp.mpf(z), mp.mpf(order)

        def use(k: int) -> mp.mpf:
            return 2 * order / z**2 * c ** (2 * (k - 1)) * (1 - c**2) / (1 - c ** (2 * k))

        half = length // 2
        rest = 2 * (length - half)
        earlier = use(half) * (1 - c ** (rest * (epochs - 1))) / (1 - c**rest)
        if not averaged:
            return float(earlier + use(1))
        mean = sum(mp.exp((order - 1) * use(k)) for k in range(1, length + 1)) / length
        return float(earlier + mp.log(mean) / (order - 1))


@pytest.mark.parametrize("order", [1.1, 4.0, 60.0])
def test_the_formula(order: float) -> None:
    shuffled = ShuffleAndPartitionBound().guarantee(partition(dp.Shuffled(5), 1))
    assert shuffled.divergence(order) == pytest.approx(printed(order, 0.9, 3.0, 10, 1, averaged=True), rel=1e-5)
    cyclic = ShuffleAndPartitionBound().guarantee(partition(dp.Cyclic(5), 7))
    assert cyclic.divergence(order) == pytest.approx(printed(order, 0.9, 3.0, 10, 7, averaged=False), rel=1e-5)
    both = PartitionCurve(partition(dp.Cyclic(5), 7), 0.9, 2 / 9, 10, 7, True)
    assert both.divergence(order) == pytest.approx(printed(order, 0.9, 3.0, 10, 7, averaged=True), rel=1e-5)


@pytest.mark.parametrize("length", [2, 3, 10])
def test_what_rounding_adds_in_many_steps_counts(length: int) -> None:
    """Every shift grows by it: of a mu that is small by a share that can be seen."""
    run = partition(dp.Cyclic(5), 10**6, length=length, z=300.0)
    exact = math.sqrt(2 * printed(4.0, 0.9, 300.0, length, 10**6, averaged=False) / 4.0)
    found = math.sqrt(2 * ShuffleAndPartitionBound().guarantee(run).divergence(4.0) / 4.0)
    assert found == pytest.approx(exact + allowance(run.steps), rel=2e-6)
    assert allowance(run.steps) > 0.01 * exact


@pytest.mark.parametrize("seed", range(20))
def test_never_below_the_least_shifts(seed: int) -> None:
    """Conditioned on the place of the record, the bound is at least that of the shifts; so is the mean over the places."""
    rng = np.random.default_rng(seed)
    length, epochs, c, gap = int(rng.integers(2, 8)), int(rng.integers(1, 8)), float(rng.choice([0.3, 0.9, 0.999])), 0.5
    costs = [least_mu(c, uses(place, length, length * epochs, gap), 1.0) ** 2 / 2 for place in range(length)]
    for order in (1.5, 5.0):
        fixed = PartitionCurve(partition(dp.Cyclic(5), epochs, length=length), c, gap**2 / 2, length, epochs, False).divergence(
            order
        )
        assert fixed >= order * max(costs) * (1 - 1e-12)
        mean = math.log(float(np.mean(np.exp((order - 1) * order * np.array(costs))))) / (order - 1)
        assert PartitionCurve(partition(dp.Cyclic(5), epochs, length=length), c, gap**2 / 2, length, epochs, True).divergence(
            order
        ) >= mean * (1 - 1e-12)


def test_contracts() -> None:
    analysis = ShuffleAndPartitionBound()
    run = partition(dp.Cyclic(5), 20)
    here = analysis.guarantee(run).epsilon(1e-5).upper
    assert analysis.guarantee(run.replace(steps=2000)).epsilon(1e-5).upper >= here
    assert analysis.guarantee(run.replace(noise_multiplier=4.0)).epsilon(1e-5).upper < here
    assert analysis.guarantee(run.replace(adjacency="add-remove")).epsilon(1e-5).upper < here
    one = partition(dp.Shuffled(5), 1)
    assert analysis.guarantee(one).epsilon(1e-5).upper < analysis.guarantee(partition(dp.Cyclic(5), 1)).epsilon(1e-5).upper
    for bad, words in (
        (partition(dp.Shuffled(5), 2), "one epoch only"),
        (run.replace(strong_convexity=0.0), "not strongly convex"),
        (run.replace(step_size=1.9), "below 2/(strong_convexity + smoothness)"),
        (run.replace(sampling=dp.Cyclic(50)), "one batch only"),
        (run.replace(steps=201), "whole epochs"),
        (run.replace(sampling=dp.FullBatch()), "Cyclic, Shuffled"),
        (run.replace(released="all"), "released"),
    ):
        assert words in (analysis.why_not(bad) or "")
