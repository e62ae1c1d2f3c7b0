"""Regression: it finds the line, in the target's units, and a declared range bounds what a target can do."""

import numpy as np
import pytest

from dplateau.estimators import PrivateLinearRegression
from dplateau.spec import InputError


def line(n=5_000, noise=1.0, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, 50 + 30 * X[:, 0] - 10 * X[:, 1] + noise * rng.normal(size=n)


def model(**changes):
    return PrivateLinearRegression(**{"epsilon": 1.0, "feature_norm": 1.5, "target_range": (0, 100), "insecure_seed": 0, **changes})


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_it_finds_the_line(loss):
    X, y = line()
    fitted = model(loss=loss).fit(X, y)
    np.testing.assert_allclose([*fitted.coef_, fitted.intercept_], [30, -10, 50], atol=2)
    np.testing.assert_allclose(fitted.predict(X), X @ fitted.coef_ + fitted.intercept_)
    assert fitted.score(X, y) > 0.95


def test_a_range_near_the_largest_number():
    X, y = line()
    fitted = model(target_range=(1e308, 1.7e308)).fit(X, 1e308 + y * 5e305)
    assert 1e308 < fitted.intercept_ < 1.7e308


def test_targets_beyond_the_range_count_as_its_ends():
    X, y = line()
    y[:50] = 1e12
    cut = y.clip(0, 100)
    np.testing.assert_array_equal(model().fit(X, y).coef_, model().fit(X, cut).coef_)


def test_huber_is_nearer_to_the_median():
    rng = np.random.default_rng(0)
    X, y = np.zeros((20_000, 1)), 100 * rng.beta(0.5, 2.5, 20_000)
    squared, huber = (model(epsilon=100.0, delta=1e-6, loss=loss).fit(X, y).intercept_ for loss in ("squared", "huber"))
    assert np.median(y) < huber < squared - 0.5 < np.mean(y)


def test_without_intercept_the_line_goes_through_zero():
    X, y = line()
    fitted = model(fit_intercept=False, target_range=(-100, 40)).fit(X, y - 50)
    assert fitted.intercept_ == 0
    np.testing.assert_allclose(fitted.coef_, [30, -10], atol=2)


@pytest.mark.parametrize("wrong", [None, 5.0, (1,), (1, 1), (2, 1), (0, np.inf), (np.nan, 1), ("low", "high")])
def test_a_range_has_to_be_declared(wrong):
    with pytest.raises(InputError, match="target_range"):
        model(target_range=wrong).fit(*line(50))


def test_unknown_losses_and_text_are_refused():
    X, y = line(50)
    with pytest.raises(InputError, match="loss is 'cubic'"):
        model(loss="cubic").fit(X, y)
    with pytest.raises(InputError, match="targets") as error:
        model().fit(X, np.array(["ninety"] * 50))
    assert "ninety" not in str(error.value)
