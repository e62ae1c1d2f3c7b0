"""The lattice's convolution, when the transforms err as badly as their theorem allows, and where it is looked for."""

# pyright: basic
from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import reduce

import mpmath as mp
import numpy as np
import pytest

from dplateau.accounting import compositions
from dplateau.accounting.amplified import Amplified
from dplateau.accounting.contour import WIDTH, log_saddle_delta, saddle, saddle_delta, saddle_epsilon
from dplateau.accounting.dotted import Law, dots, norms_from, steps_of, tangents
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.gaussian import gdp_delta
from dplateau.accounting.lattice import Convolution, Lattices, Tails, convolved, lattice_epsilon
from dplateau.accounting.privacy_loss import PoissonRemove, PoissonReplace, StepLaw, TooSlowError
from dplateau.accounting.terms import Composition, Repeated
from dplateau.spec import FixedSize, Poisson, Run

ULP = 2.0**-52
H, SIZE, TILT, EDGE = 0.3, 2**17, 0.7, 1_000
"""A lattice, and the point of it at which delta is read."""


def wide() -> np.ndarray:
    """A loss from 0 to 1,000 lattice steps that is a bell curve once it is tilted."""
    k = np.arange(EDGE + 1)
    p = np.exp(-(((k - EDGE / 2) / 100) ** 2) / 2 - TILT * H * k)
    return p / p.sum()


def erring(sign: float) -> Callable[..., np.ndarray]:
    """An inverse transform with a 2-norm error of 4 ulp a level, all of it where the sum that gives delta has its weights."""
    plain = np.fft.irfft

    def transform(spectrum: np.ndarray, size: int) -> np.ndarray:
        found = plain(spectrum, size)
        at = np.arange(EDGE + 1, 2 * EDGE)
        weight = np.exp(-TILT * H * (at - EDGE)) * -np.expm1(H * (EDGE - at))
        found[at] += sign * 4 * ULP * math.log2(size) * np.linalg.norm(found) * weight / np.linalg.norm(weight)
        return found

    return transform


@pytest.mark.parametrize("above", [True, False])
def test_an_adversarial_transform_is_within_the_bound(monkeypatch: pytest.MonkeyPatch, above: bool) -> None:
    law, sign = wide(), 1.0 if above else -1.0
    both = np.convolve(law, law)
    at = np.arange(both.size)
    true = math.fsum((both * -np.expm1(np.minimum(H * (EDGE - at), 0.0))).tolist())
    for error in (0.0, -sign):
        monkeypatch.setattr(np.fft, "irfft", erring(error))
        tail = Convolution([(Law(law, 0, 0.0), 2)], H).tail(TILT, EDGE * H, SIZE, 3.0, above=above)
        found = float(tail.at[np.argmin(np.abs(tail.e - EDGE * H))])
        assert 0 <= sign * (found / true - 1) < 1e-8
        assert sign * (tail.delta(EDGE * H) - true) >= 0
        # Far below, where the masses are large, so is the error: the end that is found must be the one at the edge.
        assert sign * (tail.epsilon(true) - EDGE * H) >= 0
        assert tail.epsilon(true) == pytest.approx(EDGE * H, rel=1e-8)


@pytest.mark.parametrize("h", [0.3, 40.0])
@pytest.mark.parametrize("count", [1, 3])
def test_sums_of_any_losses_lie_between_both_sides(h: float, count: int) -> None:
    """Against the sum over all points: with a part at infinity, an offset, and losses whose powers of e are no numbers.

    From below also with an event that happens in some of the steps, and is likelier under P.
    """
    rng, tilt = np.random.default_rng(count), 0.7 * H / h
    p, infinite, first, offset = rng.dirichlet(np.ones(30)) * (1 - 1e-5), 1e-5, -5, 0.07
    total = reduce(np.convolve, [p] * count)
    losses = (count * first + np.arange(total.size)) * h + count * offset

    def true(epsilon: float, event: tuple[float, float]) -> float:
        once, other = (1 - (1 - chance) ** count for chance in event)
        return float(total @ -np.expm1(np.minimum(epsilon - losses, 0.0))) + once - math.exp(epsilon) * other

    for sign, rest in ((1.0, (infinite, 0.0)), (-1.0, (0.0, 0.0)), (-1.0, (0.02, 0.01))):
        law = Law(p, first, infinite, offset) if sign > 0 else Law(p, first, 0.0, offset, rest)
        tail = Convolution([(law, count)], h).tail(tilt, 5 * h, 2**11, 3.0, above=sign > 0)
        assert len(tail.e) > 10
        for epsilon in np.concatenate([tail.e[1:-1], (tail.e[2:-1] + tail.e[1:-2]) / 2]).tolist():
            if epsilon >= 0 and (truth := true(epsilon, rest)) > 1e-3:
                # What lies beyond exp(700) counts in full above, and not at all below.
                room = 1e-3 * truth if sign > 0 or h < 1 else 1.0
                assert 0 <= sign * (tail.delta(epsilon) - truth) <= room, epsilon
                assert sign * (tail.epsilon(truth) - epsilon) >= 0


