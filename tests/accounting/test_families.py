"""Families of laws: the sum over thousands of different steps against the same sum one by one."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import logging
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest

import dplateau as dp
from dplateau.accounting import ExactComposition, RenyiDP, compositions, family, mechanism
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.contour import at_most, contour_epsilon
from dplateau.accounting.family import Axis, Family, Members
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw
from dplateau.accounting.terms import Composition, Repeated, worst
from dplateau.analyses import ExactCompositionBound

KINDS = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified)
DELTA = 1e-5


def drawn(kind: type[StepLaw], seed: int, size: int, spread: float, rates: float) -> Family:
    """Laws around one rate and one shift, some of them repeated."""
    rng = np.random.default_rng(seed)
    mus = 0.7 * np.exp(-spread * rng.uniform(size=size))
    odds = 0.03 * np.exp(rates * rng.uniform(size=size))
    return Family(kind, Members.of(odds / (1 + odds), mus, rng.integers(1, 50, size)))


def one_by_one(some: Family, c: float, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    parts = [one.log_transform(c, at, math.log(1e-13)) for one in some.repeated]
    return sum(value for value, _ in parts), sum(error for _, error in parts)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rates", "c", "omega"), [(0.0, 0.3, 1.0), (0.0, 2.0, 12.0), (0.0, 6.0, 3.0), (0.4, 1.5, 4.0)])
def test_the_sum_is_within_its_claimed_error(kind: type[StepLaw], rates: float, c: float, omega: float) -> None:
    some = drawn(kind, 1, 80, 1.0 if rates == 0 else 0.5, rates)
    at, tolerance = np.linspace(0.0, omega, 30 if rates == 0 else 5), 1e-7
    true, room = one_by_one(some, c, at)
    # Where the grid has no more points than there are members, they are summed one by one: call the grid as well.
    grid = some._gathered(c, at, math.log(tolerance), some._sizes(c, omega, math.log(tolerance / some.steps)))
    for value, error in (some.log_transform(c, at, math.log(tolerance)), grid):
        off = np.exp(value - true) - 1
        assert (np.abs(off) <= error + room).all()
        assert (error <= 1e3 * tolerance).all()


def continued(kind: type[StepLaw], q: Any, mu: Any, s: Any) -> Any:
    """m(s) - 1 at a complex rate and shift: an integral over a real u in which all is analytic in both."""

    def normal(u: Any) -> Any:
        return mp.exp(-((u / mu) ** 2) / 2) / (mu * mp.sqrt(2 * mp.pi))

    def log_a(u: Any) -> Any:
        return mp.log(1 - q + q * mp.exp(u - mu**2 / 2))

    def outer(v: Any) -> Any:
        ratio = mp.log(1 - q + q * mp.exp(v))
        return mp.exp((1 + s) * ratio) + mp.exp(-s * ratio) - mp.exp(ratio) - 1

    if kind is Amplified:
        # Its half-line starts where the likelihood ratio of the Gaussians is 1: v = u - mu^2/2 > 0.
        return mp.quad(lambda v: normal(v + mu**2 / 2) * outer(v), [0, 0.3, 1, 2, 4, 8, 16])
    power = {
        PoissonRemove: lambda u: (1 + s) * log_a(u),
        PoissonAdd: lambda u: -s * log_a(u),
        PoissonReplace: lambda u: (1 + s) * log_a(u) - s * log_a(-u),
    }[kind]
    return mp.quad(lambda u: normal(u) * mp.exp(power(u)), mp.linspace(-12, 16, 12)) - 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("coordinate", ["noise", "rate"])
def test_the_transform_is_bounded_on_the_ellipse(kind: type[StepLaw], coordinate: str) -> None:
    """The bound that decides how many points there are, against 30-digit integrals at complex shifts and rates."""
    q, mu, c, omega, turn = mp.mpf("0.02"), mp.mpf("0.9"), 1.5, 4.0, 0.3
    some = Family(kind, Members.of(np.array([0.01, float(q)]), np.array([0.6, float(mu)]), np.ones(2, int)))
    s = mp.mpc(c, omega)
    for sign in (1, -1):
        if coordinate == "noise":
            size, rate = mu * mp.expj(sign * turn), q
            bound = some._turned_noise(turn, float(mp.log(mu)), c, omega)
        else:
            odds = q / (1 - q) * mp.expj(sign * turn)
            size, rate = mu, odds / (1 + odds)
            bound = some._turned_rate(turn, float(mp.log(q / (1 - q))), c, omega)
        value = continued(kind, rate, size, s)
        # |m - 1| <= 2 exp(bound), which is what the number of points is computed from.
        assert mp.log(abs(value)) <= bound + math.log(2)


@pytest.mark.parametrize("kind", KINDS)
def test_a_bound_on_the_ellipse_holds_for_each_member(kind: type[StepLaw]) -> None:
    """What holds for all members is no less than what holds for a few of them, whichever of them is the worst."""
    qs, mus = np.array([0.01, 0.1, 0.3]), np.array([0.1, 0.5, 2.0])

    def of(qs: np.ndarray, mus: np.ndarray) -> Family:
        return Family(kind, Members.of(qs, mus, np.ones(len(qs), int)))

    both, moved = of(qs, mus), 0
    for c, omega in ((0.3, 1.0), (2.0, 12.0), (0.1, 60.0)):
        for turn in (0.02, 0.1, 0.3, 0.7):
            for at in (-3.0, -1.0, 0.5):
                by_noise, by_rate = both._turned_noise(turn, at, c, omega), both._turned_rate(turn, at, c, omega)
                each = [of(qs[:1], mus[i : i + 1])._turned_rate(turn, at, c, omega) for i in range(3)]
                assert by_rate >= max(each) - 1e-12
                assert by_noise >= max(of(qs[i : i + 1], mus[:1])._turned_noise(turn, at, c, omega) for i in range(3)) - 1e-12
                moved += max(each) > each[2] + 0.01
    # Mostly the loudest noise decides how much of a turn can be undone.
    assert moved >= 10 or kind is PoissonReplace


def test_interpolation_in_higher_degrees_is_bounded() -> None:
    rng = np.random.default_rng(2)
    for decay, scale, shape in ((0.5, 0.3, (12, 1)), (0.7, 0.1, (16, 1)), (0.4, 0.2, (10, 8))):
        size = scale * decay ** np.add.outer(np.arange(6), np.arange(6 if shape[1] > 1 else 1))
        coefficients = (size * np.exp(2j * np.pi * rng.uniform(size=size.shape)))[..., None]
        bound = family._higher(np.abs(coefficients), shape)
        fine = (80, 80 if shape[1] > 1 else 1)
        coarse = family._coefficients(np.log1p(family._evaluated(coefficients, shape)))
        gap = np.log1p(family._evaluated(coefficients, fine)) - family._evaluated(coarse, fine)
        assert 0 < np.abs(gap).max() <= bound[0] < 0.5


def test_moments_integrate_polynomials_exactly() -> None:
    some = drawn(PoissonRemove, 3, 3_000, 1.3, 0.9).members
    moments, fuzz = some.moments((30, 20))
    x, y = np.arccos(some.noise.place), np.arccos(some.rate.place)
    for j, k in ((0, 0), (1, 3), (17, 5), (29, 19)):
        true = math.fsum(some.counts * np.cos(j * x) * np.cos(k * y))
        assert abs(moments[j, k] - true) <= fuzz[j, k] + 1e-12 * some.steps
    assert some.moments((9, 4))[0].shape == (9, 4)
    assert fuzz.max() < 1e-11 * some.steps
    weights = some.weights((9, 4))
    assert weights.sum() == pytest.approx(some.steps)


def test_equal_members_need_one_point() -> None:
    axis = Axis.of(np.full(5, 0.3))
    assert axis.half == 0
    assert axis.at(7).tolist() == [0.3]
    some = Members.of(np.full(4, 0.1), np.array([0.5, 0.6, 0.7, 0.8]), np.ones(4, int))
    assert some.rate.half == 0
    assert some.grid((3, 1))[1].tolist() == [0.1]


@pytest.mark.parametrize(("kind", "rates"), [(PoissonRemove, 0.0), (PoissonAdd, 0.9), (PoissonReplace, 0.9), (Amplified, 0.0)])
def test_family_and_its_members_have_the_same_epsilon(kind: type[StepLaw], rates: float) -> None:
    some = drawn(kind, 4, 60, 0.9, rates)
    whole = contour_epsilon(Composition((some,)), DELTA)
    plain = contour_epsilon(Composition(tuple(some.repeated)), DELTA)
    assert max(whole.lower, plain.lower) <= min(whole.upper, plain.upper)
    assert whole.width <= 1e-6
    axis = np.array([0.5, 2.0])
    assert some.cumulants(2.0)(axis) == pytest.approx(sum(one.cumulants(2.0)(axis) for one in some.repeated), rel=1e-6)
    assert some.variation() >= sum(one.variation() for one in some.repeated)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_forty_thousand_levels(adjacency: str) -> None:
    """Between the runs whose noise is everywhere that of the next higher or lower of 40 levels, and narrow."""
    z = 0.8 * (1 + np.arange(40_000) / 400) ** 0.25

    def epsilon(noise: np.ndarray) -> dp.Enclosure:
        run = dp.Run(n=60_000, sampling=dp.Poisson(256), steps=40_000, noise_multiplier=noise, adjacency=adjacency)
        assert not compositions(run)[1]
        return ExactCompositionBound().guarantee(run).epsilon(DELTA)

    found = epsilon(z)
    assert found.width <= 1e-6
    blocks = z.reshape(40, 1000)
    assert epsilon(np.repeat(blocks.max(axis=1), 1000)).lower < found.lower
    assert found.upper < epsilon(np.repeat(blocks.min(axis=1), 1000)).upper
    # Values between those of one noise level: the mean of K over the steps is that of some level in between.
    assert epsilon(np.full(40_000, z.max())).upper < found.lower


def test_rates_and_noise_that_both_vary_are_not_rounded() -> None:
    rng = np.random.default_rng(6)
    sizes, z = np.round(np.linspace(128, 300, 600)), rng.uniform(0.8, 1.5, 600)
    run = dp.Run(n=60_000, sampling=dp.Poisson(sizes), steps=600, noise_multiplier=z)
    directions, rounded = compositions(run)
    assert not rounded
    found = ExactComposition(directions).epsilon(DELTA)
    assert found.width <= 1e-5
    plain = Composition(tuple(Repeated(PoissonRemove(b / 60_000, 1 / v), 1) for b, v in zip(sizes, z, strict=True)))
    at = np.array([0.0, 1.0, 2.0])
    value, error = directions[0].terms[0].log_transform(2.0, at, math.log(1e-9))
    true = sum(term.log_transform(2.0, at, math.log(1e-14))[0] for term in plain.terms)
    assert (np.abs(np.exp(value - true) - 1) <= error + 1e-10).all()


def test_a_wide_spread_becomes_several_families() -> None:
    z = np.geomspace(0.6, 30, 2_000)
    directions, rounded = compositions(dp.Run(n=60_000, sampling=dp.Poisson(256), steps=2_000, noise_multiplier=z))
    assert not rounded
    assert [len(direction.terms) for direction in directions] == [3, 3]
    assert directions[0].steps == 2_000
    assert all(term.members.noise.half <= mechanism._LONG / 2 + 1e-12 for term in directions[0].terms)
    assert ExactComposition(directions).epsilon(DELTA).width <= 1e-6


def test_levels_against_the_peer() -> None:
    logging.disable(logging.WARNING)
    from dp_accounting.pld import privacy_loss_distribution as pld

    z = np.linspace(0.9, 1.8, 25)
    whole = None
    for level in z:
        part = pld.from_gaussian_mechanism(float(level), sampling_prob=0.02, value_discretization_interval=2e-3).self_compose(20)
        whole = part if whole is None else whole.compose(part)
    run = dp.Run(n=1_000, sampling=dp.Poisson(20), steps=500, noise_multiplier=np.repeat(z, 20))
    ours = ExactCompositionBound().guarantee(run).epsilon(DELTA)
    assert ours.lower <= whole.get_epsilon_for_delta(DELTA) <= ours.upper + 0.1
    assert ours.width <= 1e-6


@pytest.mark.parametrize("classical", [False, True])
def test_renyi_of_a_family_is_that_of_its_members(classical: bool) -> None:
    some = drawn(PoissonRemove, 7, 60, 0.9, 0.5)
    whole = RenyiDP((Composition((some,)),), classical).epsilon(DELTA).upper
    plain = RenyiDP((Composition(tuple(some.repeated)),), classical).epsilon(DELTA).upper
    assert whole == pytest.approx(plain, rel=1e-6)
    assert whole > contour_epsilon(Composition((some,)), DELTA).upper


def test_the_smaller_direction_is_skipped_only_where_a_bound_shows_it() -> None:
    remove, add = compositions(dp.Run(n=1_000, sampling=dp.Poisson(20), steps=500, noise_multiplier=0.7))[0]
    large, small = contour_epsilon(remove, DELTA), contour_epsilon(add, DELTA)
    assert at_most(add, large.lower, DELTA)
    for composition, epsilon in ((remove, large), (add, small)):
        assert not at_most(composition, epsilon.lower * 0.999, DELTA)
        assert not at_most(composition, 1e-3, DELTA)
    assert ExactComposition((remove, add)).epsilon(DELTA) == large


def test_calibrated_noise_is_certified_and_not_too_large() -> None:
    for fields in ({"noise_multiplier": 3.0}, {"noise_multiplier": tuple(np.linspace(1, 2, 500))}, {"adjacency": "replace"}):
        run = dp.Run(**({"n": 10_000, "sampling": dp.Poisson(100), "steps": 500, "noise_multiplier": 1.0} | fields))
        answer = dp.calibrate(run, epsilon=1.5, delta=DELTA)
        spent = dp.account(answer, DELTA).epsilon
        assert spent <= 1.5
        assert spent >= 1.5 * (1 - 5e-6)


@pytest.mark.parametrize(
    ("n", "batch", "steps", "epsilon", "delta", "adjacency"),
    [
        (10_000, 1, 100, 0.1, 1e-5, "replace"),
        (13_449, 2, 672, 0.45441307854604635, 8.5623e-07, "replace"),
        (1_908, 1, 25, 0.17993408144821657, 2.7646e-08, "add-remove"),
        (6_744, 1, 4, 0.1167225130998759, 9.099e-09, "add-remove"),
    ],
)
def test_rare_draws_are_calibrated_by_the_end_that_is_certified(n, batch, steps, epsilon, delta, adjacency) -> None:
    """Lattices decide: the upper end that a search asks for is the one of the enclosure, to the last bit."""
    run = dp.Run(n=n, sampling=dp.Poisson(batch), steps=steps, noise_multiplier=1.0, adjacency=adjacency)
    answer = dp.calibrate(run, epsilon=epsilon, delta=delta)
    assert epsilon * (1 - 5e-6) <= dp.account(answer, delta).epsilon <= epsilon
    guarantee = ExactComposition(compositions(answer)[0])
    assert guarantee.upper(delta) == guarantee.epsilon(delta).upper


@pytest.mark.parametrize("c", [0.5, 30.0])
@pytest.mark.parametrize("varying", [0, 1, 2], ids=["rate", "noise", "shift"])
def test_few_laws_in_place_of_many_have_no_smaller_moments(varying: int, c: float) -> None:
    """Whatever differs from step to step: every step is dominated, and every one counts."""
    rng = np.random.default_rng(1)
    table = np.tile([0.02, 0.7, 0.1], (200, 1))
    table[:, varying] *= rng.uniform(0.5, 1.0, 200)
    steps = [
        Repeated(PoissonRemove(*row), count) for row, count in zip(table.tolist(), rng.integers(1, 9, 200).tolist(), strict=True)
    ]
    few = worst(steps)
    assert len(few) <= 64
    assert sum(one.count for one in few) == sum(one.count for one in steps)
    exact, found = (sum(one.overflowing(c, math.log(1e-10)) for one in some) for some in (steps, few))
    assert exact <= found <= 2 * exact
