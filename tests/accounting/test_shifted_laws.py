"""Step laws with a shift, against direct integration of their densities."""

import itertools
import math

import numpy as np
import pytest

from dplateau.accounting.amplified import Amplified
from dplateau.accounting.composition import ExactComposition
from dplateau.accounting.empty_place import EmptyOrPresent, PresentOrEmpty
from dplateau.accounting.gaussian import log_gdp_delta
from dplateau.accounting.privacy_loss import PoissonAdd, PoissonRemove, PoissonReplace
from dplateau.accounting.terms import Composition, Repeated

X = np.linspace(-45.0, 45.0, 400_001)
DX = X[1] - X[0]
SETTINGS = [(0.001, 1.3, 0.02), (0.01, 0.4, 0.3), (0.1, 2.5, 0.001), (0.5, 0.8, 1.5)]
MIXTURES = [PoissonRemove, PoissonAdd, PoissonReplace]


def normal(x):
    return np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


def densities(kind, q, mu, shift):
    moved = (1 - q) * normal(X - shift) + q * normal(X - shift - mu)
    if kind is PoissonReplace:
        return moved, (1 - q) * normal(X) + q * normal(X + mu)
    return (normal(X), moved) if kind is PoissonAdd else (moved, normal(X))


def profile(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * DX)


@pytest.mark.parametrize("kind", MIXTURES)
@pytest.mark.parametrize(("q", "mu", "shift"), SETTINGS)
def test_transform_profile_and_tail_of_the_mixtures(kind, q, mu, shift):
    law, (p_density, q_density) = kind(q, mu, shift), densities(kind, q, mu, shift)
    some = (p_density > 1e-250) & (q_density > 1e-250)
    loss = np.log(p_density[some] / q_density[some])
    for s in (0.5, 2.0, 1 + 3j, 0.3 + 20j):
        c, omega = complex(s).real, complex(s).imag
        value, error = law.nodes(c, omega + 1e-9, math.log(1e-13)).excess(c, np.array([omega]))
        exact = (p_density[some] * np.exp(s * loss)).sum() * DX
        scale = (p_density[some] * np.exp(c * loss)).sum() * DX
        assert abs(1 + value[0] - exact) <= 1e-9 * scale
        assert error[0] <= 1e-8 * scale
        if omega:
            assert law.tail(c, omega) >= math.log(abs(exact) / scale) - 1e-9
    for epsilon in (-0.3, 0.0, 0.1, 1.0, 3.0):
        exact = profile(p_density, q_density, epsilon)
        assert math.exp(float(law.log_delta(np.array(epsilon)))) == pytest.approx(exact, rel=1e-5, abs=1e-9)
        level = (np.log(p_density[some] / q_density[some]) > epsilon) @ q_density[some] * DX
        assert math.exp(float(law.log_above(np.array(epsilon)))) == pytest.approx(level, abs=3e-4)


@pytest.mark.parametrize(("q", "mu", "shift"), SETTINGS)
def test_the_amplified_law_has_its_profile(q, mu, shift):
    law = Amplified(q, mu, shift)
    nodes = law.nodes(1.0, 5.0, math.log(1e-13))
    p = np.exp(nodes.log_p)
    assert p.sum() == pytest.approx(1, abs=1e-11)
    assert (p * np.exp(-nodes.loss)).sum() == pytest.approx(1, abs=1e-11)
    border = shift * (shift + mu) / 2
    p_density, q_density = densities(PoissonRemove, q, mu, shift)
    for epsilon in (0.0, border / 2, border, border + 0.3, border + 2.0):
        plain = [math.exp(float(log_gdp_delta(m, epsilon))) for m in (shift, shift + mu)]
        wanted = profile(p_density, q_density, epsilon) if epsilon > border else (1 - q) * plain[0] + q * plain[1]
        assert math.exp(float(law.log_delta(np.array(epsilon)))) == pytest.approx(wanted, rel=1e-4, abs=1e-9)
        # delta(e) is the integral of e^u Q(L > u) beyond e.
        u = np.linspace(epsilon, epsilon + 40, 200_001)
        integral = np.trapezoid(np.exp(u + law.log_above(u)), u)
        assert integral == pytest.approx(wanted, rel=2e-3, abs=1e-9)
    # The larger of a law and its mirror image: delta(-e) = 1 - e^-e + e^-e delta(e).
    forward, backward = (math.exp(float(law.log_delta(np.array(e)))) for e in (0.4, -0.4))
    assert backward == pytest.approx(1 - math.exp(-0.4) + math.exp(-0.4) * forward)


