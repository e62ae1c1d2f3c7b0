"""Closed forms for full batches and cyclic batches, against values by hand and against the least shifts."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.analyses import Analysis
from dplateau.analyses.noisy_cgd import NoisyCGDBound
from dplateau.analyses.noisy_gd import NoisyGDBound
from dplateau.analyses.shifted_interpolation import (
    ShiftedCGDBound,
    ShiftedCGDBoundedSetBound,
    ShiftedGDBound,
    ShiftedGDBoundedSetBound,
)

from .lemma import allowance, least_mu, uses


def plain(sampling: object, n: int, steps: int, gap: float, *, c: float = 1.0, diameter: float | None = None) -> dp.Run:
    """A run with the movement ``gap`` of one record, unit noise in the iterate, contraction c."""
    size = n if isinstance(sampling, dp.FullBatch) else sampling.batch_size
    return dp.Run(
        n=n,
        sampling=sampling,
        steps=steps,
        noise_multiplier=2 / gap,
        clip_norm=gap * size / 2,
        step_size=1.0,
        smoothness=1.0,
        strong_convexity=1 - c,
        diameter=diameter,
        adjacency="replace",
        released="last",
    )


def mu(analysis: Analysis, run: dp.Run) -> float:
    """mu of the theorem, without the room for rounding."""
    assert analysis.why_not(run) is None
    guarantee = analysis.guarantee(run)
    return (guarantee.mu if guarantee.mu is not None else math.sqrt(2 * guarantee.rho)) - allowance(run.steps)


def test_published_numbers() -> None:
    # Bok, Su, Altschuler: 40 batches, 50 epochs, c = .9999, 2/3 per step; and D = 10, s = .2, 20 batches, 400 epochs.
    assert mu(ShiftedCGDBound(), plain(dp.Cyclic(1), 40, 2000, 2 / 3, c=0.9999)) == pytest.approx(0.99249, abs=5e-6)
    assert mu(ShiftedCGDBoundedSetBound(), plain(dp.Cyclic(1), 20, 8000, 0.2, diameter=10.0)) == pytest.approx(0.6633, abs=5e-5)


def test_in_forty_digits() -> None:
    with mp.workdps(40):
        c, s, steps = mp.mpf("0.999999999"), mp.mpf("0.5"), 10**6
        ratio = (1 - c**steps) / (1 + c**steps) * (1 + c) / (1 - c)
        full = mu(ShiftedGDBound(), plain(dp.FullBatch(), 50, steps, 0.5, c=0.999999999))
        assert full == pytest.approx(float(s * mp.sqrt(ratio)), rel=1e-8)
        length, epochs = 10, 10**5
        other = 1 + c ** (2 * length - 2) * (1 - c**2) / (1 - c**length) ** 2 * (1 - c ** (length * (epochs - 1))) / (
            1 + c ** (length * (epochs - 1))
        )
        cyclic = mu(ShiftedCGDBound(), plain(dp.Cyclic(5), 50, steps, 0.5, c=0.999999999))
        assert cyclic == pytest.approx(float(s * mp.sqrt(other)), rel=1e-8)


def test_full_batch_by_hand() -> None:
    # D = 9, s = 1: D~ = 10, best look-back 10: 10 (10/10 + 1)^2 = 40 = 2 rho against T s^2.
    assert mu(NoisyGDBound(), plain(dp.FullBatch(), 8, 1000, 1.0, diameter=9.0)) ** 2 == pytest.approx(40)
    assert mu(NoisyGDBound(), plain(dp.FullBatch(), 8, 30, 1.0, diameter=9.0)) ** 2 == pytest.approx(30)
    assert mu(ShiftedGDBoundedSetBound(), plain(dp.FullBatch(), 8, 1000, 1.0, diameter=9.0)) ** 2 == pytest.approx(3 * 9 + 9)


def test_cyclic_by_hand() -> None:
    # l = 4, s = 1, D = 9: looking back 10 epochs, D~ = 10: 100/40 + 2 * 10/4 + 40/16 + 3/4.
    run = plain(dp.Cyclic(2), 8, 400, 1.0, diameter=9.0)
    assert mu(NoisyCGDBound(), run) ** 2 == pytest.approx(2.5 + 5 + 2.5 + 0.75)
    # 3 epochs, from the start: two epochs of 1/4 and the last use.
    assert mu(NoisyCGDBound(), plain(dp.Cyclic(2), 8, 12, 1.0, diameter=9.0)) ** 2 == pytest.approx(12 / 16 + 0.75)
    assert mu(NoisyCGDBound(), plain(dp.Cyclic(2), 8, 4, 1.0, diameter=9.0)) ** 2 == pytest.approx(1.0)


@pytest.mark.parametrize("seed", range(12))
def test_never_below_the_least_shifts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    length, gap = int(rng.integers(1, 7)), float(rng.uniform(0.1, 2))
    epochs, far = int(rng.integers(1, 60 // length + 1)), float(rng.uniform(0.1, 3)) * gap
    c = 1.0 if seed % 2 else float(rng.uniform(0.6, 0.999))
    sampling = dp.FullBatch() if length == 1 else dp.Cyclic(3)
    run = plain(sampling, 3 * length, length * epochs, gap, c=c, diameter=far)
    truth = max(least_mu(c, uses(place, length, run.steps, gap), 1.0, far) for place in range(length))
    free = max(least_mu(c, uses(place, length, run.steps, gap), 1.0) for place in range(length))
    tried = 0
    for analysis in (
        NoisyGDBound(),
        NoisyCGDBound(),
        ShiftedGDBound(),
        ShiftedGDBoundedSetBound(),
        ShiftedCGDBound(),
        ShiftedCGDBoundedSetBound(),
    ):
        if analysis.why_not(run) is None:
            tried += 1
            assert mu(analysis, run) >= truth * (1 - 1e-12)
            if isinstance(analysis, (ShiftedGDBound, ShiftedCGDBound)):
                assert mu(analysis, run) == pytest.approx(free, rel=1e-8)
    assert tried


@pytest.mark.parametrize("place", range(5))
def test_the_printed_shifts_are_legal(place: int) -> None:
    """Theorem 5.8's shifts: none more than is there, nothing left, and their squares sum to (5.6)."""
    length, epochs, s, diameter = 5, 7, 0.3, 2.0
    look, far = length * epochs, 2.0 + 0.3
    shifts = [far / look] * place
    shifts += [far / look + s / length] * (look - length)
    shifts += [far / look + s / (length - place)] * (length - place)
    left = far
    for gap, shift in zip(uses(place, length, look, s), shifts, strict=True):
        left += gap - shift
        assert left >= -1e-12
    assert left == pytest.approx(0, abs=1e-12)
    square = float(np.square(shifts).sum())
    assert square == pytest.approx(
        far**2 / look + 2 * far * s / length + (look - length) * (s / length) ** 2 + s**2 / (length - place)
    )
    worst = mu(NoisyCGDBound(), plain(dp.Cyclic(1), 5, look, s, diameter=diameter)) ** 2
    at_last = far**2 / look + 2 * far * s / length + look * (s / length) ** 2 + 0.8 * s**2
    assert square <= at_last + 1e-12
    assert worst <= at_last + 1e-9


