"""Piecewise linear trade-off functions: every operation against enumeration."""

# pyright: basic, reportArgumentType=false, reportAttributeAccessIssue=false
from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dplateau.accounting import gdp_delta
from dplateau.accounting.trade_offs import Gaussian, Piecewise, epsilon_delta, maximum, minimum, of_masses, of_table
from dplateau.accounting.trade_offs.piecewise import corners, envelope, times
from dplateau.spec import InputError

masses = (
    st.lists(st.just(0.0) | st.floats(1e-6, 1.0), min_size=4, max_size=4)
    .filter(lambda x: sum(x) > 0.1)
    .map(lambda x: np.array(x) / sum(x))
)
few = settings(max_examples=60, derandomize=True, deadline=None)


def every_test(p: np.ndarray, q: np.ndarray) -> Piecewise:
    """The lower convex hull of both errors of all events: randomised tests are between them."""
    points = [
        (float(p[list(event)].sum()), float(1 - q[list(event)].sum()))
        for size in range(p.size + 1)
        for event in itertools.combinations(range(p.size), size)
    ]
    points.sort()
    alpha, beta = np.array(points).T
    least = np.minimum.accumulate(np.maximum(beta, 0.0))
    first = np.append(True, np.diff(least) < 0)
    return corners(np.minimum(alpha[first], 1.0), np.where(least[first] < 1e-15, 0.0, least[first]))


@given(p=masses, q=masses)
@few
def test_neyman_pearson(p: np.ndarray, q: np.ndarray) -> None:
    f = of_masses(p, q)
    alpha = np.linspace(0, 1, 101)
    assert np.allclose(f(alpha), every_test(p, q)(alpha), atol=1e-12)
    for epsilon in (-1.0, 0.0, 0.7):
        assert f.delta(epsilon) == pytest.approx(np.maximum(q - math.exp(epsilon) * p, 0).sum(), abs=1e-12)
    assert np.allclose(of_masses(q, p)(alpha), f.inverse(alpha), atol=1e-12)


@given(p=masses, q=masses, r=masses, s=masses)
@few
def test_product_of_discrete_laws(p: np.ndarray, q: np.ndarray, r: np.ndarray, s: np.ndarray) -> None:
    f = times(of_masses(p, q), of_masses(r, s))
    assert f is not None
    direct = of_masses(np.outer(p, r).ravel(), np.outer(q, s).ravel())
    alpha = np.linspace(0, 1, 101)
    assert np.allclose(f(alpha), direct(alpha), atol=1e-12)
    assert np.allclose((of_masses(r, s) @ of_masses(p, q))(alpha), direct(alpha), atol=1e-12)


@given(p=masses, q=masses, r=masses)
@few
def test_group(p: np.ndarray, q: np.ndarray, r: np.ndarray) -> None:
    """T(P, R) >= f o (1 - f) where f is below T(P, Q) and T(Q, R) (Dong, Roth, Su 2022, Theorem 2.14)."""
    f = minimum(of_masses(p, q), of_masses(q, r))
    alpha = np.linspace(0, 1, 101)
    group = f.group(2)
    assert np.allclose(group(alpha), f(1 - f(alpha)), atol=1e-12)
    assert (group(alpha) <= of_masses(p, r)(alpha) + 1e-12).all()
    assert np.allclose(f.group(3)(alpha), f(1 - f(1 - f(alpha))), atol=1e-12)
    assert np.allclose(f.group(1)(alpha), f(alpha))


@pytest.mark.parametrize("epsilon", [1.0, 20.0, 40.0, 300.0])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_groups_keep_small_errors(epsilon: float, size: int) -> None:
    # One less a small power is 1: that lost the corner at alpha = 1e-35, where a group of two rows of (40, 0) is told apart.
    middle = 1 / (1 + math.exp(epsilon))
    group = epsilon_delta(epsilon, 0.0).group(size)
    for alpha in np.geomspace(1e-290, 1.0, 600).tolist():
        power = alpha
        for _ in range(size):
            power = math.exp(epsilon) * power if power <= middle else 1 - (1 - power) * math.exp(-epsilon)
        assert group(alpha) <= 1 - power + 1e-13


def test_epsilon_and_delta_at_the_ends_of_double_precision() -> None:
    assert epsilon_delta(800.0, 0.0)(1e-300) == 0
    # 1 - 1e-17 rounds to 1: 10^10 such steps have delta = 1e-7 together.
    assert (epsilon_delta(0.0, 1e-17) ** 10**10)(0.0) <= 1 - 1e-7
    assert epsilon_delta(0.0, 0.25)(0.5) == 0.25