@pytest.mark.parametrize("kind", [PresentOrEmpty, EmptyOrPresent])
@pytest.mark.parametrize(("q", "mu", "shift"), SETTINGS)
def test_three_centres_with_a_shift(kind, q, mu, shift):
    law, inner = kind(q, mu, shift), shift * (shift + mu) / 2
    nodes = law.nodes(1.0, 5.0, math.log(1e-13))
    p = np.exp(nodes.log_p)
    assert p.sum() == pytest.approx(1, abs=1e-11)
    assert (p * np.exp(-nodes.loss)).sum() == pytest.approx(1, abs=1e-11)
    # Far from 0 each direction is that of two mixtures on a line, near 0 that of two Gaussian pairs told apart.
    absent = (1 - q) * normal(X - shift) + q * normal(X - shift - mu)
    present = (1 - q) * normal(X - shift) + q * normal(X - shift - 2 * mu)
    empty = (1 - q) * normal(X) + q * normal(X - mu)
    pair, edge = ((present, empty), 3 * inner) if kind is PresentOrEmpty else ((absent, normal(X)), inner)
    for epsilon in (0.0, edge / 2, edge, edge + 0.3, edge + 2.0):
        told = sum(p * math.exp(float(log_gdp_delta(m, epsilon))) for m, p in ((shift, 1 - q), (shift + mu, q)))
        wanted = profile(*pair, epsilon) if epsilon > edge else told
        assert math.exp(float(law.log_delta(np.array(epsilon)))) == pytest.approx(wanted, rel=1e-4, abs=1e-9)
        u = np.linspace(epsilon, epsilon + 40, 200_001)
        integral = np.trapezoid(np.exp(u + law.log_above(u)), u)
        assert integral == pytest.approx(wanted, rel=2e-3, abs=1e-9)
        # What is below 0 follows from the other direction, and so does what is above a loss there: the slope of delta.
        forward, backward = (math.exp(float(each.log_delta(np.array(e)))) for each, e in ((law, epsilon), (law.reverse, -epsilon)))
        assert backward == pytest.approx(1 - math.exp(-epsilon) + math.exp(-epsilon) * forward, abs=1e-12)
        steps = np.array([-epsilon - 0.1, -epsilon - 0.1 + 1e-5])
        fallen = -np.diff(np.exp(law.log_delta(steps))) / np.diff(np.exp(steps))
        assert fallen[0] == pytest.approx(math.exp(float(law.log_above(steps[:1])[0])), rel=1e-4, abs=1e-7)
    for s in (0.5, 2.0, 1 + 3j, 0.3 + 20j):
        # m(s) = s (s + 1) times the integral of delta(e) exp(s e), over pieces whose ends are those of the law.
        c, omega = complex(s).real, complex(s).imag
        value, error = law.nodes(c, omega + 1e-9, math.log(1e-13)).excess(c, np.array([omega]))
        exact = transform(law, s, sorted({-90.0 / c, -3 * inner, -inner, 0.0, inner, 3 * inner, 3 * inner + 60.0}))
        scale = 1 + law.nodes(c, 1.0, math.log(1e-13)).moments(c)[0]
        assert abs(1 + value[0] - exact) <= 1e-9 * scale
        assert error[0] <= 1e-8 * scale
        if omega:
            assert law.tail(c, omega) >= math.log(abs(exact) / scale) - 1e-9


def transform(law, s, ends):
    """By Gauss-Legendre quadrature of the profile, in panels that get short towards the ends of the pieces."""
    x, w = np.polynomial.legendre.leggauss(24)
    share = np.concatenate([[0.0], 0.5 ** np.arange(24, 0, -1)])
    total = 0.0
    for low, high in itertools.pairwise(ends):
        edges = np.unique(np.concatenate([low + share * (high - low), high - share * (high - low)]))
        edges = np.unique(np.concatenate([edges, np.arange(low, high, 0.25)]))
        half = (edges[1:] - edges[:-1])[:, None] / 2
        e = (edges[:-1, None] + half + half * x).ravel()
        total = total + ((half * w).ravel() * np.exp(law.log_delta(e) + s * e)).sum()
    return s * (s + 1) * total


@pytest.mark.parametrize("kind", [*MIXTURES, Amplified, PresentOrEmpty, EmptyOrPresent])
def test_a_shift_that_vanishes_changes_nothing_and_a_larger_one_costs_more(kind):
    def epsilon(shift):
        return ExactComposition((Composition((Repeated(kind(0.02, 0.7, shift), 400),)),)).epsilon(1e-5)

    plain, tiny, small, large = (epsilon(shift) for shift in (0.0, 1e-7, 0.01, 0.05))
    assert tiny.upper == pytest.approx(plain.upper, abs=1e-4)
    assert plain.upper < small.lower < small.upper < large.lower
    assert large.width < 1e-5


@pytest.mark.parametrize("kind", [PoissonRemove, PoissonReplace, Amplified])
def test_a_certain_draw_is_the_plain_gaussian_in_the_limit(kind):
    # q close to 1: the drawn component alone, at distance mu + shift (2 mu + shift under replacement).
    law = kind(1 - 1e-12, 0.5, 0.2)
    distance = 1.2 if kind is PoissonReplace else 0.7
    for epsilon in (0.5, 1.0):
        assert float(law.log_delta(np.array(epsilon))) == pytest.approx(float(log_gdp_delta(distance, epsilon)), rel=1e-6)


def test_two_steps_agree_with_a_double_integral():
    q, mu, shift, delta = 0.2, 1.0, 0.4, 1e-3
    found = ExactComposition((Composition((Repeated(PoissonRemove(q, mu, shift), 2),)),)).epsilon(delta)
    x = np.linspace(-12.0, 16.0, 2801)
    p = (1 - q) * normal(x - shift) + q * normal(x - shift - mu)
    pair, other = np.multiply.outer(p, p), np.multiply.outer(normal(x), normal(x))
    exact = np.maximum(pair - math.exp(found.upper) * other, 0).sum() * (x[1] - x[0]) ** 2
    assert exact == pytest.approx(delta, rel=2e-3)
