"""Random allocation in balls: one epoch against quadrature, against samples and against the accountant; whole runs."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

pytest.importorskip("flint")

from flint import arb

import dplateau as dp
from dplateau.accounting.random_allocation import AllocationAdd, AllocationRemove
from dplateau.accounting.random_allocation import AllocationReplace as AccountedReplace
from dplateau.analyses import ExactCompositionBound
from dplateau.certificate import prove
from dplateau.spec import Run
from dplateau.verifier import allocation
from dplateau.verifier.allocation import AllocatedAdd, AllocatedRemove, AllocatedReplace, composed
from dplateau.verifier.balls import exact, gaussian_delta, precision
from dplateau.verifier.check import check
from dplateau.verifier.contour import Line
from dplateau.verifier.lattice import Lattice
from dplateau.verifier.mechanism import composed as composed_run
from dplateau.verifier.outcome import Outcome, Part

PAIRS = ((AllocatedRemove, AllocationRemove), (AllocatedAdd, AllocationAdd))


def mean_above(mu: float, strike: float) -> float:
    """E (exp(mu g - mu^2/2) - strike)_+."""
    if strike <= 0:
        return 1 - strike
    d = -math.log(strike) / mu + mu / 2
    return float(ndtr(d) - strike * ndtr(d - mu))


def sinh_above(mu: float, shift: float, strike: float) -> float:
    """E (2 exp(-mu^2/2) sinh(mu g - shift) - strike)_+."""
    g = (math.asinh(strike * math.exp(mu**2 / 2) / 2) + shift) / mu
    return float(math.exp(-shift) * ndtr(mu - g) - math.exp(shift) * ndtr(-mu - g) - strike * ndtr(-g))


def integral(value, edges) -> float:
    """E value(g), g ~ N(0, 1), whose kinks are among the edges."""

    def at(g: float) -> float:
        return math.exp(-(g**2) / 2) / math.sqrt(2 * math.pi) * value(g)

    ends = sorted({-14.0, 0.0, 16.0, *(min(max(edge, -14.0), 16.0) for edge in edges)})
    return math.fsum(quad(at, a, b, epsabs=0, epsrel=1e-12, limit=400)[0] for a, b in pairwise(ends))


def of_two(one: Fraction, two: Fraction, y: float) -> float:
    """E ((X_1 + X_2) / 2 - y)_+."""
    mu, other = float(one), float(two)
    kink = math.log(2 * y) / mu + mu / 2
    return integral(lambda g: mean_above(other, 2 * y - math.exp(mu * g - mu**2 / 2)) / 2, [kink, mu])


def replaced(parts, batches, epsilon) -> arb:
    with precision():
        return allocation._at(parts, batches, epsilon, allocation._summed(parts, epsilon))


@pytest.mark.parametrize("mus", [(Fraction(1, 5),) * 2, (Fraction(1),) * 2, (Fraction(2),) * 2, (Fraction(2, 5), Fraction(3, 2))])
def test_two_batches_by_quadrature(mus) -> None:
    parts = ((mus[0], 2),) if mus[0] == mus[1] else tuple((mu, 1) for mu in mus)
    for epsilon in float(max(mus)) * np.array([0.0, 0.5, 1.0, 2.0, 3.0]):
        remove = of_two(*mus, math.exp(epsilon))
        add = 1 - math.exp(epsilon) * (1 - of_two(*mus, math.exp(-epsilon)))
        for kind, truth in ((AllocatedRemove, remove), (AllocatedAdd, add)):
            found = kind(parts, 2).profile(exact(float(epsilon)))
            assert found > truth * (1 - 1e-11) - 1e-13
            assert found.rad() < 1e-30
            # A millionth of epsilon is more than what it is above the truth.
            assert kind(parts, 2).profile(exact(float(epsilon) + 1e-6)) < truth * (1 + 1e-11) + 1e-13


@pytest.mark.parametrize("mu", [Fraction(1, 2), Fraction(1), Fraction(2)])
def test_one_of_three_batches(mu) -> None:
    """The epoch ends after its first batch: the profile is that of one summand."""
    for epsilon in (0.05, 1.0):
        truth = mean_above(float(mu), 3 * math.exp(epsilon) - 2) / 3
        found = AllocatedRemove(((mu, 1),), 3).profile(exact(epsilon))
        assert truth * (1 - 1e-11) < found
        assert found < truth * (1 + 1e-5)
        truth = math.exp(epsilon / 2) / 3 * sinh_above(float(mu), epsilon / 2, 4 * math.sinh(epsilon / 2))
        found = replaced(((mu, 1),), 3, epsilon)
        assert truth * (1 - 1e-11) < found
        assert found < truth * (1 + 2e-3)


@pytest.mark.parametrize("mu", [Fraction(1, 2), Fraction(3, 2)])
def test_two_batches_replaced(mu) -> None:
    m = float(mu)
    for epsilon in (0.0, m):
        factor = 2 * math.exp(-(m**2) / 2)

        def rest(g: float, shift: float = epsilon / 2, factor: float = factor) -> float:
            return sinh_above(m, shift, -factor * math.sinh(m * g - shift))

        truth = math.exp(epsilon / 2) / 2 * integral(rest, [epsilon / (2 * m), m, -m])
        found = replaced(((mu, 2),), 2, epsilon)
        assert truth * (1 - 1e-11) < found
        assert found < truth * (1 + 2e-4)


@pytest.mark.parametrize(
    ("parts", "batches"),
    [
        (((Fraction(10, 13), 234),), 234),
        (((Fraction(1, 5), 1000),), 1000),
        (((Fraction(1, 2), 7), (Fraction(3, 2), 5)), 20),
    ],
)
def test_the_accountant_encloses_it(parts, batches) -> None:
    accounted = tuple((float(mu), count) for mu, count in parts)
    options = 1 / batches, accounted[-1][0], 0.0, accounted, batches
    for kind, law in PAIRS:
        grid = np.append(0.0, np.geomspace(1e-3, 8, 4000))
        upper = law(*options, True).log_delta(grid)
        points = {int(np.argmin(np.abs(upper - target))) for target in (-1.0, -5.0, -10.0, -15.0, -25.0)}
        last = math.inf
        for at in sorted(points):
            found = kind(parts, batches).profile(exact(float(grid[at])))
            assert float(law(*options, False).log_delta(grid[at : at + 1])[0]) < found.log()
            assert found.log() < float(upper[at])
            assert found < last
            last = found


def test_a_replacement_costs_no_more_than_the_accountant_says() -> None:
    parts, batches = ((Fraction(10, 13), 16),), 16
    law = AccountedReplace(1 / batches, float(parts[0][0]), 0.0, ((float(parts[0][0]), 16),), batches, True)
    for epsilon in (0.0, 0.4):
        found = replaced(parts, batches, epsilon)
        assert found.log() < float(law.log_delta(np.array([epsilon]))[0])
        # A presence is a replacement by a record without gradients.
        assert found > AllocatedRemove(parts, batches).profile(exact(epsilon))


@pytest.mark.parametrize("mus", [(Fraction(1),) * 2, (Fraction(2, 5), Fraction(3, 2))])
@pytest.mark.parametrize(("start", "end"), [(0.1, 0.9), (1.0, 1.5)])
def test_thresholds_that_are_traded(mus, start, end) -> None:
    """Between two epsilons: above the truth, and nearer to it than the chord."""
    parts = ((mus[0], 2),) if mus[0] == mus[1] else tuple((mu, 1) for mu in mus)

    def true(epsilon: float) -> float:
        first, second = (float(mu) for mu in mus)

        def rest(g: float) -> float:
            return sinh_above(second, epsilon / 2, -2 * math.exp(-(first**2) / 2) * math.sinh(first * g - epsilon / 2))

        return math.exp(epsilon / 2) / 2 * integral(rest, [epsilon / (2 * first), first, -first])

    profile = object.__new__(allocation._Profile)
    profile.parts, profile.batches, profile.rest, profile.law, profile.delta = parts, 2, 0, {}, {}
    with precision():
        for at in (start, end):
            profile.look(at)
        for share in (0.25, 0.5, 0.75):
            epsilon = start + (end - start) * share
            found, truth = profile.traded(start, end, epsilon), true(epsilon)
            weight = math.expm1(epsilon - start) / math.expm1(end - start)
            chord = true(start) * (1 - weight) + true(end) * weight
            assert truth * (1 - 1e-10) < found
            assert found < truth + 0.5 * (chord - truth) + 1e-4 * truth


@pytest.mark.parametrize(("n", "size", "steps", "noise"), [(357, 73, 3, 3.5765), (55_500, 162, 111, 4.255), (60, 20, 6, 2.0)])
def test_replacements_are_verified(n, size, steps, noise) -> None:
    """Epochs that are cut short, and whole ones."""
    one = dp.Run(n=n, sampling=dp.RandomAllocation(size), steps=steps, noise_multiplier=noise, adjacency="replace")
    delta = min(2e-5, 0.05 / n)
    assert prove(one, dp.account(one, delta=delta).epsilon, delta).verified


def test_chords_of_a_replacement(monkeypatch) -> None:
    """They meet bounds at some points, lie above them between, are convex, and end below anything that counts."""
    monkeypatch.setattr(allocation, "_CHORDS", 14)
    law = AllocatedReplace(((Fraction(1, 5), 3),), 4)
    for epsilon in (0.0, 0.07, 0.2, 0.33):
        found, bound = law.profile(exact(epsilon)), replaced(law.parts, 4, epsilon)
        assert found > bound * (1 - 1e-6)
        assert found < bound * 1.2
    y = [exact(1) + exact(k) / 200 for k in range(100)]
    delta = [law.profile(x.log()) for x in y]
    assert all(2 * b <= a + c + 1e-12 for a, b, c in zip(delta, delta[1:], delta[2:], strict=False))
    assert all(a > b for a, b in pairwise(delta))
    assert 0 < law.profile(exact(60.0)) < 1e-27
    assert law.reverse is law


def test_fifty_batches_by_samples() -> None:
    """Half of the samples have one batch with the record, and weights undo it: which batch it is does not matter."""
    random, mu, batches, count = np.random.default_rng(7), 0.8, 50, 40_000
    g = random.standard_normal((count, batches))
    g[: count // 2, 0] += mu
    s = np.exp(mu * g - mu**2 / 2).mean(axis=1)
    weight = 2 / (1 + s)
    for epsilon in (0.05, 0.2):
        for kind, value in ((AllocatedRemove, s - math.exp(epsilon)), (AllocatedAdd, 1 - math.exp(epsilon) * s)):
            sample = weight * np.maximum(value, 0)
            found = float(kind(((Fraction(4, 5), batches),), batches).profile(exact(epsilon)))
            assert abs(sample.mean() - found) < 5 * sample.std() / math.sqrt(count)


def test_convex_and_falling() -> None:
    """As a law's profile, and it rises with mu and falls with the number of batches."""
    for kind in (AllocatedRemove, AllocatedAdd):
        law, y = kind(((Fraction(1), 4),), 4), [exact(1) + exact(k) / 8 for k in range(20)]
        found = [law.profile(x.log()) for x in y]
        slopes = [(b - a) * 8 for a, b in pairwise(found)]
        assert all(slope < 0 for slope in slopes)
        assert all(b - a > -1e-30 for a, b in pairwise(slopes))
        assert kind(((Fraction(9, 10), 4),), 4).profile(exact(0.5)) < law.profile(exact(0.5))
        assert kind(((Fraction(1), 8),), 8).profile(exact(0.5)) < law.profile(exact(0.5))
        assert law.reverse.reverse == law


