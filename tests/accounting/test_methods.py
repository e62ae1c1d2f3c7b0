"""The two exact methods against each other, against plain quadratures, and against a simulation."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import math
import warnings
from contextlib import suppress

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import beta

import dplateau as dp
from dplateau.accounting import Enclosure, ExactComposition, GaussianDP, Guarantee, compositions, contour, gdp_delta, gdp_epsilon
from dplateau.accounting.advanced import AdvancedComposition
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.composition import _step_by_step
from dplateau.accounting.contour import Line, RealAxis, at_most, contour_epsilon, line_at
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.lattice import lattice_epsilon
from dplateau.accounting.mixture import MixtureOfGaussianDP
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace, StepLaw, TooSlowError
from dplateau.accounting.renyi import RenyiDP
from dplateau.accounting.selection import Selected
from dplateau.accounting.slack import WithSlack
from dplateau.accounting.terms import Composition, Repeated
from dplateau.accounting.zcdp import ZeroConcentratedDP

from . import reference

KINDS = (PoissonRemove, PoissonAdd, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent)


def compose(*parts: tuple[StepLaw, int], gaussian: float = 0.0) -> Composition:
    return Composition(tuple(Repeated(law, count) for law, count in parts), gaussian)


def ordinary(count: int, kinds: tuple[type[StepLaw], ...] = KINDS[:4]) -> list[tuple[Composition, float]]:
    """Settings whose epsilon is between 0.05 and 20, with T from 2 to 2,000."""
    rng, found = np.random.default_rng(8), []
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        q, z, steps = 10 ** rng.uniform(-2, -0.3), rng.uniform(0.7, 5), int(2 * 1000 ** rng.uniform())
        mu = q * math.sqrt(steps * math.expm1(z**-2))
        if 0.02 < mu < 3:
            gaussian = float(rng.uniform(0, 1)) if rng.uniform() < 0.25 else 0.0
            law = kind(q, (2 if kind is Amplified else 1) / z)
            found.append((compose((law, steps), gaussian=gaussian), float(10 ** rng.uniform(-9, -3))))
    return found


@pytest.mark.parametrize("part", range(6))
def test_contour_and_lattice_agree(part: int) -> None:
    both = 0
    for composition, delta in ordinary(60)[part::6]:
        lattice = lattice_epsilon(composition, delta, 1e-5)
        try:
            contour = contour_epsilon(composition, delta)
        except TooSlowError:
            assert composition.steps < 200
            continue
        both += 1
        assert contour.width <= 1e-5
        assert lattice.width <= 2e-5 * max(lattice.upper, 1.0)
        assert max(contour.lower, lattice.lower) <= min(contour.upper, lattice.upper), composition
    assert both >= 6


def test_contour_and_lattice_agree_on_empty_places() -> None:
    both = 0
    for composition, delta in ordinary(24, KINDS[4:]):
        lattice = lattice_epsilon(composition, delta, 1e-5)
        try:
            contour = contour_epsilon(composition, delta)
        except TooSlowError:
            continue
        both += 1
        assert contour.width <= 1e-5
        assert lattice.width <= 1e-4 * max(lattice.upper, 1.0)
        assert max(contour.lower, lattice.lower) <= min(contour.upper, lattice.upper), composition
    assert both >= 10


def test_enclosures_are_a_millionth_wide_in_the_ordinary_regime() -> None:
    """Ordinary: epsilon from 0.05 to 20, delta from 1e-9 to 1e-3, 20 steps and more, rates from 1 to 50 per cent."""
    for composition, delta in ordinary(60):
        if composition.steps >= 20:
            assert ExactComposition((composition,)).epsilon(delta).width <= 1e-6, (composition, delta)


def test_a_line_says_nothing_wrong_far_from_where_it_is_best() -> None:
    """What wraps around, and what is left out, may be more than 1 there: then the line says nothing."""
    blind = 0
    for q, mu, steps in ((256 / 60_000, 1.0, 5_000), (0.01, 2.0, 300), (0.3, 0.2, 40), (1e-3, 4.0, 2_000)):
        for law in (PoissonRemove(q, mu), PoissonAdd(q, mu)):
            composition = compose((law, steps))
            top = contour_epsilon(composition, 1e-10).upper
            lines: list[Line] = []
            for at in (0.02, 0.2, 0.5, 1.0, 1.5):
                with suppress(TooSlowError):
                    lines.append(line_at(composition, at * top))
            assert len(lines) >= 2
            for epsilon in (0.0, 1e-3 * top, 0.1 * top, 0.4 * top, top, 3 * top):
                found = [line.delta(epsilon) for line in lines]
                assert max(one.lower for one in found) <= min(one.upper for one in found), (law, epsilon, found)
                blind += sum(one.lower == 0 and one.upper == 1 for one in found)
    assert blind


def test_numbers_in_half_precision_round_nothing() -> None:
    """An upper end is kept: what was asked with a number in half precision answered the same number in double precision, too."""
    guarantee = ExactComposition(tuple(compose((law, 10)) for law in (PoissonRemove(0.01, 1.0), PoissonAdd(0.01, 1.0))))
    renyi = RenyiDP(guarantee.directions)
    for k in (7, 16, 18):
        rough, delta = np.float16(2.0**-k), 2.0**-k
        assert type(guarantee.upper(rough)) is float
        assert guarantee.epsilon(delta).lower <= guarantee.upper(delta) <= guarantee.epsilon(delta).upper + 1e-5
        for one in (guarantee, WithSlack(guarantee, 1e-8), renyi):
            assert one.epsilon(rough) == one.epsilon(delta)
            assert one.delta(np.float16(0.5)) == one.delta(0.5)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize(
    "guarantee",
    [
        GaussianDP(1.0),
        MixtureOfGaussianDP((0.5, 1.0), (0.3, 0.7)),
        ZeroConcentratedDP(0.5),
        Selected((GaussianDP(0.5),) * 3, 0.5),
        AdvancedComposition(np.array([0.01]), np.array([1.0]), np.array([100.0])),
    ],
    ids=lambda one: type(one).__name__,
)
def test_no_guarantee_rounds_as_the_number_it_is_asked_with_does(guarantee: Guarantee, kind: type[np.floating]) -> None:
    """In single precision delta of zCDP was up to 2e-7 of itself too small."""
    for asked in (1.3e-4, 0.3):
        delta, epsilon = kind(asked), kind(10 * asked)
        assert guarantee.epsilon(delta) == guarantee.epsilon(float(delta))
        assert guarantee.upper(delta) == guarantee.upper(float(delta))
        assert guarantee.delta(epsilon) == guarantee.delta(float(epsilon))


def test_delta_at_no_epsilon_is_not_known() -> None:
    guarantee = ExactComposition((compose((PoissonRemove(0.01, 1.0), 10)),))
    assert [guarantee.delta(epsilon).upper for epsilon in (-1.0, math.nan, -math.inf)] == [1.0, 1.0, 1.0]


def test_the_rounding_of_a_line_is_bounded_at_negative_epsilons() -> None:
    line = line_at(Composition((), 1.0), 1.0)
    assert 0 < line.at(0.0)[2] < line.at(-20.0)[2] < line.at(-100.0)[2]


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_what_wraps_around_is_seen_and_bounded(monkeypatch: pytest.MonkeyPatch, mu: float) -> None:
    """Lines that may err by a thousandth, and do: around where they are best, delta of a Gaussian step is between the ends."""
    monkeypatch.setattr(contour, "WIDTH", 1.0)
    seen = 0
    for at in (0.3, 1.0, 3.0):
        line = line_at(Composition((), mu), at)
        for epsilon in (at * np.array([0.3, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0])).tolist():
            truth, found = gdp_delta(mu, epsilon), line.delta(epsilon)
            assert found.lower <= truth <= found.upper, (at, epsilon)
            seen += line.at(epsilon)[0] > truth * (1 + 1e-4)
    assert seen >= 15


@pytest.mark.parametrize("law", [PoissonRemove(0.3, 1.5), Amplified(0.7, 0.7), EmptyOrPresent(0.7, 0.7)])
def test_what_lies_beyond_the_last_node_is_seen_and_bounded(monkeypatch: pytest.MonkeyPatch, law: StepLaw) -> None:
    """The same of single steps and what truncation costs: with longer periods next to nothing wraps around."""
    right = contour._right

    def longer(*arguments):
        further, bound, period = right(*arguments)
        return further, bound, 3 * period

    monkeypatch.setattr(contour, "WIDTH", 1.0)
    monkeypatch.setattr(contour, "_right", longer)
    seen = 0
    for at in (0.3, 1.0):
        line = line_at(compose((law, 1)), at)
        for epsilon in (at * np.array([0.3, 0.6, 0.8, 1.0, 1.2, 1.5, 2.0])).tolist():
            (total, _, error), truth, found = line.at(epsilon), law.closed(epsilon)[0], line.delta(epsilon)
            assert found.lower <= truth <= found.upper, (at, epsilon)
            seen += abs(total - truth) > 1.2 * error
    assert seen >= 2


def test_delta_of_a_line_is_inverse_to_contour_epsilon() -> None:
    checked = 0
    for composition, delta in ordinary(40):
        if composition.steps < 300:
            continue
        epsilon = contour_epsilon(composition, delta)
        if epsilon.lower > 0:
            checked += 1
            below, above, middle = epsilon.lower, epsilon.upper, (epsilon.lower + epsilon.upper) / 2
            assert line_at(composition, above).delta(above).lower <= delta <= line_at(composition, below).delta(below).upper
            wide = line_at(composition, middle).delta(middle)
            assert wide.lower == pytest.approx(delta, rel=1e-5)
            assert wide.upper == pytest.approx(delta, rel=1e-5)
    assert checked >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_many_steps_against_a_plain_contour(kind: type[StepLaw]) -> None:
    """Upper ends are never below, and lower ends never above, an oversampled integral in extended precision."""
    for q, mu, steps, gaussian, delta in (
        (0.02, 0.8, 400, 0.0, 1e-6),
        (0.3, 0.3, 60, 0.5, 1e-10),
        (0.003, 1.2, 20_000, 0.0, 1e-7),
    ):
        composition = compose((kind(q, mu), steps), gaussian=gaussian)
        epsilon = ExactComposition((composition,)).epsilon(delta)
        assert reference.composed_delta(composition, epsilon.upper) <= delta * (1 + 1e-8)
        if epsilon.lower > 0:
            assert reference.composed_delta(composition, epsilon.lower) >= delta * (1 - 1e-8)
            assert epsilon.width < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("q", "mu", "delta"),
    [(0.3, 1.0, 1e-5), (0.01, 2.0, 1e-9), (0.999, 0.1, 0.003), (1e-3, 0.01, 1e-7), (0.5, 3.0, 0.2), (1e-4, 1.0, 1e-6)],
)
def test_two_steps_by_direct_quadrature(kind: type[StepLaw], q: float, mu: float, delta: float) -> None:
    first, second = kind(q, mu), kind(min(2 * q, 0.9995), mu / 2)
    for composition in (compose((first, 2)), compose((first, 1), (second, 1))):
        pair = (first, first) if len(composition.terms) == 1 else (first, second)
        epsilon = ExactComposition((composition,), width=1e-5).epsilon(delta)
        assert epsilon.width <= 1e-2
        assert reference.pair_delta(*pair, epsilon.upper) <= delta * (1 + 1e-8)
        if epsilon.lower > 0:
            assert reference.pair_delta(*pair, epsilon.lower) >= delta * (1 - 1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_is_closed_form(kind: type[StepLaw]) -> None:
    with mp.workdps(30):
        for q, mu, delta in ((0.01, 1.0, 1e-5), (0.5, 0.01, 1e-4), (0.2, 3.0, 1e-12), (1e-5, 2.0, 1e-9)):
            law = kind(q, mu)
            epsilon = ExactComposition((compose((law, 1)),)).epsilon(delta)
            assert epsilon.width <= 3e-10 * (1 + epsilon.upper)
            assert reference.step_delta(law, epsilon.upper) <= delta * (1 + 1e-12)
            if epsilon.lower > 0:
                assert reference.step_delta(law, epsilon.lower) >= delta


@pytest.mark.parametrize("kind", KINDS)
def test_one_step_of_hardly_any_loss_is_enclosed(kind: type[StepLaw]) -> None:
    """There delta falls to nothing within an epsilon that is not much more than a search may err by."""
    rng = np.random.default_rng(5)
    for _ in range(15):
        law = kind(float(rng.uniform(0.01, 0.9)), float(10 ** rng.uniform(-9, -6)))
        delta = law.closed(0.0)[0] * float(10 ** rng.uniform(-8, -0.01))
        epsilon = ExactComposition((compose((law, 1)),)).epsilon(delta)
        assert law.closed(epsilon.upper)[0] <= delta * (1 + 1e-9)
        assert epsilon.lower == 0 or law.closed(epsilon.lower)[0] >= delta * (1 - 1e-9)


@pytest.mark.parametrize("share", [2e-16, 1e-15, 1e-14, 1e-13])
def test_one_step_whose_delta_hardly_falls_is_rounded_up(share: float) -> None:
    """With hardly any noise delta is the rate, but for less than a rounding, up to an epsilon of some hundreds."""
    for q in (1e-5, 3e-5, 1e-3, 0.1):
        delta = q * (1 - share)
        found = ExactComposition((compose((PoissonRemove(q, 40.0), 1)),)).epsilon(delta)
        # A record that is drawn is below mu - 9 in far fewer cases than this share.
        assert found.upper > 40**2 / 2 - 9 * 40 + math.log(q)


def test_two_steps_that_may_reveal_a_record_share_delta() -> None:
    """Each reveals one record in a thousand: at half as much again one of them costs nothing, and two cost hundreds."""
    first, second, delta = PoissonRemove(1e-3, 40.0), PoissonRemove(1e-3, 39.0), 1.5e-3
    assert _step_by_step(compose((first, 1)), delta).upper == 0
    for both in (compose((first, 2)), compose((first, 1), (second, 1))):
        guarantee = ExactComposition((both,))
        assert _step_by_step(both, delta).upper > 400
        assert guarantee._shortcut(both, delta) is None
        for found in (_step_by_step(both, 2.1e-3), guarantee._shortcut(both, 2.1e-3)):
            assert found == Enclosure(0.0, 0.0)
    assert _step_by_step(compose((first, 2)), 1e-5).upper >= 2 * _step_by_step(compose((first, 1)), 5e-6).upper > 400
    # A Gaussian part has a share, too, and its epsilon.
    beside = compose((PoissonRemove(1e-9, 0.1), 3), gaussian=1.0)
    found, alone = _step_by_step(beside, 1e-5), gdp_epsilon(1.0, 1e-5)
    assert found.lower <= alone * (1 + 1e-9)
    assert found.upper >= gdp_epsilon(1.0, 1e-5 / 4)
    assert ExactComposition((beside,))._shortcut(beside, 1e-5) is None


def test_no_sampling_is_gaussian() -> None:
    composition = Composition((), 1.7)
    guarantee = ExactComposition((composition,))
    assert guarantee.mu == 1.7
    assert guarantee.epsilon(1e-5).upper == pytest.approx(gdp_epsilon(1.7, 1e-5), rel=1e-11)
    # Rates next to 1 approach it from below.
    sampled = [ExactComposition((compose((PoissonRemove(q, 0.17), 100)),)).epsilon(1e-5) for q in (0.9, 0.99, 1 - 1e-6, 1 - 1e-12)]
    assert all(a.upper < b.upper for a, b in itertools.pairwise(sampled))
    assert sampled[-1].lower <= gdp_epsilon(1.7, 1e-5) <= sampled[-1].upper + 1e-6


def test_a_simulation_agrees() -> None:
    """Clopper-Pearson at one in a million on the hockey-stick, P(L > e + E) with an independent exponential E."""
    q, mu, steps, draws = 0.1, 1.0, 50, 1_000_000
    rng = np.random.default_rng(3)
    total = np.zeros(draws)
    for _ in range(steps):
        g = rng.standard_normal(draws) + mu * (rng.random(draws) < q)
        total += np.log1p(q * np.expm1(mu * g - mu**2 / 2))
    composition = compose((PoissonRemove(q, mu), steps))
    for epsilon in (0.3, 1.0, 2.0):
        # E_P (1 - e^(eps - L))+ = P(L - eps > Exp(1)).
        hits = int((total - epsilon > rng.exponential(size=draws)).sum())
        low, high = beta.ppf(5e-7, hits, draws - hits + 1), beta.ppf(1 - 5e-7, hits + 1, draws - hits)
        delta = line_at(composition, epsilon).delta(epsilon)
        assert low <= delta.upper
        assert delta.lower <= high
        assert high / low < 1.2


def test_wide_enclosures_stay_ordered() -> None:
    for law in (kind(1e-7, 5.0) for kind in KINDS):
        for delta in (1e-12, 0.5):
            epsilon = ExactComposition((compose((law, 2)),)).epsilon(delta)
            assert 0 <= epsilon.lower <= epsilon.upper
    assert ExactComposition((compose((PoissonAdd(0.1, 1.0), 3)),)).epsilon(1e-300).upper <= -3 * math.log(0.9) * (1 + 1e-14)


def test_enclosures_refuse_nan_and_disorder() -> None:
    assert (Enclosure(0.0, 1.0) | Enclosure(0.5, 0.7)) == Enclosure(0.5, 1.0)
    assert Enclosure(math.inf, math.inf).width == 0
    for lower, upper in ((math.nan, 1.0), (0.0, math.nan), (2.0, 1.0)):
        with pytest.raises(ArithmeticError, match="not an interval"):
            Enclosure(lower, upper)


@pytest.mark.parametrize(
    "law",
    [
        PoissonRemove(0.3, 1.2),
        PoissonAdd(0.3, 1.2, 0.4),
        PoissonReplace(0.2, 0.9),
        PoissonReplace(0.2, 0.9, 0.5),
        Amplified(0.4, 1.1),
        Amplified(0.4, 1.1, 0.3),
    ],
)
def test_sampling_never_costs(law):
    """A step is never worse than the Gaussian of a record that is drawn in any case; where all else fails, that is the answer."""
    epsilon = np.linspace(-3.0, 8.0, 60)
    assert (law.log_delta(epsilon) <= log_gdp_delta(law.unsampled, epsilon) + 1e-12).all()
    loud = dp.Run(n=1000, sampling=dp.Poisson(10), steps=100, noise_multiplier=1e-4, adjacency="replace")
    found = ExactComposition(compositions(loud)[0]).epsilon(1e-5)
    assert found.lower <= found.upper <= gdp_epsilon(2e4 * 10, 1e-5) * (1 + 1e-9)


def test_what_overflows_makes_no_bound() -> None:
    """K of little noise overflows at the c of a search. No warning is left, and no enclosure excludes what the lattice encloses."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for law, count in (
            (PoissonRemove(1e-3, 4.0), 300),
            (PoissonReplace(0.05, 3.0), 40),
            (PoissonAdd(0.3, 6.0), 30),
            (Amplified(0.1, 5.0), 60),
        ):
            composition = compose((law, count))
            with suppress(ArithmeticError):
                contour, lattice = contour_epsilon(composition, 1e-6), ExactComposition((composition,)).epsilon(1e-6)
                assert max(contour.lower, lattice.lower) <= min(contour.upper, lattice.upper)
        axis = RealAxis(compose((PoissonRemove(0.5, 30.0), 2)))
        with np.errstate(all="ignore"), pytest.raises(TooSlowError):
            axis(100.0)
        # Its logarithm does not: all but exp(-4,000) of the moment is that of a record that is drawn.
        drawn = 2 * (101 * 100 / 2 * 900 + 101 * math.log(0.5))
        assert drawn < compose((PoissonRemove(0.5, 30.0), 2)).bound(100.0) <= drawn * (1 + 1e-11)
        for composition in (compose((PoissonRemove(0.5, 30.0), 2)), compose((PoissonReplace(1e-9, 40.0), 5))):
            assert not at_most(composition, 1e-3, 1e-6)
