"""What every analysis promises, whatever the run."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
import time
from typing import Any

import mpmath as mp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dplateau as dp
from dplateau.accounting import Bound, NotApplicable, Proved, RenyiDP, gdp_epsilon
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove
from dplateau.analyses import ANALYSES, Analysis, ExactCompositionAnalysis, MomentsAccountant, RenyiComposition

from . import reference

N = 10_000_000
ROOM = 3e-6


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


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda analysis: analysis.name)
@given(run=runs(), log_delta=log_deltas)
@examples
def test_monotone_and_ordered(analysis: Analysis, run: dp.Run, log_delta: float) -> None:
    if analysis.why_not(run) is not None:
        bound = analysis.bound(run)
        assert isinstance(bound, NotApplicable)
        assert bound.why_not
        return
    delta, z = 10**log_delta, run.noise_multiplier
    assert isinstance(z, float)
    here = analysis.guarantee(run).epsilon(delta)
    assert 0 <= here.lower <= here.upper < math.inf
    exact = analysis.name == "exact-composition"
    assert not exact or here.width <= 1e-4
    slack = ROOM + here.width if exact else ROOM + 1e-3 * here.upper  # The best Renyi order is found to about 1e-3.
    less = [run.replace(noise_multiplier=1.1 * z), run.replace(steps=run.steps - run.steps // 4)]
    if isinstance(run.sampling, (dp.Poisson, dp.FixedSize)):
        size = run.sampling.batch_size
        assert isinstance(size, float)
        less.append(run.replace(sampling=type(run.sampling)(max(size // 2, 1))))
    for other in less:
        assert analysis.guarantee(other).epsilon(delta).upper <= here.upper + slack
    assert analysis.guarantee(run).epsilon(2 * delta).upper <= here.upper + slack


@given(run=runs(), log_delta=log_deltas)
@examples
def test_exact_below_renyi_below_moments(run: dp.Run, log_delta: float) -> None:
    exact, renyi, moments = (
        analysis.guarantee(run).epsilon(10**log_delta)
        for analysis in (ExactCompositionAnalysis(), RenyiComposition(), MomentsAccountant())
    )
    assert exact.lower <= renyi.upper
    assert renyi.upper <= moments.upper * (1 + 1e-3)


EXTREMES = [
    (steps, rate, z, delta)
    for steps, rate, z in (
        (1, 1e-7, 0.3),
        (1, 1.0, 0.2),
        (1, 0.5, 1000.0),
        (2, 0.5, 1.0),
        (3, 0.999_999, 1.0),
        (10_000_000, 1e-7, 0.3),
        (10_000_000, 1e-7, 1000.0),
        (10_000_000, 0.01, 100.0),
        (10_000_000, 1.0, 1000.0),
        (1000, 0.9, 0.2),
        (1000, 1e-4, 0.2),
    )
    for delta in (1e-15, 0.5)
]


@pytest.mark.filterwarnings("ignore::dplateau.spec.errors.PrivacyWarning")
@pytest.mark.parametrize(("steps", "rate", "z", "delta"), EXTREMES)
@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_extremes_are_right_or_wide(steps: int, rate: float, z: float, delta: float, adjacency: str) -> None:
    run = dp.Run(n=N, sampling=dp.Poisson(rate * N), steps=steps, noise_multiplier=z, adjacency=adjacency)
    start = time.process_time()
    report = dp.account(run, delta)
    assert time.process_time() - start < 10
    for row in report.bounds:
        assert row.epsilon is None or 0 <= row.epsilon.lower <= row.epsilon.upper
    assert report.epsilon >= 0
    twice = 2.0 if adjacency == "replace" else 1.0
    # What was done without sampling, and the loss of all records drawn, are bounds on both sides.
    assert report.epsilon <= gdp_epsilon(twice * math.sqrt(steps) / z, delta) * (1 + 1e-9) or not math.isfinite(report.epsilon)
    if rate == 1:
        assert report.epsilon == pytest.approx(gdp_epsilon(twice * math.sqrt(steps) / z, delta), rel=1e-11)
    elif steps == 1 and adjacency == "add-remove":
        with mp.workdps(40):
            for law in (PoissonRemove(rate, 1 / z), PoissonAdd(rate, 1 / z)):
                assert reference.step_delta(law, report.epsilon) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("log_delta", [-15, -12, -5])
def test_epsilon_is_never_below_one_step(log_delta: int) -> None:
    """A run tells at least what its first step tells."""
    for rate, z in ((1e-6, 0.5), (0.3, 1.0), (0.999, 50.0)):
        one, many = (
            ExactCompositionAnalysis()
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
