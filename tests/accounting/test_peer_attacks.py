"""prv-accountant's epsilons, and riskcal's and gdpnum's trade-offs and mu, recorded on a grid (``make_peer_grid_attacks.py``)."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, compositions, gdp_delta
from dplateau.accounting.roots import minimum

GRID: dict[str, Any] = json.loads(Path(__file__).with_name("peer_grid_attacks.json").read_text())
ROWS, PEERS = GRID["rows"], GRID["peers"]
MANY = [row for row in ROWS if row["steps"] >= 200]
N = 1_000_000


def guarantee(row: dict[str, Any]) -> ExactComposition:
    run = dp.Run(n=N, sampling=dp.Poisson(row["rate"] * N), steps=row["steps"], noise_multiplier=row["noise"])
    return ExactComposition(compositions(run)[0], width=1e-4)


def trade_off(profile: Callable[[float], Enclosure], alpha: float, most: float) -> float:
    """``f(alpha) = sup over e of max(1 - delta - exp(e) alpha, exp(-e) (1 - delta - alpha))``, from below: any e gives a bound."""

    def error(e: float) -> float:
        left = 1 - profile(e).upper
        return max(left - math.exp(e) * alpha, math.exp(-e) * (left - alpha), 0.0)

    tried = np.linspace(0, most, 13).tolist()
    best = max(range(13), key=lambda i: error(tried[i]))
    low, high = tried[max(best - 1, 0)], tried[min(best + 1, 12)]
    return max(error(tried[best]), -minimum(lambda e: -error(e), low, high, xtol=1e-3 * most, most=12)[1])


def test_the_grid_is_wide() -> None:
    assert len(ROWS) == 40
    assert len(MANY) >= 10
    assert min(row["steps"] for row in ROWS) == 1
    assert {"riskcal", "gdpnum", "prv-accountant", "dp-accounting"} < set(PEERS)


def test_prv_encloses_us() -> None:
    """Its own enclosure, whose half width is ``eps_error``, contains ours in every row that it could compute."""
    known = [row for row in ROWS if row["prv"] is not None]
    assert len(known) >= 35
    for row in known:
        low, _, high = row["prv"]
        ours = guarantee(row).epsilon(PEERS["delta"])
        assert low <= ours.upper, row
        assert ours.lower <= high, row


def test_the_advantage_is_delta_at_zero() -> None:
    """Pessimistic and optimistic loss distributions bracket it, and the pessimistic one is as close as its interval."""
    for row in ROWS:
        ours = guarantee(row).delta(0.0)
        assert row["advantage_low"] <= ours.upper + 1e-9, row
        assert ours.lower <= row["advantage"] + 1e-9, row
        assert row["advantage"] <= ours.upper + 2 * PEERS["interval"] * math.sqrt(row["steps"]), row


@pytest.mark.parametrize("part", range(3))
def test_error_rates_of_attacks(part: int) -> None:
    """riskcal and gdpnum agree with our profile to what their interval, 1e-4, makes of a sum of so many steps; on either side."""
    for row in MANY[part::5]:
        profile = cache(guarantee(row).delta)
        most = min(guarantee(row).epsilon(1e-3).upper + 0.05, 6.0)
        for alpha, beta, gdpnum in zip(PEERS["alphas"], row["beta"], row["gdpnum_beta"], strict=True):
            if alpha in (0.01, 0.1, 0.5):
                f = trade_off(profile, alpha, most)
                assert abs(f - beta) <= PEERS["interval"] * math.sqrt(row["steps"]), (row, alpha, f)
                assert gdpnum == pytest.approx(beta, abs=1e-6)


def test_gdpnums_mu_is_no_bound() -> None:
    """It is to be the least whose Gaussian trade-off lies below the curve; at rate 0.001, z 1.5, T 5,000 delta(0.1) refutes it.

    In its curve FPR + FNR exceeds 1 at small FPR, and such points are left out. dp-accounting's own delta agrees with ours.
    """
    refuted: list[tuple[float, float, int]] = []
    for row in MANY:
        ours = guarantee(row)
        if any(ours.delta(e).lower > gdp_delta(row["mu"], e) * (1 + 1e-3) and ours.delta(e).lower > 1e-5 for e in (0.0, 0.1)):
            refuted.append((row["rate"], row["noise"], row["steps"]))
    assert refuted == [(0.001, 1.5, 5000)]