@pytest.mark.parametrize(
    ("parts", "batches"),
    [((("1/2", 1),), 1), ((("1/2", 1), ("1", 1)), 2), ((("1", 2),), 2), ((("1/2", 2), ("2", 1)), 3), ((("1", 2),), 3)],
)
@pytest.mark.parametrize("law", [AllocatedRemove, AllocatedAdd])
def test_moments_fall_with_the_frequency_as_what_is_beyond_a_line_counts_on(law, parts, batches) -> None:
    """Of one batch exactly so fast, and of one that is cut short nothing is counted on."""
    epoch = law(tuple((Fraction(mu), times) for mu, times in parts), batches)
    with precision(64):
        moments = epoch.moments(arb(2), arb("0.5"), 7)
        left = [float(abs(moment) / moments[0].real * (epoch.fall * exact(k) ** 2 / 4).exp()) for k, moment in enumerate(moments)]
        assert float(moments[0].real) >= 1
    assert max(left) < 1 + 1e-8
    assert (min(left) > 1 - 1e-8) == (batches == 1)
    assert (float(epoch.fall) > 0) == (sum(times for _, times in parts) == batches)


def test_a_ball_is_bounded_by_its_ends() -> None:
    law = AllocatedRemove(((Fraction(1), 4),), 4)
    wide = law.profile(arb(0.5, 0.01))
    for epsilon in (0.49, 0.5, 0.51):
        assert wide.upper() >= law.profile(exact(epsilon)).lower()
        assert wide.lower() <= law.profile(exact(epsilon)).upper()


