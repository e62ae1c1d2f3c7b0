"""One-step laws in balls: against the accountant, integrals, and each other."""

import math
from fractions import Fraction

import numpy as np
import pytest

pytest.importorskip("flint")
from flint import acb, arb

from dplateau.accounting import amplified, empty_place, privacy_loss
from dplateau.accounting.terms import excess
from dplateau.verifier import laws
from dplateau.verifier.balls import above, exact, gaussian_delta, precision
from dplateau.verifier.quadrature import _Rule, end_of, nodes

PAIRS = [
    (laws.Remove, privacy_loss.PoissonRemove),
    (laws.Add, privacy_loss.PoissonAdd),
    (laws.Replace, privacy_loss.PoissonReplace),
    (laws.Amplified, amplified.Amplified),
    (laws.Present, empty_place.PresentOrEmpty),
    (laws.Empty, empty_place.EmptyOrPresent),
]
SETTINGS = [(0.1, 1.0, 0.0), (1e-5, 2.0, 0.0), (0.5, 0.3, 0.25), (0.01, 1.5, 0.05), (0.9, 3.0, 0.0)]


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(("q", "mu", "shift"), SETTINGS)
def test_profiles(ours, theirs, q, mu, shift):
    """Both have closed forms, of different shape."""
    for epsilon in (1e-3, 0.05, 0.5, 3.0):
        with precision():
            found = ours(Fraction(q), Fraction(mu), Fraction(shift)).profile(exact(epsilon))
        assert found.rad() < 1e-25
        assert float(found) == pytest.approx(math.exp(theirs(q, mu, shift).log_delta(np.array(epsilon))), rel=1e-9, abs=1e-18)


@pytest.mark.parametrize(("ours", "theirs"), PAIRS)
@pytest.mark.parametrize(("q", "mu", "shift"), SETTINGS[:4])
def test_transforms(ours, theirs, q, mu, shift):
    for c, omega in ((2.0, 0.0), (0.5, 20.0)):
        with precision():
            points = nodes(ours(Fraction(q), Fraction(mu), Fraction(shift)), exact(c), exact(omega), exact(1e-25))
            found = points.transform(exact(c), exact(omega or 1.0), 2)[1 if omega else 0]
            assert points.error < 1e-15
        value, error = excess(theirs(q, mu, shift), c, np.array([0.0, omega]), math.log(1e-14))
        assert abs(complex(found) - 1 - value[1]) <= error[1] + 1e-12 * abs(value[0])


@pytest.mark.parametrize("shift", [Fraction(0), Fraction(1, 8)])
@pytest.mark.parametrize("law", [one for one, _ in PAIRS])
def test_a_profile_is_the_mean_of_its_losses(law, shift):
    """delta(epsilon) by another road: the integral of (1 - exp(epsilon - loss))+ over the branches, by Arb's own quadrature."""
    with precision():
        one = law(Fraction(1, 10), Fraction(3, 2), shift)
        for epsilon in (exact(0.05), exact(0.9)):
            total = exact(0)
            for branch in one.branches:
                low, high = branch.low or exact(-14), branch.high or exact(16)
                rises = branch.slope((low + high) / 2) > 0
                if not (branch.loss(high if rises else low) > epsilon):
                    continue
                start, end = (low, high) if branch.loss(low if rises else high) > epsilon else (None, None)
                if start is None:
                    place = branch.crossing(epsilon)
                    start, end = (place, high) if rises else (low, place)

                def density(h, _, branch=branch, epsilon=epsilon):
                    return ((branch.p.log(h) - h * h / 2).exp() - (epsilon + branch.q.log(h) - h * h / 2).exp()) / (
                        2 * acb.pi()
                    ).sqrt()

                total += acb.integral(density, acb(start), acb(end)).real
            assert abs(total - one.profile(epsilon)) < 1e-20


def test_both_directions_of_a_law_are_one_pair():
    """delta(epsilon) of (P, Q) and of (Q, P) meet at epsilon = 0, the total variation."""
    with precision():
        for law in (laws.Remove, laws.Present):
            one = law(Fraction(1, 20), Fraction(2), Fraction(0))
            assert abs(one.profile(exact(1e-40)) - one.reverse.profile(exact(1e-40))) < 1e-25


def test_gaussian_delta():
    """50 digits of mpmath's formula, and the limit 0."""
    with precision():
        assert abs(gaussian_delta(exact(1), exact(1)) - arb("0.12693673750664397")) < 1e-16
        assert gaussian_delta(exact(0), exact(1)) == 0
        assert above(exact(40)) > 0


