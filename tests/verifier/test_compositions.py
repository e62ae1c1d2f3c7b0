"""delta of compositions in balls: the contour, the lattice, and both against what is known otherwise."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("flint")
from flint import acb, arb, arb_poly

import dplateau as dp
from dplateau.analyses import ExactCompositionBound
from dplateau.verifier import contour, laws
from dplateau.verifier.balls import exact, gaussian_delta, precision
from dplateau.verifier.contour import Line
from dplateau.verifier.lattice import Lattice, _Sum
from dplateau.verifier.mechanism import composed
from dplateau.verifier.quadrature import TooHardError, nodes
from dplateau.verifier.statement import Composition, Law, Statement


def one_law(law, steps, square=0.0):
    return Composition(((law, steps),), exact(square))


RATES = [(laws.Remove, "1/10", "1"), (laws.Replace, "1/10", "1"), (laws.Amplified, "1/5", "1"), (laws.Present, "1/5", "1/2")]


@pytest.mark.parametrize(("law", "q", "mu"), RATES)
def test_contour_and_lattice_agree(law, q, mu):
    """Two methods that share one closed form: the lattice is above, by what falls with the square of its step."""
    with precision():
        composition = one_law(law(Fraction(q), Fraction(mu)), 30)
        epsilon = exact(2.0)
        line = Line(composition, epsilon, 1e-3).delta(epsilon)
        assert line.rad() / line < 1e-9
        off = [
            float((Lattice(composition, epsilon, float(line), size).delta(epsilon).upper() - line) / line) for size in (256, 1024)
        ]
    assert 0 < off[1] < off[0] < 0.2
    assert 8 < off[0] / off[1] < 32


def test_a_gaussian_step_joins():
    """Plain Gaussian steps beside sampled ones; with a vanishing rate only they are left."""
    with precision():
        composition = one_law(laws.Remove(Fraction(1, 10**12), Fraction(1)), 5, square=1.0)
        found = Line(composition, exact(1.0), 0.1).delta(exact(1.0))
        assert abs(found - gaussian_delta(exact(1), exact(1))) < 1e-10
        twice = Statement.of(composition) + Statement.of(composition)
        assert float(twice.directions[0][0][1].square) == 2
        assert twice.directions[0][0][1].parts[0][1] == 10


@pytest.mark.parametrize(("law", "q", "mu"), RATES)
def test_what_is_beyond_the_line_is_bounded(law, q, mu):
    """The bound on the modulus holds at frequencies far beyond the one it was computed for, and is not idle."""
    with precision():
        one, c = law(Fraction(q), Fraction(mu)), exact(1.5)
        points = nodes(one, c, exact(0), exact(1e-20))
        for omega in (3.0, 30.0):
            bound = points.at_zero + points.error
            for branch in one.branches:
                found = [contour._modulus(branch, c, exact(omega), path)[0] for path in contour._paths(branch, omega)]
                bound += min(x.upper() for x in found if x.is_finite())
            for factor in (1.0, 1.7, 5.0, 25.0):
                far = nodes(one, c, exact(omega * factor), exact(1e-20)).transform(c, exact(omega * factor), 2)[1]
                assert abs(far) < bound
            near = nodes(one, c, exact(omega), exact(1e-20)).transform(c, exact(omega), 2)[1]
            assert abs(near) > bound / 8


def test_a_path_that_turns_too_far_bounds_nothing():
    branch = laws.Remove(Fraction(1, 10), Fraction(1)).branches[0]
    with precision():
        size, gain = contour._modulus(branch, exact(1), exact(10), contour.Path(3.2, 10.0))
    assert not size.is_finite()
    assert not gain < 0


def test_without_a_path_only_the_moment_bounds_what_is_beyond_the_line():
    """Of so little noise no path may be found, and the moment is e^50; 1e9 was taken for it."""
    law = laws.Remove(Fraction(1, 1000), Fraction(8))
    with precision():
        line = Line(one_law(laws.Remove(Fraction(1, 10), Fraction(1)), 100), exact(5.0), 1e-3)
        line.c, line.step = exact(1), exact(0.01)
        points = nodes(law, line.c, line.step, exact(1e-20))
        there = points.transform(line.c, line.step, 2)[1]
        # Of many laws paths are looked at in fewer cells: in all of them this one would have a path.
        assert line._beyond_end(1, [(law, 1, points)] * 9) >= (abs(there) ** 9 / (arb.pi() * line.step)).log()


def test_a_law_that_only_the_lattice_knows():
    with precision(), pytest.raises(TooHardError):
        Line(Composition((), exact(1)), exact(1.0), 1e-3)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace"])
@pytest.mark.parametrize("steps", [2, 4, 10])
@pytest.mark.parametrize("sampling", [dp.Cyclic(5), dp.Shuffled(5), dp.OnePass(2), dp.FullBatch()], ids=lambda one: one.kind)
def test_noise_that_varies_is_that_of_the_worst_place(sampling, steps, adjacency):
    """Every place of a record in every epoch, one by one: 20 records in four batches."""
    noise = np.random.default_rng(steps).uniform(0.5, 2, steps)
    run = dp.Run(n=20, sampling=sampling, steps=steps, noise_multiplier=noise.tolist(), adjacency=adjacency)
    if sampling.full:
        places = [range(steps)]
    elif sampling.shuffled:
        places = list(itertools.product(*(range(first, min(first + 4, steps)) for first in range(0, steps, 4))))
    else:
        places = [range(place, steps, 10 if sampling == dp.OnePass(2) else 4) for place in range(steps)]
    worst = max(sum(1 / noise[t] ** 2 for t in uses) for uses in places)
    with precision():
        ((_, part),) = composed(run).directions[0]
    assert not part.parts
    assert float(part.square) == pytest.approx(worst * (4 if adjacency == "replace" else 1), rel=1e-12)


def test_bounds_that_no_law_has_are_not_composed():
    """A bound that is looser at epsilon 0 than beside it: its chords would have a negative mass there."""

    class Loose(Law):
        def profile(self, epsilon):
            return gaussian_delta(exact(1), epsilon) + (exact(1e-2) if epsilon == 0 else 0)

        @property
        def reverse(self):
            return self

    with precision(), pytest.raises(ArithmeticError, match="chords"):
        Lattice(one_law(Loose(), 3), exact(1.0), 1e-3, 1024)


def test_the_lattice_is_above_brute_force():
    """Two steps, by a double integral on a fine grid in ordinary arithmetic."""
    q, mu, epsilon = 0.2, 1.0, 0.7
    h = np.linspace(-10, 12, 4401)
    weight = np.exp(-(h**2) / 2) / math.sqrt(2 * math.pi) * (h[1] - h[0])
    ratio = 1 - q + q * np.exp(mu * h - mu**2 / 2)
    brute = float(np.maximum(np.multiply.outer(ratio, ratio) - math.exp(epsilon), 0.0).dot(weight) @ weight)
    with precision():
        found = Lattice(one_law(laws.Remove(Fraction(q), Fraction(mu)), 2), exact(epsilon), brute, 4096).delta(exact(epsilon))
    assert brute <= float(found.upper()) <= brute * 1.0005
    assert float(found.lower()) <= brute


@pytest.mark.parametrize(("delta", "epsilon"), [(1e-12, 4.63), (1e-100, 32.37), (1e-285, 68.13)])
def test_lattices_at_tiny_deltas(delta, epsilon):
    """What is known from below cancels where exp(epsilon) is large, and must not be above what is known from above."""
    run = dp.Run(n=20, sampling=dp.Poisson(2), steps=8, noise_multiplier=1.2)
    with precision():
        found = Lattice(composed(run).directions[0][0][1], exact(epsilon), delta, 2048).delta(exact(epsilon))
        assert delta * 0.1 < found.upper() < delta


def test_lines_at_tiny_deltas_do_not_cancel():
    """At 0.6 of the saddle the integrand was 42 digits larger than delta, and known to 34."""
    run = dp.Run(n=1767, sampling=dp.Poisson(54), steps=8, noise_multiplier=2.91, adjacency="replace")
    with precision():
        found = Line(composed(run).directions[0][0][1], exact(8.7612), 1e-221).delta(exact(8.7612))
        assert found.rad() < 1e-9 * found.mid()


@pytest.mark.parametrize("seed", range(6))
def test_never_beside_the_accountant(seed):
    """Both ends of the accountant's enclosure, from the other side."""
    rng = np.random.default_rng([7, seed])
    size = int(rng.integers(20, 200))
    sampling = (dp.Poisson, dp.FixedSize)[seed % 2](size)
    noise = [float(x) for x in rng.uniform(0.7, 3, 3)]
    steps = 3 * int(rng.integers(100, 300))
    run = dp.Run(
        n=1000, sampling=sampling, steps=steps, noise_multiplier=noise * (steps // 3) if seed % 3 == 0 else noise[0],
        adjacency=("add-remove", "replace")[seed // 2 % 2],
    )  # fmt: skip
    theirs = ExactCompositionBound().guarantee(run).epsilon(1e-6)
    with precision():
        said = composed(run)
        ends = []
        for epsilon in (theirs.lower, theirs.upper):
            means = []
            for mixture in said.directions:
                try:
                    means.append(Line(mixture[0][1], exact(epsilon), 1e-6).delta(exact(epsilon)))
                except TooHardError:
                    means.append(Lattice(mixture[0][1], exact(epsilon), 1e-6, 512).delta(exact(epsilon)) * arb(0, 1))
            ends.append(means)
        assert any(mean >= 1e-6 for mean in ends[0])
        assert all(mean.lower() <= 1e-6 for mean in ends[1])


def test_the_quadrature_is_arbs():
    """E exp(s loss) by Arb's own integration, at complex s."""
    with precision():
        law = laws.Remove(Fraction(1, 10), Fraction(1))
        branch, s = law.branches[0], acb(2, 7)
        whole = acb.integral(
            lambda h, _: (branch.p.log(h) + s * branch.loss(h) - h * h / 2).exp() / (2 * acb.pi()).sqrt(), acb(-16), acb(22)
        )
        points = nodes(law, exact(2), exact(7), exact(1e-28))
        found = points.transform(exact(2), exact(7), 2)[1]
        assert abs(found - whole) < 1e-24
        assert points.error < 1e-25


def test_a_law_that_is_too_wide_for_the_quadrature_is_refused_at_once():
    with precision(), pytest.raises(TooHardError, match="too small"):
        nodes(laws.Amplified(Fraction(1, 10), Fraction(10**10)), exact(2), exact(0), exact(1e-28))


def test_where_moments_soon_grow_steeply_the_line_keeps_away():
    """Through the saddle itself the period would be thousands of times as long."""
    law = laws.Remove(Fraction(108, 65783), Fraction(1, 10))
    with precision():
        composition, epsilon = one_law(law, 159), exact(0.004)
        line = Line(composition, epsilon, 2e-5)
        assert line.count < 200
        found = line.delta(epsilon)
        assert found.rad() / found < 1e-9
        assert 0 < Lattice(composition, epsilon, float(found), 2**13).delta(epsilon).upper() / found - 1 < 1e-4


def test_ends_that_are_cut_raise_delta_by_no_more_than_their_mass():
    rng = np.random.default_rng(5)
    mass = np.exp(-np.abs(np.arange(-40, 41)) * 1.0) * rng.uniform(0.5, 1, 81)
    with precision():
        whole = _Sum(arb_poly([exact(x) for x in mass / mass.sum()]), -30, exact(0.01))
        for low, high, rare in ((-30, 50, 1e-9), (-10, 50, 1e-12), (-30, 20, 1e-12), (-5, 5, 1e-3), (60, 70, 0.0), (-30, 50, 0.0)):
            kept = whole.cut(low, high, exact(rare))
            total = sum(kept.mass.coeffs(), kept.infinite)
            assert abs(total - sum(whole.mass.coeffs(), whole.infinite)) < 1e-30
            for k in range(-35, 60, 5):
                before, after = (_delta(one, k) for one in (whole, kept))
                assert after >= before - 1e-30
                if (low, high) == (-30, 50):
                    assert after <= before + 2 * rare + 1e-30


def _delta(law: _Sum, k: int) -> arb:
    """What is above k/10, times what is left of it."""
    points = (law.first + i for i in range(len(law.mass.coeffs())))
    told = (m * (1 - exact(Fraction(k - x, 10)).exp()) for m, x in zip(law.mass.coeffs(), points, strict=True) if x > k)
    return sum(told, law.infinite)


def test_a_small_shift_has_a_lattice():
    """Its losses end at once, which few bits do not show: their radius is larger than what is allowed beyond the points."""
    law = laws.Remove(Fraction(1, 100), Fraction(1), Fraction(2e-7))
    plain = laws.Remove(Fraction(1, 100), Fraction(1))
    with precision():
        found, near = (
            Lattice(Composition(((one, 2),), exact(0)), exact(0.35), 1e-5, 1024).delta(exact(0.35)).upper() for one in (law, plain)
        )
        assert near * (1 - 1e-3) < found < near * (1 + 1e-3)