def run(noise=1.0, *, batches=10, epochs=2.0, **changes) -> Run:
    return Run(n=10 * batches, sampling=dp.RandomAllocation(10), steps=round(batches * epochs), noise_multiplier=noise, **changes)


@pytest.mark.parametrize(
    ("n", "noise", "why"),
    [(10**9, 1.0, "1,000,000,000 randomly allocated"), (10, (1.0, 1e10), "noise multiplier exceeds 1000000")],
)
def test_what_takes_too_long_is_told_at_once(n, noise, why) -> None:
    checked = check(
        [Part(Run(n=n, sampling=dp.RandomAllocation(1), steps=2, noise_multiplier=noise), "exact-composition")], 1.0, 1e-5
    )
    assert checked.outcome is Outcome.NOT_DECIDED
    assert why in checked.why
    assert checked.seconds < 1


def test_epochs_of_a_run() -> None:
    whole, add = composed_run(run(0.5, epochs=3.4)).directions
    (_, composition), *_ = whole
    assert composition.parts == ((AllocatedRemove(((Fraction(2), 10),), 10), 3), (AllocatedRemove(((Fraction(2), 4),), 10), 1))
    assert all(isinstance(law, AllocatedAdd) for law, _ in add[0][1].parts)
    (replaced,) = composed_run(run(0.5, adjacency="replace")).directions
    assert replaced[0][1].parts == ((AllocatedReplace(((Fraction(2), 10),), 10), 2),)