def test_group_of_epsilon_and_gaussian() -> None:
    assert epsilon_delta(0.3, 0.0).group(4).delta(1.2) == pytest.approx(0.0, abs=1e-15)
    assert Gaussian(0.5).group(3) == Gaussian(1.5)
    line = Gaussian(0.5).polygon(4000).group(3)
    alpha = np.linspace(0, 1, 101)
    assert (line(alpha) <= Gaussian(1.5)(alpha) + 1e-13).all()
    assert np.allclose(line(alpha), Gaussian(1.5)(alpha), atol=2e-6)
    with pytest.raises(InputError, match="size"):
        line.group(0)


def test_epsilon_delta_is_equation_2_1() -> None:
    epsilon, delta = 1.3, 0.04
    alpha = np.linspace(0, 1, 201)
    expected = np.maximum(0, np.maximum(1 - delta - math.exp(epsilon) * alpha, math.exp(-epsilon) * (1 - delta - alpha)))
    assert np.allclose(epsilon_delta(epsilon, delta)(alpha), expected, atol=1e-15)
    assert epsilon_delta(0, 1)(0.3) == 0
    assert epsilon_delta(5.0, 0.0)(0.0) == 1


def test_table_is_the_supremum() -> None:
    epsilons, deltas = np.array([2.0, 0.5, 0.0, 1.0]), np.array([1e-3, 0.1, 0.4, 0.05])
    alpha = np.linspace(0, 1, 401)
    expected = np.max([epsilon_delta(e, d)(alpha) for e, d in zip(epsilons, deltas, strict=True)], axis=0)
    found = of_table(epsilons, deltas)(alpha)
    assert np.allclose(found, expected, atol=1e-14)
    # A row that says less than another one changes nothing.
    assert np.allclose(of_table(np.append(epsilons, 1.5), np.append(deltas, 0.3))(alpha), expected, atol=1e-14)


def test_a_gaussian_from_its_table() -> None:
    """P2, section 3.2: the supremum of f_(epsilon, delta(epsilon)) is G_mu again."""
    epsilons = np.linspace(0, 8, 4000)
    f = of_table(epsilons, np.array([Gaussian(1.13).delta(float(e)) for e in epsilons]))
    alpha = np.linspace(0.01, 0.99, 99)
    assert np.allclose(f(alpha), Gaussian(1.13)(alpha), atol=1e-6)
    assert (f(alpha) <= Gaussian(1.13)(alpha) + 1e-13).all()


@given(p=masses, q=masses, r=masses, s=masses)
@few
def test_minimum_and_maximum(p: np.ndarray, q: np.ndarray, r: np.ndarray, s: np.ndarray) -> None:
    f, g = of_masses(p, q), of_masses(r, s)
    alpha = np.linspace(0, 1, 101)
    low, high = minimum(f, g), maximum(f, g)
    assert (low(alpha) <= np.minimum(f(alpha), g(alpha)) + 1e-13).all()
    assert np.allclose(high(alpha), np.maximum(f(alpha), g(alpha)), atol=1e-12)
    for epsilon in (-1.0, 0.0, 1.0):
        assert low.delta(epsilon) == pytest.approx(max(f.delta(epsilon), g.delta(epsilon)), abs=1e-12)


def test_what_is_nowhere_larger_is_no_member_of_a_maximum() -> None:
    small, large, other = Gaussian(2.0), Gaussian(1.0), epsilon_delta(0.1, 0.3)
    assert maximum(small, large).members == maximum(large, small).members == (large,)
    assert maximum(large, other, small).members == (large, other)


def kairouz(epsilon: float, delta: float, times: int) -> Piecewise:
    """The optimal composition of (epsilon, delta)-DP (Kairouz, Oh, Viswanath 2017, Theorem 3.3)."""
    rows = []
    for i in range(times // 2 + 1):
        excess = (
            sum(math.comb(times, k) * (math.exp((times - k) * epsilon) - math.exp((times - 2 * i + k) * epsilon)) for k in range(i))
            / (1 + math.exp(epsilon)) ** times
        )
        rows.append(((times - 2 * i) * epsilon, 1 - (1 - delta) ** times * (1 - excess)))
    return of_table(*np.array(rows).T)


def highest_lines(epsilons: list[float], deltas: list[float], alpha: np.ndarray) -> np.ndarray:
    """What the rows of a table say, one by one."""
    epsilon, delta = np.array(epsilons)[:, None], np.array(deltas)[:, None]
    lines = np.maximum(1 - delta - np.exp(epsilon) * alpha, np.exp(-epsilon) * (1 - delta - alpha))
    return np.maximum(lines, 0.0).max(axis=0)


@pytest.mark.parametrize(
    ("epsilons", "deltas"),
    [
        ([0.01, 0.01], [0.9, 0.3]),
        ([1.0, 1.0, 2.0], [0.9, 0.3, 0.1]),
        ([5e-17], [0.9]),
        ([2e-17, 1e-17, 0.0], [0.1, 0.5, 0.7]),
        ([0.1, 0.2], [0.3, 0.3]),
        ([0.0, 0.0, 0.0], [1.0, 0.5, 0.5]),
    ],
)
def test_tables_with_equal_rows_say_what_the_rows_say(epsilons: list[float], deltas: list[float]) -> None:
    alpha = np.linspace(0, 1, 101)
    for rows in itertools.permutations(zip(epsilons, deltas, strict=True)):
        f = of_table(*np.array(rows).T)
        np.testing.assert_allclose(f(alpha), highest_lines(epsilons, deltas, alpha), rtol=0, atol=1e-15)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0.0, 1e-17, 5e-17, 2e-16, 1e-8, 0.1, 1.0, 5.0]), st.sampled_from([0.0, 1e-16, 1e-10, 0.1, 0.5, 1.0])
        ),
        min_size=1,
        max_size=6,
    )
)
@few
def test_no_table_says_more_than_its_rows(rows: list[tuple[float, float]]) -> None:
    alpha = np.append([0.0, 1e-12, 1e-6], np.linspace(0, 1, 41))
    f = of_table(*np.array(rows).T)
    assert (f(alpha) <= highest_lines(*map(list, zip(*rows, strict=True)), alpha) + 1e-15).all()


