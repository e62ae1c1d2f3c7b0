"""Estimators take every algorithm by name, and certify what it ran."""

import numpy as np
import pytest

import dplateau as dp
from dplateau.algorithms import SOLVERS
from dplateau.losses import Hinge
from dplateau.spec import InputError

BUDGET = {"epsilon": 20.0, "delta": 1e-5, "insecure_seed": 0}


def rows(n=3_000):
    rng = np.random.default_rng(0)
    return rng.normal(size=(n, 3)) / 3


def l2(solver):
    return 0.01 if SOLVERS[solver].needs_l2 else 0.0


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("estimator", [dp.PrivateLogisticRegression, dp.PrivateLinearSVC])
def test_every_solver_fits_two_classes(estimator, solver):
    X = rows()
    y = np.where(X[:, 0] > 0.1, "yes", "no")
    model = estimator(solver=solver, l2=l2(solver), classes=["no", "yes"], **BUDGET).fit(X, y)
    assert model.score(X, y) > 0.8
    assert 19.9 < model.epsilon_ <= 20
    assert model.certificate_.run == model.run_
    assert model.predict(X[:5]).shape == (5,)


@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_fits_three_classes(solver):
    X = rows()
    y = X.argmax(axis=1)
    for estimator in (dp.PrivateLogisticRegression, dp.PrivateLinearSVC):
        model = estimator(solver=solver, l2=l2(solver), classes=[0, 1, 2], **BUDGET).fit(X, y)
        assert model.coef_.shape == (3, 3)
        assert model.score(X, y) > 0.5
    with pytest.raises(InputError, match="two classes, not of 3"):
        dp.PrivateLinearSVC(loss="hinge", classes=[0, 1, 2], **BUDGET).fit(X, y)


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_every_solver_fits_a_number_where_its_loss_allows(solver, loss):
    X = rows()
    y = 5 + 3 * X[:, 0]
    model = dp.PrivateLinearRegression(solver=solver, l2=l2(solver), loss=loss, target_range=(2, 8), **BUDGET)
    if solver == "phased-erm" and loss == "squared":
        with pytest.raises(InputError, match="Squared"):
            model.fit(X, y)
        return
    assert np.mean((model.fit(X, y).predict(X) - y) ** 2) < np.var(y)


@pytest.mark.parametrize("kind", [np.float16, np.float32])
@pytest.mark.parametrize("solver", ["pnsgd", "phased-erm"])
def test_a_norm_in_another_precision_is_that_number(solver, kind):
    """Rows are as long as the norm and the constant of the intercept allow, computed in double precision."""
    X = 9 * rows(1_000)
    y = X[:, 0] > 0
    norms = np.linspace(0.9, 1, 99).astype(kind)
    norm = next(one for one in norms if np.hypot(one, float(one) / 4) < np.hypot(float(one), float(one) / 4))
    one, other = (
        dp.PrivateLogisticRegression(feature_norm=norm, rows="unit", solver=solver, classes=[False, True], **BUDGET).fit(X, y)
        for norm in (norm, float(norm))
    )
    assert one.run_ == other.run_


def test_the_absolute_loss_finds_medians_by_phased_erm():
    X = rows()
    noise = np.where(np.random.default_rng(1).random(len(X)) < 0.3, 4.0, 0.0)  # moves the mean, not the median
    y = 5 + 2 * X[:, 0] + noise
    options = {"target_range": (0, 10), **BUDGET}
    absolute = dp.PrivateLinearRegression(loss="absolute", **options).fit(X, y)
    squared = dp.PrivateLinearRegression(loss="squared", **options).fit(X, y)
    assert absolute.run_.update == "phased-erm"
    assert abs(absolute.intercept_ - 5) < abs(squared.intercept_ - 5)
    with pytest.raises(InputError, match="Absolute is not smooth"):
        absolute.set_params(solver="pnsgd").fit(X, y)


def test_phased_erm_minimises_the_hinge_itself():
    X = rows()
    model = dp.PrivateLinearSVC(solver="phased-erm", classes=[False, True], **BUDGET)
    assert model._loss(2)[0] == Hinge()
    assert model.fit(X, X[:, 0] > 0).run_.update == "phased-erm"


def test_auto_is_noisy_sgd_for_data_of_ordinary_size():
    X = rows(200)
    model = dp.PrivateLogisticRegression(classes=[False, True], **BUDGET).fit(X, X[:, 0] > 0)
    assert (model.run_.sampling, model.run_.steps) == (dp.FullBatch(), 400)


def test_solvers_that_are_not_there_or_do_not_fit_are_refused():
    X = rows(200)
    for options, message in (
        ({"solver": "sgd"}, "solver is 'sgd'"),
        ({"solver": "reduction"}, "give l2 > 0"),
        ({"solver": "phased-sgd", "l2": 0.1}, "choose phased-sgd-strong"),
    ):
        with pytest.raises(InputError, match=message):
            dp.PrivateLogisticRegression(classes=[False, True], **options, **BUDGET).fit(X, X[:, 0] > 0)
