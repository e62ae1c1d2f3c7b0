"""Compositions of guarantees: every pair of currencies, closed forms, and nothing below the composition of what is bounded."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations, combinations_with_replacement

import numpy as np
import pytest
from scipy.special import ndtr

from dplateau.accounting import Enclosure, ExactComposition, GaussianDP, Guarantee, RenyiDP
from dplateau.accounting import tensor as module
from dplateau.accounting.advanced import AdvancedComposition
from dplateau.accounting.best_of import BestOf
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove
from dplateau.accounting.random_allocation import allocations
from dplateau.accounting.renyi_curve import RenyiCurve
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.tensor import EachBest, OfTradeOff, SumOfCurves, tensor
from dplateau.accounting.terms import Composition, Repeated
from dplateau.accounting.zcdp import ZeroConcentratedDP
from dplateau.spec import RandomAllocation, Run

DELTA = 1e-5


def family(mu: float) -> BestOf:
    """More slack, less mu; the best is in the middle."""

    def member(k: int) -> Guarantee:
        return WithSlack(GaussianDP(mu * (1 + 0.1 / k)), k * 1e-6)

    return BestOf(member, 64, 64, lambda k, delta: member(k).upper(delta))


GAUSSIAN: dict[str, Callable[[float], Guarantee]] = {
    "gaussian": GaussianDP,
    "exact": lambda mu: ExactComposition((Composition((), mu),)),
    "mixture": lambda mu: MixtureOfGaussianDP((mu, 1.1 * mu), (0.9, 0.1)),
    "renyi": lambda mu: RenyiDP((Composition((), mu),)),
    "curve": lambda mu: ZeroConcentratedDP(mu**2 / 2),
    "slack": lambda mu: WithSlack(GaussianDP(mu), 1e-7),
    "best of": family,
}
"""Every currency, as a bound on mu-GDP."""


@cache
def sampled(count: int = 200) -> ExactComposition:
    """Sampled steps, which are no Gaussian."""
    return ExactComposition(tuple(Composition((Repeated(law(0.01, 1.0), count),)) for law in (PoissonRemove, PoissonAdd)))


def basic(a: Guarantee, b: Guarantee) -> float:
    """What adding epsilons and deltas gives."""
    return a.epsilon(DELTA / 2).upper + b.epsilon(DELTA / 2).upper


@pytest.mark.parametrize(("first", "second"), list(combinations_with_replacement(GAUSSIAN, 2)))
def test_every_pair_is_no_less_than_what_it_bounds(first: str, second: str) -> None:
    a, b = GAUSSIAN[first](0.5), GAUSSIAN[second](0.8)
    truth, whole, other = GaussianDP(math.hypot(0.5, 0.8)), tensor([a, b]), tensor([b, a])
    epsilon = whole.epsilon(DELTA)
    assert truth.epsilon(DELTA).lower <= epsilon.upper * (1 + 1e-9)
    assert epsilon.upper < 0.85 * basic(a, b)
    assert other.epsilon(DELTA).upper == pytest.approx(epsilon.upper, rel=1e-3)
    delta = whole.delta(epsilon.upper)
    assert truth.delta(epsilon.upper).lower <= delta.upper * (1 + 1e-9)
    # A family may choose another member for an epsilon than for its delta.
    family = "best of" in (first, second)
    assert (0.85 if family else 0.95) * DELTA < delta.upper < (1.5 if family else 1.05) * DELTA


@pytest.mark.parametrize(
    "names",
    [
        *combinations(("gaussian", "renyi", "curve", "slack", "best of"), 3),
        ("gaussian", "mixture", "slack"),
        ("mixture", "slack", "best of"),
    ],
    ids=" ".join,
)
def test_it_associates(names: tuple[str, str, str]) -> None:
    a, b, c = (GAUSSIAN[name](mu) for name, mu in zip(names, (0.3, 0.5, 0.8), strict=True))
    values = [one.epsilon(DELTA).upper for one in (tensor([a, b, c]), tensor([tensor([a, b]), c]), tensor([a, tensor([b, c])]))]
    assert max(values) <= (1 + 1e-9) * min(values)
    assert min(values) >= GaussianDP(math.sqrt(0.09 + 0.25 + 0.64)).epsilon(DELTA).lower


def test_currencies_are_kept() -> None:
    kinds = {
        ("gaussian", "exact"): GaussianDP,
        ("gaussian", "mixture"): MixtureOfGaussianDP,
        ("exact", "mixture"): MixtureOfGaussianDP,
        ("mixture", "mixture"): MixtureOfGaussianDP,
        ("renyi", "renyi"): RenyiDP,
        ("renyi", "curve"): SumOfCurves,
        ("gaussian", "curve"): SumOfCurves,
        ("slack", "renyi"): WithSlack,
        ("best of", "curve"): EachBest,
        ("mixture", "curve"): OfTradeOff,
    }
    for (a, b), kind in kinds.items():
        assert type(tensor([GAUSSIAN[a](0.5), GAUSSIAN[b](0.8)])) is kind, (a, b)
    one = GaussianDP(1.0)
    assert tensor([one]) is one


def test_gaussians_add_squares() -> None:
    joined = tensor([GaussianDP(0.3), GAUSSIAN["exact"](0.4), GaussianDP(1.2)])
    assert joined.mu == pytest.approx(1.3, rel=1e-15)


def test_mixtures_multiply_out() -> None:
    a, b = MixtureOfGaussianDP((0.5, 1.0), (0.3, 0.7)), MixtureOfGaussianDP((0.2, 0.9, 1.5), (0.5, 0.25, 0.25))
    epsilon = 3.0
    wanted = 0.0
    for mu, p in zip(a.mus, a.weights, strict=True):
        for nu, r in zip(b.mus, b.weights, strict=True):
            m = math.sqrt(mu**2 + nu**2 + 0.36)
            wanted += p * r * (ndtr(m / 2 - epsilon / m) - math.exp(epsilon) * ndtr(-m / 2 - epsilon / m))
    assert tensor([a, b, GaussianDP(0.6)]).delta(epsilon).upper == pytest.approx(wanted, rel=1e-9)


def test_gathered_components_are_rounded_up(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    mixtures = [MixtureOfGaussianDP(tuple(random.uniform(0.1, 1, 40).tolist()), (1 / 40,) * 40) for _ in range(2)]
    exact = tensor(mixtures)
    monkeypatch.setattr(module, "_COMPONENTS", 50)
    gathered = tensor(mixtures)
    assert len(exact.mus) == 1600
    assert len(gathered.mus) == 50
    assert math.fsum(gathered.weights) == pytest.approx(1, rel=1e-12)
    for epsilon in (0.1, 1.0, 5.0):
        assert exact.delta(epsilon).upper < gathered.delta(epsilon).upper < 2 * exact.delta(epsilon).upper
        assert exact.delta(epsilon).lower / 2 < gathered.delta(epsilon).lower < exact.delta(epsilon).lower


def test_rounded_mus_stay_rounded_both_ways() -> None:
    """Lower ends are those of mus rounded down, in every composition."""
    rounded, plain = GaussianDP(0.5, 0.4), GaussianDP(0.3)
    mixture = MixtureOfGaussianDP((0.5, 1.0), (0.3, 0.7), (0.4, 0.9))
    assert tensor([rounded, plain]) == GaussianDP(math.hypot(0.5, 0.3), math.hypot(0.4, 0.3))
    assert tensor([GAUSSIAN["exact"](0.3), rounded]) == GaussianDP(math.hypot(0.5, 0.3), math.hypot(0.4, 0.3))
    exact = ExactComposition((Composition((), 0.5),), (Composition((), 0.4),))
    assert tensor([exact, plain]) == tensor([rounded, plain])
    curve = ZeroConcentratedDP(0.1)
    nested, at_once = tensor([tensor([curve, rounded]), sampled()]), tensor([curve, rounded, sampled()])
    assert nested.epsilon(DELTA) == at_once.epsilon(DELTA)
    lower = replace(mixture, mus=mixture.below)
    for whole, above, below in (
        (rounded, GaussianDP(0.5), GaussianDP(0.4)),
        (mixture, replace(mixture, below=()), lower),
        (tensor([mixture, rounded]), tensor([mixture, GaussianDP(0.5)]), tensor([lower, GaussianDP(0.4)])),
        (tensor([sampled(), rounded]), tensor([sampled(), GaussianDP(0.5)]), tensor([sampled(), GaussianDP(0.4)])),
    ):
        assert whole.epsilon(DELTA) == Enclosure(below.epsilon(DELTA).lower, above.epsilon(DELTA).upper)
        assert whole.delta(1.0).upper == above.delta(1.0).upper
        assert whole.delta(1.0).lower <= below.delta(1.0).lower
        assert whole.upper(DELTA) == above.upper(DELTA)


@pytest.mark.parametrize(("mus", "weights"), [((0.4, 0.9), (0.75, 0.25))])
def test_sampled_steps_and_a_mixture_against_the_sum(mus: tuple[float, ...], weights: tuple[float, ...]) -> None:
    """delta of the two is the mean over the components of delta with a Gaussian."""
    whole = tensor([sampled(), MixtureOfGaussianDP(mus, weights)])
    for epsilon in (1.0, 3.0):
        parts = [tensor([sampled(), GaussianDP(mu)]).delta(epsilon) for mu in mus]
        wanted = sum(p * one.upper for p, one in zip(weights, parts, strict=True))
        found = whole.delta(epsilon)
        assert found.lower <= wanted * (1 + 1e-6)
        assert wanted * (1 - 1e-6) <= found.upper <= 1.05 * wanted


@pytest.mark.parametrize("name", ["renyi", "curve", "slack", "best of"])
def test_sampled_steps_with_every_other_currency(name: str) -> None:
    other = GAUSSIAN[name](0.5)
    found, truth = tensor([sampled(), other]).epsilon(DELTA), tensor([sampled(), GaussianDP(0.5)]).epsilon(DELTA)
    assert truth.lower <= found.upper * (1 + 1e-9)
    assert found.upper < 0.9 * basic(sampled(), other)
    assert found.lower <= truth.upper * (1 + 1e-9) or name in ("slack", "best of")


def test_runs_are_split_without_loss() -> None:
    halves, whole = tensor([sampled(80), sampled(120)]), sampled(200)
    assert halves.directions == whole.directions
    assert halves.epsilon(DELTA) == whole.epsilon(DELTA)
    renyi = tensor([RenyiDP(sampled(80).directions), RenyiDP(sampled(120).directions)])
    assert renyi.epsilon(DELTA) == RenyiDP(whole.directions).epsilon(DELTA)


def epochs(noise: Sequence[float]) -> ExactComposition:
    """Epochs of random allocation, two batches each."""
    run = Run(n=20, sampling=RandomAllocation(10), steps=2 * len(noise), noise_multiplier=np.repeat(noise, 2))
    return ExactComposition(allocations(run, safe=True), allocations(run, safe=False))


def test_epochs_of_random_allocation_are_joined_with_their_moments() -> None:
    half, whole = epochs([2.0, 3.0]), epochs([2.0, 2.0, 3.0, 3.0]).epsilon(DELTA)
    found = tensor([half, half]).epsilon(DELTA)
    assert found.width < 1e-6
    assert found.lower <= whole.upper
    assert whole.lower <= found.upper


def test_epochs_that_all_differ_keep_their_contours() -> None:
    """Lattices refuse compositions of more than 64 laws."""
    many = tensor([epochs(np.linspace(8.0, 9.0, 33)), epochs(np.linspace(8.01, 9.01, 33)), GaussianDP(0.3)])
    least, most = (tensor([epochs([noise] * 66), GaussianDP(0.3)]).epsilon(DELTA) for noise in (9.01, 8.0))
    found = many.epsilon(DELTA)
    assert least.upper < found.lower <= found.upper < most.lower
    assert found.width < 1e-6


def test_directions_are_not_mixed_up() -> None:
    """Symmetric steps count in both directions; those of two directions stay apart."""
    joined = tensor([sampled(), ExactComposition((Composition((), 0.5),))])
    assert [one.gaussian for one in joined.directions] == [0.5, 0.5]
    assert [type(one.terms[0].law) for one in joined.directions] == [PoissonRemove, PoissonAdd]
    other = ExactComposition(tuple(Composition((Repeated(law(0.02, 0.7), 3),)) for law in (PoissonRemove, PoissonAdd)))
    for composition, kind in zip(tensor([sampled(), other]).directions, (PoissonRemove, PoissonAdd), strict=True):
        assert {type(term.law) for term in composition.terms} == {kind}
        assert sorted(term.count for term in composition.terms) == [3, 200]


def test_lower_ends_come_from_what_is_dominated() -> None:
    rounded = ExactComposition(sampled(200).directions, sampled(150).directions)
    joined = tensor([rounded, sampled(100)])
    assert joined.directions == sampled(300).directions
    assert joined.below == sampled(250).directions
    epsilon = joined.epsilon(DELTA)
    assert epsilon.lower == sampled(250).epsilon(DELTA).lower
    assert epsilon.upper == sampled(300).epsilon(DELTA).upper


def test_slacks_add() -> None:
    joined = tensor([WithSlack(GaussianDP(0.5), 1e-6), WithSlack(GaussianDP(0.8), 3e-6), GaussianDP(0.1)])
    assert isinstance(joined, WithSlack)
    assert joined.slack == pytest.approx(4e-6)
    bare = GaussianDP(math.sqrt(0.25 + 0.64 + 0.01))
    assert joined.epsilon(1e-5).upper == pytest.approx(bare.epsilon(6e-6).upper, rel=1e-9)
    assert joined.epsilon(4e-6).upper == math.inf
    assert joined.delta(2.0).upper == pytest.approx(bare.delta(2.0).upper + 4e-6, rel=1e-9)


def test_renyi_curves_add_order_by_order() -> None:
    joined = tensor([ZeroConcentratedDP(0.1, 20.0), GAUSSIAN["renyi"](0.6), GaussianDP(0.5)])
    assert joined.point(4.0, DELTA)[0] == pytest.approx(4 * (0.1 + 0.18 + 0.125), rel=1e-8)
    assert joined.point(21.0, DELTA)[0] == math.inf
    assert joined.epsilon(DELTA).upper == pytest.approx(ZeroConcentratedDP(0.405, 20.0).epsilon(DELTA).upper, rel=1e-3)


class Sometimes(RenyiCurve):
    """A Gaussian mechanism that tells everything with some probability, a share of the delta that it is asked for."""

    def __init__(self, mu: float, share: float) -> None:
        self.mu_otherwise, self.share = mu, share

    def point(self, order: float, delta: float) -> tuple[float, float]:
        return order * self.mu_otherwise**2 / 2, self.share * delta


def test_what_each_curve_leaves_out_adds_up() -> None:
    """Two that each tell everything with some probability: any of them may, and together they leave out no more than one may."""
    curves = Sometimes(0.3, 0.5), Sometimes(0.4, 0.2), GAUSSIAN["renyi"](1.2)
    bound, outside = tensor(curves).point(4.0, DELTA)
    assert bound == pytest.approx(4 * 1.69 / 2, rel=1e-8)
    assert outside == pytest.approx((0.5 + 0.2) * DELTA / 3, rel=1e-12)


def test_other_conversions_are_not_mixed_up() -> None:
    """Renyi guarantees that are read at fixed orders or by the classical conversion stay so, or become curves."""
    a, b = RenyiDP(sampled().directions, True), RenyiDP(sampled().directions, True)
    assert tensor([a, b]).classical
    mixed = tensor([a, RenyiDP(sampled().directions)])
    assert isinstance(mixed, SumOfCurves)
    assert mixed.point(8.0, DELTA)[0] >= RenyiDP(sampled(400).directions).directions[0].bound(7.0) / 7 * (1 - 1e-8)


def test_advanced_compositions_join() -> None:
    a, b = (AdvancedComposition(np.array([0.01]), np.array([1.0]), np.array([count])) for count in (80, 120))
    whole = AdvancedComposition(np.array([0.01]), np.array([1.0]), np.array([200]))
    assert tensor([a, b]).epsilon(DELTA).upper == pytest.approx(whole.epsilon(DELTA).upper, rel=1e-9)


def test_nothing_known_stays_nothing_known() -> None:
    nothing = WithSlack(GaussianDP(0.1), 1e-3)
    for other in (GaussianDP(0.5), sampled(), ZeroConcentratedDP(0.1)):
        assert tensor([nothing, other]).epsilon(DELTA) == Enclosure(0.0, math.inf)
    unbounded = ZeroConcentratedDP(math.inf)
    assert tensor([unbounded, GaussianDP(0.5)]).epsilon(DELTA).upper == math.inf
    assert tensor([unbounded, sampled()]).epsilon(DELTA).upper == math.inf
