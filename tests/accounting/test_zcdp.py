# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.accounting import GaussianDP
from dplateau.accounting.tensor import tensor
from dplateau.accounting.zcdp import ZeroConcentratedDP


def by_grid(rho: float, delta: float, greatest: float = 1e8) -> float:
    order = 1 + np.exp(np.linspace(math.log(1e-3), math.log(greatest - 1), 400_001))
    return max(0.0, float((rho * order + np.log1p(-1 / order) - (math.log(delta) + np.log(order)) / (order - 1)).min()))


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.01, 0.5, 5.0, 500.0])
def test_the_best_order_is_found(rho: float) -> None:
    found = ZeroConcentratedDP(rho).epsilon(1e-5).upper
    assert found == pytest.approx(by_grid(rho, 1e-5), rel=1e-5, abs=1e-9)
    assert found >= by_grid(rho, 1e-5) * (1 - 1e-6)
    # The inverse.
    assert ZeroConcentratedDP(rho).delta(found).upper == pytest.approx(1e-5, rel=1e-3)


def test_known_value() -> None:
    # rho = mu^2/2 with mu = 1: the minimum of a/2 + log((a-1)/a) - (log delta + log a)/(a - 1).
    assert ZeroConcentratedDP(0.5).epsilon(1e-5).upper == pytest.approx(4.728387, abs=1e-5)


@given(log_mu=st.floats(-4, 2), log_delta=st.floats(-12, -2))
@settings(max_examples=40, derandomize=True, deadline=None)
def test_weaker_than_gaussian(log_mu: float, log_delta: float) -> None:
    mu, delta = 10**log_mu, 10**log_delta
    bound = ZeroConcentratedDP(mu**2 / 2)
    assert bound.epsilon(delta).upper >= GaussianDP(mu).epsilon(delta).lower
    epsilon = bound.epsilon(delta).upper
    assert bound.delta(epsilon).upper >= GaussianDP(mu).delta(epsilon).lower
    assert bound.mu is None


def test_delta_at_large_epsilons_is_rounded_up() -> None:
    """The difference of a divergence and an epsilon of 1e8 is good to 1e-8 of it."""
    rho, epsilon, orders = 78055725.7584755, 78149173.70252325, set[float]()

    class Seen(ZeroConcentratedDP):
        def point(self, order: float, delta: float) -> tuple[float, float]:
            orders.add(order)
            return super().point(order, delta)

    found = Seen(rho).delta(epsilon).upper
    with mp.workdps(40):
        exact = [(a - 1) * (mp.mpf(rho) * a - epsilon + mp.log(1 - 1 / a)) - mp.log(a) for a in map(mp.mpf, orders)]
        assert mp.log(found) >= min(exact)


def test_orders_beyond_the_greatest_are_not_used() -> None:
    # Without the limit the best order is about 50.
    limited = ZeroConcentratedDP(0.005, greatest_order=4.0)
    assert limited.epsilon(1e-5).upper == pytest.approx(by_grid(0.005, 1e-5, 4.0), rel=1e-6)
    assert limited.epsilon(1e-5).upper > 2 * ZeroConcentratedDP(0.005).epsilon(1e-5).upper
    assert math.isinf(limited.divergence(5.0))


def test_the_greatest_order_is_read_on_the_safe_side() -> None:
    """Where it is the best one, nothing but rounding is left."""
    rng, used = np.random.default_rng(0), 0
    for greatest, rho, delta in 10 ** rng.uniform([0.2, -6, -12], [2, 0, -1], (200, 3)):
        one = ZeroConcentratedDP(float(rho), greatest_order=float(greatest))
        with mp.workdps(40):
            a, near = mp.mpf(greatest), 0.99 * mp.mpf(greatest) + 0.01
            least, more = (rho * x + mp.log(1 - 1 / x) - mp.log(delta * x) / (x - 1) for x in (a, near))
            if not 0 < least < more:
                continue
            found = one.epsilon(float(delta)).upper
            assert least <= found
            used += found <= least * (1 + 1e-9)
            assert mp.exp((a - 1) * (rho * a - mp.mpf(found) + mp.log(1 - 1 / a))) / a <= one.delta(found).upper
    assert used > 50


@dataclass(frozen=True)
class Mostly(ZeroConcentratedDP):
    """What holds but for an event."""

    event: float = 1e-7

    def point(self, order: float, delta: float) -> tuple[float, float]:
        return super().point(order, delta)[0], self.event


def test_what_holds_but_for_an_event_is_read_with_the_rest_of_delta() -> None:
    """Alone, and of several events together."""
    for one, always, event in (
        (Mostly(0.01), ZeroConcentratedDP(0.01), 1e-7),
        (tensor([Mostly(0.01), Mostly(0.02, event=3e-7)]), ZeroConcentratedDP(0.03), 4e-7),
    ):
        assert one.divergence(4.0) == math.inf
        for delta in (1.01 * event, 1e-6, 1e-3):
            assert one.epsilon(delta).upper == pytest.approx(always.epsilon(delta - event).upper, rel=1e-9)
        for delta in (event, event / 2):
            assert one.epsilon(delta).upper == math.inf
        for epsilon in (0.1, 0.5, 1.0):
            assert one.delta(epsilon).upper == pytest.approx(always.delta(epsilon).upper + event, rel=1e-4)
