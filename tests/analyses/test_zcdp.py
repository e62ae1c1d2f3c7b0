# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math

import pytest

import dplateau as dp
from dplateau.accounting import GaussianDP
from dplateau.analyses import ExactCompositionBound, ZCDPBound


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize(
    ("sampling", "uses"),
    [(dp.FullBatch(), 25), (dp.Cyclic(100), 3), (dp.Shuffled(100), 3), (dp.OnePass(40), 1)],
    ids=lambda one: getattr(one, "kind", ""),
)
def test_rho_counts_the_uses_of_a_record(sampling: dp.Sampling, uses: int, adjacency: str) -> None:
    run = dp.Run(n=1000, sampling=sampling, steps=25, noise_multiplier=4.0, adjacency=adjacency)
    found = ZCDPBound().guarantee(run)
    assert found.rho == pytest.approx(uses * (4 if adjacency == "replace" else 1) / 16 / 2)
    for delta in (1e-4, 1e-9):
        assert found.epsilon(delta).upper >= ExactCompositionBound().guarantee(run).epsilon(delta).lower


def test_the_documented_gap_to_gdp() -> None:
    run = dp.Run(n=1000, sampling=dp.FullBatch(), steps=100, noise_multiplier=10.0)
    assert round(ZCDPBound().guarantee(run).epsilon(1e-5).upper, 2) == 4.73
    assert round(GaussianDP(1.0).epsilon(1e-5).upper, 2) == 4.38


def test_a_schedule_counts_the_worst_place() -> None:
    run = dp.Run(n=6, sampling=dp.Cyclic((1, 2, 3)), steps=4, noise_multiplier=(5.0, 3.0, 9.0, 4.0))
    assert ZCDPBound().guarantee(run).rho == pytest.approx(max(1 / 25 + 1 / 16, 1 / 9, 1 / 81) / 2)


def test_runs_add() -> None:
    one = dp.Run(n=1000, sampling=dp.FullBatch(), steps=9, noise_multiplier=10.0)
    two = dp.Run(n=1000, sampling=dp.Cyclic(100), steps=10, noise_multiplier=5.0)
    row = next(row for row in dp.account(dp.compose(one, two), 1e-5).bounds if row.name == "zcdp")
    mu = math.sqrt(0.09 + 0.04)
    assert row.epsilon is not None
    assert row.epsilon.upper == pytest.approx(ZCDPBound().guarantee(one.replace(steps=13)).epsilon(1e-5).upper, rel=1e-3)
    assert row.epsilon.upper > GaussianDP(mu).epsilon(1e-5).upper


def test_sampled_steps_are_declined() -> None:
    for sampling in (dp.Poisson(10), dp.FixedSize(10)):
        reason = ZCDPBound().why_not(dp.Run(n=100, sampling=sampling, steps=1, noise_multiplier=1.0))
        assert reason == f"it is for sampling Cyclic, Shuffled, OnePass, FullBatch, the run's is {type(sampling).__name__}."