def test_exact_numbers_are_exact():
    with precision():
        assert exact(0.1) * 2**55 == 3602879701896397 * 1
        assert exact(Fraction(1, 3)).rad() > 0
        assert not exact(Fraction(1, 3)) * 3 < 1
        assert not exact(Fraction(1, 3)) * 3 > 1


@pytest.mark.parametrize("bits", [112, 160])
@pytest.mark.parametrize("law", [laws.Remove, laws.Replace, laws.Amplified, laws.Present, laws.Empty])
@pytest.mark.parametrize("solved", [True, False])
def test_every_level_is_crossed(law, bits, solved, monkeypatch):
    """Newton's steps went to and fro for ever where the slope changes quickly, and to -infinity in search of a loss of 0."""
    if not solved:  # Newton's steps, also where there is a closed form.
        monkeypatch.setattr(laws.Branch, "_solved", lambda *_: None)
    for q, mu in (
        (Fraction(36, 24_215), Fraction(0.4795945705680103)),
        (Fraction(1, 100), Fraction(1, 2)),
        (Fraction(1, 2), Fraction(3)),
    ):
        one = law(q, mu)
        with precision(bits):
            for epsilon in [3 * abs(math.sin(k)) + 1e-6 for k in range(60)] + [0.0] * (
                law is not laws.Remove and law is not laws.Replace
            ):
                h = one.branches[0].crossing(exact(epsilon))
                assert h.rad() < 1e-20
                assert one.branches[0].loss(h).contains(exact(epsilon))
                assert one.branches[0].low is None or h >= one.branches[0].low or h.overlaps(one.branches[0].low)


@pytest.mark.parametrize("law", [one for one, _ in PAIRS])
@pytest.mark.parametrize("shift", [Fraction(0), Fraction(1, 4)])
def test_a_sum_of_few_points_is_no_further_off_than_its_error(law, shift, monkeypatch):
    """Ends that are cut early, and pieces that are left out, for coarse tolerances: its balls hold those of fine ones."""
    missed, points = [], _Rule._points

    def told(self, *piece):
        found = points(self, *piece)
        missed.extend(found[1:] if found else ())
        return found

    monkeypatch.setattr(_Rule, "_points", told)
    with precision():
        one, c, omega = law(Fraction(1, 3), Fraction(3, 2), shift), exact(0.75), exact(3)
        fine = nodes(one, c, omega, exact(1e-30)).transform(c, exact(1), 4)
        for tolerance in (0.3, 0.03, 1e-3, 1e-5, 1e-8):
            missed.clear()
            coarse = nodes(one, c, omega, exact(tolerance))
            assert missed
            assert all(wide.contains(narrow.mid()) for wide, narrow in zip(coarse.transform(c, exact(1), 4), fine, strict=True))
            cut = [
                end_of(branch, c, exact(tolerance), sign)[1]
                for branch in one.branches
                for sign, end in ((-1, branch.low), (1, branch.high))
                if end is None
            ]
            # Of exp(loss s) - 1, which is at most exp(loss c) + 2.
            assert not coarse.error < 2 * sum(cut, exact(0)) + sum(missed, exact(0))


def test_moments_beyond_the_largest_double():
    """Its integrand's size was a double, so that the tolerance became infinite, and a large moment a ball around 0."""
    with precision():
        law, c = laws.Replace(Fraction(4, 547), Fraction(0.34763559021970136)), exact(195)
        found = nodes(law, c, exact(0), exact(1e-20)).moment(c).log()
        # The largest term of (1 - q + q x)^(c + 1) is that of q^(c + 1); it is a bound from below.
        least = (c + 1) * exact(Fraction(4, 547)).log() + c * (c + 1) / 2 * exact(Fraction(0.34763559021970136)) ** 2
        assert found.rad() < 1e-15
        assert found > least
        assert found > 1000


@pytest.mark.parametrize("law", [laws.Amplified, laws.Present, laws.Empty])
def test_branches_that_begin_beyond_the_cut(law):
    """Such a stretch was integrated backwards, with an error below 0 that could be infinite."""
    with precision():
        mu, q = exact(1), exact(Fraction(1, 1000))
        for shift in (20, 60):
            found = nodes(law(Fraction(1, 1000), Fraction(1), Fraction(shift)), exact(0.1), exact(0), exact(1e-30))
            # Nearly all of the moment is that of the two pairs told apart: that of squared mu is exp(c (c + 1) mu^2/2).
            told = [(exact(0.1) * exact(1.1) / 2 * m**2).exp() for m in (exact(shift), shift + mu)]
            moment = found.moment(exact(0.1))
            assert found.error > 0
            assert moment.rad() < moment * exact(1e-25)
            assert moment > (1 - q) * told[0]
            assert moment < 1 + ((1 - q) * told[0] + q * told[1]) * exact(1.001)