def test_what_is_not_on_a_lattice_is_not_told() -> None:
    """Before the first points there is no lower end, and beyond the last ones only that delta is less than there."""
    law = wide()
    sides = [Convolution([(Law(law, 0, 0.0), 2)], H).tail(TILT, EDGE * H, SIZE, 3.0, above=above) for above in (True, False)]
    tails = Tails()
    for more in range(3):
        tails.sides = sides[::-1][:more]
        below, above = tails(math.nextafter(float(sides[1].e[0]), -math.inf)), tails(2 * float(sides[0].e[-1]))
        assert (below.lower, below.upper) == (0.0, 1.0)
        assert above.lower == 0.0
        assert above.upper == (float(sides[0].at[-1]) if more == 2 else 1.0)
    assert sides[0].epsilon(10.0) == sides[0].e[0]
    assert sides[1].epsilon(10.0) == -math.inf


@pytest.mark.parametrize("count", [1, 3, 20])
def test_the_error_of_a_convolution_is_bounded(count: int) -> None:
    rng = np.random.default_rng(count)
    places = rng.choice(SIZE // 64, 3, replace=False)
    law = np.zeros(SIZE)
    law[places] = rng.dirichlet(np.ones(3))
    exact = {0: Fraction(1)}
    for _ in range(count):
        grown: dict[int, Fraction] = {}
        for k, mass in exact.items():
            for place in places.tolist():
                grown[k + place] = grown.get(k + place, Fraction(0)) + mass * Fraction(float(law[place]))
        exact = grown
    found, bound = convolved([(law, count)])
    off = found.copy()
    for k, mass in exact.items():
        off[k] = float(Fraction(float(found[k])) - mass)
    assert 0 < np.linalg.norm(off) <= bound < 1e-11


def test_a_convolution_of_too_many_steps_is_refused() -> None:
    law = np.zeros(2**10)
    law[:2] = 0.5
    with pytest.raises(TooSlowError):
        convolved([(law, 10**11)])


def test_a_tilt_before_the_saddle_point_is_shorter_where_moments_explode() -> None:
    """53 steps of 105 records in batches of four: a rare loss of a step is far beyond what the others make likely."""
    composition, delta = compositions(Run(n=105, sampling=FixedSize(4), steps=55, noise_multiplier=5.1))[0][0], 6.9e-12
    lattices = Lattices(steps_of(composition), WIDTH)
    lattices.aim(math.log(delta))
    rough = lattices.laws(dots, lattices.coarse)
    c = saddle_delta(rough.cumulants, math.log(delta))
    epsilon = saddle_epsilon(c, rough.cumulants(c)[1])
    assert log_saddle_delta(c, *rough.cumulants(c)) == pytest.approx(math.log(delta), abs=0.2)
    lattices.tune(rough, c, epsilon, math.log(delta))
    near, short = lattices.period, lattices.c
    lattices.exact = False
    lattices.tune(rough, c, epsilon, math.log(delta))
    assert short < 0.95 * c == 0.95 * lattices.c
    assert near < lattices.period / 2
    # Both lattices are right, and the one with the shorter period says less too much.
    far = lattices.tail(2**15, above=True).epsilon(delta)
    lattices.exact = True
    lattices.tune(rough, c, epsilon, math.log(delta))
    below, above = lattices.tail(2**17, above=False), lattices.tail(2**15, above=True)
    assert below.epsilon(delta) < above.epsilon(delta) < far


def test_many_steps_are_tilted_at_the_saddle_point() -> None:
    """Rounding decides where steps are many, and it is least there."""
    law = compositions(Run(n=10**7, sampling=FixedSize(1), steps=10**7, noise_multiplier=0.5))[0][0]
    assert not Lattices(steps_of(law), WIDTH).exact
    assert Lattices(steps_of(law)[:0], WIDTH).exact


def test_a_loss_without_a_spread_has_no_saddle_point() -> None:
    with pytest.raises(TooSlowError):
        saddle_delta(lambda c: (0.0, 0.0, 0.0), -1e6)


@pytest.mark.parametrize("values", [[-1.0] * 50, [1.0] * 50, [1.0, 1.0, -1.0, -1.0, -1.0]])
def test_a_saddle_point_that_is_not_found_is_refused(values: list[float]) -> None:
    """A function without a root, and one whose sign is another one when it is asked again, as at the level of rounding."""
    found = iter(values)
    with pytest.raises(TooSlowError):
        saddle(lambda c: next(found))


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("share", [1.0, 0.7, 0.5, 0.35, 0.25])
@pytest.mark.parametrize("left", [0.5, 0.2])
def test_both_sides_hold_far_from_where_a_lattice_is_tilted_whatever_the_period(mu: float, share: float, left: float) -> None:
    """What wraps around from above was bounded at the tilt's epsilon alone: below it, the lower side was up to twice the truth."""
    seen = 0
    for delta in (1e-3, 1e-6, 1e-10):
        lattices, target = Lattices(steps_of(Composition((), mu)), 1e-6, left=left), math.log(delta)
        lattices.aim(target)
        for _ in range(2):
            rough = lattices.laws(dots, lattices.coarse)
            c = saddle_delta(rough.cumulants, target)
            lattices.tune(rough, c, saddle_epsilon(c, rough.cumulants(c)[1]), target)
        lattices.period *= share
        below, above = (lattices.tail(2**13, above=side) for side in (False, True))
        for epsilon in np.linspace(max(float(below.e[1]), 0.01), lattices.epsilon, 25).tolist():
            truth = gdp_delta(mu, epsilon)
            assert below.delta(epsilon) <= truth * (1 + 1e-9), (delta, epsilon)
            assert truth * (1 - 1e-9) <= above.delta(epsilon), (delta, epsilon)
            seen += below.delta(epsilon) > 0
    assert seen > 3 or share < 0.5  # or a period is too short to show anything


def test_errors_count_where_their_squares_vanish():
    """Masses near a delta of 1e-290 have squares that are 0, and so had their norm."""
    run = Run(n=1000, sampling=Poisson(10), steps=2000, noise_multiplier=2.0)
    remove = compositions(run)[0][0]
    assert lattice_epsilon(remove, 1e-280).upper < lattice_epsilon(remove, 1e-290).upper
    assert lattice_epsilon(remove, 1e-300).upper == math.inf  # Not told.


def test_norms_of_masses_whose_squares_vanish():
    fall = 0.01
    mass = np.exp(-300 - fall * np.arange(20_000))
    exact = mass / math.sqrt(-math.expm1(-2 * fall))
    found = norms_from(mass, fall)
    assert np.all(found >= exact * (1 - 1e-9))
    assert np.all(found <= exact * (1 + 1e-9))


@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize("kind", [PoissonRemove, PoissonReplace, Amplified, PresentOrEmpty, EmptyOrPresent])
def test_what_lies_below_does_so_however_small_delta_is(kind: type[StepLaw], mu: float) -> None:
    """Also where the product of two slopes of the profile vanishes."""
    law = kind(0.2, mu)
    high = next(e for e in np.geomspace(1.0, 1e4, 400).tolist() if law.log_delta(np.array(e)) < -600)
    h = high / 1000
    lower = tangents(steps_of(Composition((Repeated(law, 1),)))[0], -100, 1000, h)
    loss = h * (lower.first + np.arange(lower.p.size))
    for share in (0.2, 0.5, 0.8):
        epsilon = h * (np.arange(0, 1000, 25) + share)
        found = np.maximum(-np.expm1(np.minimum(epsilon[:, None] - loss, 0.0)), 0.0) @ lower.p
        assert (found <= np.exp(law.log_delta(epsilon)) * (1 + 1e-10)).all()


@pytest.mark.parametrize("build", [dots, tangents])
def test_what_a_closed_form_may_have_lost_is_allowed_for_at_the_points(build: Callable[..., Law]) -> None:
    """Differences of tails with little noise left out: the law of a step is on its side of the truth at a lattice point, too."""
    law, epsilon = PoissonReplace(0.948518917574553, 0.00012378753965200465), 0.007851734443420355
    step, h = steps_of(Composition((Repeated(law, 1),)))[0], epsilon / 200
    found = build(step, -10, 230, h)
    loss = h * (found.first + np.arange(found.p.size))
    total = found.infinite + float(np.maximum(-np.expm1(np.minimum(200 * h - loss, 0.0)), 0.0) @ found.p)
    with mp.workdps(400):
        q, mu, y = mp.mpf(law.q), mp.mpf(law.mu), mp.exp(mp.mpf(200 * h))
        a, b = q * mp.exp(-(mu**2) / 2), (1 - q) * (1 - y)
        at = mp.log((mp.sqrt(b * b + 4 * a * a * y) - b) / (2 * a)) / mu
        exact = (1 - q) * (1 - y) * mp.ncdf(-at) + q * (mp.ncdf(mu - at) - y * mp.ncdf(-mu - at))
        assert total >= exact if build is dots else total <= exact
