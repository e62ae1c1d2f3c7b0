"""``Filter``: its arithmetic, and that no adaptive strategy on exactly known finite laws exceeds what it promises."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from threading import Barrier, BrokenBarrierError
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr

import dplateau as dp
from dplateau.accounting import GaussianDP, RenyiDP, compositions
from dplateau.accounting.best_of import BestOf
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.tensor import tensor
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.analyses import ExactCompositionBound
from dplateau.filter import Filter, cost_of

N = 1000
EPSILON, DELTA = 2.0, 5e-4


def full(z: float, steps: int = 1, **more: Any) -> dp.Run:
    return dp.Run(n=N, sampling=dp.FullBatch(), steps=steps, noise_multiplier=z, **more)


def poisson(size: float, z: float, **more: Any) -> dp.Run:
    return dp.Run(n=N, sampling=dp.Poisson(size), steps=1, noise_multiplier=z, **more)


def budget(**options: Any) -> Filter:
    return Filter(**{"n": N, "epsilon": EPSILON, "delta": DELTA, **options})


# An adversary.


@cache
def finite(run: dp.Run, bins: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """A step seen through ``bins`` bins: probabilities with the record, and losses. Post-processing: it tells no more."""
    q = 1.0 if isinstance(run.sampling, dp.FullBatch) else run.sampling.batch_size / N
    mu = 1 / run.noise_multiplier
    x = np.concatenate([[-np.inf], np.linspace(-1.5, mu + 3.5, bins - 1), [np.inf]])
    absent = np.diff(ndtr(x))
    present = (1 - q) * absent + q * np.diff(ndtr(x - mu))
    return present, np.log(present / absent)


Allows = Callable[[tuple[dp.Run, ...]], bool]


def most(allows: Allows, menu: tuple[dp.Run, ...], taken: tuple[dp.Run, ...], epsilon: np.ndarray, depth: int) -> np.ndarray:
    """The largest delta at each epsilon of any strategy that takes up to ``depth`` more runs, each chosen by what came out."""
    best = np.maximum(-np.expm1(epsilon), 0.0)
    for run in menu if depth else ():
        after = tuple(sorted((*taken, run), key=lambda one: one.digest))
        if allows(after):
            p, loss = finite(run)
            best = np.maximum(best, most(allows, menu, after, epsilon[..., None] - loss, depth - 1) @ p)
    return best


def by_filter(factor: float, **options: Any) -> Allows:
    """What a filter allows whose budget is multiplied."""

    @cache
    def allows(runs: tuple[dp.Run, ...]) -> bool:
        one = budget(**options)
        one.budget *= factor
        for run in runs:
            if not one.allows(run):
                return False
            one.spend(run)
        return True

    return allows


HALF = math.sqrt(2 / budget(notion="gaussian").budget) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("menu", "options", "wrong"),
    [
        # A half and a quarter of the budget.
        ((full(HALF), full(math.sqrt(2) * HALF)), {"notion": "gaussian"}, 1.3),
        ((full(3.0), poisson(20, 0.8), full(6.0)), {}, 2.0),
        ((full(3.0), poisson(20, 0.8), full(5.0)), {"order": 6.0}, 1.5),
    ],
)
def test_no_strategy_exceeds_the_promise(menu: tuple[dp.Run, ...], options: dict[str, Any], wrong: float) -> None:
    target = np.array(EPSILON)
    assert 0.1 * DELTA < float(most(by_filter(1.0, **options), menu, (), target, 4)) <= DELTA
    # Power: the same search finds a filter out that lets a little too much through.
    assert float(most(by_filter(wrong, **options), menu, (), target, 4)) > DELTA


def test_gaussian_filter_is_tight() -> None:
    """What is spent to the end is exactly the mechanism that just meets epsilon and delta, whatever the path."""
    one = budget(notion="gaussian")
    for share in (0.5, 0.25, 0.125, 0.1249999):
        one.spend(full(1 / math.sqrt(share * one.budget)))
    assert one.left < 1e-6
    mu = math.sqrt(sum(1 / run.noise_multiplier**2 for run in one.runs))
    assert GaussianDP(mu).epsilon(DELTA).upper == pytest.approx(EPSILON, rel=1e-6)
    assert GaussianDP(mu).epsilon(DELTA).upper <= EPSILON


# Its arithmetic.


@pytest.mark.parametrize("order", [1.5, 4.0, 12.0, 60.0])
def test_a_renyi_budget_that_is_spent_gives_epsilon(order: float) -> None:
    one = budget(order=order, epsilon=20.0)
    # Proposition 12 of Canonne, Kamath, Steinke 2020, as delta.
    delta = math.exp((order - 1) * (one.budget - 20.0 + math.log1p(-1 / order))) / order
    assert delta == pytest.approx(DELTA, rel=1e-5)
    assert delta <= DELTA


@pytest.mark.parametrize(("delta", "order"), [(4e-4, 2.0), (1e-309, 1.99), (1e-180, 1.03), (6e-11, 1 + 2e-10)])
@pytest.mark.parametrize("left", [1e-8, 1e-11, 1e-13])
def test_a_budget_next_to_nothing_is_rounded_down(delta: float, order: float, left: float) -> None:
    """What the conversion adds is nearly epsilon, and both are rounded."""
    with mp.workdps(60):
        a, d = mp.mpf(order), mp.mpf(delta)
        added = mp.log(1 - 1 / a) - mp.log(a * d) / (a - 1)
        epsilon = float(added * (1 + left))
        try:
            found = budget(epsilon=epsilon, delta=delta, order=order).budget
        except dp.InputError:
            return  # Nothing is left.
        assert found + added <= epsilon


@pytest.mark.parametrize(("epsilon", "delta"), [(8.7e-64, 2.9e-173), (2.8e-110, 9.802142774885808e-05), (1e-9, 9e-4)])
def test_a_gaussian_budget_at_tiny_epsilons(epsilon: float, delta: float) -> None:
    with mp.workdps(500):
        mu = mp.sqrt(budget(epsilon=epsilon, delta=delta, notion="gaussian").budget)
        x = epsilon / mu - mu / 2
        assert mp.erfc(x / mp.sqrt(2)) / 2 - mp.exp(epsilon) * mp.erfc((x + mu) / mp.sqrt(2)) / 2 <= delta


def test_cost_of_gaussians_in_both_currencies() -> None:
    run = full(3.0, steps=2)
    assert budget(notion="gaussian").cost(run) == pytest.approx(2 / 9, rel=1e-12)
    assert budget(order=5.0).cost(run) == pytest.approx(5 * 2 / 9 / 2, rel=1e-8)
    assert budget(order=5.0).cost(run) >= 5 / 9 * (1 - 1e-15)


@pytest.mark.parametrize("order", [1.5, 3.0, 10.0])
def test_cost_of_a_sampled_step(order: float) -> None:
    """The larger of both directions, by quadrature."""
    x = np.linspace(-14, 26, 400_001)
    still = -(x**2) / 2 - math.log(2 * math.pi) / 2
    mixed = still + np.log(0.98 + 0.02 * np.exp(1.25 * x - 1.25**2 / 2))
    moments = [float(np.exp(order * p + (1 - order) * q).sum() * (x[1] - x[0])) for p, q in ((mixed, still), (still, mixed))]
    assert budget(order=order, epsilon=50.0).cost(poisson(20, 0.8)) == pytest.approx(math.log(max(moments)) / (order - 1), rel=1e-5)


@pytest.mark.parametrize("order", [1 + 1e-7, 1 + 1e-5, 1.01, 4.0, 1000.0])
@pytest.mark.parametrize("mus", [(0.02, 0.05), (1e-4, 0.3), (0.1, 3.0)])
def test_a_mixture_costs_no_less_than_it_does(order: float, mus: tuple[float, float]) -> None:
    """Next to order 1, where the logarithm of a mean is next to 0, its rounding made the cost too small."""
    weights = 0.7, 0.3
    with mp.workdps(60):
        c = mp.mpf(order) - 1
        powers = [mp.mpf(w) * mp.expm1(c * (c + 1) * mp.mpf(mu) ** 2 / 2) for w, mu in zip(weights, mus, strict=True)]
        truth = mp.log1p(mp.fsum(powers)) / c
        found = MixtureOfGaussianDP(mus, weights).divergence(order)
        assert truth <= found <= truth * (1 + 3e-9)


@pytest.mark.parametrize("order", [64.0, 70.5, 120.0])
def test_random_allocation_costs_no_more_than_poisson_batches_at_high_orders(order: float) -> None:
    """Small budgets have high orders: there each batch alone has moments that are larger than any number."""
    run = dp.Run(n=10_000, sampling=dp.RandomAllocation(1), steps=300_000, noise_multiplier=3.0)
    one = dp.Filter(n=10_000, epsilon=1.0, delta=1e-6, order=order)
    assert 0.98 * one.cost(run.replace(sampling=dp.Poisson(1))) < one.cost(run) < one.cost(run.replace(sampling=dp.Poisson(1)))


def test_divergence_of_every_notion() -> None:
    order, mu = 4.0, 0.7
    gaussian = order * mu**2 / 2
    exact = ExactCompositionBound().guarantee(full(1 / mu))
    for same in (GaussianDP(mu), exact, RenyiDP(compositions(full(1 / mu))[0]), ZeroConcentratedDP(mu**2 / 2)):
        assert same.divergence(order) == pytest.approx(gaussian, rel=1e-8)
        assert same.divergence(order) >= gaussian * (1 - 1e-15)
    both = MixtureOfGaussianDP((0.3, 0.7), (0.6, 0.4)).divergence(order)
    moment = 0.6 * math.exp(6 * 0.09) + 0.4 * math.exp(6 * 0.49)
    assert both == pytest.approx(math.log(moment) / 3, rel=1e-8)
    family = BestOf(lambda k: GaussianDP(mu + abs(k - 4)), 16, 16, lambda k, delta: abs(k - 4))
    assert family.divergence(order) == pytest.approx(gaussian)
    assert tensor([ZeroConcentratedDP(0.1), ZeroConcentratedDP(0.2)]).divergence(order) == pytest.approx(order * 0.3)
    # What holds except with some probability has no Renyi divergence.
    assert math.isinf(WithSlack(GaussianDP(mu), 1e-9).divergence(order))


def test_spending() -> None:
    one = budget()
    cost = one.cost(full(8.0))
    assert (one.left, one.spent, one.runs) == (1.0, 0.0, ())
    one.spend(full(8.0))
    assert one.runs == (full(8.0),)
    assert one.spent == pytest.approx(cost)
    assert one.left == pytest.approx(1 - cost / one.budget)
    assert not one.allows(full(1.0))
    with pytest.raises(dp.UncertifiedError, match=r"of the budget, and 0\.\d+ of it is left: nothing was spent"):
        one.spend(full(1.0))
    assert one.runs == (full(8.0),)
    while one.allows(full(8.0)):
        one.spend(full(8.0))
    assert one.spent <= one.budget < one.spent + 1.01 * cost


def test_a_run_that_costs_nearly_the_budget_is_refused() -> None:
    """Sums of costs are rounded: a part in 10^9 of the budget is room for that, and is not spent."""
    one = budget(notion="gaussian")
    nearly, less = (full(1 / math.sqrt(share * one.budget)) for share in (1 - 5e-10, 1 - 2e-9))
    assert one.cost(less) < one.cost(nearly) < one.budget
    assert not one.allows(nearly)
    one.spend(less)
    assert one.cost(less) * (1 + 9e-10) < one.spent <= one.budget


def test_threads_that_spend_at_once_stay_within_the_budget() -> None:
    """Each looks only after what the one before has taken."""
    one = budget(notion="gaussian")
    asked, covers, both = full(1 / math.sqrt(0.6 * one.budget)), one._covers, Barrier(2)

    def slowly(cost: float) -> bool:
        found = covers(cost)
        with suppress(BrokenBarrierError):
            both.wait(0.2)  # Where both threads look at once, each has seen that nothing is taken.
        return found

    def spend(_: int) -> bool:
        with suppress(dp.UncertifiedError):
            one.spend(asked)
            return True
        return False

    one._covers = slowly
    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(spend, range(2))) == [False, True]
    assert one.runs == (asked,)
    assert pickle.loads(pickle.dumps(budget())).budget == budget().budget


def test_the_best_order_admits_most() -> None:
    """For Gaussians, among fixed orders; the Gaussian notion admits more still."""

    def admitted(**options: Any) -> int:
        one = budget(**options)
        return int(one.budget / one.cost(full(50.0)))

    counts = [admitted(order=order) for order in (4.5, 8.0, 20.0)]
    assert admitted() >= 0.999 * max(counts)
    assert admitted(notion="gaussian") > admitted() > min(counts)


def test_sampled_runs_need_the_renyi_notion() -> None:
    one = budget(notion="gaussian")
    assert math.isinf(one.cost(poisson(20, 0.8)))
    with pytest.raises(dp.UncertifiedError, match="no proved bound gives the run a GDP bound"):
        one.spend(poisson(20, 0.8))


def test_last_iterate_bounds_are_used() -> None:
    quiet = full(30.0, steps=5000, step_size=0.5, smoothness=0.25, strong_convexity=0.1, diameter=2.0, released="last")
    for notion in ("gaussian", "renyi"):
        assert budget(notion=notion).cost(quiet) < 0.1 * budget(notion=notion).cost(full(30.0, steps=5000))


def test_several_runs_may_each_be_paid_by_the_bound_that_is_best_for_it() -> None:
    """No bound covers both as well: the last iterate of one, and all that the other released."""
    quiet = full(30.0, steps=5000, step_size=0.5, smoothness=0.25, strong_convexity=0.1, diameter=2.0, released="last")
    loud = full(10.0)
    for order in (None, 5.0):
        together, each = cost_of(dp.compose(quiet, loud), order), cost_of(quiet, order) + cost_of(loud, order)
        assert each * (1 + 9e-10) < together < each * (1 + 2e-9)  # a sum, which is rounded


def test_a_selection_costs_no_more_than_all_of_its_candidates() -> None:
    """To tell only the best one may cost more than to tell all of them, or less."""
    for candidates, probability in (([full(1.0), full(100.0)], 0.99), ([full(50.0)] * 20, 0.1), ([full(8.0)] * 100, 0.1)):
        one = dp.Selection(candidates, probability)
        told = cost_of(dp.Runs(one.runs), 5.0)
        assert cost_of(one, 5.0) <= told
    assert cost_of(one, 5.0) < 0.5 * told


@pytest.mark.parametrize("order", [None, 5.0])
def test_equal_runs_are_paid_for_each_time(order: float | None) -> None:
    """Beside one whose last iterate alone is released, so that no bound covers all of them as well."""
    quiet = full(30.0, steps=5000, step_size=0.5, smoothness=0.25, strong_convexity=0.1, diameter=2.0, released="last")
    loud = full(10.0)
    together = cost_of(dp.compose(loud, quiet, loud, loud), order)
    assert together == pytest.approx(cost_of(quiet, order) + 3 * cost_of(loud, order), rel=1e-6)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"n": 0}, "n is 0"),
        ({"epsilon": 0.0}, "epsilon is 0"),
        ({"epsilon": 1e308}, "expected at most 1e.300"),
        ({"delta": math.nan}, "delta is nan"),
        ({"delta": 1.0}, "delta is 1"),
        ({"adjacency": "near"}, "adjacency is 'near'"),
        ({"notion": "exact"}, "notion is 'exact'"),
        ({"order": 1.0}, "order is 1"),
        ({"order": 1.2, "epsilon": 0.5}, "order 1.2 leaves no budget"),
        ({"epsilon": 1e-199, "delta": 1e-322, "notion": "gaussian"}, "epsilon leaves no budget"),
        ({"order": 4.0, "notion": "gaussian"}, "leave it out"),
    ],
)
def test_bad_arguments(options: dict[str, Any], says: str) -> None:
    with pytest.raises(dp.InputError, match=says):
        budget(**options)


def test_runs_on_other_records() -> None:
    one = budget()
    for run, says in (
        (full(9.0).replace(n=N + 1), "the run has n 1001, the filter 1000"),
        (full(9.0, adjacency="replace"), "the run has adjacency replace"),
        (full(9.0, unit="person"), "the run has unit person, the filter row"),
        (dp.compose(full(9.0)), "expected a run, got Runs"),
    ):
        with pytest.raises(dp.InputError, match=says):
            one.allows(run)


def test_the_old_name_of_the_notion_warns() -> None:
    with pytest.warns(DeprecationWarning, match="notion"):
        old = dp.Filter(n=100, epsilon=1.0, delta=1e-5, currency="gaussian")
    assert old.notion == "gaussian"


def test_replacement_in_random_allocation_has_no_divergence_and_the_error_says_what_to_do() -> None:
    budget = dp.Filter(n=6000, epsilon=3.0, delta=1e-5, adjacency="replace")
    run = dp.Run(n=6000, sampling=dp.RandomAllocation(100), steps=120, noise_multiplier=2.0, adjacency="replace")
    with pytest.raises(dp.UncertifiedError, match=r"no proved bound gives the run a finite Renyi divergence.*draw Poisson batches"):
        budget.spend(run)
    assert budget.left == 1
    budget.spend(run.replace(sampling=dp.Poisson(100)))
    assert 0 < budget.left < 1
