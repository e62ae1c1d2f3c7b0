# pyright: basic
"""Lower bounds from samples: they hold, they find what is there, and the halves are kept apart."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import betainc, mp

from dplateau.accounting.gaussian import gdp_epsilon
from dplateau.accounting.trade_offs import Gaussian
from dplateau.audit.separation import Scores, clopper_pearson, deviations, separate
from dplateau.spec import InputError

ERROR = 1e-9


def halves(mu: float, count: int, seed: int) -> list[list[Scores]]:
    """Two halves of samples of N(mu, 1) and N(0, 1), with a score that says nothing beside them."""
    random = np.random.default_rng(seed)
    return [
        [
            Scores("nothing", random.normal(size=count), random.normal(size=count)),
            Scores("all", random.normal(mu, 1, count), random.normal(size=count)),
        ]
        for _ in range(2)
    ]


@pytest.mark.parametrize(
    ("k", "n", "error"), [(25, 100, 5e-7), (125, 500, 1e-9), (499, 500, 5e-7), (39, 40, 1e-9), (1250, 5000, 1e-9)]
)
def test_neither_end_fails_more_often_than_it_may(k, n, error):
    lower, upper = (float(side[0]) for side in clopper_pearson(np.array([k]), n, error))
    mp.dps = 40
    assert betainc(k, n - k + 1, 0, lower, regularized=True) <= error
    assert betainc(k + 1, n - k, upper, 1, regularized=True) <= error


@pytest.mark.parametrize(("k", "n"), [(0, 50), (1, 50), (17, 50), (49, 50), (50, 50), (3, 2000)])
def test_clopper_pearson_inverts_the_binomial_tail(k, n):
    lower, upper = (float(side[0]) for side in clopper_pearson(np.array([k]), n, 1e-6))
    mp.dps = 40
    if k == 0:
        assert lower == 0
    else:  # P(X >= k) at the lower end
        assert float(betainc(k, n - k + 1, 0, lower, regularized=True)) == pytest.approx(1e-6, rel=1e-6)
    if k == n:
        assert upper == 1
    else:  # P(X <= k) at the upper end
        assert float(betainc(k + 1, n - k, upper, 1, regularized=True)) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 500, 5000])
@pytest.mark.parametrize("error", [0.25, 1e-7, 1e-12, 2.5e-19])
def test_nor_at_either_extreme(n, error):
    """Few of many, all but few, and the rarest errors that are allowed."""
    ks = np.array(sorted({0, 1, 2, 3, n // 3, n - 3, n - 2, n - 1, n} & set(range(n + 1))))
    mp.dps = 40
    for k, lower, upper in zip(ks.tolist(), *(side.tolist() for side in clopper_pearson(ks, n, error)), strict=True):
        assert 0 <= lower < 1
        assert 0 < upper <= 1
        assert k == 0 or betainc(k, n - k + 1, 0, lower, regularized=True) <= error
        assert k == n or betainc(k + 1, n - k, upper, 1, regularized=True) <= error


@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_never_more_than_the_truth_and_not_much_less(mu):
    first, second = halves(mu, 4000, 1)
    found = separate(first, second, delta=1e-5, curve=Gaussian(mu), error=ERROR)
    assert found.epsilon <= gdp_epsilon(mu, 1e-5)
    assert not found.below_curve
    assert mu - 0.6 < found.mu < mu
    assert found.allowed_mu == pytest.approx(mu)
    assert found.separated_by == "all"


@pytest.mark.parametrize("mu", [1.0, 2.0, 3.0])
def test_half_of_the_noise_is_found_out(mu):
    first, second = halves(2 * mu, 1000, 2)
    found = separate(first, second, delta=1e-5, curve=Gaussian(mu), error=ERROR)
    assert found.below_curve
    assert mu < found.mu < 2 * mu


def test_a_certain_event_gives_epsilon_up_to_the_log_of_the_number():
    first, second = halves(50.0, 1000, 3)
    found = separate(first, second, delta=1e-5, curve=Gaussian(0.3), error=ERROR)
    missed = -math.log(ERROR / 4) / 1000  # about what may have been missed in a thousand
    assert found.epsilon == pytest.approx(-math.log(missed), abs=0.1)
    assert found.by == "all"


def test_either_data_set_may_have_the_event_and_on_either_side():
    for sign in (1, -1):
        for swap in (False, True):
            first, second = (
                [Scores("s", *((sign * a, sign * b) if not swap else (sign * b, sign * a)))]
                for (_, (_, a, b)) in halves(4.0, 1000, 4)
            )
            assert separate(first, second, delta=1e-5, curve=Gaussian(2.0), error=ERROR).below_curve


def test_what_was_learnt_from_the_first_half_proves_nothing_by_itself():
    """A score that knows the first half by heart separates it perfectly, and must find nothing in the second."""
    random = np.random.default_rng(5)
    first = [Scores("by heart", np.ones(1000), np.zeros(1000))]
    second = [Scores("by heart", *(random.integers(0, 2, 1000).astype(float) for _ in range(2)))]
    found = separate(first, second, delta=1e-5, curve=Gaussian(0.1), error=ERROR)
    assert found.epsilon == 0
    assert not found.below_curve


def test_infinite_scores_count_like_others():
    first = [Scores("s", np.full(1000, np.inf), np.zeros(1000))]
    found = separate(first, first, delta=1e-5, curve=Gaussian(1.0), error=ERROR)
    assert found.below_curve
    assert math.isfinite(found.mu)


@pytest.mark.parametrize(
    "what", [{"delta": -1e-5}, {"delta": 1.5}, {"delta": math.nan}, {"error": 0.0}, {"error": 1e-30}, {"error": 1.0}]
)
def test_what_is_no_probability_is_refused(what):
    first, second = halves(1.0, 100, 1)
    with pytest.raises(InputError, match=f"{next(iter(what))} is "):
        separate(first, second, **{"delta": 1e-5, "curve": Gaussian(1.0), "error": ERROR, **what})


def test_right_curves_are_refuted_no_more_often_than_stated():
    """Randomised response, which attains its epsilon, delta and curve; the error is large, so that there is something to count."""
    random, epsilon, delta, count, error = np.random.default_rng(0), 3.0, 0.01, 100, 0.4

    def answers(bit):
        answer = np.where(random.random(count) < 1 / (1 + math.exp(-epsilon)), bit, 1 - bit)
        return np.where(random.random(count) < delta, bit + 2.0, answer)

    def curve(alpha):
        y = math.exp(epsilon)
        return np.maximum(np.maximum(1 - delta - y * alpha, (1 - delta - alpha) / y), 0)

    def found():
        first, second = ([Scores("answer", answers(1), answers(0))] for _ in range(2))
        result = separate(first, second, delta=delta, curve=curve, error=error)
        return result.epsilon > epsilon or result.below_curve

    tries = 300
    wrong = sum(found() for _ in range(tries))
    assert 0 < wrong < error * tries


def test_deviations_are_finite():
    assert deviations(1.0, 0.0) == 80.0
    assert deviations(0.975, 0.5) == pytest.approx(1.959964, abs=1e-6)


def test_wrong_halves():
    one = [Scores("a", np.ones(3), np.ones(3))]
    with pytest.raises(InputError, match="expected the same ones"):
        separate(one, [Scores("b", np.ones(3), np.ones(3))], delta=0.1, curve=Gaussian(1.0), error=0.1)
    with pytest.raises(InputError, match="train more often"):
        separate(one, [Scores("a", np.ones(0), np.ones(3))], delta=0.1, curve=Gaussian(1.0), error=0.1)