def test_hardly_any_noise_counts_without_sampling() -> None:
    for adjacency, unit in (("add-remove", 1), ("replace", 2)):
        for mixture in composed(run(0.125, epochs=2.5, adjacency=adjacency)).directions:
            assert mixture[0][1].parts == ()
            assert mixture[0][1].square == 3 * 64 * unit  # Replaced records lie in two batches.
    (alone,) = composed(run(0.125, batches=1, adjacency="replace")).directions
    assert alone[0][1].square == 2 * 64 * 4  # They are in the same batch where there is one.


@pytest.mark.parametrize("epochs", [2.5, 40.0])
def test_noise_is_rounded_down_to_noise_of_the_run(epochs) -> None:
    noise = tuple(float(z) for z in np.geomspace(3.0, 0.7, round(10 * epochs)))
    (_, composition) = composed(run(noise, epochs=epochs)).directions[0][0]
    assert sum(count for _, count in composition.parts) == math.ceil(epochs)
    assert sum(len(law.parts) for law, _ in composition.parts) <= 40
    found = sorted(mu for law, times in composition.parts for mu, count in law.parts for _ in range(times * count))
    exact_mu = sorted(1 / Fraction(z) for z in noise)
    assert len(found) == len(noise)
    assert all(mine >= theirs for mine, theirs in zip(found, exact_mu, strict=True))
    assert set(found) <= set(exact_mu)
    accounted = sum(mu**2 * count * times for parts, times in accounted_epochs(noise, 10) for mu, count in parts)
    assert float(sum(mu**2 for mu in found)) <= accounted * (1 + 1e-12)


def accounted_epochs(noise, batches):
    from dplateau.accounting.random_allocation import allocations

    terms = allocations(run(noise, batches=batches, epochs=len(noise) / batches), safe=True)[0].terms
    return [(term.law.parts, term.count) for term in terms]


@pytest.mark.parametrize("options", [{"noise": 2.0, "epochs": 6.3}, {"noise": (1.0,) * 10 + (2.0,) * 10}])
def test_a_run_costs_no_more_than_the_accountant_says(options) -> None:
    """And a claim that is lower in the ninth digit is refuted; laws in the convex order and moments on a contour agree."""
    one, delta = run(**options), 1e-5
    said = ExactCompositionBound().guarantee(one).epsilon(delta)
    assert dp.account(one, delta=delta).epsilon == said.upper
    found = check([Part(one, "exact-composition")], said.upper, delta)
    assert found.outcome is Outcome.VERIFIED
    assert found.digits >= 12
    assert said.lower <= found.lower <= found.upper <= said.upper <= found.upper * (1 + 1e-6)
    assert check([Part(one, "exact-composition")], found.lower * (1 - 1e-9), delta).outcome is Outcome.REFUTED
    with precision():
        for mixture in composed(one).directions:
            ((weight, composition),) = mixture
            assert weight == 1
            lattice = Lattice(composition, exact(found.lower), delta, 8000).delta(exact(found.lower)).upper()
            contour = Line(composition, exact(found.lower), delta).delta(exact(found.lower))
            assert contour <= lattice
            assert lattice < contour * (1 + 1e-3)


def test_one_batch_is_a_gaussian() -> None:
    """The lattice law of an epoch of one batch is above the Gaussian pair, and close to it."""
    for epsilon in (0.2, 1.0, 3.0):
        with precision():
            truth = gaussian_delta(exact(1), exact(epsilon))
        for kind in (AllocatedRemove, AllocatedAdd):
            found = kind(((Fraction(1), 1),), 1).profile(exact(epsilon))
            assert truth < found
            assert found < truth * (1 + 1e-5)
