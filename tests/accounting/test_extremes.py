"""Extreme runs against values with many digits (``make_extremes.py``): the enclosures are right, and narrow but for a list."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import json
from functools import cache
from typing import Any

import mpmath as mp
import pytest

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, compositions
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace

from . import make_extremes, reference

ROWS: list[dict[str, Any]] = json.loads(make_extremes.FILE.read_text())["rows"]
N = 10_000_000
NOISES, DELTAS = (0.2, 1.0, 1000.0), (1e-15, 1e-5, 0.5)
DIGITS = 1e-9
"""Of the recorded values, relative to themselves and 1e-3."""

WIDE: dict[tuple[str, int, float, float, float], float] = {
    ("add-remove", 2, 1e-4, 1.0, 1e-15): 2e-6,
    ("add-remove", 10**7, 1e-7, 0.2, 1e-5): 0.015,
    ("add-remove", 10**7, 1e-7, 1.0, 1e-15): 1.2e-3,
    ("add-remove", 10**7, 1e-7, 1.0, 1e-5): 1.2e-4,
    ("replace", 10**7, 1e-7, 0.2, 1e-5): 0.006,
    ("replace", 10**7, 1e-7, 1.0, 1e-15): 3e-3,
    ("replace", 10**7, 1e-7, 1.0, 1e-5): 3e-4,
    ("fixed-size", 10**7, 1e-7, 0.2, 1e-15): 0.061,
    ("fixed-size", 10**7, 1e-7, 0.2, 0.5): 0.006,
    ("fixed-size", 10**7, 1e-7, 1.0, 1e-15): 1.8,
    ("fixed-size", 10**7, 1e-7, 1.0, 1e-5): 0.008,
    ("add-remove", 2, 1e-7, 1.0, 1e-15): 6e-6,
    ("add-remove", 10**7, 1e-7, 1000.0, 1e-15): 4e-6,
    ("add-remove", 10**7, 0.5, 0.2, 1e-15): 1.2e8,
    ("replace", 2, 1e-7, 1.0, 1e-15): 6e-6,
    ("replace", 10**7, 1e-7, 1000.0, 1e-15): 6e-6,
    ("fixed-size", 10**7, 1e-7, 1000.0, 1e-15): 6e-6,
    ("fixed-size", 10**7, 0.5, 0.2, 1e-15): 5.1e8,
    ("fixed-size", 10**7, 1e-7, 0.2, 1e-5): 0.009,
}
"""Widths of the enclosures that are wide, by scheme, steps, rate, noise, delta.