@pytest.mark.parametrize(
    "analysis",
    [NoisyGDBound(), NoisyCGDBound(), ShiftedGDBound(), ShiftedGDBoundedSetBound(), ShiftedCGDBound(), ShiftedCGDBoundedSetBound()],
)
def test_contracts(analysis: Analysis) -> None:
    sampling = dp.FullBatch() if "gd" in analysis.name and "cgd" not in analysis.name else dp.Cyclic(2)
    run = plain(sampling, 8, 80, 0.5, c=0.98, diameter=2.0)
    here = mu(analysis, run)
    assert mu(analysis, run.replace(noise_multiplier=2 * run.noise_multiplier)) == pytest.approx(here / 2)
    assert mu(analysis, run.replace(steps=160)) >= here * (1 - 1e-12)
    # Half the movement of one record; on a bounded set it also takes longer until the distance does not grow.
    halved = mu(analysis, run.replace(adjacency="add-remove"))
    assert here / 2 * (1 - 1e-9) <= halved < here
    assert analysis.guarantee(run).epsilon(1e-5).upper >= analysis.guarantee(run).epsilon(1e-4).upper
    for changes, words in (
        ({"released": "all"}, "released"),
        ({"update": "post-processed"}, "not a plain gradient step"),
        ({"strong_convexity": None}, "not known to be convex"),
        ({"smoothness": None}, "smoothness is not stated"),
        ({"step_size": 2.5}, "exceeds 2/smoothness"),
        ({"step_size": (1.0,) * 80}, "constant"),
        ({"noise_multiplier": (1.0,) * 80}, "constant"),
        ({"sampling": dp.Poisson(2)}, "it is for sampling"),
    ):
        assert words in (analysis.why_not(run.replace(**changes)) or "")
    strong = isinstance(analysis, (ShiftedGDBound, ShiftedCGDBound))
    assert ("strongly convex" in (analysis.why_not(run.replace(strong_convexity=0.0)) or "")) is strong
    assert ("diameter" in (analysis.why_not(run.replace(diameter=None)) or "")) is not strong
    if strong:
        assert "below 2/smoothness" in (analysis.why_not(run.replace(step_size=2.0)) or "")


def test_uneven_batches_are_declined() -> None:
    run = plain(dp.Cyclic(2), 8, 80, 0.5, c=0.98, diameter=2.0)
    assert "does not divide" in (ShiftedCGDBound().why_not(run.replace(sampling=dp.Cyclic(3))) or "")
    assert "whole epochs" in (NoisyCGDBound().why_not(run.replace(steps=81)) or "")
    assert "batch_size changes" in (NoisyCGDBound().why_not(run.replace(sampling=dp.Cyclic((4, 4)))) or "")
    assert "passes over the data" in (ShiftedCGDBoundedSetBound().why_not(run.replace(diameter=50.0)) or "")
