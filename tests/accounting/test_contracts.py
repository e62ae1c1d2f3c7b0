"""Which exact and Renyi bounds lie below which, and what a status is; the contracts of all are in ``tests/contracts``."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.accounting import Bound, Proved, RenyiDP
from dplateau.analyses import ANALYSES, ExactCompositionBound, MomentsAccountantBound, RenyiCompositionBound

N = 10_000_000


def sampling(kind: str, rate: float) -> Any:
    return {"poisson": dp.Poisson, "fixed-size": dp.FixedSize, "cyclic": dp.Cyclic, "shuffled": dp.Shuffled}[kind](
        max(round(rate * N), 1)
    )


@st.composite
def runs(draw: st.DrawFn) -> dp.Run:
    rate = 10 ** draw(st.floats(-2.5, -0.5))
    return dp.Run(
        n=N,
        sampling=sampling(draw(st.sampled_from(["poisson", "fixed-size", "cyclic", "shuffled"])), rate),
        steps=int(300 * 30 ** draw(st.floats(0, 1))),
        noise_multiplier=draw(st.floats(0.8, 5)),
        adjacency=draw(st.sampled_from(["add-remove", "replace"])),
    )


log_deltas = st.floats(-10, -2)
examples = settings(max_examples=24, derandomize=True, deadline=None)


@given(run=runs(), log_delta=log_deltas)
@examples
def test_exact_below_renyi_below_moments(run: dp.Run, log_delta: float) -> None:
    exact, renyi, moments = (
        analysis.guarantee(run).epsilon(10**log_delta)
        for analysis in (ExactCompositionBound(), RenyiCompositionBound(), MomentsAccountantBound())
    )
    assert exact.lower <= renyi.upper
    assert renyi.upper <= moments.upper * (1 + 1e-3)


@pytest.mark.parametrize("log_delta", [-15, -12, -5])
def test_epsilon_is_never_below_one_step(log_delta: int) -> None:
    """A run tells at least what its first step tells."""
    for rate, z in ((1e-6, 0.5), (0.3, 1.0), (0.999, 50.0)):
        one, many = (
            ExactCompositionBound()
            .guarantee(dp.Run(n=N, sampling=dp.Poisson(rate * N), steps=steps, noise_multiplier=z))
            .epsilon(10.0**log_delta)
            for steps in (1, 4)
        )
        assert one.lower <= many.upper


def test_proved_is_part_of_the_type() -> None:
    guarantee = RenyiDP(())
    assert [kind.certifies for kind in (Proved, *Bound.__subclasses__()) if kind is not Proved] == [False, False, False]
    assert Proved("a", "b", guarantee).status == "Proved"
    for analysis in ANALYSES:
        assert analysis.name
        assert analysis.source
        assert issubclass(analysis.status, Bound)
        assert f"**{analysis.status.__name__}" in (type(analysis).__doc__ or "")