All are of steps that lose almost nothing, some 1e-7, but now and then tens: the contour's transform does not decay, a lattice whose
step suits the large losses rounds the small ones, and where these are merged (``sparse.py``) ten million variances of theirs are
lost. At delta 1e-15 the rounding of the Fourier transform counts as well: the bound on it holds in the worst case, is some hundred
times what is typical, and leaves little of the lower end of an epsilon of 1e8.
"""


def key(row: dict[str, Any]) -> tuple[str, int, float, float, float]:
    return row["scheme"], row["steps"], row["rate"], row["noise"], row["delta"]


@cache
def enclosure(scheme: str, steps: int, rate: float, noise: float, delta: float) -> Enclosure:
    sampling = dp.FixedSize(round(rate * N)) if scheme == "fixed-size" else dp.Poisson(rate * N)
    adjacency = "replace" if scheme == "fixed-size" else scheme
    run = dp.Run(n=N, sampling=sampling, steps=steps, noise_multiplier=noise, adjacency=adjacency)
    return ExactComposition(compositions(run)[0]).epsilon(delta)


@pytest.mark.parametrize("part", range(6))
def test_extremes_are_right_and_narrow(part: int) -> None:
    for row in ROWS[part::6]:
        found, truth = enclosure(*key(row)), float(row["epsilon"])
        room = DIGITS * (truth + 1e-3)
        assert found.lower <= truth + room, (row, found)
        assert truth - room <= found.upper, (row, found)
        assert found.width <= WIDE.get(key(row), 1e-6 + 1e-6 * found.upper), (row, found)


def test_the_recorded_values_cover_the_corners() -> None:
    """All of one step and of rate 1, and ten million steps but where the trapezoid sum does not decay."""
    schemes = ("add-remove", "replace", "fixed-size")
    every = set(itertools.product(schemes, (1, 2, 10**7), (1e-7, 1e-4, 0.5, 1.0), NOISES, DELTAS))
    missing = every - {key(row) for row in ROWS}
    assert all(steps > 1 for _, steps, *_ in missing)
    assert sum(row["steps"] == 10**7 and row["rate"] < 1 for row in ROWS) >= 9


@pytest.mark.parametrize("scheme", ["add-remove", "replace", "fixed-size"])
def test_two_steps_by_direct_quadrature(scheme: str) -> None:
    kinds = {"add-remove": (PoissonRemove, PoissonAdd), "replace": (PoissonReplace,), "fixed-size": (Amplified,)}[scheme]
    for rate, noise, delta in itertools.product((1e-7, 1e-4, 0.5), NOISES, (1e-5, 0.5)):
        found = enclosure(scheme, 2, rate, noise, delta)
        laws = [kind(rate, (2 if kind is Amplified else 1) / noise) for kind in kinds]
        at = {end: max(reference.pair_delta(law, law, end) for law in laws) for end in {found.lower, found.upper}}
        assert at[found.upper] <= delta * (1 + 1e-6), (rate, noise, delta, found)
        assert found.lower == 0 or at[found.lower] >= delta * (1 - 1e-6), (rate, noise, delta, found)
        assert found.width <= WIDE.get((scheme, 2, rate, noise, delta), 1e-6 + 1e-6 * found.upper), (rate, noise, delta, found)


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("scheme", ["add-remove", "replace", "fixed-size"])
def test_all_extremes_are_finite_and_narrow_or_listed(scheme: str, delta: float) -> None:
    for steps, rate, noise in itertools.product((2, 10**7), (1e-7, 1e-4, 0.5, 1.0), NOISES):
        found = enclosure(scheme, steps, rate, noise, delta)
        assert found.width <= WIDE.get((scheme, steps, rate, noise, delta), 1e-6 + 1e-6 * found.upper), (steps, rate, noise, found)


@pytest.mark.parametrize("row", [row for row in ROWS if row["steps"] == 1][::9], ids=lambda row: f"{key(row)}")
def test_recorded_values_are_recomputed(row: dict[str, Any]) -> None:
    kinds = {"add-remove": ("remove", "add"), "replace": ("replace",), "fixed-size": ("amplified",)}[row["scheme"]]
    with mp.workdps(make_extremes.DIGITS):
        q, z, delta, value = (mp.mpf(str(row[name])) for name in ("rate", "noise", "delta", "epsilon"))
        if q == 1:
            mu = (1 if row["scheme"] == "add-remove" else 2) / z
            deltas = [make_extremes.gaussian(mu, value)]
        else:
            deltas = [make_extremes.step(kind, q, (2 if kind == "amplified" else 1) / z, value) for kind in kinds]
    assert float(max(deltas)) <= float(delta) * (1 + 1e-6)
    assert value == 0 or float(max(deltas)) == pytest.approx(float(delta), rel=1e-6)


@pytest.mark.parametrize("scheme", ["add-remove", "replace", "fixed-size"])
@pytest.mark.parametrize("delta", [1e-15, 1e-5])
@pytest.mark.parametrize("noise", [0.2])
def test_ten_million_rare_steps_are_bracketed(scheme: str, delta: float, noise: float) -> None:
    """A run costs at least what its first step does, and no more than one with less noise."""
    found, one = enclosure(scheme, 10**7, 1e-7, noise, delta), enclosure(scheme, 1, 1e-7, noise, delta)
    assert one.lower <= found.upper
    assert found.lower <= enclosure(scheme, 10**7, 1e-7, 0.9 * noise, delta).upper