def test_upper_bounds_on_a_profile_may_rise() -> None:
    # The true delta falls; what is known of it may be more accurate at a smaller epsilon.
    epsilon, delta = np.array([0.0, 20.0, 20.1]), np.array([0.5, 1e-6, 1.1e-6])
    f = envelope(epsilon, delta, -np.expm1(-epsilon) + np.exp(-epsilon) * delta)
    assert 1 - f(0.0) == pytest.approx(1e-6, rel=1e-9)


def test_corners_are_numbers_and_not_those_of_somebody_else() -> None:
    alpha, beta = np.array([0.0, 0.5]), np.array([0.5, 0.0])
    f = Piecewise(alpha, beta)
    alpha[1] = 0.9
    assert f(0.2) == pytest.approx(0.3)
    with pytest.raises(InputError, match="alpha"):
        Piecewise(np.array(["0", "0.5"]), beta)


@pytest.mark.parametrize(("epsilon", "delta", "count"), [(0.5, 0.0, 3), (0.5, 0.01, 4), (0.1, 1e-3, 30), (2.0, 1e-6, 11)])
def test_powers_of_epsilon_delta(epsilon: float, delta: float, count: int) -> None:
    f = epsilon_delta(epsilon, delta) ** count
    assert isinstance(f, Piecewise)
    alpha = np.linspace(0, 1, 201)
    assert np.allclose(f(alpha), kairouz(epsilon, delta, count)(alpha), atol=1e-12)


def test_a_law_that_shows_everything() -> None:
    f = epsilon_delta(1.0, 1.0)
    assert f(0.5) == 0
    assert f.delta(3.0) == 1
    assert (f @ Gaussian(1.0))(0.4) == 0
    assert f.epsilon(0.5) == math.inf


def test_refused_masses() -> None:
    for p, q in (([0.5, 0.5], [0.5]), ([0.5, 0.6], [0.5, 0.5]), ([-0.5, 1.5], [0.5, 0.5]), ([math.nan, 1.0], [0.5, 0.5])):
        with pytest.raises(InputError, match="masses"):
            of_masses(np.array(p), np.array(q))


@pytest.mark.parametrize("mu", [1e-5, 1e-9, 1e-11, 1e-12, 1e-13])
def test_slopes_that_hardly_differ_are_joined_below_the_product(mu: float) -> None:
    for points in (60, 1000):
        f = Gaussian(mu).polygon(points)
        product = times(f, f)
        assert product is None or product.delta(0.0) >= gdp_delta(mu * math.sqrt(2), 0.0) * (1 - 1e-9)
    assert times(of_masses((0.5, 0.5), (0.5 + mu, 0.5 - mu)), of_masses((0.5, 0.5), (0.5 + mu, 0.5 - mu))) is not None


@pytest.mark.parametrize(
    ("f", "delta"),
    [
        (of_masses(np.array([1e-30, 1.0]), np.array([1e-18, 1.0])), 1e-20),
        (of_masses(np.array([1.0, 1e-18]), np.array([1.0, 1e-30])).inverse, 1e-20),
        (of_table(np.array([0.1, 1.0]), np.array([1e-3, 1e-18])), 1e-20),
        (epsilon_delta(1.0, 1e-3).subsampled(1e-6), 9.9999999e-10),
        (epsilon_delta(1.0, 1e-16).subsampled(0.1), 1e-18),
        (Gaussian(1.0).polygon(least=1e-20), 1e-19),
    ],
)
def test_a_delta_that_one_less_it_does_not_show_is_not_lost(f: Piecewise, delta: float):
    # What is known ends above this delta: at some outcome nothing is, and no epsilon is enough.
    assert f.epsilon(delta) == math.inf
    assert (f**2).epsilon(delta) == math.inf
    assert f(0.0) < 1
