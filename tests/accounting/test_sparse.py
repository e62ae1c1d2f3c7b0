"""Steps that almost always lose next to nothing: few expected draws and little noise, against other computations of the same."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, compositions
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.dotted import Law
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw, TooSlowError
from dplateau.accounting.sparse import below, sparse_epsilon, sparse_tails_at, sparse_upper
from dplateau.accounting.terms import Composition, Repeated

from . import reference

KINDS = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent)
ROOM = 1e-11
"""What the closed forms are trusted with."""


def run(n: int, batch: float, steps: int, z: float, adjacency: str = "add-remove", *, fixed: bool = False) -> dp.Run:
    sampling = dp.FixedSize(round(batch)) if fixed else dp.Poisson(batch)
    return dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=z, adjacency=adjacency)


def random_law(rng: np.random.Generator) -> StepLaw:
    kind = KINDS[int(rng.integers(len(KINDS)))]
    return kind(float(10 ** rng.uniform(-8, -4)), float(10 ** rng.uniform(-0.7, 1.2)))


def many_digits(law: StepLaw, e: float) -> mp.mpf:
    """delta of one step from the definition, with the threshold of its likelihood ratio in closed form."""
    from . import make_extremes

    names = {PoissonRemove: "remove", PoissonAdd: "add", PoissonReplace: "replace", Amplified: "amplified"}
    if type(law) in names:
        return make_extremes.step(names[type(law)], mp.mpf(law.q), mp.mpf(law.mu), mp.mpf(e))
    return reference.empty_place_delta(law, mp.mpf(e))


@pytest.mark.parametrize("seed", range(6))
def test_the_closed_forms_have_the_digits_that_are_claimed(seed: int) -> None:
    rng = np.random.default_rng(seed)
    law = KINDS[seed](float(10 ** rng.uniform(-8, -4)), float(10 ** rng.uniform(-0.7, 1.2)))
    top = min(law.greatest, law.mu * 6 + law.mu**2)
    with mp.workdps(60):
        for e in [law.q * 2, *(float(x) for x in np.geomspace(max(1e-3 * top, 2 * law.q), 0.9 * top, 8))]:
            if e >= law.greatest:
                continue
            truth = many_digits(law, e)
            if truth < mp.mpf(10) ** -280:
                continue
            assert abs(mp.exp(mp.mpf(float(law.log_delta(np.array(e))))) / truth - 1) < ROOM, e
            y = mp.exp(mp.mpf(e))
            slope = -mp.diff(lambda x, law=law: many_digits(law, mp.log(x)), y)
            assert abs(mp.exp(mp.mpf(float(law.log_above(np.array(e))))) / slope - 1) < ROOM, e


def profile_of(law: Law, h: float, epsilon: float) -> float:
    """delta of a law on points, and of the event besides."""
    x = law.offset + h * (law.first + np.arange(law.p.size))
    finite = law.p * np.maximum(-np.expm1(np.minimum(epsilon - x, 0.0)), 0.0)
    return math.fsum(finite.tolist()) + max(law.event[0] - math.exp(epsilon) * law.event[1], 0.0)


def test_the_step_dominates_what_lies_below() -> None:
    assert sum(dominated(seed) for seed in range(100)) >= 60


def dominated(seed: int) -> bool:
    """Whether there is a law below one at random. If so: it is below at any epsilon, and at a large one little is lost."""
    rng = np.random.default_rng(seed)
    law = random_law(rng)

    def delta(epsilon: float) -> float:
        return float(np.exp(law.log_delta(np.array(epsilon))))

    # The end is where delta is some share of what it is at 0.
    low, end = 0.0, 400.0
    share = delta(0.0) * float(10 ** rng.uniform(-12, -1))
    for _ in range(60):
        middle = (low + end) / 2
        low, end = (middle, end) if delta(middle) > share else (low, middle)
    h = max(end / 5000, 0.06 * law.q)
    try:
        lower = below(law, int(10 ** rng.uniform(0, 6)), end, h)
    except TooSlowError:
        return False
    assert (lower.p >= 0).all()
    assert lower.p.sum() + lower.event[0] <= 1 + 1e-15
    on_the_lattice = lower.offset + h * np.array([-40.0, -2, -1, 0, 1, 2, 50])
    for epsilon in [0.0, *rng.uniform(-end, end, 30).tolist(), *on_the_lattice.tolist()]:
        assert profile_of(lower, h, epsilon) <= delta(epsilon) * (1 + ROOM) + 1e-16, (law, epsilon)
    if h < end / 1000 and law.greatest == math.inf:
        for epsilon in (0.3 * end, 0.7 * end):
            assert profile_of(lower, h, epsilon) >= delta(epsilon) * (1 - 3e-2), (law, epsilon, end)
    return True


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_the_step_dominates_what_lies_below_however_small_delta_is(mu: float) -> None:
    """Also where the product of two slopes of the profile vanishes."""
    law = PoissonRemove(1e-3, mu)
    end = next(e for e in np.geomspace(1.0, 1e4, 400).tolist() if law.log_delta(np.array(e)) < -600)
    h = end / 1000
    lower = below(law, 3, end, h)
    for epsilon in lower.offset + h * (np.arange(1, 1000, 25)[:, None] + np.array([0.2, 0.5, 0.8])).ravel():
        assert profile_of(lower, h, epsilon) <= np.exp(law.log_delta(epsilon)) * (1 + ROOM), epsilon


@pytest.mark.parametrize("seed", range(8))
def test_two_steps_are_the_quadrature(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    law = KINDS[seed % 4](float(10 ** rng.uniform(-7, -4)), float(10 ** rng.uniform(0.3, 0.8)))
    composition = Composition((Repeated(law, 2),))
    whole = 2 * math.exp(float(law.log_delta(np.array(0.0))))
    for share in (0.3, 1e-2, 1e-5):
        delta = share * whole
        found = ExactComposition((composition,)).epsilon(delta)
        for end, sign in ((found.lower, 1), (found.upper, -1)):
            truth = reference.pair_delta(law, law, end)
            assert end == 0 or sign * (truth - delta) >= -1e-6 * delta, (law, delta, found)
        assert found.width <= 1e-3 * max(found.upper, 0.05), (law, delta, found)


@pytest.mark.parametrize(
    ("n", "steps", "z", "delta"),
    [(7_000_000, 599, 0.2, 3e-9), (4_000_000, 165_698, 0.38, 6e-8), (10_000_000, 702_939, 0.27, 1e-8)],
)
def test_many_steps_against_the_peer(n: int, steps: int, z: float, delta: float) -> None:
    """dp-accounting rounds losses to multiples of 1e-3, up or down: with few draws that is little."""

    def peer(safe: bool) -> float:
        one = from_gaussian_mechanism(
            z, sampling_prob=1 / n, pessimistic_estimate=safe, value_discretization_interval=1e-3, use_connect_dots=safe
        )
        return one.self_compose(steps).get_epsilon_for_delta(delta)

    found = ExactComposition(compositions(run(n, 1, steps, z))[0]).epsilon(delta)
    assert found.width <= 1e-3 * found.upper
    assert found.lower <= peer(True) * (1 + 1e-6), found
    assert found.upper >= peer(False) * (1 - 1e-6), found
    assert peer(True) <= found.upper * 1.01  # or the peer would show nothing


@pytest.mark.parametrize("seed", range(5))
def test_extreme_settings_are_narrow(seed: int) -> None:
    """Rates down to 1e-8, noise multipliers down to .1: wider than .1, or nothing, before there was a method for them."""
    rng = np.random.default_rng(seed)
    for adjacency, fixed in (("add-remove", False), ("replace", False), ("add-remove", True), ("replace", True)):
        n, z = int(10 ** rng.uniform(5, 8)), float(10 ** rng.uniform(-1, math.log10(0.5)))
        steps, delta = int(10 ** rng.uniform(0.4, 4)), float(10 ** rng.uniform(-15, -5))
        found = ExactComposition(compositions(run(n, 1, steps, z, adjacency, fixed=fixed))[0]).epsilon(delta)
        assert found.width <= 1e-3 * max(found.upper, 1.0), (n, z, steps, delta, adjacency, fixed, found)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
def test_delta_and_epsilon_agree(adjacency: str) -> None:
    direction = ExactComposition(compositions(run(4_000_000, 1, 5_000, 0.3, adjacency))[0][:1])
    found = direction.epsilon(1e-9)
    back = direction.delta(found.upper)
    assert back.lower <= 1e-9 <= back.upper * (1 + 1e-3)
    assert back.width <= 2e-2 * 1e-9
    assert direction.upper(1e-9) == pytest.approx(found.upper, rel=1e-4)


def test_epsilon_rises_with_the_steps_and_falls_with_the_noise() -> None:
    def epsilon(steps: int, z: float) -> Enclosure:
        return ExactComposition(compositions(run(3_000_000, 1, steps, z))[0]).epsilon(1e-10)

    few, more, quieter = epsilon(500, 0.3), epsilon(5_000, 0.3), epsilon(500, 0.25)
    assert few.upper < more.lower
    assert few.upper < quieter.lower


def test_a_known_interval_is_never_left() -> None:
    composition = compositions(run(4_000_000, 1, 5_000, 0.3))[0][0]
    whole = sparse_epsilon(composition, 1e-9, Enclosure(0.0, 20.0))
    known = Enclosure(whole.lower + whole.width / 3, whole.upper - whole.width / 3)
    inside = sparse_epsilon(composition, 1e-9, known)
    assert known.lower <= inside.lower <= inside.upper <= known.upper


def test_what_has_no_closed_form_is_refused() -> None:
    """Small shifts, moved laws and plain Gaussian steps are not for this method."""
    for law in (PoissonRemove(1e-6, 0.01), PoissonRemove(1e-6, 2.0, 0.3)):
        with pytest.raises(TooSlowError):
            sparse_epsilon(Composition((Repeated(law, 100),)), 1e-9, Enclosure(0.0, 5.0))
        with pytest.raises(TooSlowError):
            sparse_upper(Composition((Repeated(law, 100),)), 1e-9, Enclosure(0.0, 5.0))
    with pytest.raises(TooSlowError):
        sparse_upper(Composition((Repeated(PoissonRemove(2e-3, 2.0), 100),)), 1e-9, Enclosure(0.0, 5.0))
    with pytest.raises(TooSlowError):
        sparse_tails_at(Composition((Repeated(PoissonRemove(1e-6, 2.0), 100),), 0.5), 1.0, Enclosure(0.0, 1.0))


SELDOM: list[Any] = [
    (dp.FixedSize(45), 241_019, 5892, 2.08, "replace", 2.4e-11),
    (dp.FixedSize(45), 241_019, 5892, 2.119, "replace", 2.4e-11),
    (dp.Poisson(20), 100_000, 10_000, 0.86, "add-remove", 1e-9),
    (dp.Poisson(30), 100_000, 3000, 1.5, "replace", 1e-12),
    (dp.Poisson(90), 100_000, 200, 0.7, "add-remove", 1e-8),
    (dp.FixedSize(112), 1_000_000, 184_341, 2.171, "add-remove", 5e-14),
]
RARE: list[Any] = [
    (dp.Poisson(58), 1_000_000, 10_287, 1.876, "add-remove", 1.8e-8),
    (dp.Poisson(48), 1_000_000, 56_718, 1.537, "add-remove", 8.5e-6),
    (dp.FixedSize(62), 1_000_000, 331_682, 2.385, "add-remove", 2.5e-13),
    (dp.FixedSize(58), 1_000_000, 224_261, 2.284, "replace", 1.3e-14),
]


@pytest.mark.parametrize(("sampling", "n", "steps", "z", "adjacency", "delta"), [*SELDOM, *RARE])
def test_an_upper_end_alone_is_about_that_of_the_enclosure_and_never_below(
    sampling: Any, n: int, steps: int, z: float, adjacency: Any, delta: float
) -> None:
    """The upper end alone was up to 37 % above where draws are seldom, and up to a millionth below where they are rare."""
    run = dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=z, adjacency=adjacency)
    guarantee = ExactComposition(compositions(run)[0])
    alone, both = guarantee.upper(delta), guarantee.epsilon(delta)
    assert both.upper <= alone <= both.upper * (1 + 1e-3)


@pytest.mark.parametrize(("sampling", "n", "steps", "z", "adjacency", "delta"), SELDOM)
def test_noise_of_seldom_draws_is_not_more_than_it_must_be(
    sampling: Any, n: int, steps: int, z: float, adjacency: Any, delta: float
) -> None:
    run = dp.Run(n=n, sampling=sampling, steps=steps, noise_multiplier=z, adjacency=adjacency)
    found = dp.calibrate(run, epsilon=0.2, delta=delta)
    assert 0.2 * (1 - 5e-3) <= dp.account(found, delta).epsilon <= 0.2
