"""``compose``, and what ``account`` and ``calibrate`` say of several runs."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtr

import dplateau as dp
from dplateau._account import Report, Row
from dplateau.accounting import GaussianDP, compositions, gdp_mu
from dplateau.accounting.gaussian import log_gdp_delta

LAST: dict[str, Any] = {"step_size": 0.05, "smoothness": 0.25, "strong_convexity": 0.004, "diameter": 10.0, "released": "last"}
DELTA = 1e-5


def poisson(steps: int = 200, z: float = 1.0, **more: Any) -> dp.Run:
    return dp.Run(n=5000, sampling=dp.Poisson(50), steps=steps, noise_multiplier=z, **more)


def full(steps: int = 3, z: float = 6.0, **more: Any) -> dp.Run:
    return dp.Run(n=5000, sampling=dp.FullBatch(), steps=steps, noise_multiplier=z, **more)


def row(report: Report, name: str) -> Row:
    return next(one for one in report.bounds if one.name == name)


def test_compose_is_flat() -> None:
    a, b, c = poisson(), full(), poisson(z=2.0)
    assert dp.compose(dp.compose(a, b), c) == dp.compose(a, dp.compose(b, c)) == dp.Runs([a, b, c])
    with pytest.raises(dp.InputError, match="no run to compose"):
        dp.compose()
    with pytest.raises(dp.InputError, match="differ in n"):
        dp.compose(a, b.replace(n=4999))


class _Certificate:
    def __init__(self, run: dp.Run, certifies: bool) -> None:
        self.run, self.certifies = run, certifies


def test_a_certificate_stands_for_its_run_if_it_certifies_it() -> None:
    a, b = poisson(), full()
    assert dp.compose(_Certificate(a, True), b) == dp.compose(a, b)
    for wrong, says in ((_Certificate(a, False), "a certificate that certifies nothing"), (3, "got int")):
        with pytest.raises(dp.InputError, match=says):
            dp.compose(b, wrong)


def test_delta_at_an_epsilon() -> None:
    for run in (poisson(), full(), poisson(**LAST), dp.compose(poisson(), full())):
        report = dp.account(run, DELTA)
        assert DELTA * 0.99 < report.delta_at(report.epsilon) <= DELTA * (1 + 1e-3)
        assert report.delta_at(0.0) > report.delta_at(report.epsilon) > report.delta_at(2 * report.epsilon)
    with pytest.raises(dp.InputError, match="epsilon"):
        dp.account(full(), DELTA).delta_at(-1.0)


def test_a_run_in_two_halves_costs_what_it_costs() -> None:
    whole = dp.account(poisson(), DELTA)
    halves = dp.account(dp.compose(poisson(steps=80), poisson(steps=120)), DELTA)
    for one in whole.bounds:
        if one.status != "Refuted" and one.epsilon is not None:
            other = row(halves, one.name).epsilon
            assert other is not None
            assert other.upper == pytest.approx(one.epsilon.upper, rel=1e-5), one.name
    assert halves.epsilon == whole.epsilon


def test_runs_in_public_order_are_one_gaussian() -> None:
    cyclic = dp.Run(n=5000, sampling=dp.Cyclic(1000), steps=10, noise_multiplier=5.0)
    report = dp.account(dp.compose(cyclic, full()), DELTA)
    mu = math.sqrt(2 / 25 + 3 / 36)
    assert report.mu == pytest.approx(mu, rel=1e-12)
    assert report.epsilon == pytest.approx(GaussianDP(mu).epsilon(DELTA).upper, rel=1e-9)


def test_order_does_not_matter() -> None:
    a, b = poisson(), full()
    assert dp.account(dp.compose(a, b), DELTA).epsilon == pytest.approx(dp.account(dp.compose(b, a), DELTA).epsilon, rel=1e-9)


def one_step_then_gaussian(q: float, z: float, mu: float, epsilon: float) -> float:
    """delta of one sampled step and a Gaussian one, by a sum over the first one's outcome; the larger direction."""
    x = np.linspace(-12, 12 + 1 / z, 400_001)
    still, moved = np.exp(-(x**2) / 2), np.exp(-((x - 1 / z) ** 2) / 2)
    mixed, density = (1 - q) * still + q * moved, (x[1] - x[0]) / math.sqrt(2 * math.pi)
    loss = np.log(mixed / still)
    return max(float(p @ np.exp(log_gdp_delta(mu, epsilon - sign * loss))) * density for p, sign in ((mixed, 1), (still, -1)))


def test_against_an_independent_sum() -> None:
    first, second = poisson(steps=1, z=0.8), full(steps=1, z=3.0)
    report = dp.account(dp.compose(first, second), DELTA)
    exact = row(report, "exact-composition").epsilon
    assert exact is not None
    assert one_step_then_gaussian(0.01, 0.8, 1 / 3, exact.lower) >= DELTA * (1 - 1e-6)
    assert one_step_then_gaussian(0.01, 0.8, 1 / 3, exact.upper) <= DELTA * (1 + 1e-6)
    # Not what either run alone, or a simple sum of epsilons, says.
    alone = [dp.account(run, DELTA).epsilon for run in (first, second)]
    assert max(alone) < exact.lower <= exact.upper < sum(dp.account(run, DELTA / 2).epsilon for run in (first, second))


def test_every_run_by_its_own_best_bound() -> None:
    """A shuffled run that keeps its iterates to itself, next to a sampled one that releases all."""
    shuffled = dp.Run(n=5000, sampling=dp.Shuffled(500), steps=100, noise_multiplier=20.0, **LAST)
    report = dp.account(dp.compose(poisson(), shuffled), DELTA)
    together, general = row(report, "composed-runs").epsilon, row(report, "exact-composition").epsilon
    assert together is not None
    assert general is not None
    assert report.best is row(report, "composed-runs")
    assert together.upper < 0.9 * general.upper
    # Never below the sampled run alone, or what it would be if the other run were cut to its least place.
    assert together.upper > dp.account(poisson(), DELTA).epsilon
    assert report.run.released == "all"
    assert report.profile([DELTA])[0].upper == report.epsilon


def test_shuffled_and_full_batches_multiply_out() -> None:
    """A mixture of Gaussians and a Gaussian are a mixture: delta is the mean over the record's place."""
    shuffled = dp.Run(n=5000, sampling=dp.Shuffled(1000), steps=50, noise_multiplier=20.0, **LAST)
    report = dp.account(dp.compose(shuffled, full()), DELTA)
    best = row(report, "composed-runs")
    alone = next(one for one in dp.account(shuffled, DELTA).bounds if one.name == "shuffled").bound
    assert best is report.best
    assert alone is not None
    assert best.epsilon is not None
    mus, weights = np.array(alone.guarantee.mus), np.array(alone.guarantee.weights)
    both, epsilon = np.hypot(mus, math.sqrt(3) / 6), best.epsilon.upper
    delta = float(weights @ (ndtr(both / 2 - epsilon / both) - np.exp(epsilon) * ndtr(-both / 2 - epsilon / both)))
    assert delta == pytest.approx(DELTA, rel=1e-8)


def test_what_does_not_apply_says_of_which_run() -> None:
    report = dp.account(dp.compose(poisson(), full()), DELTA)
    assert row(report, "zcdp").why_not == "of run 1: it is for sampling Cyclic, Shuffled, OnePass, FullBatch, the run's is Poisson."
    assert row(report, "composed-runs").why_not == "exact-composition is the least bound of every run: its own row says the same."
    assert "refuted is not composed" in (row(report, "langevin-minibatch").why_not or "")
    assert not [one for one in report.bounds if one.status == "Refuted" and one.epsilon is not None]


def test_statuses_are_not_mixed() -> None:
    """What is only asymptotic stays so, and never certifies."""
    report = dp.account(dp.compose(poisson(), poisson(z=2.0)), DELTA)
    assert row(report, "gdp-clt").status == "Asymptotic"
    assert row(report, "gdp-clt").epsilon is not None
    assert report.best is not None
    assert report.best.status == "Proved"


def test_the_report_in_json() -> None:
    runs = dp.compose(poisson(), full().replace(noise_multiplier=[6.0, 7.0, 8.0]))
    report = dp.account(runs, DELTA)
    data = json.loads(json.dumps(report.to_dict(), allow_nan=False))
    assert data["noise_multiplier"] == [1.0, [6.0, 7.0, 8.0]]
    assert data["released"] == "all"
    assert dp.Runs.from_dict(data["run"]) == runs
    assert data["epsilon"] == report.epsilon


def test_a_large_delta_is_warned_of() -> None:
    with pytest.warns(dp.PrivacyWarning, match="at least 1/n"):
        dp.account(dp.compose(poisson(steps=1)), 1e-3)


def test_calibration_scales_all_noise() -> None:
    start = dp.compose(poisson(), full().replace(noise_multiplier=[6.0, 7.0, 8.0]))
    answer = dp.calibrate(start, epsilon=1.0, delta=DELTA)
    assert isinstance(answer, dp.Runs)
    factor = answer.runs[0].noise_multiplier
    assert answer.runs[1].noise_multiplier == pytest.approx([6 * factor, 7 * factor, 8 * factor])
    assert [one.replace(noise_multiplier=1.0) for one in answer.runs] == [one.replace(noise_multiplier=1.0) for one in start.runs]
    assert 1 - 1e-5 < dp.account(answer, DELTA).epsilon <= 1


def test_calibration_of_gaussians_is_exact() -> None:
    answer = dp.calibrate(dp.compose(full(), full(z=3.0)), epsilon=1.0, delta=DELTA)
    losses = sum(one.steps / one.noise_multiplier**2 for one in answer.runs)
    assert math.sqrt(losses) == pytest.approx(gdp_mu(1.0, DELTA), rel=1e-6)
    assert answer.runs[0].noise_multiplier == pytest.approx(2 * answer.runs[1].noise_multiplier)


@pytest.mark.parametrize("vary", ["steps", "batch_size"])
def test_only_the_noise_of_several_runs_is_calibrated(vary: str) -> None:
    with pytest.raises(dp.InputError, match="of several runs only the noise"):
        dp.calibrate(dp.compose(poisson(), full()), epsilon=1.0, delta=DELTA, vary=vary)


def test_a_single_run_composed_is_the_run() -> None:
    one, alone = dp.account(dp.compose(poisson()), DELTA), dp.account(poisson(), DELTA)
    assert one.epsilon == alone.epsilon
    assert [r.epsilon for r in one.bounds[1:] if r.status != "Refuted"] == [
        r.epsilon for r in alone.bounds if r.status != "Refuted"
    ]
    assert compositions(poisson())[0] == one.bounds[1].bound.guarantee.directions
